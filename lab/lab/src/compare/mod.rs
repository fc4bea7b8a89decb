//! Comparison of two results: the same experiment on two engines, or before and after a change.
//!
//! Runs are matched by cell, arm and seed. For each cell and arm, the medians of every measure over
//! the matched seeds are compared with the measure's [`Band`]. [`leave_one_out`] compares all seeds
//! of both, and asks as well how well one run of B predicts its other runs.

mod arms;
mod band;
mod load;
mod matched;
mod measure;
mod show;
#[cfg(test)]
mod tests;

pub use arms::{Arms, ArmsError};
pub use band::{Band, BandError, Bands};
pub use load::{load, side_by_side};
pub use measure::Measure;
pub use show::{html, markdown, text};

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::analysis::{Sorted, Summary, rounded};

use matched::{Matched, matched};

/// The comparison of two results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// A pair for each cell and arm that both results have, in the order of A.
    pub pairs: Vec<Pair>,
    /// The number of runs of A without a run of B with the same cell, arm and seed.
    pub only_a: u64,
    /// The number of runs of B without a run of A.
    pub only_b: u64,
    /// By measure: the number of pairs in which it was judged, and in which it was within its band.
    pub by_measure: BTreeMap<&'static str, Tally>,
    /// By value on each axis: the number of pairs, and the number within their bands.
    pub by_axis: BTreeMap<String, BTreeMap<String, Tally>>,
    /// The number of pairs, and of those with every measure in its band.
    pub total: Tally,
    /// How well single runs predict B, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_runs: Option<SingleRuns<f64>>,
}

/// Figures of single runs, which are compared one by one with the runs of B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SingleRuns<T> {
    /// Of the runs of A, each of them compared with the median of B.
    pub a: T,
    /// Of the runs of B, each of them compared with the median of B's others.
    pub b: T,
}

/// A number of judged items, and the number of them within their bands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// The number of judged items.
    pub judged: u64,
    /// The number of items within their bands.
    pub within: u64,
}

impl Tally {
    fn count(&mut self, within: bool) {
        self.judged += 1;
        self.within += u64::from(within);
    }

    /// The share within the bands, 0 to 1; `None` if none was judged.
    pub fn share(&self) -> Option<f64> {
        (self.judged > 0).then(|| self.within as f64 / self.judged as f64)
    }
}

/// An arm of a cell in both results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// A description of the cell.
    pub cell: String,
    /// The values of the cell on each axis of path and grid.
    pub axes: BTreeMap<String, String>,
    /// The name of the arm.
    pub arm: String,
    /// The compared seeds, ascending.
    pub seeds: Vec<u64>,
    /// The measures that either result has.
    pub measures: Vec<Difference>,
    /// Whether every measure is within its band.
    pub within: bool,
    /// The number of single runs, and of those with every measure in its band, if that was asked
    /// for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_runs: Option<SingleRuns<Tally>>,
}

/// A measure of a pair.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The compared measure.
    pub measure: Measure,
    /// The measure over the seeds of A; `None` if there was nothing to measure.
    pub a: Option<Spread>,
    /// The measure over the seeds of B.
    pub b: Option<Spread>,
    /// B's median minus A's, in the measure's unit.
    pub absolute: Option<f64>,
    /// The difference as a share of A's median; `None` if that is zero.
    pub relative: Option<f64>,
    /// The allowed difference.
    #[serde(serialize_with = "in_words")]
    pub band: Band,
    /// Whether the difference is within the band; false if only one result has the measure.
    pub within: bool,
}

/// A measure over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The lowest value.
    pub min: f64,
    /// The median by nearest rank; of two values the lower.
    pub median: f64,
    /// The highest value.
    pub max: f64,
}

impl Spread {
    fn of(values: &Sorted) -> Option<Self> {
        let of = |p| values.percentile(p);
        Some(Self { min: of(0)?, median: of(50)?, max: of(100)? })
    }
}

fn in_words<S: Serializer>(band: &Band, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(band)
}

/// Compares `b` with `a` by their common seeds, and judges the differences by `bands`.
pub fn compare(a: &[Summary], b: &[Summary], bands: &Bands) -> Comparison {
    let groups = matched(a, b);
    let pairs = groups.iter().filter_map(|g| g.with_common_seeds().pair(bands));
    let mut comparison = Comparison::of(pairs.collect());
    let common = |g: &Matched<'_>| g.with_common_seeds().a.len();
    let pairs: usize = groups.iter().map(common).sum();
    comparison.only_a = (a.len() - pairs) as u64;
    comparison.only_b = (b.len() - pairs) as u64;
    comparison
}

/// Compares `b` with `a` by all of their seeds, and judges the differences by `bands`.
///
/// Each run of a pair is also compared alone: a run of A with the median of B, and a run of B with
/// the median of B's other runs. [`Comparison::single_runs`] is the number of pairs in which one
/// run predicts B, on average over the runs. It is `None` if a pair has fewer than two runs of B.
pub fn leave_one_out(a: &[Summary], b: &[Summary], bands: &Bands) -> Comparison {
    let groups = matched(a, b);
    let pair =
        |g: &Matched<'_>| Some(Pair { single_runs: Some(g.single_runs(bands)), ..g.pair(bands)? });
    let mut comparison = Comparison::of(groups.iter().filter_map(pair).collect());
    let alone = |one: fn(&Matched<'_>) -> bool| groups.iter().filter(move |g| one(g));
    comparison.only_a = alone(|g| g.b.is_empty()).map(|g| g.a.len() as u64).sum();
    comparison.only_b = alone(|g| g.a.is_empty()).map(|g| g.b.len() as u64).sum();
    comparison.single_runs =
        comparison.pairs.iter().try_fold(SingleRuns::default(), |sum, pair| {
            let SingleRuns { a, b } = pair.single_runs?;
            Some(SingleRuns { a: sum.a + a.share()?, b: sum.b + b.share()? })
        });
    comparison
}

impl Comparison {
    fn of(pairs: Vec<Pair>) -> Self {
        let mut comparison = Self {
            only_a: 0,
            only_b: 0,
            by_measure: BTreeMap::new(),
            by_axis: BTreeMap::new(),
            total: Tally::default(),
            single_runs: None,
            pairs: Vec::new(),
        };
        pairs.iter().for_each(|pair| comparison.tally(pair));
        Self { pairs, ..comparison }
    }

    fn tally(&mut self, pair: &Pair) {
        self.total.count(pair.within);
        for difference in pair.measures.iter().filter(|d| !d.band.any) {
            let tally = self.by_measure.entry(difference.measure.name()).or_default();
            tally.count(difference.within);
        }
        for (axis, value) in &pair.axes {
            let by_value = self.by_axis.entry(axis.clone()).or_default();
            by_value.entry(value.clone()).or_default().count(pair.within);
        }
    }
}

impl Difference {
    /// The difference; `None` if neither result has the measure.
    fn of(measure: Measure, a: Option<Spread>, b: Option<Spread>, band: Band) -> Option<Self> {
        let (absolute, relative, within) = match (a, b) {
            (None, None) => return None,
            (Some(a), Some(b)) => {
                let (a, b) = (a.median, b.median);
                let absolute = rounded(b - a, 4);
                let relative = (a != 0.0).then(|| rounded((b - a) / a.abs(), 6));
                (Some(absolute), relative, band.holds(a, b))
            }
            _ => (None, None, band.any),
        };
        Some(Self { measure, a, b, absolute, relative, band, within })
    }
}
