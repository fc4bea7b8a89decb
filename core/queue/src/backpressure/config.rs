use forebay_units::{Bytes, Nanos};

use crate::error::within;
use crate::{ConfigError, ffs};

/// The order in which paused flows are resumed.
///
/// Choose the order of the scheduled buffer itself, so that waiting outside of it does not change
/// which flow is served first (zD, section 4.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The order in which flows were paused. For a single queue, with or without an AQM or a
    /// shaper.
    #[default]
    Fifo,
    /// The flow with the fewest packets in the scheduled buffer first, then the order in which
    /// flows were paused. For fair queueing, which would serve that flow soonest. It also limits a
    /// flow to its *share*: the buffer's packets divided by the flows that contend for them.
    RoundRobin,
    /// The most urgent class first, then the order in which flows were paused. For a buffer that
    /// ranks classes and has one limit for all. Where every class has its own limit
    /// ([`StrictPriority`](crate::StrictPriority), [`Drr`](crate::Drr)), classes never wait for
    /// each other, and any order is fine within them.
    Priority {
        /// The number of classes, at most 256; higher classes count as the last.
        classes: u16,
    },
    /// The earliest time first, and no flow before its time. For flows that are each paced at their
    /// own rate.
    EarliestTime {
        /// The granularity to which times are rounded up.
        granularity: Nanos,
        /// Half the number of the wheel's buckets. Together with the granularity it determines how
        /// far ahead a time may lie, see [`ffs::TimingWheel`].
        buckets: u32,
    },
}

/// The room that must be free before waiting flows are resumed, once the buffer has been full.
///
/// Resuming one flow for each departing packet costs one wake-up per packet. With more free room,
/// one wake-up of the source's thread serves many packets. The packets still in the buffer keep the
/// link busy until the resumed flows send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hysteresis {
    /// A number of packets; one means that every departing packet resumes a flow. The value is
    /// limited to the packets that fit into the buffer.
    Packets(u32),
    /// A fraction of the buffer, as the divisor: `OneIn(8)` is an eighth of the packets that fit.
    OneIn(u32),
}

impl Hysteresis {
    /// Converts to packets for a buffer that holds `capacity`; the result is from one to
    /// `capacity`.
    pub(crate) fn packets(self, capacity: u32) -> u32 {
        let packets = match self {
            Self::Packets(packets) => packets,
            Self::OneIn(parts) => capacity / parts.max(1),
        };
        packets.clamp(1, capacity.max(1))
    }
}

/// The configuration of backpressure over a scheduled buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// The number of flows; ids are below it. 1024 by default; each takes 16 bytes.
    pub flows: u32,
    /// Packets that one flow may have in the scheduled buffer; `u16::MAX` means no limit.
    ///
    /// Two by default, as in zD (section 4.3.1): with one, the link waits for the flow; with more,
    /// the flow delays the others. If a flow is an aggregate, such as a virtual machine, choose
    /// enough packets to keep its link busy while the source responds.
    pub in_buffer: u16,
    /// Packets that a flow may send in its turn while others wait. Two by default, as in zD
    /// (section 4.3.1, Algorithm 2: `sendTwo`): one resume then stands for two packets.
    pub turn: u8,
    /// The order in which paused flows are resumed; first come first served by default.
    pub order: Order,
    /// The room that must be free before flows are resumed; an eighth of the buffer by default.
    pub hysteresis: Hysteresis,
    /// The longest packet that sources send. A flow is resumed before its packet is known; if the
    /// buffer's limit is in bytes, there is room if a packet of this length fits. By default a full
    /// Ethernet frame, 1514 bytes; super-packets have up to 65 550.
    pub largest: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            flows: 1024,
            in_buffer: 2,
            turn: 2,
            order: Order::Fifo,
            hysteresis: Hysteresis::OneIn(8),
            largest: Bytes(1514),
        }
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        within("flows", u64::from(self.flows), 1, u64::from(ffs::MAX_ITEMS))?;
        within("in_buffer", u64::from(self.in_buffer), 1, u64::from(u16::MAX))?;
        within("turn", u64::from(self.turn), 1, u64::from(u8::MAX))?;
        within("largest", self.largest.0, 1, u64::MAX)?;
        match self.hysteresis {
            Hysteresis::Packets(n) => within("hysteresis", u64::from(n), 1, u64::from(u32::MAX))?,
            Hysteresis::OneIn(n) => within("hysteresis", u64::from(n), 1, u64::from(u32::MAX))?,
        }
        if let Order::Priority { classes } = self.order {
            within("order.classes", u64::from(classes), 1, 256)?;
        }
        Ok(())
    }
}
