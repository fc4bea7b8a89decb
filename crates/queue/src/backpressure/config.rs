use forebay_units::{Bytes, Nanos};

use crate::error::within;
use crate::{ConfigError, ffs};

/// In which order paused flows get their turn. It is to be the order of the scheduled buffer itself,
/// so that waiting outside of it changes nothing about who goes first (zD, section 4.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// In the order in which they were paused: for one queue, with an AQM or not, under a shaper or
    /// not.
    #[default]
    Fifo,
    /// For fair queueing: the flow with the fewest packets in the scheduled buffer, since a fair
    /// queue would serve it soonest; among equals in the order in which they were paused. A flow
    /// also keeps to its *share*: the buffer's packets divided by the flows that contend for them.
    RoundRobin,
    /// The most urgent class first, among equals in the order in which they were paused: for a
    /// buffer that ranks classes but has one limit for all. Where every class has its own limit
    /// ([`StrictPriority`](crate::StrictPriority), [`Drr`](crate::Drr)) classes never wait for each
    /// other, and any order will do within them.
    Priority {
        /// Classes, at most 256; those past the last count as the last.
        classes: u16,
    },
    /// The earliest time first, and none before its time: for flows that are paced each at a rate
    /// of its own.
    EarliestTime {
        /// To which times are rounded up.
        granularity: Nanos,
        /// Half as many as the wheel has buckets: with the granularity, how far ahead a time may
        /// lie. See [`ffs::TimingWheel`].
        buckets: u32,
    },
}

/// How much must be free before the flows that wait are resumed, once the buffer has been full.
///
/// Resuming one flow for each packet that leaves costs a wake-up a packet. Waiting for more to be
/// free lets one wake-up of the source's thread stand for many. What is not free meanwhile is what
/// keeps the link busy until the flows have answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hysteresis {
    /// So many packets; one means that every packet that leaves resumes a flow. More than fit into
    /// the buffer count as all that fit.
    Packets(u32),
    /// One in so many of what fits into the buffer.
    OneIn(u32),
}

impl Hysteresis {
    /// In packets, for a buffer that holds `capacity`; from one to all of them.
    pub(crate) fn packets(self, capacity: u32) -> u32 {
        let packets = match self {
            Self::Packets(packets) => packets,
            Self::OneIn(parts) => capacity / parts.max(1),
        };
        packets.clamp(1, capacity.max(1))
    }
}

/// How backpressure over a scheduled buffer is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Flows that there may be at a time: ids are below it. 1024 by default; each takes 16 bytes.
    pub flows: u32,
    /// Packets that one flow may have in the scheduled buffer. Two by default, as in zD (section
    /// 4.3.1): with one, the link waits for the flow; with more, a flow holds up the others. Where
    /// a flow is an aggregate, such as a virtual machine, take what its link needs to stay busy
    /// while the source answers; `u16::MAX` means no limit.
    pub in_buffer: u16,
    /// Packets that a flow may send in its turn while others wait. Two by default, as in zD
    /// (section 4.3.1, Algorithm 2: `sendTwo`): one resume then stands for two packets.
    pub turn: u8,
    /// In which order paused flows get their turn; first come first served by default.
    pub order: Order,
    /// How much must be free before flows are resumed; an eighth of the buffer by default.
    pub hysteresis: Hysteresis,
    /// The longest packet that sources send, since a flow is resumed before its packet is seen: where
    /// the buffer's limit is in bytes, there is room if this fits. By default a full Ethernet frame,
    /// 1514; super-packets have up to 65 550.
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
