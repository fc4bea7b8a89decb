mod values;

pub use values::EventValue;

use core::fmt;

use forebay_units::{Bytes, Nanos, Rate};

/// What a bundle does with its traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The rate is set such that the queue stands at the sendbox.
    DelayControl,
    /// The bundle's flows compete for themselves beside elastic cross traffic; a short queue stays at
    /// the sendbox, so that what they are given is used.
    PassThrough,
    /// No limit: the bundle is as it would be without the boxes.
    Open,
}

impl Mode {
    /// Its name in records and on screens.
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

/// Why a bundle changed its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeReason {
    /// The first round-trip time and receive rate are known.
    Measured {
        /// The round-trip time.
        rtt: Nanos,
        /// The receive rate.
        receive_rate: Rate,
    },
    /// Boundary packets were sent and no valid feedback came.
    NoFeedback {
        /// For how long.
        silence: Nanos,
        /// How many boundary packets went unanswered.
        unanswered: u32,
    },
    /// Valid feedback came again.
    FeedbackReturned {
        /// How many messages matched.
        samples: u32,
        /// The receive rate they gave.
        receive_rate: Rate,
    },
    /// Cross traffic answers the bundle's pulses, so it takes what delay control leaves.
    ElasticCross {
        /// How much of a pulse it makes room for, in thousandths.
        response: u32,
        /// That against what cross traffic does at other frequencies, in thousandths.
        contrast: u32,
        /// R.
        receive_rate: Rate,
        /// The highest rate at which the bottleneck served the bundle lately.
        highest_rate: Rate,
    },
    /// The bottleneck's queue drained when the bundle left room, and elastic cross traffic would have
    /// taken it.
    InelasticCross {
        /// What the bundle left, of its rate, in thousandths.
        cut: u32,
        /// The queueing delay before.
        delay: Nanos,
        /// For how long the flows competed for themselves.
        lasted: Nanos,
    },
    /// The bottleneck has no queue, and elastic cross traffic would have filled it.
    QueueGone {
        /// For how long it has had none.
        emptied: Nanos,
        /// For how long the flows competed for themselves.
        lasted: Nanos,
    },
    /// So many measurements come out of order that packets take several ways.
    SeveralPaths {
        /// Their share, in thousandths.
        out_of_order: u32,
    },
    /// Measurements come in order again.
    SinglePath {
        /// The share that does not, in thousandths.
        out_of_order: u32,
        /// For how long the bundle was open.
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
                "no valid feedback for {silence}, {unanswered} boundary packets unanswered; is the receivebox running?"
            ),
            Self::FeedbackReturned { samples, receive_rate } => {
                write!(
                    f,
                    "feedback is back: {samples} messages matched, receive rate {receive_rate}"
                )
            }
            Self::ElasticCross { response, contrast, receive_rate, highest_rate } => write!(
                f,
                "elastic cross traffic: it makes room for {} % of a pulse, {} times what it does at other frequencies; receive rate {receive_rate} of {highest_rate} before",
                Thousandths(*response, 10),
                Thousandths(*contrast, 1000),
            ),
            Self::InelasticCross { cut, delay, lasted } => write!(
                f,
                "no elastic cross traffic after {lasted}: a queue of {delay} drained while the bundle sent {} % less",
                Thousandths(*cut, 10),
            ),
            Self::QueueGone { emptied, lasted } => write!(
                f,
                "no elastic cross traffic after {lasted}: no queue at the bottleneck for {emptied}"
            ),
            Self::SeveralPaths { out_of_order } => write!(
                f,
                "packets take several ways: {} % of measurements are out of order",
                Thousandths(*out_of_order, 10)
            ),
            Self::SinglePath { out_of_order, lasted } => write!(
                f,
                "packets take one way after {lasted}: {} % of measurements are out of order",
                Thousandths(*out_of_order, 10)
            ),
        }
    }
}

/// A number in thousandths over a unit of them: with one digit after the point.
struct Thousandths(u32, u32);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}", f64::from(self.0) / f64::from(self.1))
    }
}

/// Why a rate is what it is: the controller's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// No queue was seen yet: the window doubles every round trip.
    SlowStart,
    /// A queue stands at the bottleneck: the window holds it at its target.
    Hold,
    /// The bundle fills the window and no queue shows: the window grows.
    Probe,
    /// The bundle does not fill the window, which stays.
    Unused,
    /// A short dip to see the empty path again.
    Drain,
    /// The highest rate received lately.
    Cruise,
    /// More than that, to see whether it is served.
    Raise,
    /// Less than that, so that what an earlier phase sent too much can leave.
    Lower,
    /// No controller: just enough is held back to use what the bottleneck gives.
    PassThrough,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SlowStart => "slow start, no queue seen yet",
            Self::Hold => "holding the bottleneck's queue at its target",
            Self::Probe => "probing upward, no queue shows",
            Self::Unused => "the traffic does not use the rate",
            Self::Drain => "draining to see the empty path",
            Self::Cruise => "at the highest rate received lately",
            Self::Raise => "raised to see whether more is served",
            Self::Lower => "lowered to let the surplus leave",
            Self::PassThrough => "letting the flows compete",
        })
    }
}

/// Why the minimum round-trip time changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinRttReason {
    /// A smaller sample came.
    Smaller,
    /// The old one left the window.
    Expired,
    /// The delay stayed while the rate was cut, so it is not a queue: the path became longer.
    PathLonger,
}

impl fmt::Display for MinRttReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smaller => "a smaller sample",
            Self::Expired => "the old one left the window",
            Self::PathLonger => "the delay stayed when the rate was cut: the path became longer",
        })
    }
}

/// What feedback claimed that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImpossibleClaim {
    /// An answer to a packet that is not sent yet: a round-trip time below zero.
    AnsweredBeforeSent,
    /// The receivebox's clock went back.
    TimeWentBack,
    /// More bytes were received since the last feedback than were sent.
    MoreThanSent {
        /// Bytes claimed.
        received: Bytes,
        /// Bytes sent meanwhile, with an allowance for what was in flight.
        allowed: Bytes,
    },
}

impl fmt::Display for ImpossibleClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AnsweredBeforeSent => f.write_str("a round-trip time below zero"),
            Self::TimeWentBack => f.write_str("the receivebox's clock went back"),
            Self::MoreThanSent { received, allowed } => {
                write!(f, "{received} received where {allowed} at most were sent")
            }
        }
    }
}

/// Something that a bundle decided or noticed, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The mode changed.
    ModeChanged {
        /// The mode before.
        from: Mode,
        /// The mode now.
        to: Mode,
        /// Why.
        reason: ModeReason,
    },
    /// The rate moved by a tenth or more since this was last said.
    RateSet {
        /// The rate when last said.
        from: Option<Rate>,
        /// The rate now.
        to: Rate,
        /// Why.
        phase: Phase,
    },
    /// The epoch size changed.
    EpochChanged {
        /// The size before, in packets.
        from: u32,
        /// The size now, in packets.
        to: u32,
        /// A quarter of a minimum RTT in packets, what the size follows.
        wanted: u32,
        /// The least size that keeps feedback within its share of the bytes.
        least: u32,
    },
    /// The minimum round-trip time changed by a hundredth or more.
    MinRttChanged {
        /// The minimum when last said.
        from: Option<Nanos>,
        /// The minimum now.
        to: Nanos,
        /// Why.
        reason: MinRttReason,
    },
    /// The receivebox's counters began anew.
    ReceiveboxRestarted,
    /// Feedback claimed the impossible and was left out; said at most once a second.
    ImpossibleFeedback {
        /// What it claimed.
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
                "epoch {from} -> {to} packets: a quarter of the minimum RTT is {wanted} packets, the feedback budget allows {least} or more"
            ),
            Self::MinRttChanged { from: Some(from), to, reason } => {
                write!(f, "minimum RTT {from} -> {to}: {reason}")
            }
            Self::MinRttChanged { from: None, to, .. } => {
                write!(f, "minimum RTT {to}: the first sample")
            }
            Self::ReceiveboxRestarted => f.write_str(
                "the receivebox counts from anew: it was restarted, or its clock was set",
            ),
            Self::ImpossibleFeedback { claim } => write!(f, "feedback ignored: {claim}"),
        }
    }
}
