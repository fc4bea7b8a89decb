//! The configuration of backpressure between threads, and the construction of its two sides.

use alloc::sync::Arc;

use super::scheduler::Scheduler;
use super::source::Sources;
use super::state::State;
use crate::backpressure::Hysteresis;
use crate::error::within;
use crate::{ConfigError, Limit, ffs};

/// The configuration of backpressure between threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The number of flows; ids are below it. 1024 by default.
    pub flows: u32,
    /// Packets that fit into the scheduled buffer; 1000 by default, as a Linux interface's queue.
    pub slots: u32,
    /// Packets that one flow may have in the buffer, at most 65 535; two by default, see
    /// [`Config::in_buffer`](crate::backpressure::Config::in_buffer).
    pub in_buffer: u16,
    /// Packets that a flow may send in its turn while others wait; two by default, see
    /// [`Config::turn`](crate::backpressure::Config::turn).
    pub turn: u8,
    /// The slots that must be free before flows are resumed; an eighth of the buffer by default.
    pub hysteresis: Hysteresis,
}

impl Default for Config {
    fn default() -> Self {
        let hysteresis = Hysteresis::OneIn(8);
        Self { flows: 1024, slots: 1000, in_buffer: 2, turn: 2, hysteresis }
    }
}

/// Creates the two sides of a scheduled buffer.
///
/// # Errors
/// Fails if a setting is zero or too large.
pub fn pair(config: Config) -> Result<(Sources, Scheduler), ConfigError> {
    within("flows", u64::from(config.flows), 1, u64::from(ffs::MAX_ITEMS))?;
    within("slots", u64::from(config.slots), 1, u64::from(Limit::MAX_PACKETS))?;
    within("in_buffer", u64::from(config.in_buffer), 1, u64::from(u16::MAX))?;
    within("turn", u64::from(config.turn), 1, u64::from(u8::MAX))?;
    let state = State::new(config.flows, config.slots, config.in_buffer, config.turn);
    let state = Arc::new(state);
    let threshold = config.hysteresis.packets(config.slots);
    let scheduler = Scheduler::new(Arc::clone(&state), config.flows, threshold)?;
    Ok((Sources::new(state), scheduler))
}
