//! Grouping of runs by cell and arm.

use std::collections::BTreeMap;

use super::number::setting;
use super::tables::Named;
use crate::analysis::{Analysis, Summary};
use crate::scenario::in_words;

/// The runs of one arm on one path, one per seed.
pub(super) struct Group<'a> {
    /// The path's rate and round-trip time; `None` if all runs have the same.
    pub(super) cell: Option<String>,
    pub(super) arm: &'a str,
    pub(super) runs: Vec<&'a Analysis>,
}

impl Group<'_> {
    /// The name of the group among all groups.
    pub(super) fn name(&self) -> String {
        match &self.cell {
            Some(cell) => format!("{cell}, {}", self.arm),
            None => self.arm.to_owned(),
        }
    }

    /// The name of one of its runs, with the cell's name if `whole`.
    pub(super) fn run_name(&self, run: &Analysis, whole: bool) -> String {
        let name = if whole { self.name() } else { self.arm.to_owned() };
        match self.runs.len() {
            1 => name,
            _ => format!("{name}, seed {}", run.summary.seed),
        }
    }
}

/// The properties that identify a cell: its path, and its values on other axes of the grid.
fn cell(s: &Summary) -> (f64, f64, &BTreeMap<String, String>) {
    (s.rate_mbps, s.base_rtt_ms, &s.labels)
}

/// One run of each cell, in the order of first occurrence.
fn firsts(runs: &[Analysis]) -> Vec<&Summary> {
    let mut firsts: Vec<&Summary> = Vec::new();
    for run in runs {
        if firsts.iter().all(|first| cell(first) != cell(&run.summary)) {
            firsts.push(&run.summary);
        }
    }
    firsts
}

/// The name of a run's cell, in the form of a scenario's.
pub(crate) fn cell_name(s: &Summary) -> String {
    // Of other tools' results the path is not known.
    if s.rate_mbps == 0.0 {
        return in_words(&s.labels).trim_start_matches(", ").to_owned();
    }
    let path = format!("{} Mbit/s, {} ms", setting(s.rate_mbps), setting(s.base_rtt_ms));
    path + &in_words(&s.labels)
}

/// The number of cells.
pub(super) fn cells(runs: &[Analysis]) -> usize {
    firsts(runs).len()
}

/// Groups the runs by cell and arm, in the order of first occurrence.
pub(super) fn groups(runs: &[Analysis]) -> Vec<Group<'_>> {
    let cells = firsts(runs);
    let mut all = Vec::new();
    for first in &cells {
        let name = (cells.len() > 1).then(|| cell_name(first));
        let mut groups: Vec<Group<'_>> = Vec::new();
        for run in runs.iter().filter(|r| cell(&r.summary) == cell(first)) {
            let arm = run.summary.arm.as_str();
            match groups.iter_mut().find(|g| g.arm == arm) {
                Some(group) => group.runs.push(run),
                None => groups.push(Group { cell: name.clone(), arm, runs: vec![run] }),
            }
        }
        all.extend(groups);
    }
    all
}

/// The groups of each cell.
pub(super) fn cells_of<'g, 'a>(groups: &'g [Group<'a>]) -> impl Iterator<Item = &'g [Group<'a>]> {
    groups.chunk_by(|a, b| a.cell == b.cell)
}

/// All runs with their names.
pub(super) fn named<'a>(groups: &[Group<'a>]) -> Vec<Named<'a>> {
    let of = |g: &Group<'a>| {
        let named = |run| Named { name: g.run_name(run, true), run, strong: false };
        g.runs.iter().copied().map(named).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of).collect()
}
