//! Directories of a test's own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory that is removed when this value is dropped.
#[derive(Debug)]
pub struct Dir(pub PathBuf);

impl Dir {
    /// Makes an empty directory, whose name has the number of this process.
    ///
    /// # Panics
    /// If the directory cannot be made.
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fb-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file with this text and these permissions, and returns its path.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn file(&self, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
