//! What the text says, as bands, and whether ours is within. The bands were written before the first run.

use serde::Serialize;

use super::Results;
use super::gain::{by_degree, entries_by_degree};
use super::stats::{highest, lowest, mean, median};

/// The topologies that the text looks at closely.
pub(super) const CLOSE: [&str; 2] = ["Abilene", "Sprint"];

/// A figure of the text, and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The figure or section.
    pub source: &'static str,
    /// What it is.
    pub what: String,
    /// What the text says of it.
    pub says: &'static str,
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// Ours.
    pub ours: f64,
    /// Whether the figure is a share, to be written in per cent.
    pub share: bool,
}

impl Claim {
    /// Whether ours is in the band.
    pub fn within(&self) -> bool {
        (self.low..=self.high).contains(&self.ours)
    }
}

/// All claims, in the page's order.
pub fn claims(results: &Results) -> Vec<Claim> {
    let mut out = Vec::new();
    let mut claim = |source, what: &str, says, low, high, ours, share| {
        out.push(Claim { source, what: what.to_owned(), says, low, high, ours, share });
    };
    let (none, any) = (f64::NEG_INFINITY, f64::INFINITY);
    let medians: Vec<f64> = results.gains.iter().map(|g| median(&g.unison)).collect();
    claim(
        "figure 3.7",
        "gain over early exit, the topology with the highest median",
        "up to 30 %",
        0.15,
        0.45,
        highest(&medians),
        true,
    );
    let least: Vec<f64> = results.gains.iter().flat_map(|g| g.unison.iter().copied()).collect();
    claim("figure 3.7", "the lowest gain of all runs", "improves", 0.0, any, lowest(&least), true);
    claim(
        "figure 3.7",
        "rank correlation of gain and node degree, over topologies",
        "smaller degree, larger gain",
        -1.0,
        -0.3,
        by_degree(&results.gains),
        false,
    );
    claim(
        "figure 3.7",
        "the same correlation of what Unison gains over paths inside alone",
        "smaller degree, larger gain",
        -1.0,
        -0.3,
        entries_by_degree(&results.gains),
        false,
    );
    let pairs: Vec<(f64, f64)> =
        results.gains.iter().flat_map(|g| g.providers.iter().copied()).collect();
    let better = pairs.iter().filter(|(unison, intra)| unison > intra).count();
    claim(
        "figure 3.8",
        "providers that gain more than by paths inside alone",
        "most",
        0.5,
        1.0,
        better as f64 / pairs.len().max(1) as f64,
        true,
    );
    let difference = |g: &super::Gain| median(&g.unison) - median(&g.intra);
    let differences: Vec<f64> = results.gains.iter().map(difference).collect();
    claim(
        "figure 3.8",
        "gain of the network less that by paths inside alone, median over topologies",
        "much higher",
        0.02,
        any,
        median(&differences),
        true,
    );
    fairness(&mut claim, &results.fair, "");
    fairness(&mut claim, &results.literal, ", set-up to the letter");
    let one: Vec<f64> = results.one.iter().flat_map(|o| o.gains.iter().copied()).collect();
    claim(
        "section 3.1",
        "gain by one neighbour alone, the highest of all",
        "up to 6 %",
        0.03,
        0.09,
        highest(&one),
        true,
    );
    let staying = results.partial.iter().flat_map(|p| p.staying.iter().map(|s| s.0));
    let staying: Vec<f64> = staying.collect();
    claim(
        "figure 3.10",
        "gain under OptAll of those that do not participate, the lowest",
        "not penalised",
        -1e-4,
        any,
        lowest(&staying),
        true,
    );
    let less: Vec<f64> = results.partial.iter().map(|p| p.total.0 - p.total.1).collect();
    claim(
        "figure 3.10",
        "the network's gain under OptAll less that under OptPartial, the lowest",
        "slightly higher",
        0.0,
        any,
        lowest(&less),
        true,
    );
    let joining = |p: &super::Partial| p.means()[0].1 - p.means()[0].0;
    let joining: Vec<f64> = results.partial.iter().map(joining).collect();
    claim(
        "figure 3.10",
        "mean gain of participants under OptPartial less that under OptAll, the lowest",
        "similar or higher",
        -0.02,
        any,
        lowest(&joining),
        true,
    );
    for dynamic in &results.dynamic {
        let (Some(first), Some(last)) = (dynamic.windows.first(), dynamic.windows.last()) else {
            continue;
        };
        claim(
            "figure 3.11",
            &format!("gain with the smallest window, {}", dynamic.name),
            "better than early exit",
            0.0,
            any,
            first.reserved,
            true,
        );
        claim(
            "figure 3.11",
            &format!("gain with the largest window, {}", dynamic.name),
            "worse than early exit",
            none,
            0.0,
            last.reserved,
            true,
        );
    }
    for grain in &results.grain {
        if let Some(five) = grain.cuts.iter().find(|c| c.sub_flows == 5) {
            claim(
                "figure 3.12",
                &format!("gap to the optimum with five sub-flows, {}", grain.name),
                "the largest gain at as few as five",
                -1e-3,
                0.01,
                five.gap,
                true,
            );
        }
    }
    out
}

/// Adds a claim: source, what, what the text says, at least, at most, ours, whether it is a share.
type Add<'a> = dyn FnMut(&'static str, &str, &'static str, f64, f64, f64, bool) + 'a;

/// Figure 3.9; `reading` says which reading of the set-up it is.
fn fairness(claim: &mut Add<'_>, fair: &[super::Fair], reading: &str) {
    let worst: Vec<f64> = fair.iter().map(|f| f.worst).collect();
    claim(
        "figure 3.9a",
        &format!("WBA's total over that of MCF, the lowest of all participants and seeds{reading}"),
        "almost match",
        0.99,
        1.0 + 1e-6,
        lowest(&worst),
        true,
    );
    let fairer = fair.iter().filter(|f| f.wba_wfi < f.most_wfi).count();
    claim(
        "figure 3.9b",
        &format!("numbers of participants at which WBA's WFI is below MCF's{reading}"),
        "all",
        1.0,
        1.0,
        fairer as f64 / fair.len().max(1) as f64,
        true,
    );
    for name in names(fair.iter().map(|f| f.name.as_str())) {
        let own = || fair.iter().filter(|f| f.name == name);
        let (Some(few), Some(all)) =
            (own().min_by_key(|f| f.participants), own().max_by_key(|f| f.participants))
        else {
            continue;
        };
        claim(
            "figure 3.9b",
            &format!("MCF's WFI with all participants over that with three, {name}{reading}"),
            "decreases",
            0.0,
            1.0,
            all.most_wfi / few.most_wfi.max(1e-12),
            false,
        );
    }
}

/// Each name once, in order.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The mean of the gains of one neighbour.
pub(super) fn mean_of_one(one: &super::One) -> f64 {
    mean(&one.gains)
}
