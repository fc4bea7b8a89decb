//! What a figure is taken from: which measure, of which part of a run.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

#[cfg(doc)]
use forebay_lab::analysis::Intake;
use forebay_lab::analysis::Size;

/// What is measured in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Requests' completion time over the ideal. Seeds are pooled.
    Slowdown,
    /// Requests' completion time, in milliseconds. Seeds are pooled.
    CompletionTime,
    /// Closed loops' round trips, in milliseconds. Seeds are pooled.
    RoundTrip,
    /// How far the sendbox's new estimates of the round-trip time were from the truth, in
    /// milliseconds. Seeds are pooled.
    RttError,
    /// The same of the receive rate, in Mbit/s. Seeds are pooled.
    ReceiveRateError,
    /// Packets' wait at the bottleneck, in milliseconds.
    BottleneckQueue,
    /// The share of the bottleneck's rate that frames had, in per cent.
    Share,
    /// The share of packets through the bottleneck that its queue marked, in per cent.
    Marked,
    /// The share of packets that came to the bottleneck and that its queue dropped, in per cent.
    Dropped,
    /// A flow's window in full frames: its traffic's rate at the bottleneck, divided by its flows, times
    /// the round trip on the empty path and the mean wait. Of backlogged traffic.
    Window,
    /// Packets' wait at the sendbox, in milliseconds; zero where it has no queue.
    SendboxQueue,
    /// The sum of the two, each by itself, in milliseconds.
    Queues,
    /// Payload that reached receivers, in Mbit/s.
    Goodput,
    /// The share of feedback that came out of order, in per cent.
    OutOfOrder,
    /// The share of time that bundles were in a mode, in per cent.
    Mode,
    /// Jain's index of the flows' goodput, the mean over whole seconds: 1 if all have the same, 1/n if
    /// one of n has all (Jain, Chiu and Hawe, DEC-TR-301, 1984).
    Fairness,
    /// Seconds until that index is at least 0.95 in five seconds that follow each other; all of the
    /// time if it never is.
    FairAfter,
    /// Seconds: the longest time without a break in which receivers read less than in the run that it
    /// is held against ([`Intake::worse_for`]). The longest of all seeds counts.
    WorseFor,
}

impl Measure {
    /// Its unit; empty for ratios.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Slowdown | Self::Fairness | Self::Window => "",
            Self::CompletionTime
            | Self::RoundTrip
            | Self::RttError
            | Self::BottleneckQueue
            | Self::SendboxQueue
            | Self::Queues => "ms",
            Self::ReceiveRateError | Self::Goodput => "Mbit/s",
            Self::OutOfOrder | Self::Mode | Self::Share | Self::Marked | Self::Dropped => "%",
            Self::FairAfter | Self::WorseFor => "s",
        }
    }

    /// Whether a run has a distribution of it, so that one must say what of that: `at`.
    pub const fn is_distribution(self) -> bool {
        self.is_pooled()
            || matches!(self, Self::BottleneckQueue | Self::SendboxQueue | Self::Queues)
    }

    /// Whether the values of all seeds are put together. Packets are too many for that: of queues, the
    /// median over the seeds' own figures counts, as for what a run has a single value of.
    pub const fn is_pooled(self) -> bool {
        matches!(
            self,
            Self::Slowdown
                | Self::CompletionTime
                | Self::RoundTrip
                | Self::RttError
                | Self::ReceiveRateError
        )
    }

    /// Whether it is of a run held against another with the same seed, and not of one run.
    pub const fn is_comparison(self) -> bool {
        matches!(self, Self::WorseFor)
    }

    /// Whether it is of requests, which have sizes.
    pub const fn is_of_requests(self) -> bool {
        matches!(self, Self::Slowdown | Self::CompletionTime)
    }

    /// Whether it is told by the traffic's name.
    pub const fn is_by_traffic(self) -> bool {
        self.is_of_requests()
            || matches!(
                self,
                Self::RoundTrip
                    | Self::Goodput
                    | Self::Fairness
                    | Self::FairAfter
                    | Self::SendboxQueue
                    | Self::Queues
            )
            || self.is_at_bottleneck()
    }

    /// Whether it is of packets at the bottleneck.
    pub const fn is_at_bottleneck(self) -> bool {
        matches!(
            self,
            Self::BottleneckQueue | Self::Share | Self::Marked | Self::Dropped | Self::Window
        )
    }
}

/// What of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// What this many per cent do not exceed.
    Percentile(u8),
    /// The mean.
    Mean,
}

impl FromStr for Statistic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_prefix('p').and_then(|p| p.parse::<u8>().ok());
        match (text, percent) {
            ("mean", _) => Ok(Self::Mean),
            (_, Some(percent @ 0..=100)) => Ok(Self::Percentile(percent)),
            _ => Err(format!("`{text}` is neither \"mean\" nor \"p0\" to \"p100\"")),
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(percent) => write!(f, "p{percent}"),
            Self::Mean => f.write_str("mean"),
        }
    }
}

/// What is taken from a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// Which measure.
    pub measure: Measure,
    /// What of its distribution; [`Statistic::Mean`] where there is none.
    pub at: Statistic,
    /// Of these traffics; of all if there are none.
    pub traffic: Vec<String>,
    /// Of this phase; of all that is measured if there is none.
    pub phase: Option<String>,
    /// Of requests of this size.
    pub size: Size,
    /// For [`Measure::Mode`]: which.
    pub mode: String,
}

/// In words: `slowdown p50 of web`.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.measure {
            Measure::Slowdown => "slowdown",
            Measure::CompletionTime => "completion time",
            Measure::RoundTrip => "round trip",
            Measure::RttError => "error of the round-trip time",
            Measure::ReceiveRateError => "error of the receive rate",
            Measure::BottleneckQueue => "wait at the bottleneck",
            Measure::Share => "share of the bottleneck",
            Measure::Marked => "marked",
            Measure::Dropped => "dropped",
            Measure::Window => "window",
            Measure::SendboxQueue => "wait at the sendbox",
            Measure::Queues => "wait in both queues",
            Measure::Goodput => "goodput",
            Measure::OutOfOrder => "feedback out of order",
            Measure::Mode => "time in the mode",
            Measure::Fairness => "Jain's index",
            Measure::FairAfter => "time until fair",
            Measure::WorseFor => "longest time worse",
        };
        f.write_str(name)?;
        if self.measure.is_distribution() {
            write!(f, ", {}", self.at)?;
        }
        if !self.traffic.is_empty() {
            write!(f, ", of {}", self.traffic.join(" and "))?;
        }
        Ok(())
    }
}

impl Quantity {
    /// Whether `traffic` counts.
    pub fn is_of(&self, traffic: &str) -> bool {
        self.traffic.is_empty() || self.traffic.iter().any(|t| t == traffic)
    }
}
