use std::path::Path;

use serde::de::DeserializeOwned;

use crate::{ConfigError, Source, load, parse};

/// A configuration that is read from a TOML file and checked whole before anything is touched.
pub trait Configuration: Sized {
    /// The file as it is written.
    type File: DeserializeOwned;

    /// Checks what the file says, and turns it into what can be run.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and key.
    fn check(file: Self::File, source: &Source) -> Result<Self, ConfigError>;

    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and key.
    fn load(path: &Path) -> Result<Self, ConfigError> {
        let (file, source) = load(path)?;
        Self::check(file, &source)
    }

    /// Checks `text`. Errors call it `path`, and files that it names are relative to `path`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and key.
    fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let (file, source) = parse(path, text)?;
        Self::check(file, &source)
    }
}
