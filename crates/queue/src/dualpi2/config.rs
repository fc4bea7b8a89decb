use forebay_units::{Bytes, Nanos, Rate};

use super::native::Ramp;
use super::scheduler::Schedule;
use crate::error::within;
use crate::flow_hash::DEFAULT_SEED;
use crate::pi2::Params;
use crate::{ConfigError, Limit, Marking};

/// Which delay the controller holds at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The greater of the two, so that an L queue that does not react is controlled too (RFC 9332
    /// Figure 8, line 2a).
    Greatest,
    /// The C queue's, and the L queue's only while there is no classic packet.
    ClassicFirst,
}

/// What happens once every L4S packet is marked (RFC 9332 section 4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saturation {
    /// Packets of both queues are dropped with the classic probability, ECN or not.
    Drop,
    /// Probabilities stay where they are and delay grows, until the limit is reached.
    Delay,
}

/// How a [`super::DualPi2`] is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Packets that may wait in both queues together.
    pub limit: u32,
    /// Bytes that may wait in both queues together, if limited; see [`Config::for_link`].
    pub bytes: Option<Bytes>,
    /// The controller's parameters.
    pub params: Params,
    /// Which delay the controller is driven by.
    pub input: Input,
    /// k, the marks of L4S traffic for the root of the drops of classic traffic (RFC 9332 section
    /// 2.5.1).
    pub coupling: f64,
    /// p_Cmax, the classic probability at which overload begins; by default 1/k^2, where every L4S
    /// packet is marked (RFC 9332 Figure 2, line 11).
    pub max_classic: Option<f64>,
    /// What happens then.
    pub on_saturation: Saturation,
    /// Overload that is back before this much time without it counts as the same episode (RFC 9332
    /// section 2.5.2.3).
    pub overload_hold: Nanos,
    /// The L queue's own AQM.
    pub native: Ramp,
    /// How packets are chosen for marks and drops.
    pub marking: Marking,
    /// Which queue goes next.
    pub schedule: Schedule,
    /// Packets of this class go to the L queue whatever their ECN field (RFC 9332 section 2.3).
    pub low_latency_class: Option<u8>,
    /// Packets of this class go to the C queue whatever their ECN field, unless the class is
    /// `low_latency_class` too.
    pub classic_class: Option<u8>,
    /// Something else keeps traffic without ECN in the L queue within bounds: it passes untouched
    /// (RFC 9332 section 2.5.1.1).
    pub queue_protection: bool,
    /// A full frame, 1514 bytes by default.
    pub mtu: Bytes,
    /// Seeds the dice.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self::rfc9332()
    }
}

impl Config {
    /// The example of RFC 9332 appendix A, with 10 000 packets as in Linux instead of 250 ms of a
    /// link rate that is not known here.
    #[must_use]
    pub fn rfc9332() -> Self {
        Self {
            limit: 10_000,
            bytes: None,
            params: Params::default(),
            input: Input::Greatest,
            coupling: 2.0,
            max_classic: None,
            on_saturation: Saturation::Drop,
            overload_hold: Nanos::from_secs(1),
            native: Ramp {
                threshold: Nanos::from_micros(800),
                range: Nanos::from_micros(400),
                min_packets: 2,
            },
            marking: Marking::Deterministic,
            schedule: Schedule::RoundRobin { low_latency: 15, classic: 1 },
            low_latency_class: None,
            classic_class: None,
            queue_protection: false,
            mtu: Bytes(1514),
            seed: DEFAULT_SEED,
        }
    }

    /// The configuration of De Schepper, Albisser, Tilmans and Briscoe, "Dual queue coupled AQM:
    /// deployable very low queuing delay for all", 2017, Table 1.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            limit: 40_000,
            params: Params {
                target: Nanos::from_millis(15),
                tupdate: Nanos::from_millis(16),
                alpha: 5.0 / 16.0,
                beta: 50.0 / 16.0,
            },
            input: Input::ClassicFirst,
            native: Ramp { threshold: Nanos::from_millis(1), range: Nanos::ZERO, min_packets: 2 },
            marking: Marking::Random,
            schedule: Schedule::TimeShifted { shift: Nanos::from_millis(30) },
            ..Self::rfc9332()
        }
    }

    /// As Linux (6.17, `sch_dualpi2`) sets it up, for comparison. What it does otherwise: it looks at
    /// how much waits behind a packet when that comes, and this when it goes.
    #[must_use]
    pub fn linux() -> Self {
        Self {
            params: Params {
                target: Nanos::from_millis(15),
                tupdate: Nanos::from_millis(16),
                alpha: 41.0 / 256.0,
                beta: 819.0 / 256.0,
            },
            native: Ramp { threshold: Nanos::from_millis(1), range: Nanos::ZERO, min_packets: 0 },
            marking: Marking::Random,
            schedule: Schedule::RoundRobin { low_latency: 9, classic: 1 },
            ..Self::rfc9332()
        }
    }

    /// Limits what waits to 250 ms at `rate` (RFC 9332 Figure 2, line 5), but not below four full
    /// frames.
    #[must_use]
    pub fn for_link(self, rate: Rate) -> Self {
        let bytes = rate.bytes_in(Nanos::from_millis(250)).max(Bytes(4 * self.mtu.0));
        Self { limit: Limit::MAX_PACKETS, bytes: Some(bytes), ..self }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("limit", u64::from(self.limit), 1, u64::from(Limit::MAX_PACKETS))?;
        within("mtu", self.mtu.0, 1, u64::from(u32::MAX))?;
        if let Some(bytes) = self.bytes {
            within("bytes", bytes.0, self.mtu.0, u64::MAX)?;
        }
        within("overload_hold", self.overload_hold.0, 0, Params::MAX_TIME.0)?;
        self.params.check()?;
        self.native.check()?;
        self.schedule.check()
    }
}
