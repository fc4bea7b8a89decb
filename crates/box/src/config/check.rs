use std::fmt;
use std::path::Path;

use forebay_config::{ConfigError, load};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{ReceiveboxConfig, SendboxConfig};

/// A file that is good, and what it is.
#[derive(Debug)]
pub enum Checked {
    /// A sendbox with so many bundles.
    Sendbox(usize),
    /// A receivebox with so many bundles.
    Receivebox(usize),
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, n) = match self {
            Self::Sendbox(n) => ("sendbox", n),
            Self::Receivebox(n) => ("receivebox", n),
        };
        write!(f, "a good {what} with {n} bundle{}", if *n == 1 { "" } else { "s" })
    }
}

/// Only tells which box a file is for.
#[derive(Deserialize)]
struct Outline {
    receivebox: Option<IgnoredAny>,
}

/// Says whether the file at `path` is a good configuration of a box, as the box itself would.
///
/// # Errors
/// The first thing that is wrong, with its line and key.
pub fn check(path: &Path) -> Result<Checked, ConfigError> {
    let (outline, _) = load::<Outline>(path)?;
    if outline.receivebox.is_some() {
        return ReceiveboxConfig::load(path).map(|c| Checked::Receivebox(c.peers.len()));
    }
    SendboxConfig::load(path).map(|c| Checked::Sendbox(c.bundles.len()))
}
