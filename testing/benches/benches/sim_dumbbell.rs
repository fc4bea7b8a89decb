//! The time of whole runs of ten simulated seconds, and of an event in the event queue.
//!
//! `cargo bench -p forebay-benches --bench sim_dumbbell`; the benchmark `sim_speed` prints
//! packet-hops per second.
#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_benches::networks::{CASES, LENGTH};
use forebay_sim::{EventQueue, Random};
use forebay_units::Nanos;

fn simulate(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    for (name, build) in CASES {
        let mut sim = build();
        sim.run_until(LENGTH);
        group.throughput(Throughput::Elements(sim.totals().hops));
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter_custom(|iterations| {
                let mut sims: Vec<_> = (0..iterations).map(|_| build()).collect();
                let start = Instant::now();
                sims.iter_mut().for_each(|sim| sim.run_until(LENGTH));
                start.elapsed()
            });
        });
    }
}

/// Measures a pop of the next event and a push of another one (the hold model).
fn hold(c: &mut Criterion) {
    let mut group = c.benchmark_group("events");
    for waiting in [100_u32, 10_000, 1_000_000] {
        let mut random = Random::new(1, 1);
        let mut events = EventQueue::new();
        let mut heap = std::collections::BinaryHeap::new();
        for n in 0..waiting {
            let time = random.below(50_000_000);
            events.push(Nanos(time), n);
            heap.push(std::cmp::Reverse((time, n)));
        }
        group.bench_function(BenchmarkId::new("wheel", waiting), |b| {
            b.iter(|| {
                let Some((now, n)) = events.pop(Nanos::MAX) else { return };
                events.push(now + Nanos(random.below(50_000_000)), n);
            });
        });
        group.bench_function(BenchmarkId::new("binary heap", waiting), |b| {
            b.iter(|| {
                let Some(std::cmp::Reverse((now, n))) = heap.pop() else { return };
                heap.push(std::cmp::Reverse((now + random.below(50_000_000), n)));
            });
        });
    }
}

criterion_group!(benches, hold, simulate);
criterion_main!(benches);
