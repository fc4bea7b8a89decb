//! What a worker notes of the packets that leave its queues, for the thread of the control loops.
//!
//! As with the kernel's queues, that is the totals of all packets, and each boundary packet.

use forebay_control::{FlowPosition, Transfers};
use forebay_dataplane::Packet;
use forebay_discipline::Kind;
use forebay_queue::Packet as _;
use forebay_units::{Bytes, Nanos};

use super::waits::{SMALL, Waits};
use crate::classes;
use crate::forward::{Direction, Notes};

/// The largest number of boundary packets between two ticks. A control loop gets no mark of one
/// beyond that, so that its feedback matches nothing.
const MAX_BOUNDARIES: usize = 16_384;

/// The packets that left the queues of one worker.
pub(super) struct Departures {
    /// The bundles by the numbers of their queues.
    bundles: Vec<Departed>,
    boundaries: Vec<Boundary>,
    transfers: Transfers,
}

/// The packets of a bundle that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departed {
    /// The kind of its policy.
    kind: Kind,
    /// The distance of boundary packets, a power of two.
    epoch: u32,
    round_trip: Nanos,
    /// The bytes and packets that have left, as both boxes count them.
    pub(super) bytes: Bytes,
    pub(super) packets: u64,
    /// The waits of the packets; `None` before the first.
    pub(super) waits: Option<Waits>,
}

/// A boundary packet that left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Boundary {
    /// The number of its queue.
    pub(super) queue: usize,
    pub(super) time: Nanos,
    pub(super) fingerprint: u32,
    /// The bundle's totals with this packet.
    pub(super) bytes: Bytes,
    pub(super) packets: u64,
    pub(super) flow: FlowPosition,
}

impl Departures {
    pub(super) fn new() -> Self {
        Self { bundles: Vec::new(), boundaries: Vec::new(), transfers: Transfers::new() }
    }

    /// Begins to count the packets of a bundle whose queue gets the number `queue`, the next one or
    /// that of a bundle that has gone.
    pub(super) fn begin(&mut self, queue: usize, kind: Kind, epoch: u32) {
        let (bytes, packets, round_trip, waits) = (Bytes::ZERO, 0, Nanos::ZERO, None);
        let bundle = Departed { kind, epoch, round_trip, bytes, packets, waits };
        match self.bundles.get_mut(queue) {
            Some(old) => *old = bundle,
            None => self.bundles.push(bundle),
        }
    }

    /// Takes note of another policy, whose classes may be others.
    pub(super) fn set_kind(&mut self, queue: usize, kind: Kind) {
        if let Some(bundle) = self.bundles.get_mut(queue) {
            (bundle.kind, bundle.waits) = (kind, None);
        }
    }

    /// Sets what the control loop of a bundle has decided and measured.
    pub(super) fn set_epoch(&mut self, queue: usize, epoch: u32, round_trip: Nanos) {
        if let Some(bundle) = self.bundles.get_mut(queue) {
            (bundle.epoch, bundle.round_trip) = (epoch, round_trip);
        }
    }

    /// Returns the packets of a bundle.
    pub(super) fn of(&self, queue: usize) -> Option<&Departed> {
        self.bundles.get(queue)
    }

    /// Takes the boundary packets since the last call, in the order in which they left.
    pub(super) fn boundaries(&mut self) -> impl Iterator<Item = Boundary> + '_ {
        self.boundaries.drain(..)
    }
}

impl Notes for Departures {
    fn on_sent(&mut self, now: Nanos, _: Direction, queue: usize, packet: &Packet) {
        let Some(bundle) = self.bundles.get_mut(queue) else { return };
        bundle.bytes += packet.counted;
        bundle.packets += 1;
        let (flow, arrived, len) = (packet.flow_hash(), packet.arrived, packet.len());
        let noted = self.transfers.note(queue, flow, [arrived, now], len, bundle.round_trip);
        if let Some(fingerprint) = packet.fingerprint
            && fingerprint & (bundle.epoch - 1) == 0
            && self.boundaries.len() < MAX_BOUNDARIES
        {
            let Departed { bytes, packets, .. } = *bundle;
            let flow = noted.position;
            let boundary = Boundary { queue, time: now, fingerprint, bytes, packets, flow };
            self.boundaries.push(boundary);
        }
        let class = classes::counted(bundle.kind, packet);
        let waits = bundle.waits.get_or_insert_default();
        waits.note(now, now.saturating_sub(arrived), noted.bytes > SMALL, class);
    }
}

#[cfg(test)]
mod tests {
    use forebay_dataplane::Pool;

    use super::*;
    use crate::policy::tests::headers;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn send(departures: &mut Departures, queue: usize, now: Nanos, fingerprint: Option<u32>) {
        let mut pool = Pool::new(1, 1500).unwrap();
        let frame = pool.frame(&[0; 114]).unwrap();
        let mut packet = Packet::new(frame, Some(&headers(1)), now);
        packet.counted = Bytes(100);
        packet.fingerprint = fingerprint;
        departures.on_sent(now, Direction::Outward, queue, &packet);
    }

    #[test]
    fn every_packet_counts_and_multiples_of_the_epoch_are_boundaries() {
        let mut departures = Departures::new();
        departures.begin(0, Kind::Sfq, 16);
        departures.begin(1, Kind::Sfq, 1);
        for (at, fingerprint) in (0..).zip([Some(15), Some(16), None, Some(0), Some(24)]) {
            send(&mut departures, 0, MS(at), fingerprint);
        }
        send(&mut departures, 1, MS(9), Some(7));
        send(&mut departures, 2, MS(9), Some(0));
        let found: Vec<_> = departures
            .boundaries()
            .map(|b| (b.queue, b.time, b.fingerprint, b.bytes, b.packets))
            .collect();
        let expected = [
            (0, MS(1), 16, Bytes(200), 2),
            (0, MS(3), 0, Bytes(400), 4),
            (1, MS(9), 7, Bytes(100), 1),
        ];
        assert_eq!(found, expected);
        assert_eq!(departures.boundaries().count(), 0, "they are taken once");
        let first = departures.of(0).unwrap();
        assert_eq!((first.bytes, first.packets), (Bytes(500), 5));
        departures.set_epoch(0, 8, MS(30));
        send(&mut departures, 0, MS(10), Some(24));
        assert_eq!(departures.boundaries().count(), 1);
        // Another bundle takes the number.
        departures.begin(0, Kind::Fifo, 16);
        let first = departures.of(0).unwrap();
        assert_eq!((first.packets, first.waits.is_some()), (0, false));
    }

    #[test]
    fn boundaries_beyond_the_bound_are_not_kept_and_the_packets_count() {
        let mut departures = Departures::new();
        departures.begin(0, Kind::Sfq, 1);
        for _ in 0..=MAX_BOUNDARIES {
            send(&mut departures, 0, MS(1), Some(3));
        }
        assert_eq!(departures.boundaries().count(), MAX_BOUNDARIES);
        assert_eq!(departures.of(0).unwrap().packets, MAX_BOUNDARIES as u64 + 1);
    }
}
