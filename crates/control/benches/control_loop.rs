//! Benchmarks of a packet, a tick, and the feedback between two ticks. The number of bundles ranges
//! from one, whose state stays in the cache, to ten thousand, whose state does not.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_control::{ControlConfig, ControlLoop, ControllerKind, Feedback, Others};
use forebay_units::{Bytes, Nanos};

const BUNDLES: [usize; 4] = [1, 100, 1000, 10_000];
/// 96 Mbit/s in full-size packets: eight each millisecond, 80 a tick.
const PACKETS: u32 = 80;
const TICK: Nanos = Nanos::from_millis(10);
const RTT_TICKS: u64 = 5;

/// Equal bundles on a path of 50 ms. Packets are numbered, so every 64th is a boundary.
struct Fleet {
    bundles: Vec<ControlLoop>,
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
            answer(bundle, self.tick);
            control(bundle, self.tick);
        }
    }

    /// Returns the time that `part` takes in `rounds` ticks. The parts run one after another, each
    /// for all bundles, as in a sendbox.
    fn time(&mut self, part: Part, rounds: u64) -> Duration {
        let mut spent = Duration::ZERO;
        for _ in 0..rounds {
            self.tick += 1;
            for bundle in &mut self.bundles {
                send(bundle, self.tick);
            }
            let sent = Instant::now();
            for bundle in &mut self.bundles {
                answer(bundle, self.tick);
            }
            let answered = Instant::now();
            for index in 0..self.bundles.len() {
                ControlLoop::prefetch_after(index, |index| self.bundles.get(index));
                control(&mut self.bundles[index], self.tick);
            }
            spent += match part {
                Part::Feedback => answered - sent,
                Part::Tick => answered.elapsed(),
            };
        }
        spent
    }
}

#[derive(Clone, Copy)]
enum Part {
    Feedback,
    Tick,
}

fn new_bundle(controller: ControllerKind) -> ControlLoop {
    let config = ControlConfig { controller, ..ControlConfig::default() };
    ControlLoop::new(config, Nanos::ZERO).expect("the defaults are valid")
}

fn send(bundle: &mut ControlLoop, tick: u64) {
    let first = tick as u32 * PACKETS;
    for packet in first..first + PACKETS {
        let now = Nanos(tick * TICK.0 + u64::from(packet - first) * 125_000);
        bundle.on_sent(now, Bytes(1500), Some(packet), None);
    }
}

/// Delivers the one or two feedback messages of a tick.
fn answer(bundle: &mut ControlLoop, tick: u64) {
    if let Some(sent) = tick.checked_sub(RTT_TICKS) {
        let first = sent as u32 * PACKETS;
        let step = 16;
        for packet in (first.next_multiple_of(64)..first + PACKETS).step_by(64) {
            let now = Nanos(tick * TICK.0 + u64::from(packet - first) * 125_000);
            let feedback = Feedback {
                others: Others::default(),
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
}

/// Runs a tick and the calls that a sendbox makes after it.
fn control(bundle: &mut ControlLoop, tick: u64) {
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
