//! Comparison of two results: the same experiment on two engines, or before and after a change.
//!
//! Runs are matched by cell, arm and seed. For each cell and arm, the medians of every measure over
//! the matched seeds are compared with the measure's [`Band`].

mod arms;
mod band;
mod load;
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
use std::collections::btree_map::Entry;

use serde::{Serialize, Serializer};

use crate::analysis::{Sorted, Summary, rounded};

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
    /// The seeds that both results have, ascending.
    pub seeds: Vec<u64>,
    /// The measures that either result has.
    pub measures: Vec<Difference>,
    /// Whether every measure is within its band.
    pub within: bool,
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

/// Compares `b` with `a` and judges the differences by `bands`.
pub fn compare(a: &[Summary], b: &[Summary], bands: &Bands) -> Comparison {
    let (mut groups, mut only_b) = (Vec::<Matched<'_>>::new(), 0);
    for run in a {
        match groups.iter_mut().find(|g| same(g.first, run)) {
            Some(group) => group.add_a(run),
            None => groups.push(Matched::new(run)),
        }
    }
    for run in b {
        let group = groups.iter_mut().find(|g| same(g.first, run));
        match group.and_then(|g| g.seeds.get_mut(&run.seed)) {
            Some((_, place @ None)) => *place = Some(run),
            _ => only_b += 1,
        }
    }
    let only_a = groups.iter().flat_map(|g| g.seeds.values()).filter(|(_, b)| b.is_none()).count();
    let twice: u64 = groups.iter().map(|g| g.twice).sum();
    let pairs: Vec<Pair> = groups.iter().filter_map(|g| g.pair(bands)).collect();
    let mut comparison = Comparison {
        only_a: only_a as u64 + twice,
        only_b,
        by_measure: BTreeMap::new(),
        by_axis: BTreeMap::new(),
        total: Tally::default(),
        pairs: Vec::new(),
    };
    pairs.iter().for_each(|pair| comparison.tally(pair));
    Comparison { pairs, ..comparison }
}

impl Comparison {
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

/// Whether two runs belong to the same cell and arm.
fn same(a: &Summary, b: &Summary) -> bool {
    let of = |s: &Summary| (s.rate_mbps, s.base_rtt_ms);
    of(a) == of(b) && a.arm == b.arm && a.labels == b.labels
}

/// The runs of one cell and arm by seed.
struct Matched<'a> {
    first: &'a Summary,
    seeds: BTreeMap<u64, (&'a Summary, Option<&'a Summary>)>,
    /// The number of runs of A with a seed that occurred before.
    twice: u64,
}

impl<'a> Matched<'a> {
    fn new(run: &'a Summary) -> Self {
        Self { first: run, seeds: [(run.seed, (run, None))].into(), twice: 0 }
    }

    fn add_a(&mut self, run: &'a Summary) {
        match self.seeds.entry(run.seed) {
            Entry::Occupied(_) => self.twice += 1,
            Entry::Vacant(place) => {
                place.insert((run, None));
            }
        }
    }

    /// The pair; `None` if no seed has a run of B.
    fn pair(&self, bands: &Bands) -> Option<Pair> {
        let both: Vec<(u64, &Summary, &Summary)> =
            self.seeds.iter().filter_map(|(seed, (a, b))| Some((*seed, *a, (*b)?))).collect();
        if both.is_empty() {
            return None;
        }
        let measures: Vec<Difference> = Measure::ALL
            .into_iter()
            .filter_map(|measure| {
                let a = both.iter().filter_map(|(_, a, _)| measure.of(a)).collect();
                let b = both.iter().filter_map(|(.., b)| measure.of(b)).collect();
                Difference::of(measure, Spread::of(&a), Spread::of(&b), bands.of(measure))
            })
            .collect();
        let s = self.first;
        let mut axes = s.labels.clone();
        axes.insert("rate".to_owned(), format!("{} Mbit/s", s.rate_mbps));
        axes.insert("rtt".to_owned(), format!("{} ms", s.base_rtt_ms));
        axes.insert("arm".to_owned(), s.arm.clone());
        Some(Pair {
            cell: crate::report::cell_name(s),
            axes,
            arm: s.arm.clone(),
            seeds: both.iter().map(|(seed, ..)| *seed).collect(),
            within: measures.iter().all(|d| d.within),
            measures,
        })
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
