//! What a sendbox writes down about its control loops, if asked to.

use std::path::PathBuf;

use forebay_records::{Event, Tick};

use crate::Error;
use crate::logs::Lines;

/// Ticks: some 200 bytes each; a day of one bundle.
const MAX_TICKS: u64 = 10_000_000;
/// Events: some 300 bytes each.
const MAX_EVENTS: u64 = 10_000_000;

/// Files to write.
#[derive(Clone, Debug, Default)]
pub struct LogPaths {
    /// Every packet through a bundle's queue (see [`forebay_records::packet_log`]).
    pub packets: Option<PathBuf>,
    /// Every tick of every controller, a line of JSON each ([`Tick`]).
    pub ticks: Option<PathBuf>,
    /// Every decision of every controller with its reason, a line of JSON each ([`Event`]).
    pub events: Option<PathBuf>,
    /// The account of all packets, at the end.
    pub counters: Option<PathBuf>,
}

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

    /// Writes down what `tick` makes, if ticks are asked for.
    pub(super) fn tick(&mut self, tick: impl FnOnce() -> Tick) -> Result<(), Error> {
        self.ticks.push(tick)
    }

    /// Likewise for events.
    pub(super) fn event(&mut self, event: impl FnOnce() -> Event) -> Result<(), Error> {
        self.events.push(event)
    }

    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.ticks.flush()?;
        self.events.flush()
    }
}
