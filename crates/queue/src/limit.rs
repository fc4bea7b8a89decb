use forebay_units::{Bytes, Nanos};

use crate::error::within;
use crate::{Backlog, ConfigError, DropReason, Room};

/// How much may wait in a queue: packets, bytes, time, or several of them together, in which case
/// the first to be reached counts.
///
/// Packets and bytes are checked when a packet comes: one that does not fit is refused. Time is
/// checked when packets leave: one that has waited longer is dropped at the head. That is the only
/// check that keeps the promise ("no packet leaves older than this") whatever the arrivals and the
/// shaper's rate do in between, and a drop at the head tells the sender a whole queue earlier than
/// a drop at the tail. A packet too old to leave never keeps a new one out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Packets, at most [`Limit::MAX_PACKETS`].
    pub packets: u32,
    /// Bytes, if limited. A packet longer than this never gets in.
    pub bytes: Option<Bytes>,
    /// Time from enqueue to dequeue, if limited.
    pub time: Option<Nanos>,
}

impl Default for Limit {
    /// 1000 packets, the length of a Linux interface's queue (`txqueuelen`, hence pfifo's limit).
    fn default() -> Self {
        Self::packets(1000)
    }
}

impl Limit {
    /// The bound that holds where only bytes or time is limited, so that packets of no length, or
    /// a queue that nobody serves, cannot take all memory.
    pub const MAX_PACKETS: u32 = 1 << 24;

    /// At most `n` packets.
    pub const fn packets(n: u32) -> Self {
        Self { packets: n, bytes: None, time: None }
    }

    /// At most `n` bytes.
    pub const fn bytes(n: Bytes) -> Self {
        Self { bytes: Some(n), ..Self::packets(Self::MAX_PACKETS) }
    }

    /// No packet leaves after waiting longer than `time`.
    pub const fn time(time: Nanos) -> Self {
        Self { time: Some(time), ..Self::packets(Self::MAX_PACKETS) }
    }

    /// Both limits: the tighter of each kind.
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

    /// Why a packet of `len` does not fit on top of `backlog`, or `None` if it does.
    #[inline]
    pub(crate) fn refuses(&self, backlog: Backlog, len: Bytes) -> Option<DropReason> {
        if backlog.packets >= u64::from(self.packets) {
            return Some(DropReason::PacketLimit);
        }
        let room = self.bytes.map(|limit| limit.saturating_sub(backlog.bytes));
        room.is_some_and(|room| len > room).then_some(DropReason::ByteLimit)
    }

    /// How much more fits on top of `backlog`.
    #[inline]
    pub(crate) fn room(&self, backlog: Backlog) -> Room {
        let bytes = self.bytes.map_or(Room::UNLIMITED.bytes, |n| n.saturating_sub(backlog.bytes));
        Room { packets: u64::from(self.packets).saturating_sub(backlog.packets), bytes }
    }

    /// Whether a packet that has waited for `sojourn` is too old to leave.
    #[inline]
    pub(crate) fn expired(&self, sojourn: Nanos) -> bool {
        self.time.is_some_and(|limit| sojourn > limit)
    }
}
