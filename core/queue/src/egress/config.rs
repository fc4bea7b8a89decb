//! Settings of an engine and of its flows.

use forebay_units::{Bytes, Nanos, Rate};

use super::ranking::MAX_WEIGHT;
use super::sizing::Sizing;
use crate::ConfigError;
use crate::error::within;

/// Settings of an [`Engine`](super::Engine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The largest number of flows, at most 2^26.
    pub flows: u32,
    /// Packets that the host's queue behind the engine holds. Flows wait while it is full.
    pub packets: u32,
    /// Bytes that the host's queue behind the engine holds.
    pub bytes: Bytes,
    /// Packets of one flow in the host's queue from which on the flow waits: two, as in TCP small
    /// queues (Zhao's thesis, section 5.3.2).
    pub in_host: u16,
    /// The largest number of turns of a [`poll`](super::Engine::poll).
    pub turns: u32,
    /// The size of a flow's segments.
    pub sizing: Sizing,
    /// The granularity of pacing, rounded down to a power of two.
    pub granularity: Nanos,
    /// The granularities that the timing wheel spans, as a power of two. A flow whose time lies
    /// further ahead is moved once in each span.
    pub wheel_bits: u32,
    /// How far behind its pacing time a flow may be and still catch up.
    pub credit: Nanos,
}

impl Default for Config {
    /// Returns settings for 65 536 flows, a queue of a thousand packets, and pacing to 2 us over
    /// 268 ms.
    fn default() -> Self {
        Self {
            flows: 1 << 16,
            packets: 1000,
            bytes: Bytes(4 << 20),
            in_host: 2,
            turns: 64,
            sizing: Sizing::default(),
            granularity: Nanos(1 << 11),
            wheel_bits: 17,
            credit: Nanos::from_millis(1),
        }
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("flows", u64::from(self.flows), 1, 1 << 26)?;
        within("packets", u64::from(self.packets), 1, u64::from(u32::MAX))?;
        within("bytes", self.bytes.0, 1, u64::MAX)?;
        within("in_host", u64::from(self.in_host), 1, u64::from(u16::MAX))?;
        within("turns", u64::from(self.turns), 1, 1 << 20)?;
        within("granularity", self.granularity.0, 1, 1 << 32)?;
        within("wheel_bits", u64::from(self.wheel_bits), 1, 22)?;
        self.sizing.check()
    }
}

/// Settings of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The flow's share under [`Policy::Fair`](super::Policy::Fair): between 1 and 1024.
    pub weight: u16,
    /// The flow's pacing rate, at least 1 kbit/s. A flow without one is limited by its turns only.
    pub rate: Option<Rate>,
}

impl Default for Settings {
    /// Returns the settings of a flow of weight one without a pacing rate.
    fn default() -> Self {
        Self { weight: 1, rate: None }
    }
}

/// Bits below the point of nanoseconds per byte.
pub(super) const TIME_BITS: u32 = 20;

impl Settings {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("weight", u64::from(self.weight), 1, u64::from(MAX_WEIGHT))?;
        let rate = self.rate.map_or(1000, Rate::as_bps);
        within("rate", rate, 1000, u64::MAX)
    }

    /// Returns the nanoseconds per byte, with 20 bits below the point; zero means no pacing.
    ///
    /// At a rate of 1 Tbit/s the result is within 0.01 % of the rate.
    pub(super) fn time_per_byte(&self) -> u64 {
        self.rate.map_or(0, |rate| {
            let scaled = (8_000_000_000_u128 << TIME_BITS).div_ceil(u128::from(rate.as_bps()));
            scaled as u64
        })
    }
}
