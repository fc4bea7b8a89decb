//! What a check found.

pub(crate) mod evidence;

use std::fmt;

use forebay_queue::Ecn;
use forebay_units::{Nanos, Rate};
use serde::Serialize;

use crate::samples::{Phase, Samples};

/// The phases with a load, and their names.
const PHASES: [(Phase, &str); 3] =
    [(Phase::Light, "light"), (Phase::Classic, "classic"), (Phase::L4s, "l4s")];

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
    /// A TCP connection negotiated no ECN.
    NoEcn,
    /// A TCP connection negotiated only classic ECN, which echoes one mark per round trip.
    ClassicFeedback,
    /// The ECN flags of a TCP handshake changed on the way.
    NegotiationChanged,
    /// AccECN is negotiated, and the data does not have ECT(1).
    NoEct1,
    /// The receiver does not echo marks.
    NotEchoed,
    /// The sender stopped using ECT(1).
    FellBack,
    /// Too few packets of TCP connections.
    TooFewPackets,
    /// Without timestamps a capture does not show where packets waited.
    NoTimestamps,
    /// A capture without acknowledgements does not show what the receiver echoes.
    OneDirection,
}

impl Kind {
    /// Returns whether it says only that the check cannot tell.
    pub fn is_inconclusive(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::NoBottleneck
                | Self::Policer
                | Self::TooFewPackets
                | Self::NoTimestamps
                | Self::OneDirection
        )
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

impl Verdict {
    /// Returns the result where `findings` were found, and nothing else is wrong.
    pub(crate) fn of(findings: &[Finding]) -> Self {
        if findings.is_empty() {
            Self::Works
        } else if findings.iter().all(|f| f.kind.is_inconclusive()) {
            Self::Unknown
        } else {
            Self::DoesNotWork
        }
    }

    /// The first line of a report.
    pub(crate) fn headline(self) -> &'static str {
        match self {
            Self::Works => "L4S works on this path.",
            Self::DoesNotWork => "L4S does not work on this path:",
            Self::Unknown => "It cannot be told whether L4S works on this path:",
        }
    }
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
        let findings = evidence::findings(samples, rate, max_rate);
        let verdict = Verdict::of(&findings);
        let load = |(phase, name)| Load {
            phase: name,
            l4s: evidence::side(samples, phase, Ecn::Ect1),
            classic: evidence::side(samples, phase, Ecn::NotEct),
        };
        let calm = samples.delay(samples.of(Phase::Codepoints), 0.9);
        Self {
            verdict,
            findings,
            rate_bps: rate.map(Rate::as_bps),
            calm_ms: calm.map(Nanos::as_millis_f64),
            loads: if rate.is_some() { PHASES.map(load).into() } else { Vec::new() },
            sent: samples.len(),
            answered: samples.answered(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.verdict.headline())?;
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
