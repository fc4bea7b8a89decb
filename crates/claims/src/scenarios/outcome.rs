//! What came out of a claim on an engine, as it is stored: from it the page is made, at any time.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::band::Band;
use super::claim::{Claim, Figure};
use super::figures::Value;
use super::picture::Picture;

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

/// A figure that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// What it is.
    pub what: String,
    /// Its unit; empty for ratios.
    pub unit: String,
    /// The source's.
    pub source: Option<f64>,
    /// Where ours had to lie, as was said before the run.
    pub band: String,
    /// Ours; `None` if there was nothing to measure.
    pub value: Option<Value>,
    /// Whether it is within the band.
    pub verdict: Verdict,
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is within its band.
    Within,
    /// It is not.
    Outside,
    /// It is shown only.
    Shown,
    /// There was nothing to measure.
    Missing,
}

impl Verdict {
    /// Of `value` beside the source's figure.
    pub fn of(band: Band, source: Option<f64>, value: Option<Value>) -> Self {
        match value.map(|v| band.holds(source, v.value)) {
            None => Self::Missing,
            Some(None) => Self::Shown,
            Some(Some(true)) => Self::Within,
            Some(Some(false)) => Self::Outside,
        }
    }
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

/// As [`Outcome::tally`].
pub(crate) fn tally(figures: &[Tried]) -> (usize, usize) {
    let any = Band::Any.to_string();
    let within = |f: &&Tried| f.verdict == Verdict::Within;
    let judged = figures.iter().filter(|f| f.band != any);
    (judged.clone().count(), judged.filter(within).count())
}

/// Why a stored outcome is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused something.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its answer.
        source: std::io::Error,
    },
    /// A file that holds something else.
    #[error("{}: {source}; remove it, and run that claim again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Where outcomes are kept: the directory beside a page that has its name.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// Of the page `page`.
    pub fn beside(page: &Path) -> Self {
        Self { dir: page.with_extension("") }
    }

    /// The directory's own name, as the page calls it.
    pub fn name(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The picture's file name of a claim on an engine.
    pub fn picture(claim: &str, engine: &str) -> String {
        format!("{claim}-{engine}.svg")
    }

    fn path(&self, claim: &str, engine: &str) -> PathBuf {
        self.dir.join(format!("{claim}-{engine}.json"))
    }

    /// What is stored of a claim on an engine; `None` if nothing is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(&self, claim: &str, engine: &str) -> Result<Option<Outcome>, StoreError> {
        let path = self.path(claim, engine);
        match fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StoreError::Io { path, source }),
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|source| StoreError::Damaged { path, source }),
        }
    }

    /// Stores `outcome` and draws its picture.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn save(&self, outcome: &Outcome, title: &str) -> Result<(), StoreError> {
        let path = self.path(&outcome.claim, &outcome.engine);
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| StoreError::Io { path, source }
        };
        fs::create_dir_all(&self.dir).map_err(io(&self.dir))?;
        let damaged = |source| StoreError::Damaged { path: path.clone(), source };
        let text = serde_json::to_string(outcome).map_err(damaged)? + "\n";
        fs::write(&path, text).map_err(io(&path))?;
        if let Some(picture) = &outcome.picture {
            let path = self.dir.join(Self::picture(&outcome.claim, &outcome.engine));
            fs::write(&path, picture.svg(title)).map_err(io(&path))?;
        }
        Ok(())
    }
}
