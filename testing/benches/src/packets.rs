//! Packets of random flows, and the queues that they pass.

use std::hint::black_box;

use forebay_queue::{
    DropReason, Ecn, Fifo, FqCodel, Limit, Packet, Qdisc, Sfq, TokenBucket, fifo, fq_codel, sfq,
    token_bucket,
};
use forebay_units::{Bytes, Nanos, Rate};

/// A packet of the size of a dataplane's frame descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    _frame: u64,
    flow: u32,
    len: u16,
    class: u8,
    ecn: Ecn,
}

impl Packet for Descriptor {
    fn len(&self) -> Bytes {
        Bytes(u64::from(self.len))
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
        self.ecn = Ecn::Ce;
    }
}

/// A source of packets of random flows (xorshift64, Marsaglia 2003).
///
/// Time advances by a nanosecond per packet, too little for CoDel to drop one of a million waiting
/// packets.
#[derive(Debug)]
pub struct Source {
    state: u64,
    flows: u64,
    /// The time of the latest packet.
    pub now: Nanos,
}

impl Source {
    /// Makes a source of packets of `flows` flows, the same ones each time.
    pub fn new(flows: u32) -> Self {
        let now = Nanos::from_secs(1);
        Self { state: 0x2545_f491_4f6c_dd1d, flows: u64::from(flows), now }
    }

    /// Returns the next packet and its time.
    pub fn next_packet(&mut self) -> (Nanos, Descriptor) {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let flow = (((self.state >> 32) * self.flows) >> 32) as u32;
        self.now += Nanos(1);
        // Stands in for a classifier's hash; any bijection that scatters works.
        let hash = flow.wrapping_mul(0x9e37_79b1).rotate_left(15).wrapping_mul(0x85eb_ca6b);
        let class = (hash >> 29) as u8;
        let ecn = if hash & 1 == 0 { Ecn::Ect0 } else { Ecn::Ect1 };
        (self.now, Descriptor { _frame: 0, flow: hash, len: 1514, class, ecn })
    }
}

/// Panics, since a drop would make a packet cheaper.
///
/// # Panics
/// Always.
pub fn no_drops(_: Descriptor, reason: DropReason) {
    panic!("dropped: {reason}");
}

/// Enqueues packets until `waiting` of them wait.
pub fn fill<Q: Qdisc<Descriptor>>(q: &mut Q, source: &mut Source, waiting: u32) {
    for _ in 0..waiting {
        let (now, packet) = source.next_packet();
        q.enqueue(now, packet, &mut no_drops);
    }
}

/// Enqueues a packet and dequeues one.
pub fn exchange<Q: Qdisc<Descriptor>>(q: &mut Q, source: &mut Source) {
    let (now, packet) = source.next_packet();
    q.enqueue(now, packet, &mut no_drops);
    black_box(q.dequeue(now, &mut no_drops));
}

/// Makes a FIFO with room for twice as many packets as there are flows, as all queues here have.
///
/// # Panics
/// If there are no flows.
pub fn fifo(flows: u32) -> Fifo<Descriptor> {
    Fifo::new(fifo::Config { limit: Limit::packets(flows * 2) }).expect("valid")
}

/// Makes an SFQ with a slot for each flow.
///
/// # Panics
/// If there are no flows.
pub fn sfq(flows: u32) -> Sfq<Descriptor> {
    let divisor = (flows * 2).next_power_of_two();
    let room = flows * 2;
    let config =
        sfq::Config { limit: room, depth: room, flows: divisor, divisor, ..sfq::Config::default() };
    Sfq::new(config).expect("valid")
}

/// Makes an FQ-CoDel with twice as many queues as there are flows.
///
/// # Panics
/// If there are no flows.
pub fn fq_codel(flows: u32) -> FqCodel<Descriptor> {
    let memory_limit = fq_codel::Config::MAX_MEMORY;
    let config = fq_codel::Config {
        limit: flows * 2,
        memory_limit,
        flows: flows * 2,
        ..fq_codel::Config::default()
    };
    FqCodel::new(config).expect("valid")
}

/// Puts a token bucket before a queue. At a nanosecond per packet it never holds a packet back.
pub fn shaped<Q: Qdisc<Descriptor>>(queue: Q) -> TokenBucket<Q> {
    let rate = Some(Rate::from_mbps(100_000_000));
    TokenBucket::new(token_bucket::Config { rate, ..Default::default() }, queue)
}
