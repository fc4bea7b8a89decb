use std::path::PathBuf;

use forebay_records::packet_log::{Fate, PacketLog, Record, flow_of};
use forebay_units::{Bytes, Nanos};

use super::LinkError;

/// The record of what the bottleneck did to each packet, with counts.
pub(super) struct Journal {
    log: PacketLog,
    path: PathBuf,
    /// The number of packets that the queue dropped.
    pub(super) drops: u64,
    /// The number of packets that the queue marked.
    pub(super) marks: u64,
}

/// A packet's properties when it arrives at the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) time: Nanos,
    pub(super) len: Bytes,
    /// The number of the port on which it arrived.
    pub(super) source: u8,
    /// The hash of its flow.
    pub(super) flow_hash: u32,
    /// Whether it belongs to L4S traffic.
    pub(super) l4s: bool,
}

impl Journal {
    /// Creates an empty journal at `path` for at most `limit` packets.
    pub(super) fn create(path: PathBuf, limit: u64) -> Result<Self, LinkError> {
        let log = PacketLog::create(&path, limit)
            .map_err(|source| LinkError::Write { path: path.clone(), source })?;
        Ok(Self { log, path, drops: 0, marks: 0 })
    }

    /// Records that the packet of `arrival` left the queue at `now`.
    pub(super) fn sent(
        &mut self,
        now: Nanos,
        arrival: Arrival,
        marked: bool,
    ) -> Result<(), LinkError> {
        self.marks += u64::from(marked);
        self.record(now, arrival, Fate::Sent, marked)
    }

    /// Records that the packet of `arrival` was dropped, or found to be dropped, at `now`.
    pub(super) fn dropped(&mut self, now: Nanos, arrival: Arrival) -> Result<(), LinkError> {
        self.drops += 1;
        self.record(now, arrival, Fate::Dropped, false)
    }

    fn record(
        &mut self,
        time: Nanos,
        arrival: Arrival,
        fate: Fate,
        marked: bool,
    ) -> Result<(), LinkError> {
        let Arrival { time: arrived, len, source, flow_hash, l4s } = arrival;
        let flow = flow_of(flow_hash);
        let sojourn = time.saturating_sub(arrived);
        let record = Record { time, sojourn, len, source, flow, fate, l4s, marked };
        let path = &self.path;
        self.log.push(&record).map_err(|source| LinkError::Write { path: path.clone(), source })
    }

    /// Writes everything to the file.
    pub(super) fn finish(self) -> Result<(), LinkError> {
        let path = self.path;
        let left_out = self.log.finish().map_err(|source| LinkError::Write { path, source })?;
        if left_out > 0 {
            tracing::warn!("{left_out} packets beyond the limit are not recorded");
        }
        Ok(())
    }
}
