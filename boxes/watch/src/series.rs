//! What is kept: the bundles of boxes, each in one direction, and their figures.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A direction as the box sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The box sends to the peer.
    To,
    /// The box receives from the peer.
    From,
}

impl Direction {
    /// Returns the word for screens and files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::To => "to",
            Self::From => "from",
        }
    }

    pub(crate) fn of(word: &str) -> Self {
        if word == "from" { Self::From } else { Self::To }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A bundle of a box, in one direction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Series {
    /// The name of the peer or bundle.
    pub name: String,
    /// The direction, as the box sees it.
    pub direction: Direction,
    /// The box: its role and outer interface, such as `site at wan0`.
    #[serde(rename = "box")]
    pub place: String,
}

/// The mode of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// There is no limit.
    Open,
    /// The queue is held here.
    DelayControl,
    /// The flows compete themselves beside elastic traffic of others.
    PassThrough,
    /// A mode that this release does not know.
    Other,
}

impl Mode {
    /// Returns the mode of the word in [`SendStatus::mode`](forebay_records::SendStatus::mode).
    pub fn of(word: &str) -> Self {
        match word {
            "open" => Self::Open,
            "delay control" => Self::DelayControl,
            "pass-through" => Self::PassThrough,
            _ => Self::Other,
        }
    }

    /// Returns the word for screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::DelayControl => "delay control",
            Self::PassThrough => "pass-through",
            Self::Other => "another mode",
        }
    }

    /// Returns the number in the database.
    pub(crate) const fn number(self) -> i64 {
        match self {
            Self::Open => 0,
            Self::DelayControl => 1,
            Self::PassThrough => 2,
            Self::Other => 3,
        }
    }

    pub(crate) const fn numbered(number: i64) -> Self {
        match number {
            0 => Self::Open,
            1 => Self::DelayControl,
            2 => Self::PassThrough,
            _ => Self::Other,
        }
    }
}

/// The most classes of a bundle of which waits are told and kept.
pub(crate) const CLASSES: usize = 4;

/// The figures of a bundle over a second or a minute. What is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// The mode; over a minute the one that lasted longest.
    pub mode: Option<Mode>,
    /// Whether something was wrong between the boxes.
    pub trouble: bool,
    /// The rate limit in bit/s.
    pub limit_bps: Option<f64>,
    /// The rate at which the bundle left the box, or arrived if it is received, in bit/s.
    pub rate_bps: Option<f64>,
    /// The rate at which the bundle arrived at the peer, in bit/s.
    pub arrived_bps: Option<f64>,
    /// The wait in the box in milliseconds.
    pub here_ms: Option<f64>,
    /// The longest wait in the box in milliseconds.
    pub here_high_ms: Option<f64>,
    /// The wait at the bottleneck in milliseconds.
    pub there_ms: Option<f64>,
    /// The shortest wait at the bottleneck in milliseconds.
    pub there_low_ms: Option<f64>,
    /// The longest wait at the bottleneck in milliseconds.
    pub there_high_ms: Option<f64>,
    /// The mean wait here of packets of small transfers, in milliseconds.
    pub small_ms: Option<f64>,
    /// The longest wait here of a packet of a small transfer, in milliseconds.
    pub small_high_ms: Option<f64>,
    /// The mean wait here of packets of large transfers, in milliseconds.
    pub large_ms: Option<f64>,
    /// The longest wait here of a packet of a large transfer, in milliseconds.
    pub large_high_ms: Option<f64>,
    /// The mean wait here of the packets of each class, in milliseconds.
    pub classes_ms: [Option<f64>; CLASSES],
    /// The share of packets lost on the path, 0 to 1.
    pub lost: Option<f64>,
    /// The packets that left the box, or arrived if the bundle is received.
    pub packets: Option<f64>,
    /// The packets that the box's queue dropped.
    pub dropped: Option<f64>,
    /// The packets that the box's queue marked.
    pub marked: Option<f64>,
    /// The messages of the peer that were refused.
    pub refused: Option<f64>,
}

/// A time with its figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The start in seconds since 1970.
    pub at: u64,
    /// The figures from then on.
    #[serde(flatten)]
    pub sample: Sample,
}

/// The length of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Range {
    /// The last three minutes, a row a second.
    Minutes,
    /// The last hour, a row a second.
    Hour,
    /// The last day, a row a minute.
    Day,
}

impl Range {
    /// All, the shortest first.
    pub const ALL: [Self; 3] = [Self::Minutes, Self::Hour, Self::Day];

    /// Returns the word of queries.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Minutes => "minutes",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// Returns the words of links.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Minutes => "Last three minutes",
            Self::Hour => "Last hour, by the second",
            Self::Day => "Last day, by the minute",
        }
    }

    /// Returns the length in seconds.
    pub const fn seconds(self) -> u64 {
        match self {
            Self::Minutes => 180,
            Self::Hour => 3600,
            Self::Day => 86_400,
        }
    }

    /// Returns the time of a row in seconds.
    pub const fn step(self) -> u64 {
        match self {
            Self::Minutes | Self::Hour => 1,
            Self::Day => 60,
        }
    }
}
