use std::collections::{HashMap, VecDeque};

use super::journal::Arrival;

/// The most that are remembered; what would be more is lost and counted so. Packets that a queue
/// dropped stay here until the next of their flow leaves, so it is more than a queue holds.
const MOST: usize = 1 << 21;

/// A packet inside a queue that tells nothing of it, and what has to be known when it comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inside {
    pub(super) arrival: Arrival,
    /// The sender's address, where its number is meanwhile.
    pub(super) sender: [u8; 6],
    /// Whether it came with a congestion mark.
    pub(super) marked: bool,
}

/// The packets inside a queue that tells nothing of them, by flow and number. Within a flow all of
/// the kernel's disciplines keep the order, so a packet that one of its flow has overtaken is gone.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    flows: HashMap<u32, VecDeque<(u32, Inside)>>,
    len: usize,
    next: u32,
}

impl Waiting {
    /// The number of the packet that comes next; `None` if too many are remembered.
    pub(super) fn number(&self) -> Option<u32> {
        (self.len < MOST).then_some(self.next)
    }

    /// The packet with that number went in.
    pub(super) fn enter(&mut self, flow: u32, packet: Inside) {
        self.flows.entry(flow).or_default().push_back((self.next, packet));
        self.next = self.next.wrapping_add(1);
        self.len += 1;
    }

    /// The packet `number` of `flow` came out: what is known of it, and of those of its flow that
    /// were dropped before it, oldest first. `None` if it never went in.
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

    /// How many are inside, as far as is known.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// All of them, in the order they went in.
    pub(super) fn take_all(&mut self) -> Vec<Inside> {
        self.len = 0;
        let mut all: Vec<_> = self.flows.drain().flat_map(|(_, packets)| packets).collect();
        // By arrival first: numbers begin again after 2^32.
        all.sort_by_key(|(number, packet)| (packet.arrival.time, *number));
        all.into_iter().map(|(_, packet)| packet).collect()
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::{Bytes, Nanos};

    use super::*;

    fn packet(n: u64) -> Inside {
        let arrival = Arrival { time: Nanos(n), len: Bytes(n), source: 0, l4s: false };
        Inside { arrival, sender: [0; 6], marked: false }
    }

    /// Packets 0.. of these flows.
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
    fn who_is_overtaken_in_its_flow_was_dropped() {
        let mut waiting = waiting(&[7, 7, 8, 7, 7]);
        assert_eq!(waiting.leave(7, 3), Some((vec![packet(0), packet(1)], packet(3))));
        assert_eq!(waiting.leave(7, 1), None, "it is gone");
        assert_eq!(waiting.leave(9, 2), None, "it is of another flow");
        assert_eq!(waiting.len(), 2);
        assert_eq!(waiting.take_all(), [packet(2), packet(4)]);
        assert_eq!(waiting.len(), 0);
    }
}
