//! The cost of a packet: one enqueue and one dequeue, each new packet from a random flow.
//!
//! Most loads have as many waiting packets as flows, the worst case for caches. The last one has a
//! thousand waiting packets of a million flows, as in the queue of a real link. `single` exchanges
//! packets one by one; `batch` enqueues 32 packets after `prefetch` and dequeues 32, as a dataplane
//! does. Times are per packet.
//!
//! `cargo bench -p forebay-queue`
#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_queue::{
    Codel, DropReason, Drr, DualPi2, Ecn, Fifo, FqCodel, Limit, Packet, Pi2, Pie, Qdisc, Sfq,
    StrictPriority, TokenBucket, codel, drr, dualpi2, fifo, fq_codel, pi2, pie, sfq, token_bucket,
};
use forebay_units::{Bytes, Nanos, Rate};

/// A packet of the size of a dataplane's frame descriptor.
#[derive(Clone, Copy)]
struct Descriptor {
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
struct Source {
    state: u64,
    flows: u64,
    now: Nanos,
}

impl Source {
    fn next(&mut self) -> (Nanos, Descriptor) {
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

fn no_drops(_: Descriptor, reason: DropReason) {
    panic!("dropped: {reason}");
}

const BATCH: usize = 32;

/// Enqueues a packet and dequeues one.
fn exchange<Q: Qdisc<Descriptor>>(q: &mut Q, source: &mut Source) {
    let (now, packet) = source.next();
    q.enqueue(now, packet, &mut no_drops);
    black_box(q.dequeue(now, &mut no_drops));
}

/// Enqueues a batch of packets and dequeues as many.
fn exchange_batch<Q: Qdisc<Descriptor>>(q: &mut Q, source: &mut Source) {
    let batch = [(); BATCH].map(|()| source.next());
    for (_, packet) in &batch {
        q.prefetch(packet);
    }
    for (now, packet) in batch {
        q.enqueue(now, packet, &mut no_drops);
    }
    for _ in 0..BATCH {
        black_box(q.dequeue(source.now, &mut no_drops));
    }
}

/// The number of flows and of waiting packets of each load.
const LOADS: [(u32, u32); 4] =
    [(1_000, 1_000), (100_000, 100_000), (1_000_000, 1_000_000), (1_000_000, 1_000)];

/// Measures `make(flows)`, a qdisc with room for twice as many packets as there are flows.
fn bench<Q: Qdisc<Descriptor>>(c: &mut Criterion, name: &str, make: impl Fn(u32) -> Q) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    for (flows, waiting) in LOADS {
        let now = Nanos::from_secs(1);
        let mut source = Source { state: 0x2545_f491_4f6c_dd1d, flows: u64::from(flows), now };
        let mut q = make(flows);
        for _ in 0..waiting {
            let (now, packet) = source.next();
            q.enqueue(now, packet, &mut no_drops);
        }
        // Runs past the first rounds, so that the order in memory is that of a queue in long use.
        (0..2 * waiting).for_each(|_| exchange(&mut q, &mut source));
        let load = format!("{flows}_flows_{waiting}_waiting");
        group.bench_function(BenchmarkId::new("single", &load), |b| {
            b.iter(|| exchange(&mut q, &mut source));
        });
        group.bench_function(BenchmarkId::new("batch", &load), |b| {
            b.iter_custom(|packets| {
                let batches = packets.div_ceil(BATCH as u64);
                let start = Instant::now();
                (0..batches).for_each(|_| exchange_batch(&mut q, &mut source));
                start.elapsed().mul_f64(packets as f64 / (batches * BATCH as u64) as f64)
            });
        });
    }
    group.finish();
}

fn fifo(flows: u32) -> Fifo<Descriptor> {
    Fifo::new(fifo::Config { limit: Limit::packets(flows * 2) }).expect("valid")
}

fn sfq(flows: u32) -> Sfq<Descriptor> {
    let divisor = (flows * 2).next_power_of_two();
    let room = flows * 2;
    let config =
        sfq::Config { limit: room, depth: room, flows: divisor, divisor, ..sfq::Config::default() };
    Sfq::new(config).expect("valid")
}

fn all(c: &mut Criterion) {
    bench(c, "fifo", fifo);
    bench(c, "codel", |flows| {
        let limit = Limit::packets(flows * 2);
        Codel::new(codel::Config { limit, ..codel::Config::default() }).expect("valid")
    });
    bench(c, "pie", |flows| {
        let limit = Limit::packets(flows * 2);
        Pie::new(pie::Config { limit, ..pie::Config::default() }).expect("valid")
    });
    bench(c, "pi2", |flows| {
        let limit = Limit::packets(flows * 2);
        Pi2::new(pi2::Config { limit, ..pi2::Config::default() }).expect("valid")
    });
    // Half of the flows are L4S by their ECN field.
    bench(c, "dualpi2", |flows| {
        let config = dualpi2::Config { limit: flows * 2, ..dualpi2::Config::default() };
        DualPi2::new(config).expect("valid")
    });
    bench(c, "sfq", sfq);
    bench(c, "fq_codel", |flows| {
        let memory_limit = fq_codel::Config::MAX_MEMORY;
        let config = fq_codel::Config {
            limit: flows * 2,
            memory_limit,
            flows: flows * 2,
            ..fq_codel::Config::default()
        };
        FqCodel::new(config).expect("valid")
    });
    bench(c, "drr_of_8_fifos", |flows| {
        let children = (1..=8).map(|weight| (weight, fifo(flows))).collect();
        Drr::new(drr::Config::default(), children).expect("valid")
    });
    bench(c, "priority_of_8_fifos", |flows| {
        StrictPriority::new((0..8).map(|_| fifo(flows)).collect()).expect("valid")
    });
    bench(c, "shaped_sfq", |flows| {
        // At a nanosecond per packet this rate never holds a packet back.
        let rate = Some(Rate::from_mbps(100_000_000));
        TokenBucket::new(token_bucket::Config { rate, ..Default::default() }, sfq(flows))
    });
}

criterion_group!(benches, all);
criterion_main!(benches);
