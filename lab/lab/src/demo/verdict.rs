use serde::{Deserialize, Serialize};

use super::{ArmFigures, Arms};
use crate::analysis::rounded;
use crate::report::number::figure;

/// The ratios of an arm's figures to the status quo's; `None` if the status quo's is zero or either
/// is missing. Below 1 is better, except for goodput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratios {
    /// The ratio of goodput.
    pub goodput: Option<f64>,
    /// The ratio of the bottleneck queue's median delay.
    pub bottleneck_queue_p50: Option<f64>,
    /// The ratio of the bottleneck queue's 99th percentile.
    pub bottleneck_queue_p99: Option<f64>,
    /// The ratio of the median slowdown over all requests.
    pub slowdown_p50: Option<f64>,
    /// The ratio of the slowdown's 99th percentile.
    pub slowdown_p99: Option<f64>,
}

impl Ratios {
    fn of(arm: &ArmFigures, base: &ArmFigures) -> Self {
        let ratio = |of: fn(&ArmFigures) -> Option<f64>| {
            let (value, base) = (of(arm)?, of(base)?);
            (base > 0.0).then(|| rounded(value / base, 4))
        };
        Self {
            goodput: ratio(|a| Some(a.goodput_mbps)),
            bottleneck_queue_p50: ratio(|a| Some(a.bottleneck_queue_ms.p50)),
            bottleneck_queue_p99: ratio(|a| Some(a.bottleneck_queue_ms.p99)),
            slowdown_p50: ratio(|a| a.slowdown.all.p50),
            slowdown_p99: ratio(|a| a.slowdown.all.p99),
        }
    }
}

/// The result of the demonstration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The arm with SFQ at the bottleneck over the status quo.
    pub in_network_sfq: Ratios,
    /// Forebay with SFQ over the status quo.
    pub forebay_sfq: Ratios,
    /// Forebay with FIFO over the status quo.
    pub forebay_fifo: Ratios,
    /// Whether Forebay (SFQ) moved the queue out of the bottleneck, see [`Verdict::MOVED`].
    pub queue_moved: bool,
    /// Whether the median request was faster with Forebay (SFQ), see [`Verdict::FASTER`].
    pub requests_faster: bool,
    /// Whether Forebay (SFQ) kept the goodput, see [`Verdict::KEPT`].
    pub goodput_kept: bool,
    /// Whether every frame of every arm is accounted for.
    pub packets_conserved: bool,
    /// The verdict in one sentence.
    pub sentence: String,
}

impl Verdict {
    /// The share of the status quo's median delay at the bottleneck up to which the queue counts as
    /// moved.
    pub const MOVED: f64 = 0.5;

    /// The share of the status quo's median slowdown up to which requests count as faster; two runs
    /// of one arm differ by a few per cent.
    pub const FASTER: f64 = 0.95;

    /// The share of the status quo's goodput from which goodput counts as kept.
    pub const KEPT: f64 = 0.97;

    /// The bottleneck delay of the status quo in milliseconds below which there is no queue to
    /// move.
    pub const QUEUE: f64 = 1.0;

    pub(super) fn of(arms: &Arms<ArmFigures>) -> Self {
        let base = &arms.status_quo;
        let ratios = arms.map(|arm| Ratios::of(arm, base));
        let forebay = ratios.forebay_sfq;
        let at_most = |ratio: Option<f64>, limit| ratio.is_some_and(|r| r <= limit);
        let mut verdict = Self {
            in_network_sfq: ratios.in_network_sfq,
            forebay_sfq: forebay,
            forebay_fifo: ratios.forebay_fifo,
            queue_moved: at_most(forebay.bottleneck_queue_p50, Self::MOVED)
                && base.bottleneck_queue_ms.p50 >= Self::QUEUE,
            requests_faster: at_most(forebay.slowdown_p50, Self::FASTER),
            goodput_kept: forebay.goodput.is_some_and(|r| r >= Self::KEPT),
            packets_conserved: super::Arm::ALL.iter().all(|a| arms.get(*a).conservation.ok),
            sentence: String::new(),
        };
        verdict.sentence = verdict.words(base, &arms.forebay_sfq);
        verdict
    }

    /// The verdict in one sentence, good or bad.
    fn words(&self, base: &ArmFigures, forebay: &ArmFigures) -> String {
        let ms = |a: &ArmFigures| figure(a.bottleneck_queue_ms.p50);
        let change = format!("{} ms -> {} ms", ms(base), ms(forebay));
        let queue = if base.bottleneck_queue_ms.p50 < Self::QUEUE {
            format!("the bottleneck had no queue worth moving ({change} median)")
        } else if self.queue_moved {
            format!("the queue left the bottleneck, {change} median")
        } else {
            format!("Forebay did not move the queue out of the bottleneck, {change} median")
        };
        let request = match (base.slowdown.all.p50, forebay.slowdown.all.p50) {
            (Some(before), Some(after)) => {
                let change = format!("{}x -> {}x its ideal time", figure(before), figure(after));
                if self.requests_faster {
                    format!("Median request {change}")
                } else {
                    format!("Forebay did not make the median request faster, {change}")
                }
            }
            _ => "There were no requests to compare".to_owned(),
        };
        let (before, after) = (figure(base.goodput_mbps), figure(forebay.goodput_mbps));
        let goodput = if self.goodput_kept {
            String::new()
        } else {
            format!("; goodput fell, {before} -> {after} Mbit/s")
        };
        let accounts = if self.packets_conserved {
            ""
        } else {
            "; but the packet accounts do not balance, so none of this is to be trusted"
        };
        format!("{request}; {queue}{goodput}{accounts}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{ByClass, Conservation, Slowdown};
    use crate::demo::{Drops, Percentiles, RequestCounts};

    fn arm(queue: f64, slowdown: f64, goodput: f64) -> ArmFigures {
        let all = Slowdown { p50: Some(slowdown), p99: None, count: 9, unfinished: 0 };
        ArmFigures {
            goodput_mbps: goodput,
            bottleneck_queue_ms: Percentiles { p50: queue, ..Percentiles::default() },
            sendbox_queue_ms: Percentiles::default(),
            slowdown: ByClass { all, ..ByClass::default() },
            requests: RequestCounts { offered: 9, completed: 9 },
            drops: Drops::default(),
            conservation: Conservation { ok: true, violations: vec![] },
        }
    }

    fn verdict(status_quo: ArmFigures, forebay_sfq: ArmFigures) -> Verdict {
        Verdict::of(&Arms {
            status_quo,
            in_network_sfq: arm(0.2, 1.05, 83.0),
            forebay_sfq,
            forebay_fifo: arm(2.0, 2.5, 83.0),
        })
    }

    #[test]
    fn success_in_words_and_ratios() {
        let v = verdict(arm(71.2, 2.4, 84.0), arm(2.136, 1.2, 83.0));
        assert_eq!(
            v.sentence,
            "Median request 2.40x -> 1.20x its ideal time; \
             the queue left the bottleneck, 71.2 ms -> 2.14 ms median."
        );
        assert!(v.queue_moved && v.requests_faster && v.goodput_kept && v.packets_conserved);
        assert_eq!(v.forebay_sfq.bottleneck_queue_p50, Some(0.03));
        assert_eq!((v.forebay_sfq.slowdown_p50, v.forebay_sfq.slowdown_p99), (Some(0.5), None));
        assert_eq!(v.forebay_sfq.bottleneck_queue_p99, None, "nothing over zero");
        assert_eq!(v.forebay_fifo.slowdown_p50, Some(1.0417));
    }

    #[test]
    fn failure_in_words() {
        let v = verdict(arm(71.2, 2.4, 84.0), arm(65.0, 2.39, 70.0));
        assert_eq!(
            v.sentence,
            "Forebay did not make the median request faster, 2.40x -> 2.39x its ideal time; \
             Forebay did not move the queue out of the bottleneck, 71.2 ms -> 65.0 ms median; \
             goodput fell, 84.0 -> 70.0 Mbit/s."
        );
        assert!(!v.queue_moved && !v.requests_faster && !v.goodput_kept);
    }

    #[test]
    fn nothing_to_move() {
        let v = verdict(arm(0.4, 1.0, 84.0), arm(0.1, 1.0, 84.0));
        assert!(!v.queue_moved);
        assert!(
            v.sentence.contains("; the bottleneck had no queue worth moving (0.40 ms -> 0.10 ms")
        );
    }

    #[test]
    fn broken_accounts_overrule_success() {
        let conservation = Conservation { ok: false, violations: vec!["link: lost 1".into()] };
        let v = verdict(arm(71.2, 2.4, 84.0), ArmFigures { conservation, ..arm(2.0, 1.2, 84.0) });
        assert!(!v.packets_conserved);
        assert!(v.sentence.ends_with("none of this is to be trusted."));
    }
}
