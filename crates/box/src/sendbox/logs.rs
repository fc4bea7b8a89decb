//! What a sendbox writes down, if asked to.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_dataplane::packet_log::{PacketLog, Record};
use forebay_dataplane::record::{Event, Tick};
use serde::Serialize;

use crate::Error;

/// Records of packets: 16 bytes each, so at most 1.6 GB.
const MAX_PACKETS: u64 = 100_000_000;
/// Ticks: some 200 bytes each; a day of one bundle.
const MAX_TICKS: u64 = 10_000_000;
/// Events: some 300 bytes each.
const MAX_EVENTS: u64 = 10_000_000;

/// Files to write.
#[derive(Clone, Debug, Default)]
pub struct LogPaths {
    /// Every packet through a bundle's queue (see [`forebay_dataplane::packet_log`]).
    pub packets: Option<PathBuf>,
    /// Every tick of every controller, a line of JSON each ([`Tick`]).
    pub ticks: Option<PathBuf>,
    /// Every decision of every controller with its reason, a line of JSON each ([`Event`]).
    pub events: Option<PathBuf>,
    /// The account of all packets, at the end.
    pub counters: Option<PathBuf>,
}

pub(super) struct Logs {
    packets: Option<(PacketLog, PathBuf)>,
    ticks: Option<Lines>,
    events: Option<Lines>,
}

impl Logs {
    pub(super) fn create(paths: &LogPaths) -> Result<Self, Error> {
        let packets = match &paths.packets {
            Some(p) => Some((PacketLog::create(p, MAX_PACKETS).map_err(at(p))?, p.clone())),
            None => None,
        };
        let lines = |path: &Option<PathBuf>, limit| {
            path.as_ref().map(|p| Lines::create(p, limit)).transpose()
        };
        Ok(Self {
            packets,
            ticks: lines(&paths.ticks, MAX_TICKS)?,
            events: lines(&paths.events, MAX_EVENTS)?,
        })
    }

    pub(super) fn packet(&mut self, record: &Record) -> Result<(), Error> {
        match &mut self.packets {
            Some((log, path)) => log.push(record).map_err(at(path)),
            None => Ok(()),
        }
    }

    /// Writes down what `tick` makes, if ticks are asked for: making one costs something.
    pub(super) fn tick(&mut self, tick: impl FnOnce() -> Tick) -> Result<(), Error> {
        self.ticks.as_mut().map_or(Ok(()), |lines| lines.push(tick))
    }

    /// Likewise for events.
    pub(super) fn event(&mut self, event: impl FnOnce() -> Event) -> Result<(), Error> {
        self.events.as_mut().map_or(Ok(()), |lines| lines.push(event))
    }

    pub(super) fn finish(self) -> Result<(), Error> {
        if let Some((log, path)) = self.packets {
            let left_out = log.finish().map_err(at(&path))?;
            if left_out > 0 {
                tracing::warn!("{}: {left_out} packets past the limit left out", path.display());
            }
        }
        self.ticks.into_iter().chain(self.events).try_for_each(Lines::finish)
    }
}

/// A file of JSON lines that does not outgrow its limit.
struct Lines {
    out: BufWriter<File>,
    path: PathBuf,
    room: u64,
}

impl Lines {
    fn create(path: &Path, limit: u64) -> Result<Self, Error> {
        let file = File::create(path).map_err(at(path))?;
        Ok(Self { out: BufWriter::new(file), path: path.to_owned(), room: limit })
    }

    fn push<T: Serialize>(&mut self, record: impl FnOnce() -> T) -> Result<(), Error> {
        if self.room == 0 {
            return Ok(());
        }
        self.room -= 1;
        serde_json::to_writer(&mut self.out, &record())
            .map_err(Into::into)
            .and_then(|()| self.out.write_all(b"\n"))
            .map_err(at(&self.path))
    }

    fn finish(mut self) -> Result<(), Error> {
        self.out.flush().map_err(at(&self.path))
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::Write { path: path.to_owned(), source }
}
