use forebay_units::{Nanos, Rate};

use crate::event::{Mode, Phase};

/// The state of a bundle's control loop, for status and logs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// The present mode.
    pub mode: Mode,
    /// The controller's phase; `None` in open mode.
    pub phase: Option<Phase>,
    /// The rate limit; `None` without a limit.
    pub rate: Option<Rate>,
    /// The latest round-trip time.
    pub rtt: Option<Nanos>,
    /// The minimum round-trip time.
    pub min_rtt: Option<Nanos>,
    /// The time since a sample was as good as the minimum, at the last tick.
    pub min_rtt_age: Option<Nanos>,
    /// The standing round-trip time.
    pub standing_rtt: Option<Nanos>,
    /// The send rate S over about a round trip.
    pub send_rate: Option<Rate>,
    /// The receive rate R over about a round trip.
    pub receive_rate: Option<Rate>,
    /// The share of packets lost over about a round trip.
    pub loss: Option<f64>,
    /// The best estimate of the bottleneck's rate: the highest recent rate at which it served the
    /// bundle, or a higher rate that the pulses show.
    pub bottleneck_rate: Option<Rate>,
    /// Whether the bundle sends in pulses.
    pub pulsing: bool,
    /// The response of cross traffic to the pulses; `None` without pulses or while they are not
    /// visible.
    pub elasticity: Option<Elasticity>,
    /// The share of measurements out of order, 0 to 1; `None` if there are too few.
    pub out_of_order: Option<f64>,
    /// The epoch size in packets.
    pub epoch: u32,
    /// The number of marks that wait for feedback.
    pub marks_outstanding: u32,
    /// The counters since the start.
    pub counters: Counters,
}

/// The response of cross traffic to the bundle's pulses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elasticity {
    /// The share of a pulse that cross traffic makes room for: 0 for inelastic traffic, 1 or more
    /// for traffic that is clocked by its acknowledgements.
    pub response: f64,
    /// The response over the variation of cross traffic at other frequencies: 1 for inelastic
    /// traffic.
    pub contrast: f64,
}

/// The counters of a control loop since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Feedback messages that gave a sample.
    pub accepted: u64,
    /// Feedback messages that match no mark: boundaries of a smaller epoch size, expired marks, or
    /// invalid fingerprints.
    pub unmatched: u64,
    /// Feedback messages that made an impossible claim.
    pub impossible: u64,
    /// Feedback messages for a fingerprint that was sent twice.
    pub ambiguous: u64,
    /// Feedback messages for a mark older than the newest answered one.
    pub out_of_order: u64,
    /// Marks that got no feedback before they expired.
    pub marks_expired: u64,
    /// Boundary packets that were not marked because the ring of marks was full.
    pub marks_refused: u64,
    /// Restarts of the receivebox that were detected.
    pub restarts: u64,
    /// Events that were dropped because they were not polled in time.
    pub events_lost: u64,
}
