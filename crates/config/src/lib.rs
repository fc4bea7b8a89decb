//! Configuration files (TOML) whose errors are one line that names the file, the line and the key.
//!
//! What the types alone can tell is refused by [`load`]; what needs a second look (a prefix given
//! twice, an interface that is not there) is refused by the caller through [`Source::error_at`],
//! with the place kept in a [`Spanned`]. The values that people write, `"96 Mbit/s"` or `"50 ms"`,
//! are types of their own.
//!
//! Write kinds as a plain field beside the others (`kind: Kind`), not as serde's tagged enums:
//! those forget where a value stood.

mod configuration;
mod source;
mod values;

pub use configuration::Configuration;
pub use source::{ConfigError, Source, load, parse, read_text};
pub use toml::Spanned;
pub use values::{DurationValue, Limit, RateValue, ShareValue, SizeValue, ValueError};
