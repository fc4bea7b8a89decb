//! Measures what it costs to send paced UDP flows: one thread with the egress engine, beside one
//! connected socket for each flow. It needs root:
//!
//! ```text
//! cargo bench -p forebay-benches --features live --bench dataplane_udp_egress --
//!     [--flows N,...] [--turns N] [--burst N] [--rounds N] [--seconds S] [--only ARM,...]
//! ```
//!
//! # What is measured
//!
//! Every flow sends `--burst` packets of 1200 bytes in a message, at a pace for which all flows
//! together have `--turns` messages per second. Flows start one after the other. Two namespaces
//! with a veth pair between them have the sender and the receiver. Arms take turns, round by round,
//! and the median counts:
//!
//! - `engine`: `UdpSender` with the policy `Paced`, one socket and one thread.
//! - `coarse`: the same, paced to 65 us instead of 2 us. The thread wakes up less often, and a
//!   system call sends more messages.
//! - `sockets`: a connected socket for each flow. The program keeps the flows in a heap by time,
//!   and calls `send` for each message.
//! - `fq`: a connected socket for each flow with `SO_MAX_PACING_RATE`, below Linux's `sch_fq`. The
//!   program writes the next message when the kernel reports room (`epoll`). Skipped on a kernel
//!   without `sch_fq`.
//!
//! A process that may not have a descriptor for each flow shares the sockets out over several
//! threads with descriptors of their own.
//!
//! # The columns
//!
//! *user* and *system* are CPU seconds of the sending threads for a million packets; *system*
//! includes interrupts that arrived in these threads. *softirq* is the time of the whole machine in
//! software interrupts, in or out of these threads, which the kernel samples with each tick.
//! *machine* is the time that the CPUs were not idle; it means something on a quiet machine only.
//!
//! *late* is the time from a message's pacing time to its arrival at the receiver, of 300 flows,
//! by the kernel's time stamps. `fq` does not tell pacing times. *interval* is the error of the
//! interval between two messages of a flow, by which all arms compare.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod cpu;
mod engine;
mod fq;
mod load;
mod network;
mod receiver;
mod sockets;

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cpu::Cpu;
use forebay_system::clock;
use forebay_system::signals::Signals;
use forebay_test_support::has_root;
use forebay_test_support::namespace::enter;
use forebay_units::Nanos;
use load::{Gate, Load};
use network::Network;
use receiver::Receiver;

/// The ways to send the flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arm {
    Engine,
    Coarse,
    Sockets,
    Fq,
}

impl Arm {
    const ALL: [Self; 4] = [Self::Engine, Self::Coarse, Self::Sockets, Self::Fq];

    const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Coarse => "coarse",
            Self::Sockets => "sockets",
            Self::Fq => "fq",
        }
    }
}

/// The columns of a row, after its name.
const COLUMNS: [&str; 11] = [
    "packets/s",
    "Mbit/s",
    "arrived",
    "user",
    "system",
    "softirq",
    "machine",
    "late p50",
    "late p99",
    "interval p50",
    "interval p99",
];

/// Options from the command line.
struct Options {
    flows: Vec<u32>,
    turns: u32,
    burst: u32,
    rounds: usize,
    seconds: f64,
    only: Option<Vec<String>>,
}

fn options() -> Options {
    let mut options = Options {
        flows: vec![10_000, 100_000],
        turns: 120_000,
        burst: 2,
        rounds: 3,
        seconds: 3.0,
        only: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--flows" => {
                options.flows = value().split(',').map(|n| n.parse().unwrap()).collect();
            }
            "--turns" => options.turns = value().parse().unwrap(),
            "--burst" => options.burst = value().parse().unwrap(),
            "--rounds" => options.rounds = value().parse().unwrap(),
            "--seconds" => options.seconds = value().parse().unwrap(),
            "--only" => options.only = Some(value().split(',').map(str::to_owned).collect()),
            // Cargo passes this argument to every benchmark.
            "--bench" => {}
            _ => panic!("unknown argument {argument}"),
        }
    }
    assert!(options.rounds > 0 && options.burst > 0 && options.turns > 0, "something to measure");
    options
}

fn main() {
    if !has_root() {
        return;
    }
    let options = options();
    // A signal ends the benchmark after the present run, when its namespaces are gone.
    let signals = Signals::block().unwrap();
    let descriptors = sockets::raise_limit(options.flows.iter().copied().max().unwrap_or(0));
    for &flows in &options.flows {
        let load = Load { flows, turns: options.turns, burst: options.burst };
        println!(
            "{flows} flows, {} messages/s of {} packets: {} packets/s; each flow every {:.0} ms",
            options.turns,
            options.burst,
            options.turns * options.burst,
            load.gap().as_secs_f64() * 1e3,
        );
        let chosen = |arm: &Arm| {
            options.only.as_ref().is_none_or(|only| only.iter().any(|name| name == arm.name()))
        };
        let arms: Vec<Arm> = Arm::ALL.into_iter().filter(chosen).collect();
        let mut rows: Vec<(Arm, Vec<[f64; COLUMNS.len()]>)> =
            arms.iter().map(|&arm| (arm, Vec::new())).collect();
        for round in 0..options.rounds {
            for (arm, row) in &mut rows {
                eprintln!("round {} of {}: {}", round + 1, options.rounds, arm.name());
                if let Some(figures) = run(*arm, load, options.seconds, descriptors) {
                    row.push(figures);
                }
                if signals.came() {
                    eprintln!("stopped by a signal");
                    return;
                }
            }
        }
        print(&rows);
    }
}

/// Measures an arm once; `None` if the kernel lacks what it needs.
fn run(arm: Arm, load: Load, seconds: f64, descriptors: u32) -> Option<[f64; COLUMNS.len()]> {
    let network = Network::new();
    if arm == Arm::Fq && load.gap() >= Duration::from_secs(1) {
        eprintln!("skipped: sch_fq delays a packet by a second at most, so raise --turns");
        return None;
    }
    if arm == Arm::Fq && !network.pace(load.flows) {
        eprintln!("skipped: this kernel has no sch_fq");
        return None;
    }
    let receiver = Receiver::start(&network.far.0, load);
    let of_engine = matches!(arm, Arm::Engine | Arm::Coarse);
    let threads = if of_engine { 1 } else { load.flows.div_ceil(descriptors) };
    let gate = Arc::new(Gate::new(threads));
    let senders: Vec<_> = (0..threads)
        .map(|part| {
            let (name, gate) = (network.near.0.clone(), Arc::clone(&gate));
            thread::spawn(move || {
                enter(&name);
                let flows = load.part(part, threads);
                match arm {
                    Arm::Engine => engine::send(load, flows, Nanos(1 << 11), &gate),
                    Arm::Coarse => engine::send(load, flows, Nanos(1 << 16), &gate),
                    Arm::Sockets => sockets::send(load, flows, &gate),
                    Arm::Fq => fq::send(load, flows, &gate),
                }
            })
        })
        .collect();
    let window = gate.open(load, seconds, || senders.iter().any(JoinHandle::is_finished));
    let sleep = |until: Nanos| {
        thread::sleep(Duration::from_nanos(until.saturating_sub(clock::now()).0));
    };
    let start = window.opened();
    sleep(start);
    let (cpu, arrived, began) = (Cpu::now(), receiver.arrived(), clock::now());
    let end = window.closed();
    sleep(end);
    let (cpu, arrived, took) =
        (Cpu::now() - cpu, receiver.arrived() - arrived, clock::now().saturating_sub(began));
    let mut sent = load::Sent::default();
    for sender in senders {
        sent += sender.join().unwrap();
    }
    let errors = receiver.stop(start, end);
    let per_second = sent.rate;
    let million = per_second * took.0 as f64 / 1e9 / 1e6;
    let per_million = sent.packets as f64 / 1e6;
    Some([
        per_second,
        per_second * load::PAYLOAD as f64 * 8.0 / 1e6,
        arrived as f64 / (took.0 as f64 / 1e9),
        sent.user / per_million,
        sent.system / per_million,
        cpu.softirq / million,
        cpu.busy / million,
        errors.late[0],
        errors.late[1],
        errors.interval[0],
        errors.interval[1],
    ])
}

/// Prints the medians, and their ratios to the first row.
fn print(rows: &[(Arm, Vec<[f64; COLUMNS.len()]>)]) {
    println!("{:>9} {}", "", COLUMNS.map(|column| format!("{column:>12}")).join(" "));
    let medians: Vec<_> = rows
        .iter()
        .filter(|(_, runs)| !runs.is_empty())
        .map(|(arm, runs)| {
            let median = |n: usize| {
                let mut values: Vec<f64> = runs.iter().map(|run| run[n]).collect();
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            (arm.name(), std::array::from_fn::<f64, { COLUMNS.len() }, _>(median))
        })
        .collect();
    for (name, row) in &medians {
        println!("{name:>9} {}", cells(row));
    }
    for (name, row) in medians.iter().skip(1) {
        let ratios = std::array::from_fn::<f64, { COLUMNS.len() }, _>(|n| row[n] / medians[0].1[n]);
        println!("{:>9} {}", format!("{name}/{}", medians[0].0), cells(&ratios));
    }
    println!("CPU in seconds for a million packets; late and interval in microseconds");
}

fn cells(row: &[f64; COLUMNS.len()]) -> String {
    let cell = |value: &f64| match value {
        value if !value.is_finite() => format!("{:>12}", "-"),
        value if *value >= 1000.0 => format!("{value:>12.0}"),
        value => format!("{value:>12.2}"),
    };
    row.iter().map(cell).collect::<Vec<_>>().join(" ")
}
