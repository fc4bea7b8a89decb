//! What a bundle costs: a packet, and a tick with all that belongs to it, with one bundle, whose state
//! stays in the cache, up to ten thousand, whose does not.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_control::{Bundle, BundleConfig, ControllerKind, Feedback};
use forebay_units::{Bytes, Nanos};

const BUNDLES: [usize; 4] = [1, 100, 1000, 10_000];
/// 96 Mbit/s in full packets: eight each millisecond, 80 a tick.
const PACKETS: u32 = 80;
const TICK: Nanos = Nanos::from_millis(10);
const RTT_TICKS: u64 = 5;

/// Bundles on a path of 50 ms, all alike; packets are numbered, which makes every 64th a boundary.
struct Fleet {
    bundles: Vec<Bundle>,
    tick: u64,
}

impl Fleet {
    fn new(bundles: usize, controller: ControllerKind) -> Self {
        let bundles = (0..bundles).map(|_| new_bundle(controller));
        let mut fleet = Self { bundles: bundles.collect(), tick: 0 };
        for _ in 0..100 {
            fleet.next_tick();
        }
        fleet
    }

    fn next_tick(&mut self) {
        self.tick += 1;
        for bundle in &mut self.bundles {
            send(bundle, self.tick);
            control(bundle, self.tick);
        }
    }

    /// What `rounds` ticks take. Sending is timed on its own; here only what a tick costs is.
    fn time(&mut self, rounds: u64) -> Duration {
        let mut spent = Duration::ZERO;
        for _ in 0..rounds {
            self.tick += 1;
            for bundle in &mut self.bundles {
                send(bundle, self.tick);
            }
            let start = Instant::now();
            for index in 0..self.bundles.len() {
                Bundle::prefetch_after(index, |index| self.bundles.get(index));
                control(&mut self.bundles[index], self.tick);
            }
            spent += start.elapsed();
        }
        spent
    }
}

fn new_bundle(controller: ControllerKind) -> Bundle {
    let config = BundleConfig { controller, ..BundleConfig::default() };
    Bundle::new(config, Nanos::ZERO).expect("the defaults are valid")
}

fn send(bundle: &mut Bundle, tick: u64) {
    let first = tick as u32 * PACKETS;
    for packet in first..first + PACKETS {
        let now = Nanos(tick * TICK.0 + u64::from(packet - first) * 125_000);
        bundle.on_sent(now, Bytes(1500), Some(packet));
    }
}

/// The answers that come in a tick, one or two, and the tick itself.
fn control(bundle: &mut Bundle, tick: u64) {
    if let Some(sent) = tick.checked_sub(RTT_TICKS) {
        let first = sent as u32 * PACKETS;
        let step = 16;
        for packet in (first.next_multiple_of(64)..first + PACKETS).step_by(64) {
            let now = Nanos(tick * TICK.0 + u64::from(packet - first) * 125_000);
            let feedback = Feedback {
                fingerprint: packet,
                epoch: 64,
                bytes: Bytes(u64::from(packet) * 1500),
                packets: packet,
                received_at: Nanos(now.0 - TICK.0 * step / 10),
                sequence: u64::from(packet),
            };
            bundle.on_feedback(now, black_box(&feedback));
        }
    }
    bundle.on_tick(Nanos((tick + 1) * TICK.0), Bytes(30_000));
    black_box(bundle.rate());
    black_box(bundle.poll_epoch_update(Nanos((tick + 1) * TICK.0)));
    while let Some(event) = bundle.poll_event() {
        black_box(event);
    }
}

fn packet(c: &mut Criterion) {
    let mut group = c.benchmark_group("packet");
    group.throughput(Throughput::Elements(1));
    let mut bundle = new_bundle(ControllerKind::default());
    let mut now = Nanos::ZERO;
    group.bench_function("no boundary", |b| {
        b.iter(|| {
            now += Nanos(1000);
            bundle.on_sent(now, Bytes(1500), black_box(Some(1)));
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
    let mut group = c.benchmark_group("tick");
    group.sample_size(20);
    for controller in ControllerKind::ALL {
        for bundles in BUNDLES {
            group.throughput(Throughput::Elements(bundles as u64));
            let mut fleet = Fleet::new(bundles, controller);
            let name = format!("{controller}, bundles with feedback and a tick");
            group.bench_function(BenchmarkId::new(name, bundles), |b| {
                b.iter_custom(|rounds| fleet.time(rounds));
            });
            let accepted = fleet.bundles[0].snapshot().counters.accepted;
            assert!(accepted > fleet.tick, "the bundles are fed");
        }
    }
    group.finish();
}

criterion_group!(benches, packet, tick);
criterion_main!(benches);
