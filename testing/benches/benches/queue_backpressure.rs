//! The cost of backpressure over a full buffer of a thousand packets, by the number of flows.
//!
//! In one iteration a packet leaves, a flow is resumed, it probes and enqueues its packet, then it
//! probes for another one, is refused and is paused. An iteration thus has two probes, a pause and
//! a resume in addition to an enqueue and a dequeue. The first part of a name is the order of the
//! paused flows. `plain` is the enqueue and dequeue without backpressure.
//!
//! `cargo bench -p forebay-benches --bench queue_backpressure`
#![allow(missing_docs, reason = "criterion's macros generate undocumented items")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use forebay_queue::backpressure::{Config, FlowId, FlowPacket, Gate, Hysteresis, Order};
use forebay_queue::{DropReason, Ecn, Fifo, Limit, Packet, Qdisc, fifo};
use forebay_units::{Bytes, Nanos};

#[derive(Clone, Copy)]
struct Descriptor {
    _frame: u64,
    flow: u32,
}

impl Packet for Descriptor {
    fn len(&self) -> Bytes {
        Bytes(1514)
    }

    fn flow_hash(&self) -> u32 {
        self.flow
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn set_ce(&mut self) {}
}

impl FlowPacket for Descriptor {
    fn flow(&self) -> FlowId {
        FlowId(self.flow)
    }
}

fn no_drops(_: Descriptor, reason: DropReason) {
    panic!("dropped: {reason}");
}

const NOW: Nanos = Nanos::from_secs(1);
const SLOTS: u32 = 1000;
const FLOWS: [u32; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];

fn fifo() -> Fifo<Descriptor> {
    Fifo::new(fifo::Config { limit: Limit::packets(SLOTS) }).expect("valid")
}

/// Returns the `n`-th of `flows` flows in a scattered order that caches cannot predict.
fn scattered(n: u32, flows: u32) -> u32 {
    (u64::from(n) * 0x9e37_79b1 % u64::from(flows)) as u32
}

/// Returns a gate with a full buffer in which all flows without packets are paused.
fn full(flows: u32, order: Order, hysteresis: Hysteresis) -> Gate<Descriptor, Fifo<Descriptor>> {
    let config = Config { flows, in_buffer: 64, turn: 1, order, hysteresis, ..Config::default() };
    let mut gate = Gate::new(config, fifo()).expect("valid");
    for n in (0..flows).cycle().take(flows.max(2 * SLOTS) as usize) {
        let flow = scattered(n, flows);
        let _ = gate.offer(NOW, Descriptor { _frame: 0, flow }, &mut no_drops);
    }
    gate
}

/// Dequeues a packet, enqueues a packet of each flow resumed for it, and pauses these flows again.
fn turn(gate: &mut Gate<Descriptor, Fifo<Descriptor>>) {
    black_box(gate.dequeue(NOW, &mut no_drops));
    while let Some(flow) = gate.resume_flow(NOW) {
        if gate.probe(flow, 0).is_go() {
            let _ = gate.offer(NOW, Descriptor { _frame: 0, flow: flow.0 }, &mut no_drops);
        }
        if !gate.probe(flow, 0).is_go() {
            black_box(gate.pause_flow(NOW, flow, 0));
        }
    }
}

fn all(c: &mut Criterion) {
    let granularity = Nanos(1000);
    for (name, order) in [
        ("fifo", Order::Fifo),
        ("round_robin", Order::RoundRobin),
        ("priority", Order::Priority { classes: 8 }),
        ("earliest_time", Order::EarliestTime { granularity, buckets: 1 << 16 }),
    ] {
        for (hysteresis, after) in
            [(Hysteresis::Packets(1), "each"), (Hysteresis::OneIn(8), "eighth")]
        {
            let mut group = c.benchmark_group(format!("backpressure/{name}/{after}"));
            group.throughput(Throughput::Elements(1));
            for flows in FLOWS {
                let mut gate = full(flows, order, hysteresis);
                (0..2 * flows.max(SLOTS)).for_each(|_| turn(&mut gate));
                assert!(gate.waiting() > 0, "flows wait");
                group.bench_function(BenchmarkId::from_parameter(flows), |b| {
                    b.iter(|| turn(&mut gate));
                });
            }
            group.finish();
        }
    }
    c.bench_function("backpressure/plain", |b| {
        let mut qdisc = fifo();
        for flow in 0..SLOTS {
            qdisc.enqueue(NOW, Descriptor { _frame: 0, flow }, &mut no_drops);
        }
        b.iter(|| {
            if let Some(packet) = qdisc.dequeue(NOW, &mut no_drops) {
                qdisc.enqueue(NOW, black_box(packet), &mut no_drops);
            }
        });
    });
}

criterion_group!(benches, all);
criterion_main!(benches);
