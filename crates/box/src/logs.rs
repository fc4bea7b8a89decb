//! What boxes write down, if asked to: files that do not outgrow their limits.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_records::packet_log::{PacketLog, Record};
use serde::Serialize;

use crate::Error;

/// Records of packets: 16 bytes each, so at most 1.6 GB.
const MAX_PACKETS: u64 = 100_000_000;

/// Every packet through a box's queues (see [`forebay_records::packet_log`]).
pub(crate) struct Packets(Option<(PacketLog, PathBuf)>);

impl Packets {
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, Error> {
        let create = |p: &Path| {
            let log = PacketLog::create(p, MAX_PACKETS).map_err(at(p))?;
            Ok((log, p.to_owned()))
        };
        path.map(create).transpose().map(Self)
    }

    pub(crate) fn push(&mut self, record: &Record) -> Result<(), Error> {
        match &mut self.0 {
            Some((log, path)) => log.push(record).map_err(at(path)),
            None => Ok(()),
        }
    }

    pub(crate) fn finish(self) -> Result<(), Error> {
        if let Some((log, path)) = self.0 {
            let left_out = log.finish().map_err(at(&path))?;
            if left_out > 0 {
                tracing::warn!("{}: {left_out} packets past the limit left out", path.display());
            }
        }
        Ok(())
    }
}

/// A file of JSON lines that does not outgrow its limit; nothing where none is asked for.
pub(crate) struct Lines(Option<Open>);

struct Open {
    out: BufWriter<File>,
    path: PathBuf,
    room: u64,
}

impl Lines {
    pub(crate) fn create(path: Option<&Path>, limit: u64) -> Result<Self, Error> {
        let create = |p: &Path| {
            let out = BufWriter::new(File::create(p).map_err(at(p))?);
            Ok(Open { out, path: p.to_owned(), room: limit })
        };
        path.map(create).transpose().map(Self)
    }

    /// Writes down what `record` makes, if it is asked for: making one costs something.
    pub(crate) fn push<T: Serialize>(&mut self, record: impl FnOnce() -> T) -> Result<(), Error> {
        let Some(open) = self.0.as_mut().filter(|open| open.room > 0) else { return Ok(()) };
        open.room -= 1;
        serde_json::to_writer(&mut open.out, &record())
            .map_err(Into::into)
            .and_then(|()| open.out.write_all(b"\n"))
            .map_err(at(&open.path))
    }

    /// Hands what was written to the system: at the end, and for those who read along.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            Some(Open { out, path, .. }) => out.flush().map_err(at(path)),
            None => Ok(()),
        }
    }
}

pub(crate) fn at(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::Write { path: path.to_owned(), source }
}
