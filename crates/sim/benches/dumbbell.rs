//! How fast the simulator is: packet-hops a second on one core, over whole runs of ten seconds. A
//! hop is a link, a sendbox or a receivebox that a packet enters.
//!
//! `cargo bench -p forebay-sim`; for hops, events and memory of one run each:
//! `cargo bench -p forebay-sim -- --test`
#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_control::BundleConfig;
use forebay_queue::{Fifo, FqCodel, Limit, Sfq, fifo, fq_codel, sfq};
use forebay_sim::{
    BundleSetup, Capacity, Congestion, EventQueue, Hop, Jitter, LinkConfig, Loss, Path, Queue,
    Random, Route, Simulation, Traffic, TrafficKind,
};
use forebay_units::{Bytes, Nanos, Rate};

const LENGTH: Nanos = Nanos::from_secs(10);
const RTT: Nanos = Nanos::from_millis(50);

fn fifo_queue(rate: Rate) -> Queue {
    let limit = Limit::bytes(rate.bytes_in(RTT));
    Box::new(Fifo::new(fifo::Config { limit }).expect("a limit above zero"))
}

fn fq_codel_queue(_: Rate) -> Queue {
    Box::new(FqCodel::new(fq_codel::Config::default()).expect("the defaults"))
}

fn sfq_queue() -> Queue {
    Box::new(Sfq::new(sfq::Config::default()).expect("the defaults"))
}

/// A dumbbell with `flows` Cubic flows, perhaps with boxes.
fn dumbbell(rate: Rate, flows: u32, queue: Queue, boxes: bool) -> Simulation<()> {
    let mut sim = Simulation::new(1, ());
    let mut link = |capacity, queue| {
        let config = LinkConfig {
            capacity,
            delay: RTT / 2,
            queue,
            loss: Loss::None,
            jitter: Jitter { up_to: Nanos::from_micros(20), reorders: false },
        };
        sim.add_link(config).expect("a link that passes packets")
    };
    let forward = link(Capacity::Constant(rate), Some(queue));
    let backward = link(Capacity::Unlimited, None);
    let mut route =
        |hops: Vec<Hop>| sim.add_route(Route { hops, source: 0 }).expect("all hops are there");
    let back = route(vec![Hop::Link(backward)]);
    let mut way = route(vec![Hop::Link(forward)]);
    if boxes {
        let setup = BundleSetup {
            control: BundleConfig::default(),
            queue: sfq_queue(),
            burst: Nanos::from_micros(500),
            feedback_route: back,
            update_route: way,
            feedback_len: Bytes(94),
            update_len: Bytes(86),
        };
        let bundle = sim.add_bundle(setup).expect("the defaults");
        let hops = vec![Hop::Sendbox(bundle), Hop::Link(forward), Hop::Receivebox(bundle)];
        way = sim.add_route(Route { hops, source: 0 }).expect("all hops are there");
    }
    let path = Path { forward: way, backward: back, rtt: RTT };
    let kind = TrafficKind::Bulk { flows, congestion: Congestion::Cubic };
    let traffic = Traffic { path, start: Nanos::ZERO, stop: LENGTH, kind };
    sim.add_traffic(traffic).expect("traffic that makes sense");
    sim
}

type Case = (&'static str, fn() -> Simulation<()>);

const CASES: [Case; 5] = [
    ("50 flows, 96 Mbit/s, fifo", || {
        let rate = Rate::from_mbps(96);
        dumbbell(rate, 50, fifo_queue(rate), false)
    }),
    ("50 flows, 96 Mbit/s, fq_codel", || {
        let rate = Rate::from_mbps(96);
        dumbbell(rate, 50, fq_codel_queue(rate), false)
    }),
    ("50 flows, 96 Mbit/s, boxes with sfq", || {
        let rate = Rate::from_mbps(96);
        dumbbell(rate, 50, fifo_queue(rate), true)
    }),
    ("1000 flows, 1 Gbit/s, fifo", || {
        let rate = Rate::from_mbps(1000);
        dumbbell(rate, 1000, fifo_queue(rate), false)
    }),
    ("100000 flows, 1 Gbit/s, fifo", || {
        let rate = Rate::from_mbps(1000);
        dumbbell(rate, 100_000, fifo_queue(rate), false)
    }),
];

/// How long this thread has run, in nanoseconds: other work on the machine does not count, as far as
/// the caches let it. Zero where the kernel does not say, and the rates printed then are none.
fn on_processor() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn simulate(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    for (name, build) in CASES {
        let mut sim = build();
        let start = on_processor();
        sim.run_until(LENGTH);
        let (took, totals) = ((on_processor() - start) as f64 / 1e9, sim.totals());
        println!(
            "{name}: {:.2} M hops/s, {:.2} M events/s, {totals:?}",
            totals.hops as f64 / took / 1e6,
            totals.events as f64 / took / 1e6,
        );
        group.throughput(Throughput::Elements(totals.hops));
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

/// Takes out the next event and puts in another one: the classic hold model.
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
