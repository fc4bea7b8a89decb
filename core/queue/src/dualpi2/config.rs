//! The configuration of DualPI2, and its profiles.

use forebay_units::{Bytes, Nanos, Rate};

use super::base::Base;
use super::bursts::BurstLimit;
use super::native::Ramp;
use super::scheduler::Schedule;
use crate::error::within;
use crate::flow_hash::DEFAULT_SEED;
use crate::pi2::Params;
use crate::{ConfigError, Limit, Marking};

/// The queue delay that the base AQM controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The greater delay of the two queues, so that unresponsive L4S traffic is controlled as well
    /// (RFC 9332 Figure 8, line 2a).
    Greatest,
    /// The C queue's delay, or the L queue's while no classic packet waits.
    ClassicFirst,
}

/// The reaction when every L4S packet is marked (RFC 9332 section 4.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saturation {
    /// Drops packets of both queues with the classic probability, whatever their ECN field.
    Drop,
    /// Keeps the probabilities, so that delay grows until the limit is reached.
    Delay,
}

/// The configuration of a [`super::DualPi2`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The limit in packets of both queues together.
    pub limit: u32,
    /// The limit in bytes of both queues together, if any; see [`Config::for_link`].
    pub bytes: Option<Bytes>,
    /// The AQM that computes the base probability, with its parameters.
    pub base: Base,
    /// The queue delay that the base AQM controls.
    pub input: Input,
    /// The coupling factor k: the ratio of the L4S marking probability to the square root of the
    /// classic drop probability (RFC 9332 section 2.5.1).
    pub coupling: f64,
    /// The classic probability p_Cmax at which overload begins; 1/k^2 by default, where every L4S
    /// packet is marked (RFC 9332 Figure 2, line 11).
    pub max_classic: Option<f64>,
    /// The reaction to overload.
    pub on_saturation: Saturation,
    /// The time without overload that ends an episode of overload (RFC 9332 section 2.5.2.3).
    pub overload_hold: Nanos,
    /// The native AQM of the L queue.
    pub native: Ramp,
    /// The way in which packets are chosen for marks and drops.
    pub marking: Marking,
    /// The scheduler between the two queues.
    pub schedule: Schedule,
    /// The class whose packets go to the L queue whatever their ECN field (RFC 9332 section 2.3).
    pub low_latency_class: Option<u8>,
    /// The class whose packets go to the C queue whatever their ECN field, unless it is also
    /// `low_latency_class`.
    pub classic_class: Option<u8>,
    /// Whether another function polices Not-ECT traffic in the L queue, which then passes without
    /// drops (RFC 9332 section 2.5.1.1).
    pub queue_protection: bool,
    /// The largest burst of a flow in the L queue, if there is a limit: flows that exceed it again
    /// and again go to the C queue.
    pub bursts: Option<BurstLimit>,
    /// The length of a full frame, 1514 bytes by default.
    pub mtu: Bytes,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self::rfc9332()
    }
}

impl Config {
    /// Returns the example configuration of RFC 9332 appendix A. The limit is 10 000 packets as in
    /// Linux, since the RFC's 250 ms need the link rate (see [`Config::for_link`]).
    #[must_use]
    pub fn rfc9332() -> Self {
        Self {
            limit: 10_000,
            bytes: None,
            base: Base::Pi2(Params::default()),
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
            bursts: None,
            mtu: Bytes(1514),
            seed: DEFAULT_SEED,
        }
    }

    /// Returns the configuration of De Schepper, Albisser, Tilmans and Briscoe, "Dual queue coupled
    /// AQM: deployable very low queuing delay for all", 2017, Table 1.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            limit: 40_000,
            base: Base::Pi2(Params {
                target: Nanos::from_millis(15),
                tupdate: Nanos::from_millis(16),
                alpha: 5.0 / 16.0,
                beta: 50.0 / 16.0,
            }),
            input: Input::ClassicFirst,
            native: Ramp { threshold: Nanos::from_millis(1), range: Nanos::ZERO, min_packets: 2 },
            marking: Marking::Random,
            schedule: Schedule::TimeShifted { shift: Nanos::from_millis(30) },
            ..Self::rfc9332()
        }
    }

    /// Returns the defaults of Linux (6.17, `sch_dualpi2`), for comparison. One difference remains:
    /// Linux checks the backlog when a packet arrives, this code when it leaves.
    #[must_use]
    pub fn linux() -> Self {
        Self {
            base: Base::Pi2(Params {
                target: Nanos::from_millis(15),
                tupdate: Nanos::from_millis(16),
                alpha: 41.0 / 256.0,
                beta: 819.0 / 256.0,
            }),
            native: Ramp { threshold: Nanos::from_millis(1), range: Nanos::ZERO, min_packets: 0 },
            marking: Marking::Random,
            schedule: Schedule::RoundRobin { low_latency: 9, classic: 1 },
            ..Self::rfc9332()
        }
    }

    /// Sets the limit to 250 ms at `rate` (RFC 9332 Figure 2, line 5), at least four full frames.
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
        self.bursts.as_ref().map_or(Ok(()), BurstLimit::check)?;
        self.base.check()?;
        self.native.check()?;
        self.schedule.check()
    }
}
