//! Instructions of hot operations, which callgrind counts: `scripts/instructions`.
//!
//! Each benchmark performs its operation ten thousand times: a tick of a bundle, a packet through
//! a queue, a packet's fingerprint, a packet's hop in the simulator. Loads are the same each time,
//! and what comes before the operation is not counted.
#![allow(missing_docs, unused_qualifications, reason = "gungraun's macros")]

use std::hint::black_box;

use forebay_benches::fleet::Fleet;
use forebay_benches::networks::CASES;
use forebay_benches::packets::{self, Descriptor, Source};
use forebay_control::ControllerKind;
use forebay_queue::{Fifo, FqCodel, Qdisc, Sfq, TokenBucket};
use forebay_sim::Simulation;
use forebay_test_support::frames::{KEY, frame};
use forebay_units::Nanos;
use forebay_wire::{Frame, fingerprint};
use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint};

/// How often a benchmark performs its operation.
const OPERATIONS: usize = 10_000;

/// Counts the instructions of one function, and of what it calls, alone.
fn only(function: &str) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::with_args(["--cache-sim=no"]);
    callgrind.entry_point(EntryPoint::Custom(format!("*{function}")));
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

fn fleet(bundles: usize) -> Fleet {
    Fleet::new(bundles, ControllerKind::default())
}

/// Runs ticks until all bundles together had [`OPERATIONS`] of them.
fn ticks(mut fleet: Fleet) -> Fleet {
    for _ in 0..OPERATIONS / fleet.bundles.len() {
        fleet.send();
        fleet.answer();
        fleet.control();
    }
    fleet
}

#[library_benchmark(config = only("::Fleet::control"))]
#[bench::of_1_bundle(args = (1), setup = fleet)]
#[bench::of_100_bundles(args = (100), setup = fleet)]
fn tick(fleet: Fleet) -> Fleet {
    ticks(fleet)
}

#[library_benchmark(config = only("::Fleet::answer"))]
#[bench::of_1_bundle(args = (1), setup = fleet)]
fn feedback(fleet: Fleet) -> Fleet {
    ticks(fleet)
}

library_benchmark_group!(name = control, benchmarks = [tick, feedback]);

/// A queue with as many waiting packets as flows, and the source of the next ones.
struct Load<Q> {
    queue: Q,
    source: Source,
}

impl<Q: Qdisc<Descriptor>> Load<Q> {
    fn new(mut queue: Q, flows: u32) -> Self {
        let mut source = Source::new(flows);
        packets::fill(&mut queue, &mut source, flows);
        Self { queue, source }
    }

    /// Enqueues packets and dequeues as many.
    fn exchange(mut self) -> Self {
        for _ in 0..OPERATIONS {
            packets::exchange(&mut self.queue, &mut self.source);
        }
        self
    }
}

fn loaded_sfq(flows: u32) -> Load<Sfq<Descriptor>> {
    Load::new(packets::sfq(flows), flows)
}

#[library_benchmark]
#[bench::with_1_000_flows(args = (1_000), setup = loaded_sfq)]
#[bench::with_1_000_000_flows(args = (1_000_000), setup = loaded_sfq)]
fn sfq(load: Load<Sfq<Descriptor>>) -> Load<Sfq<Descriptor>> {
    load.exchange()
}

fn loaded_fq_codel(flows: u32) -> Load<FqCodel<Descriptor>> {
    Load::new(packets::fq_codel(flows), flows)
}

#[library_benchmark]
#[bench::with_1_000_flows(args = (1_000), setup = loaded_fq_codel)]
#[bench::with_1_000_000_flows(args = (1_000_000), setup = loaded_fq_codel)]
fn fq_codel(load: Load<FqCodel<Descriptor>>) -> Load<FqCodel<Descriptor>> {
    load.exchange()
}

fn loaded_token_bucket(flows: u32) -> Load<TokenBucket<Fifo<Descriptor>>> {
    Load::new(packets::shaped(packets::fifo(flows)), flows)
}

#[library_benchmark]
#[bench::before_a_fifo(args = (1_000), setup = loaded_token_bucket)]
fn token_bucket(load: Load<TokenBucket<Fifo<Descriptor>>>) -> Load<TokenBucket<Fifo<Descriptor>>> {
    load.exchange()
}

library_benchmark_group!(name = queue, benchmarks = [sfq, fq_codel, token_bucket]);

#[library_benchmark]
#[bench::of_ipv4_tcp(args = ("ipv4-tcp"), setup = frame)]
#[bench::of_ipv6_tcp(args = ("ipv6-tcp"), setup = frame)]
fn parsing(frame: Vec<u8>) -> Vec<u8> {
    for _ in 0..OPERATIONS {
        let _ = black_box(Frame::parse(black_box(&frame)));
    }
    frame
}

// Counts the parsing of one packet too.
#[library_benchmark]
#[bench::of_ipv4_tcp(args = ("ipv4-tcp"), setup = frame)]
#[bench::of_ipv6_tcp(args = ("ipv6-tcp"), setup = frame)]
fn fingerprints(frame: Vec<u8>) -> Vec<u8> {
    let Ok(Frame::Ip(headers)) = Frame::parse(&frame) else { panic!("no IP packet") };
    for _ in 0..OPERATIONS {
        black_box(fingerprint(black_box(&frame), black_box(&headers), black_box(&KEY)));
    }
    frame
}

library_benchmark_group!(name = wire, benchmarks = [parsing, fingerprints]);

/// A simulation in which all flows have started.
struct Run {
    simulation: Simulation<()>,
    now: Nanos,
}

fn started(network: &str) -> Run {
    let (_, build) = CASES.iter().find(|(name, _)| *name == network).expect("a network's name");
    let mut run = Run { simulation: build(), now: Nanos::from_secs(2) };
    run.simulation.run_until(run.now);
    run
}

// Simulates until packets made `OPERATIONS` hops.
#[library_benchmark]
#[bench::of_50_flows(args = ("50 flows, 96 Mbit/s, fifo"), setup = started)]
#[bench::of_a_bundle(args = ("50 flows, 96 Mbit/s, boxes with sfq"), setup = started)]
fn hop(mut run: Run) -> Run {
    let end = run.simulation.totals().hops + OPERATIONS as u64;
    while run.simulation.totals().hops < end {
        run.now += Nanos::from_micros(100);
        run.simulation.run_until(run.now);
    }
    run
}

library_benchmark_group!(name = sim, benchmarks = hop);

main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::with_args(["--cache-sim=no"])),
    library_benchmark_groups = [control, queue, wire, sim]
);
