//! Configuration files (TOML) whose errors are one line that names the file, the line and the key.
//!
//! A [`Configuration`] is a file that is read and checked whole. [`load`] refuses what the types
//! exclude. The caller refuses the rest (a duplicate prefix, a missing interface) through
//! [`Source::error_at`], with the position in a [`Spanned`]. Values with units, `"96 Mbit/s"` or
//! `"50 ms"`, are types of their own.
//!
//! A [`Setting`] replaces or adds a key from outside the file, see [`Edited`].
//!
//! Write kinds as a plain field beside the others (`kind: Kind`), not as serde's tagged enums:
//! those lose the position of a value.

#![forbid(unsafe_code)]

mod configuration;
mod edited;
mod network;
mod rate_bounds;
mod setting;
mod source;
mod suggest;
mod values;

pub use configuration::Configuration;
pub use edited::Edited;
pub use network::{HostAddress, IpVersion, NetworkError, Prefix, RemoteAddress};
pub use rate_bounds::rate_bounds;
pub use setting::{Setting, SettingError};
pub use source::{ConfigError, MAX_FILE, Source, load, parse, read_text};
pub use suggest::likeliest;
pub use toml::Spanned;
pub use values::{DurationValue, Limit, RateValue, ShareValue, SizeValue, ValueError};
