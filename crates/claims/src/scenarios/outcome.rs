//! What came out of a claim on an engine, as it is stored: from it the page is made, at any time.

use forebay_outcome::{Store, StoreError};
use serde::{Deserialize, Serialize};

use super::claim::{Claim, Figure};
use super::picture::Picture;
use crate::figure::{Tried, tally};

/// A claim's experiment on one engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The claim's name.
    pub claim: String,
    /// The engine's, as in [`COLUMNS`](super::COLUMNS).
    pub engine: String,
    /// The day, by UTC: `2026-11-20`.
    pub date: String,
    /// The machine, in words.
    pub machine: String,
    /// With seeds from 1 to this.
    pub seeds: u32,
    /// How long each run was measured at most.
    pub measured_s: f64,
    /// How many runs there were.
    pub runs: usize,
    /// Whether it was a short run, to try things out.
    pub quick: bool,
    /// The hash of the scenario's file.
    pub scenario: String,
    /// The figures.
    pub figures: Vec<Tried>,
    /// What is drawn.
    pub picture: Option<Picture>,
}

impl Outcome {
    /// Whether it is of `claim` as that is now: of the same scenario, figures and bands.
    pub fn is_of(&self, claim: &Claim) -> bool {
        let same = |(t, f): (&Tried, &Figure)| {
            t.what == f.what && t.source == f.source && t.band == f.band.to_string()
        };
        self.scenario == claim.scenario_hash
            && self.figures.len() == claim.figures.len()
            && self.figures.iter().zip(&claim.figures).all(same)
    }

    /// How many figures were judged, and how many of them are within their bands. What could not be
    /// measured counts as judged, unless it is to be shown only.
    pub fn tally(&self) -> (usize, usize) {
        tally(&self.figures)
    }
}

/// The name of the file that holds the picture of a claim on an engine.
pub fn picture_file(claim: &str, engine: &str) -> String {
    format!("{claim}-{engine}.svg")
}

/// Reads the stored outcome of a claim on an engine; `None` if there is none.
///
/// # Errors
/// If it cannot be read.
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
    match &outcome.picture {
        Some(picture) => {
            let file = picture_file(&outcome.claim, &outcome.engine);
            store.write_text(&file, &picture.svg(title))
        }
        None => Ok(()),
    }
}
