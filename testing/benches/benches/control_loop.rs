//! Benchmarks of a packet, a tick, and the feedback between two ticks. The number of bundles ranges
//! from one, whose state stays in the cache, to ten thousand, whose state does not.
//!
//! `cargo bench -p forebay-benches --bench control_loop`
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_benches::fleet::{Fleet, PACKETS, Part, new_bundle};
use forebay_control::ControllerKind;
use forebay_units::{Bytes, Nanos};

const BUNDLES: [usize; 4] = [1, 100, 1000, 10_000];

fn packet(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(1));
    let mut bundle = new_bundle(ControllerKind::default());
    let mut now = Nanos::ZERO;
    group.bench_function("no boundary", |b| {
        b.iter(|| {
            now += Nanos(1000);
            bundle.on_sent(now, Bytes(1500), black_box(Some(1)), None);
        });
    });
    group.throughput(Throughput::Elements(u64::from(PACKETS)));
    let mut fleet = Fleet::new(1, ControllerKind::default());
    group.bench_function("with its share of marks, feedback and ticks", |b| {
        b.iter(|| fleet.next_tick());
    });
    group.finish();
}

fn tick(c: &mut Criterion) {
    for controller in ControllerKind::ALL {
        fleets(c, "tick", Part::Tick, controller);
    }
}

/// Feedback does not involve the controller.
fn feedback(c: &mut Criterion) {
    fleets(c, "feedback of a tick", Part::Feedback, ControllerKind::default());
}

fn fleets(c: &mut Criterion, group: &str, part: Part, controller: ControllerKind) {
    let mut group = c.benchmark_group(group);
    group.sample_size(20);
    for bundles in BUNDLES {
        group.throughput(Throughput::Elements(bundles as u64));
        let mut fleet = Fleet::new(bundles, controller);
        let name = format!("{controller}, bundles");
        group.bench_function(BenchmarkId::new(name, bundles), |b| {
            b.iter_custom(|rounds| fleet.time(part, rounds));
        });
        let accepted = fleet.bundles[0].snapshot().counters.accepted;
        assert!(accepted > fleet.tick, "the bundles get feedback");
    }
    group.finish();
}

criterion_group!(benches, packet, tick, feedback);
criterion_main!(benches);
