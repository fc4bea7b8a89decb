//! The kernel's counters of a class.

use forebay_units::Bytes;

use crate::Handle;
use crate::netlink::{Attributes, Message, u32_at, u64_at};

/// The counters of a bundle's class since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes sent, including Ethernet headers; for super-packets as many as on the wire.
    pub sent: Bytes,
    /// Packets sent; for super-packets their segments.
    pub packets: u64,
    /// Packets dropped because the queue was full. Drops of an AQM are counted by the bundle's own
    /// qdisc only ([`Tree::drops`](crate::Tree::drops)).
    pub drops: u64,
    /// Bytes that wait.
    pub backlog: Bytes,
    /// Packets that wait.
    pub queued: u64,
}

const TCA_STATS2: u16 = 7;

impl Statistics {
    /// Decodes a class and its counters from an answer to RTM_GETTCLASS.
    pub(crate) fn of(message: &Message<'_>) -> Option<(Handle, Self)> {
        let (tc, attributes) = message.object()?;
        let stats = Attributes(attributes.get(TCA_STATS2)?);
        // `struct gnet_stats_basic`, `struct gnet_stats_queue`, and packets in 64 bits, which
        // kernels send once they do not fit into 32.
        let (basic, queue) = (stats.get(1)?, stats.get(3)?);
        let packets = match stats.get(8) {
            Some(packets) => u64_at(packets, 0)?,
            None => u32_at(basic, 8)?.into(),
        };
        let statistics = Self {
            sent: Bytes(u64_at(basic, 0)?),
            packets,
            queued: u32_at(queue, 0)?.into(),
            backlog: Bytes(u32_at(queue, 4)?.into()),
            drops: u32_at(queue, 8)?.into(),
        };
        Some((Handle(tc.handle), statistics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{Batch, Tc, messages};

    #[test]
    fn counts_are_where_the_kernel_puts_them() {
        let tc = Tc { handle: Handle::of_bundle(4).0, ..Tc::default() };
        let with = |pkt64: bool| {
            let mut batch = Batch::default();
            batch.about(40, 0, tc).nest(TCA_STATS2, |b| {
                let basic = [&9_000_000_000u64.to_ne_bytes()[..], &7u32.to_ne_bytes(), &[0; 4]];
                b.attribute(1, &basic.concat());
                let queue: Vec<u8> =
                    [3u32, 4_542, 11, 0, 99].iter().flat_map(|w| w.to_ne_bytes()).collect();
                b.attribute(3, &queue);
                if pkt64 {
                    b.attribute(8, &5_000_000_000u64.to_ne_bytes());
                }
            });
            let bytes = batch.take();
            Statistics::of(&messages(&bytes).next().unwrap()).unwrap()
        };
        let expected = Statistics {
            sent: Bytes(9_000_000_000),
            packets: 7,
            drops: 11,
            backlog: Bytes(4_542),
            queued: 3,
        };
        assert_eq!(with(false), (Handle::of_bundle(4), expected));
        assert_eq!(with(true).1, Statistics { packets: 5_000_000_000, ..expected });
    }
}
