//! The directory of outcomes beside a page.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why an outcome cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused to read or write a file.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A file does not hold an outcome.
    #[error("{}: {source}; remove it, and run that claim again", path.display())]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The directory that holds the outcomes and pictures of a page.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// Opens the directory beside the file `page`: it has the page's name without the extension.
    pub fn beside(page: &Path) -> Self {
        Self { dir: page.with_extension("") }
    }

    /// Opens the directory `dir`.
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory's own name, by which the page refers to it.
    pub fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Reads the outcome `name`; `None` if there is none.
    ///
    /// # Errors
    /// If the file cannot be read, or holds something else.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let path = self.dir.join(format!("{name}.json"));
        match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Io { path, source }),
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|source| StoreError::Damaged { path, source }),
        }
    }

    /// Stores the outcome `name`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, name: &str, outcome: &impl Serialize) -> Result<(), StoreError> {
        let file = format!("{name}.json");
        let text = serde_json::to_string(outcome)
            .map_err(|source| StoreError::Damaged { path: self.dir.join(&file), source })?;
        self.write_text(&file, &(text + "\n"))
    }

    /// Stores `text`, such as a picture, in the file `file` of the directory.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_text(&self, file: &str, text: &str) -> Result<(), StoreError> {
        let path = self.dir.join(file);
        fs::create_dir_all(&self.dir)
            .and_then(|()| fs::write(&path, text))
            .map_err(|source| StoreError::Io { path, source })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_read_as_written_and_a_damaged_file_is_reported() {
        let dir = std::env::temp_dir().join(format!("fb-outcome-{}", std::process::id()));
        let store = Store::beside(&dir.join("page.md"));
        assert_eq!(store.name(), "page");
        assert_eq!(store.read::<u32>("one").unwrap(), None);
        store.write("one", &7_u32).unwrap();
        assert_eq!(store.read::<u32>("one").unwrap(), Some(7));
        store.write_text("one.json", "{").unwrap();
        let error = store.read::<u32>("one").unwrap_err().to_string();
        assert!(error.contains("one.json") && error.contains("run that claim again"), "{error}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
