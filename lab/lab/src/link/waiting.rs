use std::collections::{HashMap, VecDeque};

use super::journal::Arrival;

/// The largest number of remembered packets; further ones are lost, and counted as lost. A dropped
/// packet stays here until the next one of its flow leaves, so the number exceeds the queue's
/// limit.
const MAX_PACKETS: usize = 1 << 21;

/// A packet inside the kernel's queue: what must be known of it when it comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    pub(super) arrival: Arrival,
    /// The source address, which a number replaces inside the queue.
    pub(super) sender: [u8; 6],
    /// Whether it carried a congestion mark on arrival.
    pub(super) marked: bool,
}

/// The packets inside the kernel's queue, by flow and number. All disciplines of the kernel keep
/// the order within a flow, so a packet that was overtaken by one of its flow was dropped.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    flows: HashMap<u32, VecDeque<(u32, Inside)>>,
    len: usize,
    next: u32,
}

impl Waiting {
    /// Returns the number of the next packet to enter; `None` if too many are remembered.
    pub(super) fn number(&self) -> Option<u32> {
        (self.len < MAX_PACKETS).then_some(self.next)
    }

    /// Notes that the packet with the next number enters.
    pub(super) fn enter(&mut self, flow: u32, packet: Inside) {
        self.flows.entry(flow).or_default().push_back((self.next, packet));
        self.next = self.next.wrapping_add(1);
        self.len += 1;
    }

    /// Notes that the packet `number` of `flow` came out. Returns its properties, and the packets
    /// of its flow that were dropped before it, oldest first. `None` if it never entered.
    pub(super) fn leave(&mut self, flow: u32, number: u32) -> Option<(Vec<Inside>, Inside)> {
        let packets = self.flows.get_mut(&flow)?;
        let at = packets.iter().position(|(n, _)| *n == number)?;
        let dropped = packets.drain(..at).map(|(_, packet)| packet).collect();
        let (_, packet) = packets.pop_front()?;
        if packets.is_empty() {
            self.flows.remove(&flow);
        }
        self.len -= at + 1;
        Some((dropped, packet))
    }

    /// The number of packets that are known to be inside.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Removes all packets and returns them in order of arrival.
    pub(super) fn take_all(&mut self) -> Vec<Inside> {
        self.len = 0;
        let mut all: Vec<_> = self.flows.drain().flat_map(|(_, packets)| packets).collect();
        // The arrival time comes first, since numbers wrap after 2^32.
        all.sort_by_key(|(number, packet)| (packet.arrival.time, *number));
        all.into_iter().map(|(_, packet)| packet).collect()
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::{Bytes, Nanos};

    use super::*;

    fn packet(n: u64) -> Inside {
        let arrival =
            Arrival { time: Nanos(n), len: Bytes(n), source: 0, flow_hash: 0, l4s: false };
        Inside { arrival, sender: [0; 6], marked: false }
    }

    /// Enters packets 0, 1, ... of these flows.
    fn waiting(flows: &[u32]) -> Waiting {
        let mut waiting = Waiting::default();
        for (n, flow) in (0..).zip(flows) {
            assert_eq!(waiting.number(), Some(n));
            waiting.enter(*flow, packet(u64::from(n)));
        }
        waiting
    }

    #[test]
    fn flows_leave_in_any_order() {
        let mut waiting = waiting(&[7, 8, 7]);
        assert_eq!(waiting.leave(8, 1), Some((vec![], packet(1))));
        assert_eq!(waiting.leave(7, 0), Some((vec![], packet(0))));
        assert_eq!(waiting.leave(7, 2), Some((vec![], packet(2))));
        assert_eq!((waiting.len(), waiting.take_all()), (0, vec![]));
    }

    #[test]
    fn a_packet_overtaken_in_its_flow_counts_as_dropped() {
        let mut waiting = waiting(&[7, 7, 8, 7, 7]);
        assert_eq!(waiting.leave(7, 3), Some((vec![packet(0), packet(1)], packet(3))));
        assert_eq!(waiting.leave(7, 1), None, "it is gone");
        assert_eq!(waiting.leave(9, 2), None, "it is of another flow");
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting.take_all(), [packet(2), packet(4)]);
        assert_eq!(waiting.len(), 0);
    }
}
