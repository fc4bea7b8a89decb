//! The transfers of flows: how much each has sent, and how long it paused.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use forebay_units::{Bytes, Nanos};

/// The pause of a flow after which a new transfer begins, beside the round-trip time: Linux's least
/// retransmission timeout. A sender that is idle for longer starts anew (RFC 5681, section 4.1).
const PAUSE: Nanos = Nanos::from_millis(200);
/// The sets of the table of flows; a power of two.
const SETS: usize = 1024;
/// The flows of a set.
const WAYS: usize = 4;

/// The flow of a packet, and the packet's place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPosition {
    /// The hash of the flow.
    pub flow: u32,
    /// The time between the departures of the flow's last packet and of this one, in microseconds
    /// and at least one; of a flow's first packet the largest number.
    pub pause_us: NonZeroU32,
}

impl FlowPosition {
    /// Creates the position of a packet of `flow` after a pause in microseconds.
    pub fn new(flow: u32, pause_us: u32) -> Self {
        Self { flow, pause_us: NonZeroU32::new(pause_us).unwrap_or(NonZeroU32::MIN) }
    }
}

/// A packet in the table of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The bytes of its transfer up to and with this packet.
    pub bytes: Bytes,
    /// Its place in its flow.
    pub position: FlowPosition,
}

/// The transfer that a flow sends: its bytes since the last pause.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    flow: u32,
    bundle: u32,
    bytes: Bytes,
    /// The arrival of the last packet; zero in a place that no flow has taken.
    last: Nanos,
    /// The departure of the last packet.
    left: Nanos,
}

/// The transfers of the flows that sent last, 4096 at most, in all bundles of a thread. A flow that
/// lost its place to others begins a new transfer.
#[derive(Debug)]
pub struct Transfers {
    sets: Vec<[Transfer; WAYS]>,
}

impl Default for Transfers {
    fn default() -> Self {
        Self::new()
    }
}

impl Transfers {
    /// Creates the table of a sendbox, or of one of its threads.
    pub fn new() -> Self {
        Self { sets: vec![[Transfer::default(); WAYS]; SETS] }
    }

    /// Notes a packet of `len` bytes that arrived at `arrived` and leaves at `left`.
    ///
    /// Where more flows than the table has are active, the pause of a flow that it does not know is
    /// at most that of the flow which it replaces.
    pub fn note(
        &mut self,
        bundle: usize,
        flow: u32,
        [arrived, left]: [Nanos; 2],
        len: Bytes,
        round_trip: Nanos,
    ) -> Noted {
        let bundle = bundle as u32;
        // Hashes of flows are spread evenly; the bundle separates equal ones.
        let set = &mut self.sets[(flow ^ bundle.rotate_left(16)) as usize % SETS];
        let own =
            set.iter().position(|t| t.last > Nanos::ZERO && (t.flow, t.bundle) == (flow, bundle));
        let oldest = || (0..WAYS).min_by_key(|&way| set[way].last).unwrap_or(0);
        let place = own.unwrap_or_else(oldest);
        let transfer = &mut set[place];
        let pause = match transfer.last {
            Nanos::ZERO => Nanos::MAX,
            _ => left.saturating_sub(transfer.left),
        };
        let is_new = arrived.saturating_sub(transfer.last) > PAUSE.saturating_add(round_trip);
        let before = if own.is_none() || is_new { Bytes::ZERO } else { transfer.bytes };
        let bytes = before + len;
        *transfer = Transfer { flow, bundle, bytes, last: transfer.last.max(arrived), left };
        let pause_us = u32::try_from(pause.0 / 1_000).unwrap_or(u32::MAX);
        Noted { bytes, position: FlowPosition::new(flow, pause_us) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    #[test]
    fn the_bytes_of_a_transfer_add_up_until_a_pause() {
        let mut transfers = Transfers::new();
        let mut send = |at: u64, flow, bundle| {
            transfers.note(bundle, flow, [MS(at); 2], Bytes(1514), MS(50)).bytes.0 / 1514
        };
        let sent: Vec<u64> = (0..12).map(|n| send(1000 + n * 250, 7, 0)).collect();
        // Each packet follows within 200 ms and the round trip of 50 ms.
        assert_eq!(sent, (1..=12).collect::<Vec<_>>());
        assert_eq!(send(3750, 7, 1), 1, "the same flow of another bundle");
        assert_eq!(send(3750, 7, 0), 13);
        assert_eq!(send(4001, 7, 0), 1, "251 ms later");
    }

    #[test]
    fn a_pause_is_between_departures() {
        let mut transfers = Transfers::new();
        let mut pause = |arrived: u64, left: u64, flow| {
            let times = [MS(arrived), MS(left)];
            transfers.note(0, flow, times, Bytes(100), MS(50)).position.pause_us.get()
        };
        assert_eq!(pause(1000, 1300, 7), u32::MAX, "its first packet");
        assert_eq!(pause(1310, 1310, 7), 10_000);
        assert_eq!(pause(1311, 1500, 7), 190_000);
        assert_eq!(pause(1500, 1501, 8), u32::MAX);
    }

    #[test]
    fn more_flows_than_places_push_out_the_one_that_was_silent_longest() {
        let mut transfers = Transfers::new();
        let flow = |n: u32| n * SETS as u32;
        let mut send = |at: u64, n: u32, len: u64| {
            let noted = transfers.note(0, flow(n), [MS(at); 2], Bytes(len), MS(50));
            (noted.bytes.0, noted.position.pause_us.get())
        };
        for n in 0..4 {
            assert_eq!(send(1000 + u64::from(n), n, 20_000), (20_000, u32::MAX));
        }
        assert_eq!(send(1010, 4, 1514), (1514, 10_000), "the fifth takes the first one's place");
        assert_eq!(send(1011, 1, 1), (20_001, 10_000), "the second is still known");
        assert_eq!(send(1012, 0, 1514), (1514, 10_000), "the first takes the third one's place");
        assert_eq!(send(1013, 2, 1514), (1514, 10_000));
        assert_eq!(send(1100, 9, 1514), (1514, 90_000), "the pause of the flow that it replaces");
    }
}
