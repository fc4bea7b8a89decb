//! The claims of the thesis, with the tolerances and bars that judge ours.

use forebay_claims::band::Band;
use forebay_claims::judge::{Criteria, Judgement, Tally};

use crate::Results;
use crate::gain::{by_degree, entries_by_degree};
use crate::participation::Reading;
use crate::stats::{highest, lowest, median};

/// The topologies that the thesis examines closely.
pub(super) const CLOSE: [&str; 2] = ["Abilene", "Sprint"];

/// A tolerance of a quarter of the source's figure on both sides.
const QUARTER: Band = Band::Around { share: Some(0.25), difference: None };

/// A claim of the thesis, and our figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The figure or section of the thesis.
    pub source: &'static str,
    /// The figure in words.
    pub what: String,
    /// The words of the thesis.
    pub says: &'static str,
    /// How the figure is judged.
    pub criteria: Criteria,
    /// The unit: `%`, or empty for ratios.
    pub unit: &'static str,
    /// Our figure, in `unit`.
    pub ours: f64,
}

impl Claim {
    /// Judges our figure. `results` have the bands that were stored with the run.
    pub fn judge(&self, results: &Results) -> Judgement {
        let known = results.bands.get(&self.what).map(Vec::as_slice).unwrap_or_default();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        self.criteria.judge(Some(self.ours), &known)
    }

    /// The bands of the claim, to be stored with a run.
    pub(super) fn bands(&self) -> Vec<String> {
        let Criteria { reproduced, bar, .. } = self.criteria;
        reproduced.into_iter().chain(bar).map(|band| band.to_string()).collect()
    }
}

/// Counts the claims that pass.
pub fn tally(results: &Results) -> Tally {
    Tally::of(claims(results).iter().map(|claim| claim.judge(results)))
}

/// Collects claims in the page's order.
#[derive(Default)]
struct Claims(Vec<Claim>);

impl Claims {
    /// Adds a claim whose figure is a share, shown in per cent; so is `bar`.
    fn share(
        &mut self,
        source: &'static str,
        what: &str,
        says: &'static str,
        bar: Band,
        share: f64,
    ) {
        self.add(source, what, says, bar, "%", share * 100.0);
    }

    /// Adds a claim whose figure is a plain number.
    fn number(
        &mut self,
        source: &'static str,
        what: &str,
        says: &'static str,
        bar: Band,
        ours: f64,
    ) {
        self.add(source, what, says, bar, "", ours);
    }

    fn add(
        &mut self,
        source: &'static str,
        what: &str,
        says: &'static str,
        bar: Band,
        unit: &'static str,
        ours: f64,
    ) {
        let criteria = Criteria { source: None, reproduced: None, bar: Some(bar) };
        self.0.push(Claim { source, what: what.to_owned(), says, criteria, unit, ours });
    }

    /// The thesis has this figure for the last claim, in per cent; ours reproduces it within a
    /// quarter.
    fn with_figure(&mut self, figure: f64) {
        if let Some(claim) = self.0.last_mut() {
            claim.criteria.source = Some(figure);
            claim.criteria.reproduced = Some(QUARTER);
        }
    }
}

/// All claims, in the page's order.
pub fn claims(results: &Results) -> Vec<Claim> {
    let mut all = Claims::default();
    gains(&mut all, results);
    for reading in Reading::ALL {
        fairness(&mut all, results.fair_of(reading), reading);
    }
    participation(&mut all, results);
    changes_and_sub_flows(&mut all, results);
    all.0
}

/// Figures 3.7 and 3.8.
fn gains(all: &mut Claims, results: &Results) {
    let medians: Vec<f64> = results.gains.iter().map(|g| median(&g.unison)).collect();
    all.share(
        "figure 3.7",
        "gain over early exit, the topology with the highest median",
        "up to 30 %",
        Band::Between(15.0, 45.0),
        highest(&medians),
    );
    all.with_figure(30.0);
    let least: Vec<f64> = results.gains.iter().flat_map(|g| g.unison.iter().copied()).collect();
    all.share(
        "figure 3.7",
        "the lowest gain of all runs",
        "improves",
        Band::AtLeast(0.0),
        lowest(&least),
    );
    all.number(
        "figure 3.7",
        "rank correlation of gain and node degree, over topologies",
        "smaller degree, larger gain",
        Band::AtMost(-0.3),
        by_degree(&results.gains),
    );
    all.number(
        "figure 3.7",
        "the same correlation of what Unison gains over paths inside alone",
        "smaller degree, larger gain",
        Band::AtMost(-0.3),
        entries_by_degree(&results.gains),
    );
    let pairs: Vec<(f64, f64)> =
        results.gains.iter().flat_map(|g| g.providers.iter().copied()).collect();
    let better = pairs.iter().filter(|(unison, intra)| unison > intra).count();
    all.share(
        "figure 3.8",
        "providers that gain more than by paths inside alone",
        "most",
        Band::AtLeast(50.0),
        better as f64 / pairs.len().max(1) as f64,
    );
    let difference = |g: &crate::Gain| median(&g.unison) - median(&g.intra);
    let differences: Vec<f64> = results.gains.iter().map(difference).collect();
    all.share(
        "figure 3.8",
        "gain of the network less that by paths inside alone, median over topologies",
        "much higher",
        Band::AtLeast(2.0),
        median(&differences),
    );
}

/// Figure 3.9 in one reading of the set-up.
fn fairness(all: &mut Claims, fair: &[crate::Fair], reading: Reading) {
    let reading = reading.name();
    let worst: Vec<f64> = fair.iter().map(|f| f.worst).collect();
    all.share(
        "figure 3.9a",
        &format!(
            "WBA's total over that of MCF, the lowest of all participants and seeds, {reading}"
        ),
        "almost match",
        Band::AtLeast(99.0),
        lowest(&worst),
    );
    let fairer = fair.iter().filter(|f| f.wba_wfi < f.most_wfi).count();
    all.share(
        "figure 3.9b",
        &format!("numbers of participants at which WBA's WFI is below MCF's, {reading}"),
        "all",
        Band::AtLeast(100.0),
        fairer as f64 / fair.len().max(1) as f64,
    );
    for name in names(fair.iter().map(|f| f.name.as_str())) {
        let own = || fair.iter().filter(|f| f.name == name);
        let (Some(few), Some(every)) =
            (own().min_by_key(|f| f.participants), own().max_by_key(|f| f.participants))
        else {
            continue;
        };
        all.number(
            "figure 3.9b",
            &format!("MCF's WFI with all participants over that with three, {name}, {reading}"),
            "decreases",
            Band::AtMost(1.0),
            every.most_wfi / few.most_wfi.max(1e-12),
        );
    }
}

/// Section 3.1 and figure 3.10.
fn participation(all: &mut Claims, results: &Results) {
    let one: Vec<f64> = results.one.iter().flat_map(|o| o.gains.iter().copied()).collect();
    all.share(
        "section 3.1",
        "gain by one neighbour alone, the highest of all",
        "up to 6 %",
        Band::Between(3.0, 9.0),
        highest(&one),
    );
    all.with_figure(6.0);
    let staying = results.partial.iter().flat_map(|p| p.staying.iter().map(|s| s.0));
    let staying: Vec<f64> = staying.collect();
    all.share(
        "figure 3.10",
        "gain under OptAll of those that do not participate, the lowest",
        "not penalised",
        Band::AtLeast(-0.01),
        lowest(&staying),
    );
    let less: Vec<f64> = results.partial.iter().map(|p| p.total.0 - p.total.1).collect();
    all.share(
        "figure 3.10",
        "the network's gain under OptAll less that under OptPartial, the lowest",
        "slightly higher",
        Band::AtLeast(0.0),
        lowest(&less),
    );
    let joining = |p: &crate::Partial| {
        let (all, partial) = p.means()[0];
        partial - all
    };
    let joining: Vec<f64> = results.partial.iter().map(joining).collect();
    all.share(
        "figure 3.10",
        "mean gain of participants under OptPartial less that under OptAll, the lowest",
        "similar or higher",
        Band::AtLeast(-2.0),
        lowest(&joining),
    );
}

/// Figures 3.11 and 3.12.
fn changes_and_sub_flows(all: &mut Claims, results: &Results) {
    for dynamic in &results.dynamic {
        let (Some(first), Some(last)) = (dynamic.windows.first(), dynamic.windows.last()) else {
            continue;
        };
        all.share(
            "figure 3.11",
            &format!("gain with the smallest window, {}", dynamic.name),
            "better than early exit",
            Band::AtLeast(0.0),
            first.reserved,
        );
        all.share(
            "figure 3.11",
            &format!("gain with the largest window, {}", dynamic.name),
            "worse than early exit",
            Band::AtMost(0.0),
            last.reserved,
        );
    }
    for grain in &results.grain {
        if let Some(five) = grain.cuts.iter().find(|c| c.sub_flows == 5) {
            all.share(
                "figure 3.12",
                &format!("gap to the optimum with five sub-flows, {}", grain.name),
                "the largest gain at as few as five",
                Band::Between(-0.1, 1.0),
                five.gap,
            );
        }
    }
}

/// Each name once, in the order of first appearance.
pub(super) fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
