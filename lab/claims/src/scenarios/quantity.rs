//! The quantity that a figure is taken from: a measure, of a part of a run.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::sizes::Sizes;
#[cfg(doc)]
use forebay_lab::analysis::Intake;

/// A measure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The completion time of requests over the ideal. Seeds are pooled.
    Slowdown,
    /// The completion time of requests, in milliseconds. Seeds are pooled.
    CompletionTime,
    /// The round trips of closed loops, in milliseconds. Seeds are pooled.
    RoundTrip,
    /// The error of the sendbox's new estimates of the round-trip time, in milliseconds. Seeds are
    /// pooled.
    RttError,
    /// The error of the sendbox's new estimates of the receive rate, in Mbit/s. Seeds are pooled.
    ReceiveRateError,
    /// The wait of packets at the bottleneck, in milliseconds.
    BottleneckQueue,
    /// The share of the bottleneck's rate that the frames took, in per cent.
    Share,
    /// The share of packets through the bottleneck that its queue marked, in per cent.
    Marked,
    /// The share of packets at the bottleneck that its queue dropped, in per cent.
    Dropped,
    /// The window of a backlogged flow in full frames: the rate of its traffic at the bottleneck
    /// over the number of flows, times the round trip on the empty path plus the mean wait.
    Window,
    /// The wait of packets at the sendbox, in milliseconds; zero where it has no queue.
    SendboxQueue,
    /// The sum of the waits at the bottleneck and at the sendbox, each a figure by itself, in
    /// milliseconds.
    Queues,
    /// The payload that reached receivers, in Mbit/s.
    Goodput,
    /// The share of feedback out of order, in per cent.
    OutOfOrder,
    /// The share of time in which bundles were in a mode, in per cent.
    Mode,
    /// Jain's index of the goodput of flows, the mean over whole seconds: 1 if all have the same,
    /// 1/n if one of n has all (Jain, Chiu and Hawe, DEC-TR-301, 1984).
    Fairness,
    /// The seconds until that index is at least 0.95 in five consecutive seconds; the whole time if
    /// it never is.
    FairAfter,
    /// The longest time without a break in which receivers read less than in the run it is compared
    /// with, in seconds ([`Intake::worse_for`]). The longest of all seeds counts.
    WorseFor,
}

impl Measure {
    /// The unit; empty for ratios.
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

    /// Whether a run has a distribution of the measure, so that a statistic must be named as `at`.
    pub const fn is_distribution(self) -> bool {
        self.is_pooled()
            || matches!(self, Self::BottleneckQueue | Self::SendboxQueue | Self::Queues)
    }

    /// Whether the values of all seeds are pooled. Packets are too many for that: for queues, and
    /// for measures with one value a run, the median of the seeds counts.
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

    /// Whether the measure compares a run with another of the same seed.
    pub const fn is_comparison(self) -> bool {
        matches!(self, Self::WorseFor)
    }

    /// Whether the measure is of requests, which have sizes.
    pub const fn is_of_requests(self) -> bool {
        matches!(self, Self::Slowdown | Self::CompletionTime)
    }

    /// Whether the measure can be limited to a traffic by name.
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

    /// Whether the measure can be limited to a bundle by name.
    pub const fn is_by_bundle(self) -> bool {
        matches!(self, Self::SendboxQueue | Self::Mode)
    }

    /// Whether the measure is of packets at the bottleneck.
    pub const fn is_at_bottleneck(self) -> bool {
        matches!(
            self,
            Self::BottleneckQueue | Self::Share | Self::Marked | Self::Dropped | Self::Window
        )
    }
}

/// A statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Statistic {
    /// The value that this many per cent do not exceed.
    Percentile(u8),
    /// The mean of all values.
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

/// A quantity that is taken from a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    /// The measure of a run.
    pub measure: Measure,
    /// The statistic of the measure's distribution; [`Statistic::Mean`] where it has none.
    pub at: Statistic,
    /// The traffics that count; all if there are none.
    pub traffic: Vec<String>,
    /// The phase that counts; the whole measured time if there is none.
    pub phase: Option<String>,
    /// The size of the requests that count.
    pub size: Sizes,
    /// The mode for [`Measure::Mode`].
    pub mode: String,
    /// The name of the bundle that counts; all bundles if there is none. Waits at its sendbox are
    /// then those of its ticks.
    pub bundle: Option<String>,
}

/// The quantity in words, such as `slowdown, p50, of web`.
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
        if let Some(bundle) = &self.bundle {
            write!(f, ", bundle {bundle}")?;
        }
        Ok(())
    }
}

impl Quantity {
    /// Whether the traffic of this name counts.
    pub fn is_of(&self, traffic: &str) -> bool {
        self.traffic.is_empty() || self.traffic.iter().any(|t| t == traffic)
    }
}
