//! Optional logs of boxes: files of bounded size.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_records::packet_log::{PacketLog, Record};
use serde::Serialize;

use crate::Error;

/// The largest number of packet records: 16 bytes each, so at most 1.6 GB.
const MAX_PACKETS: u64 = 100_000_000;

/// The log of every packet through a box's queues (see [`forebay_records::packet_log`]).
pub(crate) struct Packets(Option<(PacketLog, PathBuf)>);

impl Packets {
    /// Creates the log at `path`; without a path nothing is logged.
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, Error> {
        let create = |p: &Path| {
            let log = PacketLog::create(p, MAX_PACKETS).map_err(at(p))?;
            Ok((log, p.to_owned()))
        };
        path.map(create).transpose().map(Self)
    }

    /// Appends a packet's record, if the log is on.
    pub(crate) fn push(&mut self, record: &Record) -> Result<(), Error> {
        match &mut self.0 {
            Some((log, path)) => log.push(record).map_err(at(path)),
            None => Ok(()),
        }
    }

    /// Completes the file, and warns if the limit omitted packets.
    pub(crate) fn finish(self) -> Result<(), Error> {
        if let Some((log, path)) = self.0 {
            let omitted = log.finish().map_err(at(&path))?;
            if omitted > 0 {
                tracing::warn!(
                    "{}: {omitted} packets beyond the limit are not logged",
                    path.display()
                );
            }
        }
        Ok(())
    }
}

/// A file of JSON lines of bounded length; without a path nothing is written.
pub(crate) struct Lines(Option<Open>);

/// An open file with its remaining number of lines.
struct Open {
    out: BufWriter<File>,
    path: PathBuf,
    room: u64,
}

impl Lines {
    /// Creates the file at `path` for at most `limit` lines.
    pub(crate) fn create(path: Option<&Path>, limit: u64) -> Result<Self, Error> {
        let create = |p: &Path| {
            let out = BufWriter::new(File::create(p).map_err(at(p))?);
            Ok(Open { out, path: p.to_owned(), room: limit })
        };
        path.map(create).transpose().map(Self)
    }

    /// Writes the record that `record` makes. Without a file `record` is not called, which saves
    /// time.
    pub(crate) fn push<T: Serialize>(&mut self, record: impl FnOnce() -> T) -> Result<(), Error> {
        let Some(open) = self.0.as_mut().filter(|open| open.room > 0) else { return Ok(()) };
        open.room -= 1;
        serde_json::to_writer(&mut open.out, &record())
            .map_err(Into::into)
            .and_then(|()| open.out.write_all(b"\n"))
            .map_err(at(&open.path))
    }

    /// Flushes the buffer: at the end, and for programs that follow the file.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        match &mut self.0 {
            Some(Open { out, path, .. }) => out.flush().map_err(at(path)),
            None => Ok(()),
        }
    }
}

/// Returns a function for `map_err` that names the file.
pub(crate) fn at(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::Write { path: path.to_owned(), source }
}
