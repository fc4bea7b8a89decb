//! Whether Forebay was worse than no box in a cell, and in what.

use serde::{Deserialize, Serialize};

use crate::figures::Figures;

/// What a cell is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// The bundle's goodput is below 0.97 of the status quo's; 0.90 where others share the
    /// bottleneck.
    Goodput,
    /// The median slowdown of requests, or round trip of loops, is above 1.05 times the status
    /// quo's.
    Median,
    /// The 99th percentile is above 1.10 times the status quo's.
    Tail,
    /// More requests are unfinished.
    Unfinished,
    /// The wait at the bottleneck, 99th percentile, is above 1.1 times the status quo's and 2 ms.
    Wait,
}

impl Criterion {
    /// The name on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::Median => "median",
            Self::Tail => "99th percentile",
            Self::Unfinished => "unfinished",
            Self::Wait => "wait",
        }
    }
}

/// The least share of the status quo's goodput.
pub(crate) const GOODPUT: f64 = 0.97;
/// The least share of the goodput that the bundle has beside others without boxes.
pub(crate) const SHARE: f64 = 0.90;
/// The largest median, as a multiple of that without a box.
pub(crate) const MEDIAN: f64 = 1.05;
/// The largest 99th percentile, as a multiple of that without a box.
pub(crate) const TAIL: f64 = 1.10;
/// With fewer samples the 99th percentile is the largest of them, which chance decides.
pub(crate) const TAIL_SAMPLES: u64 = 300;
/// The number of requests that chance may leave unfinished.
pub(crate) const UNFINISHED: u64 = 3;
/// The share of requests that chance may leave unfinished.
pub(crate) const UNFINISHED_SHARE: f64 = 0.003;
/// The largest wait at the bottleneck, as a multiple of that without a box.
pub(crate) const WAIT: f64 = 1.1;
/// The wait in milliseconds that is allowed beyond the multiple.
pub(crate) const WAIT_MS: f64 = 2.0;

/// One figure that was worse.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The figure that was worse.
    pub criterion: Criterion,
    /// Forebay's figure over the status quo's; of unfinished requests, how many more.
    pub ratio: f64,
    /// The same policy at the bottleneck itself would have been worse than the status quo as well,
    /// and Forebay is not worse than that.
    pub by_policy: bool,
    /// The figure is worse than that of the run without a box, but not than that of the control
    /// run: chance decides.
    pub by_chance: bool,
}

impl Finding {
    /// Whether Forebay itself has to answer for it.
    pub fn counts(&self) -> bool {
        !self.by_policy && !self.by_chance
    }
}

/// The verdict on a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The figures that were worse, in the order of [`Criterion`].
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// Judges `forebay` against the run without a box and the control run; `in_network` has the
    /// same policy at the bottleneck. `shared` says that others share the bottleneck.
    pub fn of(
        [status_quo, control]: [&Figures; 2],
        in_network: &Figures,
        forebay: &Figures,
        shared: bool,
    ) -> Self {
        let findings = worse(status_quo, forebay, shared).into_iter().map(|(criterion, ratio)| {
            let is_worse = |than, is| worse(than, is, shared).iter().any(|(c, _)| *c == criterion);
            Finding {
                criterion,
                ratio,
                by_policy: is_worse(status_quo, in_network) && !is_worse(in_network, forebay),
                by_chance: !is_worse(control, forebay),
            }
        });
        Self { findings: findings.collect() }
    }

    /// Whether Forebay was worse than both runs without a box, and not because of the policy.
    pub fn is_worse(&self) -> bool {
        self.findings.iter().any(Finding::counts)
    }

    /// Whether Forebay was worse than one of the two runs without a box only, and not because of
    /// the policy.
    pub fn is_worse_by_chance(&self) -> bool {
        !self.is_worse() && self.findings.iter().any(|f| !f.by_policy)
    }

    /// Whether Forebay was worse than no box because of the policy only.
    pub fn is_worse_by_policy(&self) -> bool {
        !self.findings.is_empty() && self.findings.iter().all(|f| f.by_policy)
    }

    /// A number to sort by: the largest logarithm of a ratio, or a tenth of that of the number of
    /// unfinished requests.
    pub fn badness(&self) -> f64 {
        let of = |f: &Finding| match f.criterion {
            Criterion::Unfinished => (1.0 + f.ratio).ln() / 10.0,
            _ => f.ratio.max(1e-3).ln().abs(),
        };
        self.findings.iter().filter(|f| f.counts()).map(of).fold(0.0, f64::max)
    }

    /// The ratio of `criterion`, if Forebay has to answer for it.
    pub fn ratio(&self, criterion: Criterion) -> Option<f64> {
        let mut own = self.findings.iter().filter(|f| f.counts());
        own.find(|f| f.criterion == criterion).map(|f| f.ratio)
    }
}

/// In what `is` is worse than `than`, with the ratio of each figure.
pub(crate) fn worse(than: &Figures, is: &Figures, shared: bool) -> Vec<(Criterion, f64)> {
    let mut found = Vec::new();
    let least = if shared { SHARE } else { GOODPUT };
    let goodput = is.goodput_mbps / than.goodput_mbps.max(1e-9);
    if goodput < least {
        found.push((Criterion::Goodput, goodput));
    }
    let ratio = |is: Option<f64>, than: Option<f64>| Some(is? / than?.max(1e-9));
    let medians = [
        ratio(is.slowdown_p50, than.slowdown_p50),
        ratio(is.round_trip_p50_ms, than.round_trip_p50_ms),
    ];
    let enough = is.requests.min(than.requests) >= TAIL_SAMPLES;
    let tails = [
        ratio(is.slowdown_p99, than.slowdown_p99).filter(|_| enough),
        ratio(is.round_trip_p99_ms, than.round_trip_p99_ms),
    ];
    for (criterion, ratios, most) in
        [(Criterion::Median, medians, MEDIAN), (Criterion::Tail, tails, TAIL)]
    {
        let worst = ratios.into_iter().flatten().fold(0.0, f64::max);
        if worst > most {
            found.push((criterion, worst));
        }
    }
    let chance = UNFINISHED.max((UNFINISHED_SHARE * than.requests as f64) as u64);
    if is.unfinished > than.unfinished + chance {
        found.push((Criterion::Unfinished, (is.unfinished - than.unfinished) as f64));
    }
    if is.bottleneck_p99_ms > WAIT * than.bottleneck_p99_ms + WAIT_MS {
        found.push((Criterion::Wait, is.bottleneck_p99_ms / than.bottleneck_p99_ms.max(0.1)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        Figures {
            goodput_mbps: 40.0,
            slowdown_p50: Some(2.0),
            slowdown_p99: Some(20.0),
            unfinished: 5,
            requests: 1000,
            round_trip_p50_ms: None,
            round_trip_p99_ms: None,
            bottleneck_mean_ms: 20.0,
            bottleneck_p99_ms: 40.0,
        }
    }

    #[test]
    fn each_criterion_has_its_bound() {
        let quo = figures();
        let good = Figures {
            goodput_mbps: 38.9,
            slowdown_p50: Some(2.09),
            slowdown_p99: Some(21.9),
            unfinished: 8,
            bottleneck_p99_ms: 45.9,
            ..quo
        };
        assert!(!Verdict::of([&quo; 2], &quo, &good, false).is_worse());
        let cases = [
            (Figures { goodput_mbps: 38.7, ..quo }, Criterion::Goodput),
            (Figures { slowdown_p50: Some(2.11), ..quo }, Criterion::Median),
            (Figures { slowdown_p99: Some(22.1), ..quo }, Criterion::Tail),
            (Figures { unfinished: 9, ..quo }, Criterion::Unfinished),
            (Figures { bottleneck_p99_ms: 46.1, ..quo }, Criterion::Wait),
        ];
        for (bad, criterion) in cases {
            let verdict = Verdict::of([&quo; 2], &quo, &bad, false);
            assert_eq!(verdict.findings.len(), 1, "{criterion:?}");
            assert!(verdict.is_worse() && verdict.ratio(criterion).is_some());
        }
    }

    #[test]
    fn beside_others_a_share_of_nine_tenths_is_enough() {
        let quo = figures();
        let less = Figures { goodput_mbps: 36.1, ..quo };
        assert!(Verdict::of([&quo; 2], &quo, &less, false).is_worse());
        assert!(!Verdict::of([&quo; 2], &quo, &less, true).is_worse());
    }

    #[test]
    fn what_the_policy_itself_costs_is_counted_apart() {
        let quo = figures();
        let policy = Figures { goodput_mbps: 30.0, ..quo };
        let verdict =
            Verdict::of([&quo; 2], &policy, &Figures { goodput_mbps: 29.5, ..quo }, false);
        assert!(verdict.is_worse_by_policy() && !verdict.is_worse());
        let verdict =
            Verdict::of([&quo; 2], &policy, &Figures { goodput_mbps: 25.0, ..quo }, false);
        assert!(verdict.is_worse());
    }

    #[test]
    fn what_a_second_run_without_a_box_has_too_is_chance() {
        let quo = figures();
        let control = Figures { slowdown_p99: Some(21.5), ..quo };
        let is = Figures { slowdown_p99: Some(23.0), ..quo };
        let verdict = Verdict::of([&quo, &control], &quo, &is, false);
        assert!(verdict.is_worse_by_chance() && !verdict.is_worse());
        let is = Figures { slowdown_p99: Some(24.0), ..quo };
        assert!(Verdict::of([&quo, &control], &quo, &is, false).is_worse());
    }

    #[test]
    fn few_requests_have_no_tail() {
        let quo = Figures { requests: 100, ..figures() };
        let bad = Figures { slowdown_p99: Some(90.0), ..quo };
        assert!(!Verdict::of([&quo; 2], &quo, &bad, false).is_worse());
    }
}
