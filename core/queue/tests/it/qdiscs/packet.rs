//! A packet with a number, and helpers to drive a qdisc.

use forebay_queue::{DropReason, Ecn, Packet, Qdisc};
use forebay_units::{Bytes, Nanos};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pkt {
    pub(crate) id: u64,
    pub(crate) flow: u32,
    pub(crate) len: u64,
    pub(crate) class: u8,
    pub(crate) ecn: Ecn,
}

impl Packet for Pkt {
    fn len(&self) -> Bytes {
        Bytes(self.len)
    }

    fn flow_hash(&self) -> u32 {
        self.flow
    }

    fn class(&self) -> u8 {
        self.class
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        assert!(matches!(self.ecn, Ecn::Ect0 | Ecn::Ect1), "only ECN-capable packets are marked");
        self.ecn = Ecn::Ce;
    }
}

/// Returns a full frame of `flow` with the number `id`.
pub(crate) fn frame(id: u64, flow: u32) -> Pkt {
    Pkt { id, flow, len: 1514, class: 0, ecn: Ecn::NotEct }
}

pub(crate) type Dropped = (Pkt, DropReason);

/// Enqueues a packet and returns the dropped packets.
pub(crate) fn enqueue<Q: Qdisc<Pkt> + ?Sized>(q: &mut Q, now: Nanos, packet: Pkt) -> Vec<Dropped> {
    let mut drops = Vec::new();
    q.enqueue(now, packet, &mut |packet, reason| drops.push((packet, reason)));
    drops
}

/// Dequeues a packet and returns it with the dropped packets.
pub(crate) fn dequeue<Q: Qdisc<Pkt> + ?Sized>(
    q: &mut Q,
    now: Nanos,
) -> (Option<Pkt>, Vec<Dropped>) {
    let mut drops = Vec::new();
    let sent = q.dequeue(now, &mut |packet, reason| drops.push((packet, reason)));
    (sent, drops)
}

/// Dequeues all packets and asserts that none is dropped.
pub(crate) fn drain<Q: Qdisc<Pkt> + ?Sized>(q: &mut Q, now: Nanos) -> Vec<Pkt> {
    std::iter::from_fn(|| {
        let (sent, drops) = dequeue(q, now);
        assert_eq!(drops, []);
        sent
    })
    .collect()
}
