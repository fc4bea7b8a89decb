//! What a sendbox writes down, if asked to.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_dataplane::packet_log::{PacketLog, Record};
use forebay_dataplane::record::Tick;

use crate::Error;

/// Records of packets: 16 bytes each, so at most 1.6 GB.
const MAX_PACKETS: u64 = 100_000_000;
/// Ticks: some 200 bytes each; a day of one bundle.
const MAX_TICKS: u64 = 10_000_000;

/// Files to write.
#[derive(Clone, Debug, Default)]
pub struct LogPaths {
    /// Every packet through a bundle's queue (see [`forebay_dataplane::packet_log`]).
    pub packets: Option<PathBuf>,
    /// Every tick of every controller, a line of JSON each ([`Tick`]).
    pub ticks: Option<PathBuf>,
    /// The account of all packets, at the end.
    pub counters: Option<PathBuf>,
}

pub(super) struct Logs {
    packets: Option<(PacketLog, PathBuf)>,
    ticks: Option<(BufWriter<File>, PathBuf)>,
    ticks_left: u64,
}

impl Logs {
    pub(super) fn create(paths: &LogPaths) -> Result<Self, Error> {
        let packets = match &paths.packets {
            Some(p) => Some((PacketLog::create(p, MAX_PACKETS).map_err(at(p))?, p.clone())),
            None => None,
        };
        let ticks = match &paths.ticks {
            Some(p) => Some((BufWriter::new(File::create(p).map_err(at(p))?), p.clone())),
            None => None,
        };
        Ok(Self { packets, ticks, ticks_left: MAX_TICKS })
    }

    pub(super) fn packet(&mut self, record: &Record) -> Result<(), Error> {
        match &mut self.packets {
            Some((log, path)) => log.push(record).map_err(at(path)),
            None => Ok(()),
        }
    }

    /// Whether ticks are asked for: making a record costs something.
    pub(super) fn wants_ticks(&self) -> bool {
        self.ticks.is_some() && self.ticks_left > 0
    }

    pub(super) fn tick(&mut self, tick: &Tick) -> Result<(), Error> {
        self.ticks_left = self.ticks_left.saturating_sub(1);
        match &mut self.ticks {
            Some((out, path)) => serde_json::to_writer(&mut *out, tick)
                .map_err(Into::into)
                .and_then(|()| out.write_all(b"\n"))
                .map_err(at(path)),
            None => Ok(()),
        }
    }

    pub(super) fn finish(self) -> Result<(), Error> {
        if let Some((log, path)) = self.packets {
            let left_out = log.finish().map_err(at(&path))?;
            if left_out > 0 {
                tracing::warn!("{}: {left_out} packets past the limit left out", path.display());
            }
        }
        if let Some((mut out, path)) = self.ticks {
            out.flush().map_err(at(&path))?;
        }
        Ok(())
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::Write { path: path.to_owned(), source }
}
