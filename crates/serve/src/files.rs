//! Writes files atomically.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file so that it is either the old or the new one, even if the machine stops.
///
/// # Errors
/// If the file cannot be written; the old one stays.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&new, path))
}
