//! The runs of two results, matched by cell and arm.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::{Bands, Difference, Measure, Pair, SingleRuns, Spread, Tally};
use crate::analysis::{Sorted, Summary};

/// The runs of one cell and arm by seed. Of several runs with the same seed, the first one counts.
#[derive(Clone)]
pub(super) struct Matched<'a> {
    first: &'a Summary,
    pub(super) a: BTreeMap<u64, &'a Summary>,
    pub(super) b: BTreeMap<u64, &'a Summary>,
}

/// Returns the runs of two results by cell and arm, in the order of A.
pub(super) fn matched<'a>(a: &'a [Summary], b: &'a [Summary]) -> Vec<Matched<'a>> {
    let mut groups = Vec::<Matched<'_>>::new();
    let runs = a.iter().map(|run| (run, false)).chain(b.iter().map(|run| (run, true)));
    for (run, is_b) in runs {
        let at = groups.iter().position(|g| same(g.first, run)).unwrap_or_else(|| {
            groups.push(Matched { first: run, a: BTreeMap::new(), b: BTreeMap::new() });
            groups.len() - 1
        });
        let seeds = if is_b { &mut groups[at].b } else { &mut groups[at].a };
        if let Entry::Vacant(place) = seeds.entry(run.seed) {
            place.insert(run);
        }
    }
    groups
}

/// Whether two runs belong to the same cell and arm.
fn same(a: &Summary, b: &Summary) -> bool {
    let of = |s: &Summary| (s.rate_mbps, s.base_rtt_ms);
    of(a) == of(b) && a.arm == b.arm && a.labels == b.labels
}

impl Matched<'_> {
    /// Returns the runs with seeds that both results have.
    pub(super) fn with_common_seeds(&self) -> Self {
        let mut common = self.clone();
        common.a.retain(|seed, _| self.b.contains_key(seed));
        common.b.retain(|seed, _| self.a.contains_key(seed));
        common
    }

    /// Returns the pair, which compares medians over the seeds; `None` if a result has no run.
    pub(super) fn pair(&self, bands: &Bands) -> Option<Pair> {
        if self.a.is_empty() || self.b.is_empty() {
            return None;
        }
        let measures: Vec<Difference> = Measure::ALL
            .into_iter()
            .filter_map(|measure| {
                let a = self.a.values().filter_map(|run| measure.of(run)).collect();
                let b = self.b.values().filter_map(|run| measure.of(run)).collect();
                Difference::of(measure, Spread::of(&a), Spread::of(&b), bands.of(measure))
            })
            .collect();
        let s = self.first;
        let mut axes = s.labels.clone();
        axes.insert("rate".to_owned(), format!("{} Mbit/s", s.rate_mbps));
        axes.insert("rtt".to_owned(), format!("{} ms", s.base_rtt_ms));
        axes.insert("arm".to_owned(), s.arm.clone());
        let mut seeds: Vec<u64> = self.a.keys().chain(self.b.keys()).copied().collect();
        seeds.sort_unstable();
        seeds.dedup();
        Some(Pair {
            cell: crate::report::cell_name(s),
            axes,
            arm: s.arm.clone(),
            seeds,
            within: measures.iter().all(|d| d.within),
            measures,
            single_runs: None,
        })
    }

    /// Compares each run of A with the median of B, and each run of B with that of B's others.
    pub(super) fn single_runs(&self, bands: &Bands) -> SingleRuns<Tally> {
        let mut tallies = SingleRuns::<Tally>::default();
        for run in self.a.values() {
            tallies.a.count(predicts(run, self.b.values().copied(), bands));
        }
        for (seed, run) in self.b.iter().filter(|_| self.b.len() > 1) {
            let others = self.b.iter().filter(|(other, _)| *other != seed);
            tallies.b.count(predicts(run, others.map(|(_, run)| *run), bands));
        }
        tallies
    }
}

/// Whether the medians of `runs` are within the bands around all measures of `run`.
fn predicts<'a>(
    run: &Summary,
    runs: impl Iterator<Item = &'a Summary> + Clone,
    bands: &Bands,
) -> bool {
    Measure::ALL.into_iter().all(|measure| {
        let values: Sorted = runs.clone().filter_map(|run| measure.of(run)).collect();
        match (measure.of(run), middle(values.values())) {
            (None, None) => true,
            (Some(one), Some(median)) => bands.of(measure).holds(one, median),
            _ => bands.of(measure).any,
        }
    })
}

/// Returns the median of ascending `values`: of an even number, the mean of the two in the middle.
fn middle(values: &[f64]) -> Option<f64> {
    let (low, high) =
        (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(low.midpoint(*high))
}
