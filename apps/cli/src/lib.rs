//! What the programs `forebay`, `forebay-lab` and `forebay-plan` share.
//!
//! - [`terminal`] prints texts, messages and errors, writes files, and reacts to Ctrl-C.
//! - [`log`] sets up the log on standard error, with the flag `-v` of all commands.
//! - [`programs`] finds the other programs and becomes one of them.
//! - [`arguments`] parses arguments that several commands have.
//! - `generate`, a feature, prints completion scripts and writes manual pages.

#![forbid(unsafe_code)]

pub mod arguments;
#[cfg(feature = "generate")]
pub mod generate;
pub mod log;
pub mod programs;
pub mod terminal;
