//! Optional logs of boxes: files of bounded size. A box never ends because one cannot be written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use forebay_records::HopCounters;
use forebay_records::packet_log::{PacketLog, Record};
use serde::Serialize;

use crate::Error;

/// The largest number of packet records: 16 bytes each, so at most 1.6 GB.
const MAX_PACKETS: u64 = 100_000_000;

/// The records that are skipped after one that could not be written, so that a full disk does not
/// cost a system call for every packet.
const PAUSE: u32 = 1024;

/// The log of every packet through a box's queues (see [`forebay_records::packet_log`]).
///
/// A record that cannot be written is counted and dropped.
pub(crate) struct Packets(Option<(PacketLog, Losses)>);

impl Packets {
    /// Creates the log at `path`; without a path nothing is logged.
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, Error> {
        let create = |p: &Path| {
            let log = PacketLog::create(p, MAX_PACKETS).map_err(at(p))?;
            Ok((log, Losses::new(p)))
        };
        path.map(create).transpose().map(Self)
    }

    /// Makes a log of nothing.
    pub(crate) const fn off() -> Self {
        Self(None)
    }

    /// Whether packets are logged.
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Appends a packet's record, if the log is on.
    pub(crate) fn push(&mut self, record: &Record) {
        if let Some((log, losses)) = &mut self.0
            && losses.admits()
        {
            losses.note(log.push(record));
        }
    }

    /// Completes the file, and warns if the limit omitted packets.
    ///
    /// # Errors
    /// If records could not be written, now or earlier.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let Some((log, mut losses)) = self.0 else { return Ok(()) };
        match log.finish() {
            Ok(0) => {}
            Ok(omitted) => tracing::warn!(
                "{}: {omitted} packets beyond the limit are not logged",
                losses.path.display()
            ),
            Err(e) => losses.note(Err(e)),
        }
        losses.finish()
    }
}

/// The file for the account of all packets, which is written at the end. It is opened at the start,
/// when the process still has all its rights.
pub(crate) struct Account(Option<(PathBuf, File)>);

impl Account {
    /// Creates the file at `path`; without a path nothing is written.
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, Error> {
        let create = |p: &Path| Ok((p.to_owned(), File::create(p).map_err(at(p))?));
        path.map(create).transpose().map(Self)
    }

    /// Writes the account.
    pub(crate) fn write(self, counters: &HopCounters) -> Result<(), Error> {
        let Some((path, file)) = self.0 else { return Ok(()) };
        counters.write_to(file).map_err(at(&path))
    }
}

/// A file of JSON lines of bounded length; without a path nothing is written.
///
/// A line that cannot be written is counted and dropped.
pub(crate) struct Lines(Option<Open>);

/// An open file with its remaining number of lines.
struct Open {
    out: BufWriter<File>,
    room: u64,
    losses: Losses,
}

impl Lines {
    /// Creates the file at `path` for at most `limit` lines.
    pub(crate) fn create(path: Option<&Path>, limit: u64) -> Result<Self, Error> {
        let create = |p: &Path| {
            let out = BufWriter::new(File::create(p).map_err(at(p))?);
            Ok(Open { out, room: limit, losses: Losses::new(p) })
        };
        path.map(create).transpose().map(Self)
    }

    /// Writes the record that `record` makes. Without a file `record` is not called, which saves
    /// time.
    pub(crate) fn push<T: Serialize>(&mut self, record: impl FnOnce() -> T) {
        let Some(open) = self.0.as_mut().filter(|open| open.room > 0) else { return };
        open.room -= 1;
        if !open.losses.admits() {
            return;
        }
        // The line goes out as a whole, so that a failure does not leave a part of it.
        let written = serde_json::to_vec(&record()).map_err(Into::into).and_then(|mut line| {
            line.push(b'\n');
            open.out.write_all(&line)
        });
        open.losses.note(written);
    }

    /// Flushes the buffer, for programs that follow the file.
    pub(crate) fn flush(&mut self) {
        if let Some(open) = &mut self.0
            && !open.losses.is_pausing()
        {
            let flushed = open.out.flush();
            open.losses.note(flushed);
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If lines could not be written, now or earlier.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        let Some(open) = &mut self.0 else { return Ok(()) };
        let flushed = open.out.flush();
        open.losses.note(flushed);
        self.0.map_or(Ok(()), |open| open.losses.finish())
    }
}

/// The records that a file did not take.
struct Losses {
    path: PathBuf,
    lost: u64,
    /// The number of records to skip before the next attempt.
    pause: u32,
    /// The error of the last attempt that failed.
    error: Option<io::Error>,
}

impl Losses {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), lost: 0, pause: 0, error: None }
    }

    fn is_pausing(&self) -> bool {
        self.pause > 0
    }

    /// Whether the next record is to be written; if not, counts it as lost.
    fn admits(&mut self) -> bool {
        let admits = !self.is_pausing();
        if !admits {
            self.pause -= 1;
            self.lost += 1;
        }
        admits
    }

    /// Notes what became of an attempt to write.
    fn note(&mut self, written: io::Result<()>) {
        let Err(source) = written else { return };
        if self.error.is_none() {
            tracing::warn!(
                "cannot write {}: {source}; records are lost until it can be written",
                self.path.display()
            );
        }
        self.lost += 1;
        self.pause = PAUSE;
        self.error = Some(source);
    }

    fn finish(self) -> Result<(), Error> {
        let Self { path, lost, error, .. } = self;
        error.map_or(Ok(()), |source| Err(Error::Lost { path, lost, source }))
    }
}

/// Returns a function for `map_err` that names the file.
fn at(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    move |source| Error::Write { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_full_disk_refuses_are_counted() {
        let mut lines = Lines::create(Some(Path::new("/dev/full")), u64::MAX).unwrap();
        for i in 0..10_000 {
            lines.push(|| i);
        }
        let lost = lines.finish().unwrap_err();
        assert!(matches!(lost, Error::Lost { lost: 1024.., .. }), "{lost}");
        assert!(lost.to_string().starts_with("cannot write /dev/full: No space left"), "{lost}");
    }

    #[test]
    fn a_file_without_losses_has_every_line() {
        let path = std::env::temp_dir().join(format!("fb-lines-{}", std::process::id()));
        let mut lines = Lines::create(Some(&path), 2).unwrap();
        (0..3).for_each(|i| lines.push(|| i));
        lines.finish().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "0\n1\n", "the limit is two");
        std::fs::remove_file(path).unwrap();
    }
}
