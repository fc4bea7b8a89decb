//! Which runs belong together.

use super::number::setting;
use super::tables::Named;
use crate::analysis::{Analysis, Summary};

/// The runs of one arm on one path, a seed each.
pub(super) struct Group<'a> {
    /// The path's rate and round-trip time, `None` if all runs have the same.
    pub(super) cell: Option<String>,
    pub(super) arm: &'a str,
    pub(super) runs: Vec<&'a Analysis>,
}

impl Group<'_> {
    /// Its name among all groups.
    pub(super) fn name(&self) -> String {
        match &self.cell {
            Some(cell) => format!("{cell}, {}", self.arm),
            None => self.arm.to_owned(),
        }
    }

    /// The name of one of its runs, with the cell's if `whole`.
    pub(super) fn run_name(&self, run: &Analysis, whole: bool) -> String {
        let name = if whole { self.name() } else { self.arm.to_owned() };
        match self.runs.len() {
            1 => name,
            _ => format!("{name}, seed {}", run.summary.seed),
        }
    }
}

/// What tells a cell from another: the path, as that is what cells of a grid differ in.
fn path(s: &Summary) -> (f64, f64) {
    (s.rate_mbps, s.base_rtt_ms)
}

/// The cells in the order in which they first appear.
fn paths(runs: &[Analysis]) -> Vec<(f64, f64)> {
    let mut paths = Vec::new();
    for run in runs {
        let path = path(&run.summary);
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// How many cells there are.
pub(super) fn cells(runs: &[Analysis]) -> usize {
    paths(runs).len()
}

/// The runs by cell and arm, each in the order in which they first appear.
pub(super) fn groups(runs: &[Analysis]) -> Vec<Group<'_>> {
    let paths = paths(runs);
    let mut all = Vec::new();
    for &cell in &paths {
        let (mbps, ms) = (setting(cell.0), setting(cell.1));
        let name = (paths.len() > 1).then(|| format!("{mbps} Mbit/s, {ms} ms"));
        let mut groups: Vec<Group<'_>> = Vec::new();
        for run in runs.iter().filter(|r| path(&r.summary) == cell) {
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

/// Every run by its name.
pub(super) fn named<'a>(groups: &[Group<'a>]) -> Vec<Named<'a>> {
    let of = |g: &Group<'a>| {
        let named = |run| Named { name: g.run_name(run, true), run, strong: false };
        g.runs.iter().copied().map(named).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of).collect()
}
