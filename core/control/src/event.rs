mod values;

pub use values::EventValue;

use core::fmt;

use forebay_units::{Bytes, Nanos, Rate};

/// The mode of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The rate is set such that the queue builds at the sendbox.
    DelayControl,
    /// Beside elastic cross traffic the bundle's flows compete for bandwidth themselves. The rate
    /// keeps at most a short queue at the sendbox.
    PassThrough,
    /// There is no limit, as without the boxes.
    Open,
}

impl Mode {
    /// Returns the name in records and on screens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DelayControl => "delay control",
            Self::PassThrough => "pass-through",
            Self::Open => "open",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The reason for a change of mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeReason {
    /// The first round-trip time and receive rate are known.
    Measured {
        /// The first round-trip time.
        rtt: Nanos,
        /// The first receive rate.
        receive_rate: Rate,
    },
    /// Boundary packets were sent and no valid feedback came.
    NoFeedback {
        /// The time without valid feedback.
        silence: Nanos,
        /// The number of boundary packets without feedback.
        unanswered: u32,
    },
    /// Feedback came, but nothing could be computed from it: it claimed the impossible, or its
    /// counters began anew with each message.
    UselessFeedback {
        /// The time without useful feedback.
        silence: Nanos,
        /// The number of useless messages.
        messages: u32,
    },
    /// Valid feedback came again.
    FeedbackReturned {
        /// The number of messages that matched a mark.
        samples: u32,
        /// The receive rate by these messages.
        receive_rate: Rate,
    },
    /// Cross traffic responds to the bundle's pulses, so it takes the bandwidth that delay control
    /// leaves.
    ElasticCross {
        /// The share of a pulse that cross traffic makes room for, in thousandths.
        response: u32,
        /// That response over the variation of cross traffic at other frequencies, in thousandths.
        contrast: u32,
        /// The bundle's receive rate.
        receive_rate: Rate,
        /// The highest recent rate at which the bottleneck served the bundle.
        highest_rate: Rate,
    },
    /// The guard found that others take the bandwidth that delay control leaves: a queue stands at
    /// the bottleneck although the bundle is held back.
    Contested {
        /// The queueing delay at the bottleneck.
        delay: Nanos,
        /// The bundle's receive rate.
        receive_rate: Rate,
        /// The highest recent rate at which the bottleneck served the bundle.
        highest_rate: Rate,
    },
    /// The bottleneck's queue drained during a drain probe, so there is no elastic cross traffic.
    InelasticCross {
        /// The share of its rate that the bundle did not use during the probe, in thousandths.
        cut: u32,
        /// The queueing delay before the probe.
        delay: Nanos,
        /// The time spent in pass-through.
        lasted: Nanos,
    },
    /// The bottleneck has no queue, and elastic cross traffic would have filled it.
    QueueGone {
        /// The time without a queue.
        emptied: Nanos,
        /// The time spent in pass-through.
        lasted: Nanos,
    },
    /// So many measurements are out of order that packets take several paths.
    SeveralPaths {
        /// The share of measurements out of order, in thousandths.
        out_of_order: u32,
    },
    /// Measurements come in order again.
    SinglePath {
        /// The share of measurements out of order, in thousandths.
        out_of_order: u32,
        /// The time that the bundle was open.
        lasted: Nanos,
    },
}

impl fmt::Display for ModeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Measured { rtt, receive_rate } => {
                write!(f, "first measured: RTT {rtt}, receive rate {receive_rate}")
            }
            Self::NoFeedback { silence, unanswered } => write!(
                f,
                "no valid feedback for {silence}, {unanswered} boundary packets unanswered; \
                 is the receivebox running?"
            ),
            Self::UselessFeedback { silence, messages } => write!(
                f,
                "no useful feedback for {silence}: {messages} messages with impossible counts or \
                 times; is the receivebox, or its clock, broken?"
            ),
            Self::FeedbackReturned { samples, receive_rate } => {
                write!(
                    f,
                    "feedback is back: {samples} messages matched, receive rate {receive_rate}"
                )
            }
            Self::ElasticCross { response, contrast, receive_rate, highest_rate } => write!(
                f,
                "elastic cross traffic: it makes room for {} % of a pulse, {} times its variation at \
                 other frequencies; receive rate {receive_rate} of {highest_rate} before",
                Thousandths(*response, 10),
                Thousandths(*contrast, 1000),
            ),
            Self::Contested { delay, receive_rate, highest_rate } => write!(
                f,
                "others take what the bundle leaves: a queue of {delay} stands at the bottleneck, \
                 receive rate {receive_rate} of {highest_rate} before"
            ),
            Self::InelasticCross { cut, delay, lasted } => write!(
                f,
                "no elastic cross traffic after {lasted}: a queue of {delay} drained while the bundle \
                 sent {} % less",
                Thousandths(*cut, 10),
            ),
            Self::QueueGone { emptied, lasted } => write!(
                f,
                "no elastic cross traffic after {lasted}: no queue at the bottleneck for {emptied}"
            ),
            Self::SeveralPaths { out_of_order } => write!(
                f,
                "packets take several paths: {} % of measurements are out of order",
                Thousandths(*out_of_order, 10)
            ),
            Self::SinglePath { out_of_order, lasted } => write!(
                f,
                "packets take one path after {lasted}: {} % of measurements are out of order",
                Thousandths(*out_of_order, 10)
            ),
        }
    }
}

/// A number of thousandths as a multiple of a unit, with one digit after the point.
struct Thousandths(u32, u32);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", f64::from(self.0) / f64::from(self.1))
    }
}

/// The phase of a controller, which is the reason for its present rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No queue was seen yet, and the window doubles every round trip.
    SlowStart,
    /// A queue stands at the bottleneck, and the window holds it at its target.
    Hold,
    /// The bundle fills the window and there is no queue, so the window grows.
    Probe,
    /// The bundle does not fill the window, which stays as it is.
    Unused,
    /// The rate is low for a moment, to measure the empty path again.
    Drain,
    /// The rate is the highest recent receive rate.
    Cruise,
    /// The rate is higher than that, to test whether the path serves more.
    Raise,
    /// The rate is lower than that, to drain the excess of an earlier phase.
    Lower,
    /// The controller is off; the bundle's flows compete for bandwidth themselves.
    PassThrough,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SlowStart => "slow start, no queue seen yet",
            Self::Hold => "holding the bottleneck's queue at its target",
            Self::Probe => "probing for more, no queue seen",
            Self::Unused => "the traffic does not use the rate",
            Self::Drain => "draining the queue to measure the empty path",
            Self::Cruise => "at the highest recent receive rate",
            Self::Raise => "raised to test whether the path serves more",
            Self::Lower => "lowered to drain the excess",
            Self::PassThrough => "pass-through, the flows compete themselves",
        })
    }
}

/// The reason for a change of the minimum round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinRttReason {
    /// A smaller sample came.
    Smaller,
    /// The old minimum left its window.
    Expired,
    /// The delay stayed while the rate was cut. So it is not a queue, and the path became longer.
    PathLonger,
    /// An earlier process measured it.
    Remembered,
}

impl fmt::Display for MinRttReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smaller => "a smaller sample",
            Self::Expired => "the old one left the window",
            Self::PathLonger => "the delay stayed when the rate was cut: the path became longer",
            Self::Remembered => "an earlier process measured it",
        })
    }
}

/// A claim of feedback that cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImpossibleClaim {
    /// The round-trip time is below zero: the packet answered was not sent yet.
    AnsweredBeforeSent,
    /// The receivebox's clock went back.
    TimeWentBack,
    /// Another boundary packet arrived, but the number of bytes received stayed the same.
    NothingCounted,
    /// More bytes were received since the last feedback than any link carries in that time.
    TooManyBytes {
        /// The number of bytes claimed.
        received: Bytes,
        /// The number of bytes that the fastest link carries meanwhile.
        allowed: Bytes,
    },
}

impl fmt::Display for ImpossibleClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnsweredBeforeSent => f.write_str("a round-trip time below zero"),
            Self::TimeWentBack => f.write_str("the receivebox's clock went back"),
            Self::NothingCounted => {
                f.write_str("a packet arrived, but the count of bytes received stayed the same")
            }
            Self::TooManyBytes { received, allowed } => {
                write!(f, "{received} received although a link carries at most {allowed}")
            }
        }
    }
}

/// A decision or an observation of a bundle's control loop, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The mode changed.
    ModeChanged {
        /// The mode before the change.
        from: Mode,
        /// The mode after the change.
        to: Mode,
        /// The reason for the change.
        reason: ModeReason,
    },
    /// The rate moved by a tenth or more since the last such event.
    RateSet {
        /// The rate of the last such event; `None` if there was no limit.
        from: Option<Rate>,
        /// The present rate.
        to: Rate,
        /// The controller's phase.
        phase: Phase,
    },
    /// The epoch size changed.
    EpochChanged {
        /// The size before, in packets.
        from: u32,
        /// The size now, in packets.
        to: u32,
        /// A quarter of a minimum RTT in packets, which the size follows.
        wanted: u32,
        /// The smallest size that keeps feedback within its share of the bytes.
        least: u32,
    },
    /// The minimum round-trip time changed by a hundredth or more.
    MinRttChanged {
        /// The minimum of the last such event; `None` at the first.
        from: Option<Nanos>,
        /// The present minimum.
        to: Nanos,
        /// The reason for the change.
        reason: MinRttReason,
    },
    /// The guard raised the rate for a moment and saw whether more arrived.
    GuardTested {
        /// The receive rate before.
        before: Rate,
        /// The send rate of the test.
        sent: Rate,
        /// The receive rate of what the test sent.
        received: Rate,
        /// Whether more arrived: then holding the bundle back did not help.
        followed: bool,
    },
    /// The receivebox's counters started anew.
    ReceiveboxRestarted,
    /// The receivebox counts more than was sent, since somebody else sends to the bundle's
    /// prefixes. This is reported at most once a minute.
    ExcessReceived {
        /// The bytes that the bundle sent between two boundary packets.
        sent: Bytes,
        /// The bytes that the receivebox counted between the same two packets.
        received: Bytes,
        /// The time between these packets.
        lasted: Nanos,
    },
    /// Feedback that made an impossible claim was ignored. This is reported at most once a second.
    ImpossibleFeedback {
        /// The claim that cannot be true.
        claim: ImpossibleClaim,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ModeChanged { from, to, reason } => write!(f, "mode {from} -> {to}: {reason}"),
            Self::RateSet { from: Some(from), to, phase } => {
                write!(f, "rate {from} -> {to}: {phase}")
            }
            Self::RateSet { from: None, to, phase } => write!(f, "rate unlimited -> {to}: {phase}"),
            Self::EpochChanged { from, to, wanted, least } => write!(
                f,
                "epoch {from} -> {to} packets: a quarter of the minimum RTT is {wanted} packets, \
                 the feedback budget allows {least} or more"
            ),
            Self::MinRttChanged { from: Some(from), to, reason } => {
                write!(f, "minimum RTT {from} -> {to}: {reason}")
            }
            Self::MinRttChanged { from: None, to, reason: reason @ MinRttReason::Remembered } => {
                write!(f, "minimum RTT {to}: {reason}")
            }
            Self::MinRttChanged { from: None, to, .. } => {
                write!(f, "minimum RTT {to}: the first sample")
            }
            Self::GuardTested { before, sent, received, followed } => {
                let verdict = if *followed {
                    "holding back did not help, so the rate rises"
                } else {
                    "the path has no more"
                };
                write!(
                    f,
                    "test: {before} arrived, then {sent} was sent and {received} arrived: {verdict}"
                )
            }
            Self::ReceiveboxRestarted => f.write_str(
                "the receivebox restarted or its clock was set: its counters start anew",
            ),
            Self::ExcessReceived { sent, received, lasted } => {
                let excess = received.saturating_sub(*sent).as_f64() / sent.as_f64().max(1.0);
                write!(
                    f,
                    "the receivebox counts {:.0} % more than was sent for {lasted}: somebody else \
                     sends to this bundle's prefixes; set `sources` there, or filter the traffic",
                    excess * 100.0
                )
            }
            Self::ImpossibleFeedback { claim } => write!(f, "feedback ignored: {claim}"),
        }
    }
}
