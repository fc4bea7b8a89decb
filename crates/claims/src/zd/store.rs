//! Where rows are kept: a directory beside the page.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use forebay_picture::date;
use serde::{Deserialize, Serialize};

use super::rows::Row;
use crate::scenarios::machine;
use forebay_guest::zd::Failed;

/// A claim's rows, as they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The day, by UTC: `2026-11-20`.
    pub date: String,
    /// The machine, in words.
    pub machine: String,
    /// Its load at the end.
    pub load: String,
    /// The claim's [hash](super::catalogue::Claim::hash) when it was run.
    pub hash: String,
    /// What came out.
    pub rows: Vec<Row>,
}

impl Stored {
    /// Rows that have just come out of a claim.
    pub fn now(hash: &str, rows: Vec<Row>) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            date: date::day(SystemTime::now()),
            machine: machine(),
            load: load.split(' ').next().unwrap_or_default().to_owned(),
            hash: hash.to_owned(),
            rows,
        }
    }
}

/// The directory beside a page that has its name.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// Of the page `page`.
    pub fn beside(page: &Path) -> Self {
        Self { dir: page.with_extension("") }
    }

    /// Of the directory itself.
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The directory's own name, as the page calls it.
    pub fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What is stored of a claim; `None` if nothing is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(&self, claim: &str) -> Result<Option<Stored>, Failed> {
        let path = self.path(claim, "json");
        let failed = |e: &dyn std::fmt::Display| {
            Failed(format!("{}: {e}; remove it, and run that claim again", path.display()))
        };
        match fs::read_to_string(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(failed(&e)),
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| failed(&e)),
        }
    }

    /// Stores the rows of a claim.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, claim: &str, stored: &Stored) -> Result<(), Failed> {
        let text = serde_json::to_string(stored).map_err(|e| Failed(e.to_string()))?;
        self.write(&self.path(claim, "json"), &(text + "\n"))
    }

    /// Stores the `n`-th picture of a claim; its file's name.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn draw(&self, claim: &str, n: usize, svg: &str) -> Result<String, Failed> {
        let path = self.path(&format!("{claim}-{n}"), "svg");
        self.write(&path, svg)?;
        Ok(path.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }

    fn path(&self, name: &str, extension: &str) -> PathBuf {
        self.dir.join(format!("{name}.{extension}"))
    }

    fn write(&self, path: &Path, text: &str) -> Result<(), Failed> {
        fs::create_dir_all(&self.dir)
            .and_then(|()| fs::write(path, text))
            .map_err(|e| Failed(format!("{}: {e}", path.display())))
    }
}
