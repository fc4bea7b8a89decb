//! The transfers in a log of packets: which packets belong to short ones and which to large ones.

use std::collections::HashMap;

use forebay_records::packet_log::Record;
use forebay_units::{Bytes, Nanos};

/// The kind of the transfer that a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// At most [`SMALL`] bytes.
    Small,
    /// Larger than a small one, and not large.
    Medium,
    /// More than [`LARGE`] bytes.
    Large,
}

/// The largest small transfer on the wire: ten full frames, the initial window of TCP (RFC 6928).
pub const SMALL: Bytes = Bytes(10 * 1514);

/// The size above which a transfer is large, as for requests ([`Size`](super::Size)).
pub const LARGE: Bytes = Bytes(1_000_000);

/// The pause of a flow after which a new transfer begins, beside the empty path's round-trip time:
/// Linux's least retransmission timeout. A sender that is idle for longer starts anew (RFC 5681,
/// section 4.1).
pub const PAUSE: Nanos = Nanos::from_millis(200);

/// The last transfer of a flow.
struct Last {
    arrival: Nanos,
    transfer: usize,
}

/// Returns the kind of each packet's transfer, in the order of `records`; `None` if the records do
/// not tell flows apart.
///
/// Dropped packets count for the size. Two flows with the same hash are taken for one.
pub(super) fn kinds(records: &[Record], base_rtt: Nanos) -> Option<Vec<Kind>> {
    if records.iter().all(|r| r.flow == 0) {
        return None;
    }
    let pause = base_rtt.saturating_add(PAUSE);
    let mut last: HashMap<(u8, u16), Last> = HashMap::new();
    let (mut sizes, mut transfers) = (Vec::<u64>::new(), Vec::with_capacity(records.len()));
    for record in records {
        let arrival = record.time.saturating_sub(record.sojourn);
        let flow = last.entry((record.source, record.flow)).or_insert_with(|| {
            sizes.push(0);
            Last { arrival, transfer: sizes.len() - 1 }
        });
        if arrival.saturating_sub(flow.arrival) > pause {
            sizes.push(0);
            flow.transfer = sizes.len() - 1;
        }
        flow.arrival = flow.arrival.max(arrival);
        sizes[flow.transfer] = sizes[flow.transfer].saturating_add(record.len.0);
        transfers.push(flow.transfer);
    }
    let kind = |transfer: usize| match Bytes(sizes[transfer]) {
        size if size <= SMALL => Kind::Small,
        size if size > LARGE => Kind::Large,
        _ => Kind::Medium,
    };
    Some(transfers.into_iter().map(kind).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet of 1000 bytes that arrived and left at these milliseconds.
    fn packet(flow: u16, arrived: u64, left: u64) -> Record {
        Record {
            time: Nanos::from_millis(left),
            sojourn: Nanos::from_millis(left - arrived),
            len: Bytes(1000),
            flow,
            ..Record::of_flags(0)
        }
    }

    #[test]
    fn a_pause_ends_a_transfer() {
        // Fifteen packets of flow 1 are small, and a sixteenth within 250 ms is one too many. Flow
        // 2 pauses for longer than that, flow 3 waits that long without a pause.
        let mut log: Vec<Record> = (0..15).map(|n| packet(1, n, n)).collect();
        log.extend((0..15).map(|n| packet(2, n, n)));
        log.push(packet(1, 264, 264));
        log.push(packet(2, 265, 265));
        log.extend((0..15).map(|n| packet(3, 20, 500 + n)));
        log.push(packet(3, 21, 900));
        let kinds = kinds(&log, Nanos::from_millis(50)).unwrap();
        let of = |flow| {
            let own = log.iter().zip(&kinds).filter(move |(r, _)| r.flow == flow);
            own.map(|(_, kind)| *kind).collect::<Vec<_>>()
        };
        assert_eq!(of(1), [Kind::Medium; 16]);
        assert_eq!(of(2), [Kind::Small; 16]);
        assert_eq!(of(3), [Kind::Medium; 16]);
    }

    #[test]
    fn a_megabyte_is_not_large_and_more_is() {
        let log = |packets| (0..packets).map(|n| packet(9, n, n)).collect::<Vec<_>>();
        let kind = |packets| kinds(&log(packets), Nanos::ZERO).unwrap()[0];
        assert_eq!((kind(1000), kind(1001)), (Kind::Medium, Kind::Large));
    }

    #[test]
    fn records_without_flows_have_no_transfers() {
        assert_eq!(kinds(&[packet(0, 1, 1)], Nanos::ZERO), None);
    }

    proptest! {
        /// Packets of other flows in between make no difference.
        #[test]
        fn a_flow_is_judged_by_itself(gaps in prop::collection::vec((1..4u16, 0..400u64), 1..80)) {
            let mut now = 0;
            let log: Vec<Record> = gaps.iter().map(|(flow, gap)| {
                now += gap;
                packet(*flow, now, now)
            }).collect();
            let all = kinds(&log, Nanos::ZERO).unwrap();
            for flow in 1..4 {
                let own = |r: &&Record| r.flow == flow;
                let alone: Vec<Record> = log.iter().filter(own).copied().collect();
                let of = log.iter().zip(&all).filter(|(r, _)| r.flow == flow).map(|(_, k)| *k);
                let expected = kinds(&alone, Nanos::ZERO).unwrap_or_default();
                prop_assert_eq!(of.collect::<Vec<_>>(), expected);
            }
        }
    }
}
