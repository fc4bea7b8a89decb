//! Limits of queues, in the unit that a discipline counts in.

use forebay_config::Limit as LimitValue;
use forebay_queue::{Limit, sfq};
use forebay_units::{Bytes, Nanos, Rate};

/// The length of a full Ethernet frame, which converts limits in bytes or time to packets.
pub(crate) const FRAME: Bytes = Bytes(1_514);
/// The rate that a limit in time is converted with where a discipline counts packets only.
const REFERENCE: Rate = Rate::from_mbps(1000);
/// Packets that a box's queue holds at most if its limit is in bytes or time: each takes a buffer.
pub(crate) const MAX_BUFFERED_PACKETS: u32 = 16_384;

/// The limit of a bottleneck's queue on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOnPath {
    /// The limit in bytes.
    pub bytes: Bytes,
    /// The limit in full-sized packets, rounded up.
    pub packets: u64,
}

/// Returns the limit of a discipline with one queue that counts packets, bytes and time.
pub(crate) fn of_one_queue(limit: Option<LimitValue>, most_packets: u32) -> Limit {
    let bounded = |l: Limit| l.and(Limit::packets(most_packets));
    match limit {
        // SFQ's default, so that policies can be compared.
        None => Limit::packets(sfq::Config::default().limit),
        Some(LimitValue::Packets(n)) => Limit::packets(n as u32),
        Some(LimitValue::Bytes(b)) => bounded(Limit::bytes(b)),
        Some(LimitValue::Time(t)) => bounded(Limit::time(t)),
        Some(LimitValue::Bdp(_)) => Limit::packets(most_packets),
    }
}

/// Returns the packets of a limit where a discipline counts packets only; at least one.
pub(crate) fn in_packets(limit: LimitValue) -> u32 {
    let packets = match limit {
        LimitValue::Packets(n) => return n as u32,
        LimitValue::Bytes(b) => b.0.div_ceil(FRAME.0),
        LimitValue::Time(t) => REFERENCE.bytes_in(t).0.div_ceil(FRAME.0),
        LimitValue::Bdp(_) => u64::from(MAX_BUFFERED_PACKETS),
    };
    packets.clamp(1, u64::from(MAX_BUFFERED_PACKETS)) as u32
}

/// Returns a limit in time as the bytes that a link of `rate` sends in it; other limits stay.
pub(crate) fn time_as_bytes(limit: Option<LimitValue>, rate: Rate) -> Option<LimitValue> {
    match limit {
        // A few full frames fit, however slow the link is.
        Some(LimitValue::Time(time)) => {
            Some(LimitValue::Bytes(rate.bytes_in(time).max(Bytes(4 * FRAME.0))))
        }
        other => other,
    }
}

/// Returns the whole microseconds of a time, for `tc`.
pub(crate) fn micros(time: Option<Nanos>) -> u64 {
    time.unwrap_or_default().0 / 1_000
}
