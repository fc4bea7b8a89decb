//! A log of every packet that left a queue: the truth that the laboratory compares estimates with.
//!
//! A record has eighteen bytes, little-endian, in the order of departure. The log is bounded:
//! beyond its limit, records are counted and not written, and the count is reported.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use forebay_units::{Bytes, Nanos};

/// The fate of a packet in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The packet left the queue.
    Sent,
    /// The queue dropped the packet.
    Dropped,
}

/// The passage of one packet through a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time at which it left or was dropped (`CLOCK_MONOTONIC` in real engines).
    pub time: Nanos,
    /// The time that it waited; at most 4.29 s, longer waits saturate.
    pub sojourn: Nanos,
    /// The length on the wire, at most 65 535 bytes.
    pub len: Bytes,
    /// The index of its bundle at a sendbox (255: none), or of the port where it arrived at a link.
    pub source: u8,
    /// A hash of the packet's flow, see [`flow_of`]; zero where flows are not known.
    pub flow: u16,
    /// The fate of the packet.
    pub fate: Fate,
    /// Whether it arrived as L4S traffic: with ECT(1) or CE (RFC 9331).
    pub l4s: bool,
    /// Whether the queue set its congestion mark. A packet that arrived marked does not count.
    pub marked: bool,
}

/// The length of a record in bytes.
const RECORD_LEN: usize = 18;

/// Shortens the hash of a packet's flow for a [`Record`].
///
/// Two of a few hundred flows may share a value. Statistics bear that, and accounts do not use it.
pub const fn flow_of(flow_hash: u32) -> u16 {
    (flow_hash ^ (flow_hash >> 16)) as u16
}

impl Record {
    /// Encodes the fate in a byte: 1 if the packet was dropped, plus 2 for L4S traffic, plus 4 if
    /// the queue marked it.
    pub fn flags(&self) -> u8 {
        u8::from(self.fate == Fate::Dropped) | u8::from(self.l4s) << 1 | u8::from(self.marked) << 2
    }

    /// Makes a record with these [`Record::flags`] and zero in all other fields.
    pub fn of_flags(flags: u8) -> Self {
        Self {
            time: Nanos::ZERO,
            sojourn: Nanos::ZERO,
            len: Bytes::ZERO,
            source: 0,
            flow: 0,
            fate: if flags & 1 == 0 { Fate::Sent } else { Fate::Dropped },
            l4s: flags & 2 != 0,
            marked: flags & 4 != 0,
        }
    }

    fn encode(&self) -> [u8; RECORD_LEN] {
        let mut out = [0; RECORD_LEN];
        out[0..8].copy_from_slice(&self.time.0.to_le_bytes());
        let sojourn = u32::try_from(self.sojourn.0).unwrap_or(u32::MAX);
        out[8..12].copy_from_slice(&sojourn.to_le_bytes());
        let len = u16::try_from(self.len.0).unwrap_or(u16::MAX);
        out[12..14].copy_from_slice(&len.to_le_bytes());
        out[14] = self.source;
        out[15] = self.flags();
        out[16..18].copy_from_slice(&self.flow.to_le_bytes());
        out
    }

    fn decode(b: &[u8; RECORD_LEN]) -> Self {
        Self {
            time: Nanos(u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])),
            sojourn: Nanos(u64::from(u32::from_le_bytes([b[8], b[9], b[10], b[11]]))),
            len: Bytes(u64::from(u16::from_le_bytes([b[12], b[13]]))),
            source: b[14],
            flow: u16::from_le_bytes([b[16], b[17]]),
            ..Self::of_flags(b[15])
        }
    }
}

/// A writer of records to a file.
#[derive(Debug)]
pub struct PacketLog {
    out: BufWriter<File>,
    room: u64,
    omitted: u64,
}

impl PacketLog {
    /// Creates or truncates the file at `path`, for at most `limit` records.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, limit: u64) -> io::Result<Self> {
        Ok(Self {
            out: BufWriter::with_capacity(1 << 18, File::create(path)?),
            room: limit,
            omitted: 0,
        })
    }

    /// Appends `record`, or counts it as omitted if the limit is reached.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn push(&mut self, record: &Record) -> io::Result<()> {
        if self.room == 0 {
            self.omitted += 1;
            return Ok(());
        }
        self.room -= 1;
        self.out.write_all(&record.encode())
    }

    /// Writes the buffer, and returns the number of records that the limit omitted.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.omitted)
    }
}

/// Reads a whole log. An incomplete last record, as after the death of the writer, is omitted.
///
/// # Errors
/// If the file cannot be read.
pub fn read(path: &Path) -> io::Result<Vec<Record>> {
    let mut input = BufReader::with_capacity(1 << 18, File::open(path)?);
    let mut records = Vec::new();
    let mut buf = [0; RECORD_LEN];
    loop {
        match input.read_exact(&mut buf) {
            Ok(()) => records.push(Record::decode(&buf)),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(records),
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_record_is_read() {
        let dir = std::env::temp_dir().join(format!("fb-packet-log-{}", std::process::id()));
        let record = Record {
            time: Nanos(123_456_789_012),
            sojourn: Nanos::from_millis(40),
            len: Bytes(1514),
            source: 3,
            flow: flow_of(0x1234_0001),
            fate: Fate::Dropped,
            l4s: true,
            marked: false,
        };
        let mut log = PacketLog::create(&dir, 1).unwrap();
        log.push(&record).unwrap();
        log.push(&record).unwrap();
        assert_eq!(log.finish().unwrap(), 1, "the second is past the limit");
        assert_eq!(read(&dir).unwrap(), [record]);
        for flags in 0..8 {
            assert_eq!(Record::of_flags(flags).flags(), flags);
        }
        std::fs::remove_file(&dir).unwrap();
    }
}
