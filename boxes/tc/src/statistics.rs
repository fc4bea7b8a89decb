//! The kernel's counters of a class.

use forebay_units::Bytes;

use crate::Handle;
use crate::encode::TCA_KIND;
use crate::netlink::{Attributes, Message, string, u32_at, u64_at};

/// The counters of a bundle's class since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes sent, including Ethernet headers; for super-packets as many as on the wire.
    pub sent: Bytes,
    /// Packets sent; for super-packets their segments.
    pub packets: u64,
    /// Packets dropped because the queue was full. Drops of an AQM are counted by the bundle's own
    /// qdisc only ([`Tree::queue_counts`](crate::Tree::queue_counts)).
    pub drops: u64,
    /// Bytes that wait.
    pub backlog: Bytes,
    /// Packets that wait.
    pub queued: u64,
}

/// The counters of a bundle's own qdisc since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets dropped: because the queue was full, and by an AQM after a wait, which no class
    /// counts.
    pub drops: u64,
    /// Packets marked with ECN's CE; `None` if the qdisc does not tell.
    pub marks: Option<u64>,
}

const TCA_STATS2: u16 = 7;

impl QueueCounts {
    /// Decodes a qdisc and its counters from an answer to RTM_GETQDISC.
    pub(crate) fn of(message: &Message<'_>) -> Option<(Handle, Self)> {
        let (handle, counts) = Statistics::of(message)?;
        let (_, attributes) = message.object()?;
        let marks = || {
            // TCA_STATS_APP is the structure of the qdisc's own (linux/pkt_sched.h): the offsets
            // are those of `ecn_mark`.
            let own = Attributes(attributes.get(TCA_STATS2)?).get(4)?;
            let at = match string(attributes.get(TCA_KIND)?).as_str() {
                // `struct tc_fq_codel_xstats`, after its type and two numbers.
                "fq_codel" => 12,
                // `struct tc_codel_xstats`.
                "codel" => 24,
                // `struct tc_fq_pie_xstats`.
                "fq_pie" => 16,
                // `struct tc_pie_xstats`.
                "pie" => 36,
                _ => return None,
            };
            u32_at(own, at).map(u64::from)
        };
        Some((handle, Self { drops: counts.drops, marks: marks() }))
    }
}

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
    fn marks_are_where_each_qdisc_puts_them() {
        for (kind, at, marks) in [
            ("fq_codel", 12, Some(77)),
            ("codel", 24, Some(77)),
            ("fq_pie", 16, Some(77)),
            ("pie", 36, Some(77)),
            ("pfifo", 12, None),
        ] {
            let mut batch = Batch::default();
            let tc = Tc { handle: Handle::of_queue(2).0, ..Tc::default() };
            batch.about(40, 0, tc).text(TCA_KIND, kind).nest(TCA_STATS2, |b| {
                b.attribute(1, &[0; 16]);
                let queue: Vec<u8> =
                    [0u32, 0, 5, 0, 0].iter().flat_map(|w| w.to_ne_bytes()).collect();
                b.attribute(3, &queue);
                let mut own = vec![0; 64];
                own[at..at + 4].copy_from_slice(&77u32.to_ne_bytes());
                b.attribute(4, &own);
            });
            let bytes = batch.take();
            let counts = QueueCounts::of(&messages(&bytes).next().unwrap()).unwrap();
            assert_eq!(counts, (Handle::of_queue(2), QueueCounts { drops: 5, marks }), "{kind}");
        }
    }

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
