//! Figures of claims: their values, how they are stored, and how a page shows them.

use forebay_picture::number::{figure, setting};
use serde::{Deserialize, Serialize};

use crate::band::Band;
use crate::judge::{Criteria, Judgement, Verdict};

/// A figure over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The figure over all seeds.
    pub value: f64,
    /// The lowest figure of a single seed.
    pub min: f64,
    /// The highest figure of a single seed.
    pub max: f64,
}

/// How the values of several cells are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The mean of all values.
    #[default]
    Mean,
    /// The lowest of the values.
    Min,
    /// The highest of the values.
    Max,
}

impl Over {
    /// Combines `values`; `None` if there are none.
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

/// A figure that was tried, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tried {
    /// The figure in words.
    pub what: String,
    /// The unit; empty for ratios.
    pub unit: String,
    /// The source's figure at the time of the run.
    pub source: Option<f64>,
    /// The band at the time of the run.
    pub band: String,
    /// Our own bar at the time of the run, if there was one besides the band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bar: Option<String>,
    /// Our figure; `None` if there was nothing to measure.
    pub value: Option<Value>,
    /// The verdict of the band at the time of the run. Pages judge anew, by the claim as it is.
    pub verdict: Verdict,
}

impl Tried {
    /// The figure of a run that has just ended.
    pub fn new(what: &str, unit: &str, criteria: &Criteria, value: Option<Value>) -> Self {
        let band = criteria.reproduced.or(criteria.bar).unwrap_or(Band::Any);
        Self {
            what: what.to_owned(),
            unit: unit.to_owned(),
            source: criteria.source,
            band: band.to_string(),
            bar: criteria.reproduced.and(criteria.bar).map(|bar| bar.to_string()),
            value,
            verdict: Verdict::of(band, criteria.source, value.map(|v| v.value)),
        }
    }

    /// Judges the value by `criteria` as they are now.
    pub fn judge(&self, criteria: &Criteria) -> Judgement {
        // With another source, the same tolerance is another band.
        let means_the_same = |band: &&str| {
            self.source == criteria.source
                || band.parse::<Band>().is_ok_and(|band| !band.needs_source())
        };
        let bands = [Some(self.band.as_str()), self.bar.as_deref()];
        let known: Vec<&str> = bands.into_iter().flatten().filter(means_the_same).collect();
        criteria.judge(self.value.map(|v| v.value), &known)
    }
}

/// A value with its spread over seeds; empty if there was nothing to measure.
pub fn told(value: Option<Value>, unit: &str) -> String {
    let Some(v) = value else { return String::new() };
    let number =
        |v: f64| if unit.is_empty() && v.abs() < 1.995 { format!("{v:.3}") } else { figure(v) };
    let spread = if v.min == v.max {
        String::new()
    } else {
        format!(" ({} to {})", number(v.min), number(v.max))
    };
    format!("{}{spread}", number(v.value))
}

/// The cells of a figure's row on the page that do not depend on our value: the figure in words,
/// the source's figure, the tolerance around that, and our own bar.
pub fn row_head(what: &str, unit: &str, criteria: &Criteria) -> String {
    let unit = if unit.is_empty() { String::new() } else { format!(", {unit}") };
    let source = criteria.source.map(setting).unwrap_or_default();
    let band = |band: Option<Band>| band.map(|b| b.to_string()).unwrap_or_default();
    let (reproduced, bar) = (band(criteria.reproduced), band(criteria.bar));
    format!("| {what}{unit} | {source} | {reproduced} | {bar} |")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_band_around_another_source_is_newer_than_the_run() {
        let criteria =
            |source, text: &str| Criteria::new(Some(source), text.parse().unwrap(), None, false);
        let judged = |ran: f64, now: f64, text: &str| {
            let value = Some(Value { value: 10.0, min: 10.0, max: 10.0 });
            let tried = Tried::new("a", "", &criteria(ran, text).unwrap(), value);
            tried.judge(&criteria(now, text).unwrap()).told("x")
        };
        assert_eq!(judged(10.0, 10.0, "10 %"), "x, reproduced");
        assert_eq!(judged(10.0, 10.5, "10 %"), "x, reproduced†");
        assert_eq!(judged(10.0, 10.5, "at most 20"), "x, bar met", "it is our own bar");
    }
}
