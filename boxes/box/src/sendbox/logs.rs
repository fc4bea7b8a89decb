//! The optional logs of a sendbox's control loops.

use std::path::PathBuf;

use forebay_records::{Event, Tick};

use crate::Error;
use crate::logs::Lines;

/// The largest number of ticks in the log: a day of one bundle, about 200 bytes each.
const MAX_TICKS: u64 = 10_000_000;
/// The largest number of events in the log: about 300 bytes each.
const MAX_EVENTS: u64 = 10_000_000;

/// The files that a sendbox writes.
#[derive(Clone, Debug, Default)]
pub struct LogPaths {
    /// The log of every packet through a bundle's queue (see [`forebay_records::packet_log`]).
    pub packets: Option<PathBuf>,
    /// The log of every tick of every control loop, a line of JSON each ([`Tick`]).
    pub ticks: Option<PathBuf>,
    /// The log of every decision of every control loop, a line of JSON each ([`Event`]).
    pub events: Option<PathBuf>,
    /// The account of all packets, written at the end.
    pub counters: Option<PathBuf>,
}

/// The logs of ticks and of events, as far as they are on.
pub(super) struct Logs {
    ticks: Lines,
    events: Lines,
}

impl Logs {
    pub(super) fn create(paths: &LogPaths) -> Result<Self, Error> {
        Ok(Self {
            ticks: Lines::create(paths.ticks.as_deref(), MAX_TICKS)?,
            events: Lines::create(paths.events.as_deref(), MAX_EVENTS)?,
        })
    }

    /// Logs the tick that `tick` makes, if ticks are logged.
    pub(super) fn tick(&mut self, tick: impl FnOnce() -> Tick) {
        self.ticks.push(tick);
    }

    /// Logs the event that `event` makes, if events are logged.
    pub(super) fn event(&mut self, event: impl FnOnce() -> Event) {
        self.events.push(event);
    }

    /// Completes both files.
    ///
    /// # Errors
    /// If records could not be written.
    pub(super) fn finish(self) -> Result<(), Error> {
        let ticks = self.ticks.finish();
        self.events.finish().and(ticks)
    }
}
