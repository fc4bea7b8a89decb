//! Rows of labels and values.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::commit::Commit;
use crate::provenance;

/// Labels of a run, such as `flows` with the value `4000`.
pub type Labels = BTreeMap<String, String>;

/// The label of a repetition; all other labels say what was run.
pub const SEED: &str = "seed";

/// The outcome of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Labels that say what was run, and with which seed.
    pub labels: Labels,
    /// Measured values, by the name of the measure.
    pub values: BTreeMap<String, f64>,
}

impl Row {
    /// Creates a row of these labels and values.
    pub fn new(labels: &[(&str, &dyn ToString)], values: &[(&str, f64)]) -> Self {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), value.to_string()));
        let values = values.iter().map(|(key, value)| ((*key).to_owned(), *value));
        Self { labels: labels.collect(), values: values.collect() }
    }

    /// Returns the value of the label [`SEED`].
    pub fn seed(&self) -> Option<&str> {
        self.labels.get(SEED).map(String::as_str)
    }
}

/// The rows of a claim, as they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// The day of the run in UTC, such as `2026-11-20`.
    pub date: String,
    /// The commit of the run, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// The bands of each figure at the time of the run, by the figure's words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bands: BTreeMap<String, Vec<String>>,
    /// The machine, as [`provenance::machine`] describes it.
    pub machine: String,
    /// The machine's load average at the end.
    pub load: String,
    /// The [hash](provenance::hash) of what was run.
    pub hash: String,
    /// The rows, one for each run.
    pub rows: Vec<Row>,
}

impl Rows {
    /// Creates the outcome of runs that have just ended on this machine, without bands. Its commit
    /// is that of the checkout that the directory `checkout` is in.
    pub fn now(hash: &str, rows: Vec<Row>, checkout: &Path) -> Self {
        Self {
            date: provenance::today(),
            commit: Commit::of_checkout(checkout),
            bands: BTreeMap::new(),
            machine: provenance::machine(),
            load: provenance::load(),
            hash: hash.to_owned(),
            rows,
        }
    }
}
