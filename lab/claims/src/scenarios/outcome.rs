//! The outcome of a claim on an engine, as it is stored. The page is made from it at any time.

use forebay_outcome::{Commit, Store, StoreError};
use serde::{Deserialize, Serialize};

use super::claim::{Claim, Figure};
use super::picture::Picture;
use crate::figure::Tried;
use crate::judge::Tally;

/// The outcome of a claim's experiment on one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The name of the claim.
    pub claim: String,
    /// The engine's name, as in [`COLUMNS`](super::COLUMNS).
    pub engine: String,
    /// The day of the run in UTC, such as `2026-11-20`.
    pub date: String,
    /// The commit of the run, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// The machine, in words.
    pub machine: String,
    /// The number of seeds; seeds count from 1.
    pub seeds: u32,
    /// The longest measured time of a run, in seconds.
    pub measured_s: f64,
    /// The number of runs.
    pub runs: usize,
    /// Whether this was a short run, to try things out.
    pub quick: bool,
    /// The hash of the scenario's file.
    pub scenario: String,
    /// The figures of the claim.
    pub figures: Vec<Tried>,
    /// The picture, if the claim has one.
    pub picture: Option<Picture>,
}

impl Outcome {
    /// Whether the outcome is of `claim` as it is now: the same scenario and the same figures.
    /// Bands may have changed, since a page judges anew.
    pub fn is_of(&self, claim: &Claim) -> bool {
        self.scenario == claim.scenario_hash
            && self.figures.len() == claim.figures.len()
            && self.figures.iter().zip(&claim.figures).all(|(t, f)| t.what == f.what)
    }

    /// The stored value and band of `figure`; `None` if the run did not have that figure.
    pub fn tried(&self, figure: &Figure) -> Option<&Tried> {
        self.figures.iter().find(|tried| tried.what == figure.what)
    }

    /// Counts the figures of `claim` that pass.
    pub fn tally(&self, claim: &Claim) -> Tally {
        let judge = |figure: &Figure| Some(self.tried(figure)?.judge(&figure.criteria));
        Tally::of(claim.figures.iter().filter_map(judge))
    }
}

/// The name of the file that holds the picture of a claim on an engine.
pub fn picture_file(claim: &str, engine: &str) -> String {
    format!("{claim}-{engine}.svg")
}

/// Reads the stored outcome of a claim on an engine; `None` if there is none.
///
/// # Errors
/// If the file cannot be read.
pub fn load_outcome(
    store: &Store,
    claim: &str,
    engine: &str,
) -> Result<Option<Outcome>, StoreError> {
    store.read(&format!("{claim}-{engine}"))
}

/// Stores `outcome` and draws its picture.
///
/// # Errors
/// If a file cannot be written.
pub fn save_outcome(store: &Store, outcome: &Outcome, title: &str) -> Result<(), StoreError> {
    store.write(&format!("{}-{}", outcome.claim, outcome.engine), outcome)?;
    draw_outcome(store, outcome, title)
}

/// Draws the picture of `outcome`, if it has one.
///
/// # Errors
/// If the file cannot be written.
pub fn draw_outcome(store: &Store, outcome: &Outcome, title: &str) -> Result<(), StoreError> {
    let Some(picture) = &outcome.picture else { return Ok(()) };
    store.write_text(&picture_file(&outcome.claim, &outcome.engine), &picture.svg(title))
}
