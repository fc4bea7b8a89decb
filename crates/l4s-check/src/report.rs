//! What a check found.

use std::fmt;

use forebay_queue::Ecn;
use forebay_units::{Bytes, Nanos, Rate};
use serde::Serialize;

use crate::samples::{Counts, Phase, Sample, Samples, share};

/// A packet of the load with its headers.
const LOAD: Bytes = Bytes(1_228);
/// Fewer deliveries than this share are a fault if other packets arrive.
const BLOCKED: f64 = 0.1;
/// Where this share of packets arrives with another codepoint, it is rewritten.
const REWRITTEN: f64 = 0.5;
/// Marks of more than this share without a load are a fault.
const MARKED: f64 = 0.05;
/// A packet of others that takes this long at the bottleneck makes up for all of the share: each
/// L4S packet may have to wait for one.
const WHOLE_PACKET: Nanos = Nanos::from_millis(5);
/// The largest share that is allowed for that.
const MOST_MARKED: f64 = 0.5;
/// Fewer marks than this share under overload are none.
const UNMARKED: f64 = 0.002;
/// ECT(1) packets that wait for this part of what classic packets wait are in the same queue.
const SHARED: f64 = 0.5;
/// A delay below this is no queue.
const NO_QUEUE: Nanos = Nanos::from_millis(4);
/// Where one of twenty classic packets waits for less than this, no queue stands: the target of a
/// classic AQM is 5 ms (RFC 8289) or 15 ms (RFC 9332), and bursts come in between.
const STANDING: Nanos = Nanos::from_millis(8);
/// Marks that begin at a longer delay come too late. RFC 9332 appendix A.1 has a step at 1 ms, and
/// delays are measured with the noise of two hosts.
const EARLY: Nanos = Nanos::from_millis(6);
/// At low rates marks may begin at this many packets.
const EARLY_PACKETS: u64 = 4;
/// Where the few packets beside the other load wait for less than this part of it, each flow has a
/// queue of its own.
const ISOLATED: f64 = 0.3;
/// Where fewer of them arrive, the load starves them.
const STARVED: f64 = 0.5;
/// Where they wait for longer than this, too.
const STARVED_DELAY: Nanos = Nanos::from_millis(200);
/// Loss that shows a bottleneck without a queue.
const POLICED: f64 = 0.03;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// Nothing arrives, or no answer comes back.
    Unreachable,
    /// ECT(1) packets are lost although others arrive.
    Ect1Dropped,
    /// ECT(1) packets arrive with another codepoint.
    Ect1Rewritten,
    /// CE packets are lost although others arrive.
    CeDropped,
    /// CE packets arrive with another codepoint, so that marks of earlier queues are lost.
    CeErased,
    /// Classic packets arrive as ECT(1), so that they would get into the L4S queue.
    ClassicPromoted,
    /// Packets are marked on the empty path.
    AlwaysMarked,
    /// ECT(1) packets at a fifth of the rate are marked although no queue stands.
    MarkedWithoutLoad,
    /// No queue up to the highest rate of the check.
    NoBottleneck,
    /// The bottleneck drops packets without a queue.
    Policer,
    /// ECT(1) packets wait in the queue of classic ones.
    SharedQueue,
    /// The bottleneck does not mark ECT(1) packets.
    Unmarked,
    /// The bottleneck marks ECT(1) packets as late as those of classic ECN.
    MarkedLate,
    /// The classic queue does not mark ECT(1) packets, so that L4S flows would push it aside.
    Uncoupled,
    /// An L4S load keeps classic packets from arriving.
    ClassicStarved,
}

impl Kind {
    /// Returns whether it says only that the check cannot tell.
    pub fn is_inconclusive(self) -> bool {
        matches!(self, Self::Unreachable | Self::NoBottleneck | Self::Policer)
    }
}

/// One thing that a check found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub kind: Kind,
    /// A sentence with the figures.
    pub text: String,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The bottleneck treats L4S packets as RFC 9331 asks for.
    Works,
    /// It does not; the findings say why.
    DoesNotWork,
    /// Nothing is wrong, but the bottleneck did not show how it treats L4S packets.
    Unknown,
}

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether L4S works.
    pub verdict: Verdict,
    /// What is wrong, the cause that comes first on the path first.
    pub findings: Vec<Finding>,
    /// The path's rate in bits per second.
    pub rate_bps: Option<u64>,
    /// The 90th percentile of delays beyond the fastest packet in milliseconds, without a load.
    pub calm_ms: Option<f64>,
    /// What happened under each load.
    pub loads: Vec<Load>,
    /// The number of datagrams sent.
    pub sent: usize,
    /// The number of these that were answered.
    pub answered: usize,
}

/// What happened in one phase to the packets of the load and to the few beside it.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// The name of the phase.
    pub phase: &'static str,
    /// What happened to ECT(1) packets.
    pub l4s: Side,
    /// What happened to Not-ECT packets.
    pub classic: Side,
}

/// What happened to packets of one kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Side {
    /// The share that arrived.
    pub delivered: f64,
    /// The share of these that were marked.
    pub marked: f64,
    /// The median delay beyond the fastest packet of the check in milliseconds, in the last two
    /// thirds of the phase.
    pub delay_ms: Option<f64>,
}

impl Report {
    /// Draws the conclusions from `samples`, where the path's rate is `rate`.
    pub(crate) fn new(samples: &Samples, rate: Option<Rate>, max_rate: Rate) -> Self {
        let evidence = Evidence { samples, rate };
        let findings = evidence.findings(max_rate);
        let verdict = match findings.iter().all(|f| f.kind.is_inconclusive()) {
            true if findings.is_empty() => Verdict::Works,
            true => Verdict::Unknown,
            false => Verdict::DoesNotWork,
        };
        let load = |phase, name| Load {
            phase: name,
            l4s: evidence.side(phase, Ecn::Ect1),
            classic: evidence.side(phase, Ecn::NotEct),
        };
        let loads = [(Phase::Light, "light"), (Phase::Classic, "classic"), (Phase::L4s, "l4s")];
        let all = Counts::of(samples.of(Phase::Codepoints));
        let calm = samples.delay(samples.of(Phase::Codepoints), 0.9);
        Self {
            verdict,
            findings,
            rate_bps: rate.map(Rate::as_bps),
            calm_ms: calm.map(Nanos::as_millis_f64),
            loads: if rate.is_some() {
                loads.map(|(phase, name)| load(phase, name)).into()
            } else {
                vec![]
            },
            sent: samples.len(),
            answered: all.arrived
                + (0..=u8::MAX)
                    .map(Phase::Ramp)
                    .chain(loads.map(|l| l.0))
                    .map(|phase| Counts::of(samples.of(phase)).arrived)
                    .sum::<usize>(),
        }
    }
}

/// The samples of a check, and what they show.
struct Evidence<'a> {
    samples: &'a Samples,
    rate: Option<Rate>,
}

impl Evidence<'_> {
    fn findings(&self, max_rate: Rate) -> Vec<Finding> {
        let mut found = vec![];
        let mut say = |kind, text: String| found.push(Finding { kind, text });
        let all = Counts::of(self.samples.of(Phase::Codepoints));
        if all.arrived == 0 {
            say(
                Kind::Unreachable,
                format!(
                    "none of {} packets was answered: does `forebay l4s reflect` run there, and does UDP pass?",
                    all.sent
                ),
            );
            return found;
        }
        self.codepoints(&mut say);
        match self.rate {
            None => say(
                Kind::NoBottleneck,
                format!(
                    "no queue up to {:.0} Mbit/s, so that nothing shows how the bottleneck treats L4S packets",
                    max_rate.as_mbps_f64()
                ),
            ),
            Some(rate) => self.loads(rate, &mut say),
        }
        found
    }

    /// Compares what was sent and what arrived without a load.
    fn codepoints(&self, say: &mut impl FnMut(Kind, String)) {
        let of = |ecn| self.samples.of(Phase::Codepoints).filter(move |s| s.ecn == ecn);
        let arrived_as = |ecn, other: fn(Ecn) -> bool| {
            let arrivals: Vec<Ecn> = of(ecn).filter_map(|s| Some(s.arrived?.1)).collect();
            let others = arrivals.iter().filter(|e| other(**e)).count();
            (share(others, arrivals.len(), 0.0), arrivals)
        };
        let plain = Counts::of(of(Ecn::NotEct));
        let ect1 = Counts::of(of(Ecn::Ect1));
        if ect1.delivered() < BLOCKED && plain.delivered() > 0.5 {
            say(
                Kind::Ect1Dropped,
                format!(
                    "{} of {} ECT(1) packets arrived and {} of {} Not-ECT packets: something on the path drops them",
                    ect1.arrived, ect1.sent, plain.arrived, plain.sent
                ),
            );
        }
        let (rewritten, arrivals) = arrived_as(Ecn::Ect1, |e| matches!(e, Ecn::NotEct | Ecn::Ect0));
        if rewritten >= REWRITTEN {
            let to_zero = arrivals.iter().filter(|e| **e == Ecn::Ect0).count() * 2 > arrivals.len();
            let to = if to_zero { "ECT(0)" } else { "Not-ECT" };
            say(
                Kind::Ect1Rewritten,
                format!(
                    "{:.0} % of the ECT(1) packets arrived as {to}: something on the path rewrites the ECN field",
                    rewritten * 100.0
                ),
            );
        }
        let ce = Counts::of(of(Ecn::Ce));
        if ce.delivered() < BLOCKED && plain.delivered() > 0.5 {
            say(
                Kind::CeDropped,
                format!(
                    "{} of {} CE packets arrived: marks of an earlier queue would be losses",
                    ce.arrived, ce.sent
                ),
            );
        }
        let (erased, _) = arrived_as(Ecn::Ce, |e| e != Ecn::Ce);
        if erased >= REWRITTEN {
            say(
                Kind::CeErased,
                format!(
                    "{:.0} % of the CE packets arrived unmarked: marks of an earlier queue are lost",
                    erased * 100.0
                ),
            );
        }
        for (ecn, name) in [(Ecn::NotEct, "Not-ECT"), (Ecn::Ect0, "ECT(0)")] {
            let (promoted, _) = arrived_as(ecn, |e| e == Ecn::Ect1);
            if promoted >= REWRITTEN {
                say(
                    Kind::ClassicPromoted,
                    format!(
                        "{:.0} % of the {name} packets arrived as ECT(1), so that they would get into L4S queues",
                        promoted * 100.0
                    ),
                );
            }
        }
        let (marked, _) = arrived_as(Ecn::Ect1, |e| e == Ecn::Ce);
        if marked >= REWRITTEN {
            say(
                Kind::AlwaysMarked,
                format!(
                    "{:.0} % of the ECT(1) packets were marked on the empty path",
                    marked * 100.0
                ),
            );
        }
    }

    /// Compares what the loads did.
    fn loads(&self, rate: Rate, say: &mut impl FnMut(Kind, String)) {
        let light = self.side(Phase::Light, Ecn::Ect1);
        let calm = self
            .samples
            .delay(self.of(Phase::Light, Ecn::NotEct), 0.05)
            .is_none_or(|delay| delay < STANDING);
        let packet = rate.time_for(LOAD).as_secs_f64() / WHOLE_PACKET.as_secs_f64();
        let bursty = calm && light.marked > (MARKED + packet).min(MOST_MARKED);
        if bursty {
            say(
                Kind::MarkedWithoutLoad,
                format!(
                    "{:.0} % of the ECT(1) packets were marked at a fifth of the path's {:.1} Mbit/s, where no queue stands: bursts of the link itself are marked",
                    light.marked * 100.0,
                    rate.as_mbps_f64()
                ),
            );
        }
        let classic = self.side(Phase::Classic, Ecn::NotEct);
        let beside = self.side(Phase::Classic, Ecn::Ect1);
        let l4s = self.side(Phase::L4s, Ecn::Ect1);
        let beside_l4s = self.side(Phase::L4s, Ecn::NotEct);
        let is_queue = |side: &Side| side.delay_ms.is_some_and(|ms| ms >= NO_QUEUE.as_millis_f64());
        if !is_queue(&classic) && !is_queue(&l4s) && l4s.marked < UNMARKED {
            if classic.delivered < 1.0 - POLICED || l4s.delivered < 1.0 - POLICED {
                say(
                    Kind::Policer,
                    format!(
                        "{:.1} Mbit/s pass without a queue, and the rest is dropped: a policer, which does not mark",
                        rate.as_mbps_f64()
                    ),
                );
            } else {
                say(
                    Kind::NoBottleneck,
                    "the queue that ended the ramp did not come back: other traffic may have made it".into(),
                );
            }
            return;
        }
        let ratio =
            |a: &Side, b: &Side| a.delay_ms.unwrap_or(0.0) / b.delay_ms.unwrap_or(0.0).max(0.01);
        let shared = is_queue(&classic) && ratio(&beside, &classic) > SHARED;
        if shared {
            say(
                Kind::SharedQueue,
                format!(
                    "beside a classic load ECT(1) packets wait for {:.1} ms, classic ones for {:.1} ms: both are in one queue",
                    beside.delay_ms.unwrap_or(0.0),
                    classic.delay_ms.unwrap_or(0.0)
                ),
            );
        }
        if l4s.marked < UNMARKED {
            say(
                Kind::Unmarked,
                format!(
                    "{:.1} % of the ECT(1) packets were marked at 1.2 times the rate, where they wait for {:.1} ms: the bottleneck is no L4S queue, or another one than the L4S queue of the path",
                    l4s.marked * 100.0,
                    l4s.delay_ms.unwrap_or(0.0)
                ),
            );
            return;
        }
        let first = self.first_marks();
        let early = EARLY.max(rate.time_for(LOAD) * EARLY_PACKETS);
        if !bursty && first.is_some_and(|delay| delay > early) {
            say(
                Kind::MarkedLate,
                format!(
                    "marks begin at a delay of {:.1} ms: the queue marks by the rules of classic ECN (RFC 3168), not as an L4S queue",
                    first.unwrap_or_default().as_millis_f64()
                ),
            );
        }
        let isolated = is_queue(&l4s) && ratio(&beside_l4s, &l4s) < ISOLATED
            || !is_queue(&beside_l4s) && beside_l4s.delivered > 0.95;
        let loaded = is_queue(&classic) || classic.delivered < 1.0 - POLICED;
        if !shared && !isolated && loaded && beside.marked < UNMARKED {
            say(
                Kind::Uncoupled,
                "no ECT(1) packet was marked beside a classic load, and flows are not queued apart: L4S flows would push classic ones aside (RFC 9332 section 2.1)".into(),
            );
        }
        let delay = beside_l4s.delay_ms.unwrap_or(0.0);
        let waits = delay > STARVED_DELAY.as_millis_f64();
        if !shared && (beside_l4s.delivered < STARVED || waits) {
            say(
                Kind::ClassicStarved,
                format!(
                    "beside an L4S load {:.0} % of the classic packets arrived, after {delay:.0} ms more than usual: it starves them (RFC 9332 section 4.2)",
                    beside_l4s.delivered * 100.0
                ),
            );
        }
    }

    fn of(&self, phase: Phase, ecn: Ecn) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples.of(phase).filter(move |s| s.ecn == ecn)
    }

    fn side(&self, phase: Phase, ecn: Ecn) -> Side {
        let counts = Counts::of(self.of(phase, ecn));
        let settled = self.of(phase, ecn).skip(counts.sent / 3);
        Side {
            delivered: counts.delivered(),
            marked: counts.marks(),
            delay_ms: self.samples.delay(settled, 0.5).map(Nanos::as_millis_f64),
        }
    }

    /// Returns the median delay of the first marked packets under the L4S load.
    fn first_marks(&self) -> Option<Nanos> {
        let marked = self.of(Phase::L4s, Ecn::Ect1).filter(|s| s.is_marked()).take(5);
        self.samples.delay(marked, 0.5)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}",
            match self.verdict {
                Verdict::Works => "L4S works on this path.",
                Verdict::DoesNotWork => "L4S does not work on this path:",
                Verdict::Unknown => "It cannot be told whether L4S works on this path:",
            }
        )?;
        for finding in &self.findings {
            writeln!(f, "- {}", finding.text)?;
        }
        if let Some(bps) = self.rate_bps {
            writeln!(
                f,
                "\nThe bottleneck passes {:.1} Mbit/s.",
                Rate::from_bps(bps).as_mbps_f64()
            )?;
            writeln!(f, "\n{:<10}{:>32}{:>32}", "load", "ECT(1) packets", "Not-ECT packets")?;
            let head = format!("{:>12}{:>10}{:>10}", "delivered", "marked", "delay");
            writeln!(f, "{:<10}{head}{head}", "")?;
            for load in &self.loads {
                writeln!(f, "{:<10}{}{}", load.phase, load.l4s, load.classic)?;
            }
        }
        write!(f, "\n{} of {} packets were answered.", self.answered, self.sent)
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let delay = self.delay_ms.map_or("-".into(), |ms| format!("{ms:.1} ms"));
        write!(f, "{:>12}{:>10}{:>10}", percent(self.delivered), percent(self.marked), delay)
    }
}
