//! Computes figures from the values of all runs.

use std::collections::{BTreeMap, BTreeSet};

use super::axes::axes;
use super::claim::{Claim, Figure, Selection};
use super::extract::Extract;
use super::picture::{Picture, Sweep, SweepLine, Wanted};
use super::quantity::{Quantity, Statistic};
use super::window::statistic;
use crate::figure::{Over, Value};
use forebay_lab::analysis::{Sorted, rounded};
use forebay_lab::scenario::Experiment;

/// The quantities of a run that the figures and the picture of `claim` need.
pub(super) fn quantities(claim: &Claim) -> BTreeSet<Quantity> {
    let figures = claim.figures.iter().flat_map(|f| std::iter::once(&f.of).chain(&f.to));
    let picture = claim.picture.iter().flat_map(Wanted::quantities);
    figures.map(|selection| &selection.quantity).chain(picture).cloned().collect()
}

/// The values of all runs of an experiment.
pub(super) struct Taken<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) runs: &'a [Extract],
}

impl Taken<'_> {
    /// Computes `figure` over all seeds; `None` if there was nothing to measure.
    pub(super) fn figure(&self, figure: &Figure) -> Option<Value> {
        let of = |seed: Option<u64>| {
            if let (true, Some(to)) = (figure.of.quantity.measure.is_comparison(), &figure.to) {
                return self.worse_for(&figure.of, to, seed);
            }
            let value = self.value(&figure.of, seed)?;
            let Some(to) = &figure.to else { return Some(value) };
            let base = self.value(to, seed)?;
            (base != 0.0).then(|| value / base)
        };
        let seeds: BTreeSet<u64> = self.runs.iter().map(|r| r.seed).collect();
        let by_seed: Vec<f64> = seeds.into_iter().filter_map(|seed| of(Some(seed))).collect();
        let value = of(None)?;
        Some(Value {
            value: rounded(value, 4),
            min: rounded(by_seed.iter().copied().fold(value, f64::min), 4),
            max: rounded(by_seed.iter().copied().fold(value, f64::max), 4),
        })
    }

    /// Computes `selection` over all seeds, or with `seed` alone.
    fn value(&self, selection: &Selection, seed: Option<u64>) -> Option<f64> {
        let cells = self.experiment.cells.iter().enumerate();
        let taken = cells.filter(|(_, cell)| selection.takes(cell)).filter_map(|(n, cell)| {
            let arm = cell.arms.iter().position(|a| a.name == selection.arm)?;
            self.in_cell(n, arm, &selection.quantity, seed)
        });
        selection.over.of(&taken.collect::<Vec<_>>())
    }

    /// The longest time in seconds for which a run of `of` was worse than the run of `than` with
    /// the same cell and seed.
    fn worse_for(&self, of: &Selection, than: &Selection, seed: Option<u64>) -> Option<f64> {
        let is = |run: &Extract, selection: &Selection| {
            let cell = &self.experiment.cells[run.cell];
            selection.takes(cell) && cell.arms[run.arm].name == selection.arm
        };
        let longest = |run: &Extract| {
            let place = (run.cell, run.seed);
            let beside = self.runs.iter().find(|r| (r.cell, r.seed) == place && is(r, than))?;
            Some(run.intake.worse_for(&beside.intake))
        };
        let own = |run: &&Extract| is(run, of) && seed.is_none_or(|seed| run.seed == seed);
        Some(self.runs.iter().filter(own).filter_map(longest).max()?.as_secs_f64())
    }

    fn in_cell(
        &self,
        cell: usize,
        arm: usize,
        quantity: &Quantity,
        seed: Option<u64>,
    ) -> Option<f64> {
        let runs = self
            .runs
            .iter()
            .filter(|r| (r.cell, r.arm) == (cell, arm) && seed.is_none_or(|seed| r.seed == seed));
        let pooled = Sorted::pooled(runs.filter_map(|r| r.samples.get(quantity)));
        let pools = quantity.measure.is_pooled();
        statistic(&pooled, if pools { quantity.at } else { Statistic::Percentile(50) })
    }

    /// Draws `quantities` along `axis`, with a plot for each value on the axis `by`.
    pub(super) fn sweep(&self, axis: &str, by: Option<&str>, quantities: &[Quantity]) -> Picture {
        let Some(by) = by else {
            return Picture::Sweep(self.plot(axis, &BTreeMap::new(), quantities));
        };
        let plot = |value: String| {
            let cells = BTreeMap::from([(by.to_owned(), vec![value.clone()])]);
            let plot = self.plot(axis, &cells, quantities);
            Sweep { what: format!("{by} {value}: {}", plot.what), ..plot }
        };
        Picture::Panels(self.values_on(by).into_iter().map(plot).collect())
    }

    /// Draws one plot of the cells whose axes have the values of `within`.
    fn plot(
        &self,
        axis: &str,
        within: &BTreeMap<String, Vec<String>>,
        quantities: &[Quantity],
    ) -> Sweep {
        let along = self.values_on(axis);
        let mut arms: Vec<&str> = Vec::new();
        for arm in self.experiment.cells.iter().flat_map(|c| &c.arms) {
            if !arms.contains(&arm.name.as_str()) {
                arms.push(&arm.name);
            }
        }
        let value = |arm: &str, quantity: &Quantity, value: &String| {
            let mut cells = within.clone();
            cells.insert(axis.to_owned(), vec![value.clone()]);
            let selection = Selection {
                arm: arm.to_owned(),
                cells,
                quantity: quantity.clone(),
                over: Over::Mean,
            };
            self.value(&selection, None).map(|v| rounded(v, 4))
        };
        let lines = quantities.iter().flat_map(|q| arms.iter().map(move |arm| (q, *arm)));
        // A line is named by what distinguishes it from the others.
        let name = |q: &Quantity, arm: &str| match (quantities.len(), arms.len()) {
            (1, _) => arm.to_owned(),
            (_, 1) => q.traffic.join(" and "),
            _ => format!("{arm}, {}", q.traffic.join(" and ")),
        };
        let line = |(q, arm)| SweepLine {
            arm: name(q, arm),
            values: along.iter().map(|v| value(arm, q, v)).collect(),
        };
        let lines = lines.map(line).collect();
        let first = quantities.first();
        let words = |q: &Quantity| {
            let all = Quantity { traffic: Vec::new(), ..q.clone() };
            if quantities.len() == 1 { q.to_string() } else { all.to_string() }
        };
        Sweep {
            what: first.map(words).unwrap_or_default(),
            unit: first.map_or("", |q| q.measure.unit()).to_owned(),
            axis: axis.to_owned(),
            arms: lines,
            along,
        }
    }

    /// The values on `axis`, in the experiment's order.
    fn values_on(&self, axis: &str) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for cell in &self.experiment.cells {
            let value = axes(cell).remove(axis).unwrap_or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values
    }
}
