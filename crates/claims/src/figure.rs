//! Figures of claims: their values, how they are judged, and how a page shows them.

use serde::{Deserialize, Serialize};

use crate::band::Band;
use forebay_picture::number::{figure, setting};

/// A figure over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The figure.
    pub value: f64,
    /// The lowest that a seed alone gives.
    pub min: f64,
    /// The highest.
    pub max: f64,
}

/// What counts of several cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Their mean.
    #[default]
    Mean,
    /// The lowest.
    Min,
    /// The highest.
    Max,
}

impl Over {
    /// Of `values`; `None` if there are none.
    pub fn of(self, values: &[f64]) -> Option<f64> {
        let all = values.iter().copied();
        match self {
            _ if values.is_empty() => None,
            Self::Mean => Some(all.sum::<f64>() / values.len() as f64),
            Self::Min => all.reduce(f64::min),
            Self::Max => all.reduce(f64::max),
        }
    }
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

/// Counts the judged figures, and those of them that are within their bands. A figure that could not be
/// measured counts as judged, unless it is only shown.
pub(crate) fn tally(figures: &[Tried]) -> (usize, usize) {
    let any = Band::Any.to_string();
    let within = |f: &&Tried| f.verdict == Verdict::Within;
    let judged = figures.iter().filter(|f| f.band != any);
    (judged.clone().count(), judged.filter(within).count())
}

/// How many of the figures that are judged are within their bands, in words.
pub(crate) fn within((judged, within): (usize, usize)) -> String {
    match judged {
        0 => "shown".to_owned(),
        _ if judged == within => format!("{within} of {judged}"),
        _ => format!("**{within} of {judged}**"),
    }
}

/// Its value with its spread, and whether that is within the band.
pub(crate) fn told(tried: &Tried) -> String {
    let Some(v) = tried.value else { return "**nothing to measure**".to_owned() };
    let number = |v: f64| {
        if tried.unit.is_empty() && v.abs() < 1.995 { format!("{v:.3}") } else { figure(v) }
    };
    let spread = if v.min == v.max {
        String::new()
    } else {
        format!(" ({} to {})", number(v.min), number(v.max))
    };
    let says = format!("{}{spread}", number(v.value));
    match tried.verdict {
        Verdict::Within => format!("{says}, within"),
        Verdict::Outside => format!("**{says}, outside**"),
        Verdict::Shown | Verdict::Missing => says,
    }
}

/// The cells of a figure's row on the page that do not depend on our value: what it is, the source's
/// figure and the band.
pub(crate) fn row_head(what: &str, unit: &str, source: Option<f64>, band: &str) -> String {
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let source = source.map(setting).unwrap_or_default();
    let band = if band == "any" { "" } else { band };
    format!("| {what}{unit} | {source} | {band} |")
}
