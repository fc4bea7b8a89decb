use forebay_units::{Nanos, Rate};

use crate::event::{Mode, Phase};

/// What a bundle's loop knows and does, for status and logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// The mode.
    pub mode: Mode,
    /// The controller's phase; `None` when open.
    pub phase: Option<Phase>,
    /// The rate applied; `None` when open.
    pub rate: Option<Rate>,
    /// The latest round-trip time.
    pub rtt: Option<Nanos>,
    /// The minimum round-trip time.
    pub min_rtt: Option<Nanos>,
    /// The standing round-trip time.
    pub standing_rtt: Option<Nanos>,
    /// S over about a round trip.
    pub send_rate: Option<Rate>,
    /// R over about a round trip.
    pub receive_rate: Option<Rate>,
    /// The share of packets lost over about a round trip.
    pub loss: Option<f64>,
    /// The bottleneck's rate, as well as it is known: the highest at which it served the bundle
    /// lately, or what pulses show of it.
    pub bottleneck_rate: Option<Rate>,
    /// Whether the bundle sends in pulses.
    pub pulsing: bool,
    /// What pulses show of the cross traffic; `None` while there are none or they do not show.
    pub elasticity: Option<Elasticity>,
    /// The share of measurements that come out of order, 0 to 1; `None` while there are too few.
    pub out_of_order: Option<f64>,
    /// The epoch size in packets.
    pub epoch: u32,
    /// Marks that wait for feedback.
    pub marks_outstanding: u32,
    /// What was counted since the start.
    pub counters: Counters,
}

/// How cross traffic answers the bundle's pulses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elasticity {
    /// The share of a pulse that it makes room for: 0 for inelastic traffic, 1 and more for traffic
    /// that is clocked by what is served.
    pub response: f64,
    /// That against what cross traffic does at other frequencies: 1 for inelastic traffic.
    pub contrast: f64,
}

/// Counts since the bundle was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Feedback that gave a sample.
    pub accepted: u64,
    /// Feedback for fingerprints that no mark remembers: boundaries of a smaller epoch size, marks
    /// that expired, garbage.
    pub unmatched: u64,
    /// Feedback that claimed the impossible.
    pub impossible: u64,
    /// Feedback for a fingerprint that was sent twice.
    pub ambiguous: u64,
    /// Feedback for a mark older than the newest that was answered.
    pub out_of_order: u64,
    /// Marks that got no feedback within two seconds.
    pub marks_expired: u64,
    /// Boundary packets that were not marked because the table of marks was full.
    pub marks_refused: u64,
    /// Restarts of the receivebox that were noticed.
    pub restarts: u64,
    /// Events that were lost because nobody polled them.
    pub events_lost: u64,
}
