//! The transfers of flows: how much each has sent, and which packets follow a pause.

use alloc::vec;
use alloc::vec::Vec;

use forebay_units::{Bytes, Nanos};

/// The pause of a flow after which a new transfer begins, beside the round-trip time: Linux's least
/// retransmission timeout. A sender that is idle for longer starts anew (RFC 5681, section 4.1).
const PAUSE: Nanos = Nanos::from_millis(200);
/// A flow that has sent nothing for this long may be idle, where the round-trip time is shorter.
const LEAST_PAUSE: Nanos = Nanos::from_millis(10);
/// The sets of the table of flows; a power of two.
const SETS: usize = 1024;
/// The flows of a set.
const WAYS: usize = 4;

/// The flow of a packet, and the packet's place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPosition {
    /// The hash of the flow.
    pub flow: u32,
    /// Whether the flow had sent nothing for a round trip, so that none of its packets waits in the
    /// network.
    pub was_idle: bool,
}

/// A packet in the table of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The bytes of its transfer up to and with this packet.
    pub bytes: Bytes,
    /// Whether its flow had sent nothing for a round trip.
    pub was_idle: bool,
}

/// The transfer that a flow sends: its bytes since the last pause.
#[derive(Clone, Copy, Debug, Default)]
struct Transfer {
    flow: u32,
    bundle: u32,
    bytes: Bytes,
    /// The arrival of the last packet; zero in a place that no flow has taken.
    last: Nanos,
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

    /// Notes a packet of `len` bytes that arrived at `arrived`.
    ///
    /// Where more flows than the table has send within a round trip, flows that it does not know do
    /// not count as idle.
    pub fn note(
        &mut self,
        bundle: usize,
        flow: u32,
        arrived: Nanos,
        len: Bytes,
        round_trip: Nanos,
    ) -> Noted {
        let bundle = bundle as u32;
        // Hashes of flows are spread evenly; the bundle separates equal ones.
        let set = &mut self.sets[(flow ^ bundle.rotate_left(16)) as usize % SETS];
        let own =
            set.iter().position(|t| t.last > Nanos::ZERO && (t.flow, t.bundle) == (flow, bundle));
        let mut silent_since = own.map_or(Nanos::ZERO, |place| set[place].last);
        let place = match own {
            Some(place) => place,
            None => {
                let oldest = (0..WAYS).min_by_key(|&way| set[way].last).unwrap_or(0);
                silent_since = set[oldest].last;
                set[oldest] = Transfer { flow, bundle, bytes: Bytes::ZERO, last: arrived };
                oldest
            }
        };
        let transfer = &mut set[place];
        if arrived.saturating_sub(transfer.last) > PAUSE.saturating_add(round_trip) {
            transfer.bytes = Bytes::ZERO;
        }
        transfer.last = transfer.last.max(arrived);
        transfer.bytes += len;
        let was_idle = arrived.saturating_sub(silent_since) > round_trip.max(LEAST_PAUSE);
        Noted { bytes: transfer.bytes, was_idle }
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
            transfers.note(bundle, flow, MS(at), Bytes(1514), MS(50)).bytes.0 / 1514
        };
        let sent: Vec<u64> = (0..12).map(|n| send(1000 + n * 250, 7, 0)).collect();
        // Each packet follows within 200 ms and the round trip of 50 ms.
        assert_eq!(sent, (1..=12).collect::<Vec<_>>());
        assert_eq!(send(3750, 7, 1), 1, "the same flow of another bundle");
        assert_eq!(send(3750, 7, 0), 13);
        assert_eq!(send(4001, 7, 0), 1, "251 ms later");
    }

    #[test]
    fn a_flow_was_idle_if_it_sent_nothing_for_a_round_trip() {
        let mut transfers = Transfers::new();
        let mut was_idle = |at: u64, flow, round_trip: u64| {
            transfers.note(0, flow, MS(at), Bytes(100), MS(round_trip)).was_idle
        };
        assert!(was_idle(1000, 7, 50), "its first packet");
        assert!(!was_idle(1050, 7, 50));
        assert!(was_idle(1101, 7, 50));
        assert!(!was_idle(1102, 7, 0), "before the round trip is known");
        assert!(was_idle(1113, 7, 0));
    }

    #[test]
    fn more_flows_than_places_push_out_the_one_that_was_silent_longest() {
        let mut transfers = Transfers::new();
        let flow = |n: u32| n * SETS as u32;
        let mut send = |at: u64, n: u32, len: u64| {
            let noted = transfers.note(0, flow(n), MS(at), Bytes(len), MS(50));
            (noted.bytes.0, noted.was_idle)
        };
        for n in 0..4 {
            assert_eq!(send(1000 + u64::from(n), n, 20_000), (20_000, true));
        }
        let pushed_out = (1514, false);
        assert_eq!(send(1010, 4, 1514), pushed_out, "the fifth takes the first one's place");
        assert_eq!(send(1011, 1, 1), (20_001, false), "the second is still known");
        assert_eq!(send(1012, 0, 1514), pushed_out, "the first takes the third one's place");
        assert_eq!(send(1013, 2, 1514), pushed_out);
        assert_eq!(send(1100, 9, 1514), (1514, true), "the flow that it follows was silent");
    }
}
