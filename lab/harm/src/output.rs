//! The files of a map.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::map::HarmMap;
use crate::{page, picture};

impl HarmMap {
    /// Writes `harm.json`, `harm.md` and `harm.svg` into `dir`; the page's path.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, dir: &Path, command: &str) -> io::Result<PathBuf> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("harm.json"), self.json().map_err(io::Error::other)? + "\n")?;
        fs::write(dir.join("harm.svg"), picture::draw(self))?;
        let page = dir.join("harm.md");
        fs::write(&page, page::write(self, command))?;
        Ok(page)
    }
}
