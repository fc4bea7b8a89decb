//! Writes files atomically.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use forebay_system::private;

/// Replaces a file so that it is either the old or the new one, even if the machine stops. Only
/// this user can read the new one.
///
/// # Errors
/// If the file cannot be written; the old one stays.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let mut file = private::file(&new)?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}
