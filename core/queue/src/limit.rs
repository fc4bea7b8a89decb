use forebay_units::{Bytes, Nanos};

use crate::error::within;
use crate::{Backlog, ConfigError, DropReason, Room};

/// The limit of a queue in packets, bytes or time, or in several of them; the first one reached
/// applies.
///
/// The limits in packets and bytes apply on arrival: a packet that does not fit is dropped. The
/// limit in time applies on departure: a packet that waited longer is dropped at the head. Only
/// this guarantees that no packet leaves late, whatever arrivals and the shaper's rate do. A drop
/// at the head also reaches the sender one queue delay earlier than a drop at the tail. Packets
/// past the time limit do not block a new packet: they are dropped first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The limit in packets, at most [`Limit::MAX_PACKETS`].
    pub packets: u32,
    /// The limit in bytes, if any. A packet longer than this is always dropped.
    pub bytes: Option<Bytes>,
    /// The limit of the time from enqueue to dequeue, if any.
    pub time: Option<Nanos>,
}

impl Default for Limit {
    /// Returns 1000 packets, the default queue length of a Linux interface (`txqueuelen`) and
    /// therefore the limit of its pfifo.
    fn default() -> Self {
        Self::packets(1000)
    }
}

impl Limit {
    /// The limit in packets where only bytes or time are limited. It bounds memory if packets have
    /// zero length or the queue is never served.
    pub const MAX_PACKETS: u32 = 1 << 24;

    /// Creates a limit of `n` packets.
    pub const fn packets(n: u32) -> Self {
        Self { packets: n, bytes: None, time: None }
    }

    /// Creates a limit of `n` bytes.
    pub const fn bytes(n: Bytes) -> Self {
        Self { bytes: Some(n), ..Self::packets(Self::MAX_PACKETS) }
    }

    /// Creates a limit that drops packets which waited longer than `time`.
    pub const fn time(time: Nanos) -> Self {
        Self { time: Some(time), ..Self::packets(Self::MAX_PACKETS) }
    }

    /// Combines two limits: the tighter of each kind applies.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        fn tighter<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            }
        }
        Self {
            packets: self.packets.min(other.packets),
            bytes: tighter(self.bytes, other.bytes),
            time: tighter(self.time, other.time),
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("limit.packets", u64::from(self.packets), 1, u64::from(Self::MAX_PACKETS))?;
        if let Some(bytes) = self.bytes {
            within("limit.bytes", bytes.0, 1, u64::MAX)?;
        }
        if let Some(time) = self.time {
            within("limit.time", time.0, 1, u64::MAX)?;
        }
        Ok(())
    }

    /// Returns why a packet of `len` does not fit on top of `backlog`, or `None` if it does.
    #[inline]
    pub(crate) fn refuses(&self, backlog: Backlog, len: Bytes) -> Option<DropReason> {
        if backlog.packets >= u64::from(self.packets) {
            return Some(DropReason::PacketLimit);
        }
        let room = self.bytes.map(|limit| limit.saturating_sub(backlog.bytes));
        room.is_some_and(|room| len > room).then_some(DropReason::ByteLimit)
    }

    /// Returns how much more fits on top of `backlog`.
    #[inline]
    pub(crate) fn room(&self, backlog: Backlog) -> Room {
        let bytes = self.bytes.map_or(Room::UNLIMITED.bytes, |n| n.saturating_sub(backlog.bytes));
        Room { packets: u64::from(self.packets).saturating_sub(backlog.packets), bytes }
    }

    /// Returns whether a packet that waited for `sojourn` exceeds the time limit.
    #[inline]
    pub(crate) fn expired(&self, sojourn: Nanos) -> bool {
        self.time.is_some_and(|limit| sojourn > limit)
    }
}
