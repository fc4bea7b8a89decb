//! The damping of changes of metrics: its record, a file beside the journal that outlasts commands.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_config::{ConfigError, read_text};
use forebay_units::Bytes;

use crate::damping::{Limits, Penalty};
use crate::files::replace;

/// The largest record that is read, in bytes.
const MAX_RECORD: Bytes = Bytes(1000);
/// The thresholds, as for neighbours: four changes at once are accepted, and then none.
const SUPPRESS: f64 = 3000.0;
const REUSE: f64 = 1000.0;

/// Returns the thresholds of damping.
pub(super) fn limits(half_life: Duration) -> Limits {
    let half_life = u64::try_from(half_life.as_millis()).unwrap_or(u64::MAX);
    Limits { half_life, suppress: SUPPRESS, reuse: REUSE }
}

/// Returns the path of the record beside a journal.
pub(super) fn path(journal: &Path) -> PathBuf {
    let mut name = journal.file_name().unwrap_or_default().to_owned();
    name.push(".damping");
    journal.with_file_name(name)
}

/// Reads the record at `path`; without a file there were no changes.
///
/// # Errors
/// If the file is no record.
pub(super) fn read(path: &Path) -> Result<Penalty, ConfigError> {
    if !path.exists() {
        return Ok(Penalty::default());
    }
    serde_json::from_str(&read_text(path, MAX_RECORD)?).map_err(|e| ConfigError {
        file: path.to_owned(),
        line: Some(e.line()),
        key: String::new(),
        message: format!("is no record of damping: {e}; remove it to forget earlier changes"),
    })
}

/// Writes the record.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write(path: &Path, penalty: &Penalty) -> io::Result<()> {
    replace(path, &(serde_json::to_string(penalty)? + "\n"))
}
