//! Files that must be whole whatever happens.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a file so that it is the old one or the new one, whenever the machine stops.
///
/// # Errors
/// If it cannot be written; the old one is there then.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    File::create(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&new, path))
}
