//! The record of the metrics that interfaces had before their first change, so that these can be
//! brought back after any crash.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use forebay_config::{ConfigError, read_text};
use forebay_units::Bytes;
use serde::{Deserialize, Serialize};

use super::metrics::Metrics;
use crate::files::replace;

/// The largest journal that is read, in bytes: 100 000 links.
const MAX_JOURNAL: Bytes = Bytes(50_000_000);

/// A link as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    router: String,
    interface: String,
    metrics: Metrics,
}

/// The metrics before the first change, by router and interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    path: PathBuf,
    earlier: BTreeMap<(String, String), Metrics>,
}

impl Journal {
    /// Reads the journal at `path`, which is empty if the file does not exist.
    ///
    /// # Errors
    /// If the file is not a journal.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let mut earlier = BTreeMap::new();
        if path.exists() {
            for (text, number) in read_text(path, MAX_JOURNAL)?.lines().zip(1..) {
                let line: Line = serde_json::from_str(text).map_err(|e| ConfigError {
                    file: path.to_owned(),
                    line: Some(number),
                    key: String::new(),
                    message: format!("is no line of a journal of metrics: {e}"),
                })?;
                earlier.insert((line.router, line.interface), line.metrics);
            }
        }
        Ok(Self { path: path.to_owned(), earlier })
    }

    /// Returns the metrics before the first change, by router and interface.
    pub fn earlier(&self) -> &BTreeMap<(String, String), Metrics> {
        &self.earlier
    }

    /// Records what an interface has in each instance that was not changed before. The file is
    /// written before this returns.
    ///
    /// # Errors
    /// If the file cannot be written: the metric must not be changed then.
    pub fn note(&mut self, router: &str, interface: &str, metrics: Metrics) -> io::Result<()> {
        let key = (router.to_owned(), interface.to_owned());
        let earlier = self.earlier.get(&key).copied();
        let all = earlier.map_or(metrics, |earlier| earlier.or(&metrics));
        if earlier == Some(all) {
            return Ok(());
        }
        self.earlier.insert(key.clone(), all);
        let written = self.write();
        if written.is_err() {
            match earlier {
                None => self.earlier.remove(&key),
                Some(earlier) => self.earlier.insert(key, earlier),
            };
        }
        written
    }

    /// Forgets an interface, which has its earlier metrics again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn forget(&mut self, router: &str, interface: &str) -> io::Result<()> {
        self.earlier.remove(&(router.to_owned(), interface.to_owned()));
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let mut text = String::new();
        for ((router, interface), metrics) in &self.earlier {
            let (router, interface) = (router.clone(), interface.clone());
            let line = Line { router, interface, metrics: *metrics };
            text += &(serde_json::to_string(&line)? + "\n");
        }
        replace(&self.path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::igp::metrics::Metric;

    #[test]
    fn the_first_metrics_are_kept_until_they_are_forgotten() {
        let dir = std::env::temp_dir().join(format!("fb-igp-journal-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("j");
        let metric = |value| Some(Metric { value, configured: true });
        let metrics = |value| Metrics { v2: metric(value), ..Metrics::default() };
        let mut journal = Journal::read(&path).unwrap();
        journal.note("Rome", "eth0", metrics(10)).unwrap();
        journal.note("Rome", "eth0", metrics(20)).unwrap();
        let mut read = Journal::read(&path).unwrap();
        assert_eq!(read, journal);
        let key = ("Rome".to_owned(), "eth0".to_owned());
        assert_eq!(read.earlier(), &[(key, metrics(10))].into());
        // An instance that is changed later adds its own.
        let key = ("Rome".to_owned(), "eth0".to_owned());
        let both = Metrics { v3: metric(7), ..metrics(20) };
        read.note("Rome", "eth0", both).unwrap();
        let both = Metrics { v3: metric(7), ..metrics(10) };
        assert_eq!(read.earlier()[&key], both);
        assert_eq!(Journal::read(&path).unwrap(), read);
        // A level of IS-IS has its own metric, too.
        let two = Metrics { level2: metric(9), ..Metrics::default() };
        read.note("Oslo", "eth0", two).unwrap();
        assert_eq!(Journal::read(&path).unwrap().earlier().values().copied().next(), Some(two));
        read.forget("Oslo", "eth0").unwrap();
        read.forget("Rome", "eth0").unwrap();
        assert!(Journal::read(&path).unwrap().earlier().is_empty());
        std::fs::write(&path, "{}\n").unwrap();
        let error = Journal::read(&path).unwrap_err().to_string();
        assert!(error.contains("j:1: ") && error.contains("no line of a journal"), "{error}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
