//! The cost of a packet: one enqueue and one dequeue, each new packet from a random flow.
//!
//! Most loads have as many waiting packets as flows, the worst case for caches. The last one has a
//! thousand waiting packets of a million flows, as in the queue of a real link. `single` exchanges
//! packets one by one; `batch` enqueues 32 packets after `prefetch` and dequeues 32, as a dataplane
//! does. Times are per packet.
//!
//! `cargo bench -p forebay-benches --bench queue_qdiscs`
#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_benches::packets::{
    Descriptor, Source, exchange, fifo, fill, fq_codel, no_drops, sfq, shaped,
};
use forebay_queue::{
    Codel, Drr, DualPi2, Limit, Pi2, Pie, Qdisc, StrictPriority, codel, drr, dualpi2, pi2, pie,
};

const BATCH: usize = 32;

/// Enqueues a batch of packets and dequeues as many.
fn exchange_batch<Q: Qdisc<Descriptor>>(q: &mut Q, source: &mut Source) {
    let batch = [(); BATCH].map(|()| source.next_packet());
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
        let mut source = Source::new(flows);
        let mut q = make(flows);
        fill(&mut q, &mut source, waiting);
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
    bench(c, "fq_codel", fq_codel);
    bench(c, "drr_of_8_fifos", |flows| {
        let children = (1..=8).map(|weight| (weight, fifo(flows))).collect();
        Drr::new(drr::Config::default(), children).expect("valid")
    });
    bench(c, "priority_of_8_fifos", |flows| {
        StrictPriority::new((0..8).map(|_| fifo(flows)).collect()).expect("valid")
    });
    bench(c, "shaped_sfq", |flows| shaped(sfq(flows)));
}

criterion_group!(benches, all);
criterion_main!(benches);
