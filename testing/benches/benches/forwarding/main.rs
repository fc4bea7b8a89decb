//! Measures the cost of forwarding in CPU seconds per gigabit: plain routing, HTB with a pfifo, a
//! sendbox with `dataplane = "kernel"` and one or a thousand bundles, a sendbox in user space, and
//! a bare AF_XDP forwarder. `make bench-dataplane` runs it, as root:
//!
//! ```text
//! cargo bench -p forebay-benches --features live --bench forwarding --
//!     [--rounds N] [--seconds S] [--only ARM,...] [--json]
//! ```
//!
//! # What is measured
//!
//! Backlogged TCP connections run between two namespaces through a third, which holds the arm under
//! test; all three are on this machine. Arms take turns, round by round, and the median counts.
//!
//! There are two loads. *Packets*: every packet has 1500 bytes from end to end. *Super-packets*:
//! segmentation offloads are on, as they are on a router, and the kernel moves up to 64 KiB at
//! once; AF_XDP ports do not support that.
//!
//! # What counts as CPU
//!
//! veth devices have no interrupts: a packet passes all three namespaces on the CPU time of the
//! thread that sends it, of the box that forwards it, or of the kernel's `ksoftirqd`. So the CPU
//! time of a run is what the scheduler counts, in nanoseconds, for the threads of this program
//! (both ends), the processes of the box, and `ksoftirqd`. *All* is that time per gigabit.
//! *Forwarding* is *all* minus the cost of the same TCP traffic without a router (the arm `ends`):
//! the part that a sendbox can change, but a difference of two noisy figures.
//!
//! *Machine* is a cross-check: the time that the machine's CPUs were not idle, minus the same in
//! the seconds before the run. Where it is far from *all*, the machine was busy with other work, or
//! the kernel used time that it accounts to no thread.
//!
//! The bundles are open: there is no receivebox, since its XDP program would cost more on a veth
//! than everything measured here. The benchmark `tc_netlink` measures the cost of rate changes.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod arms;
mod cpu;
mod forwarder;
mod network;
mod table;
mod traffic;

use std::thread;
use std::time::Duration;

use arms::Arm;
use cpu::Cpu;
use forebay_test_support::has_root;
use network::{Load, Network};
use table::Table;

/// Options from the command line.
struct Options {
    rounds: usize,
    seconds: u64,
    only: Option<Vec<String>>,
    json: bool,
}

fn options() -> Options {
    let mut options = Options { rounds: 3, seconds: 2, only: None, json: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--rounds" => options.rounds = value().parse().unwrap(),
            "--seconds" => options.seconds = value().parse().unwrap(),
            "--only" => options.only = Some(value().split(',').map(str::to_owned).collect()),
            "--json" => options.json = true,
            // Cargo passes this argument to every benchmark.
            "--bench" => {}
            _ => panic!("unknown argument {argument}"),
        }
    }
    assert!(options.rounds > 0 && options.seconds > 0, "at least one round of a second");
    options
}

fn main() {
    if forwarder::is_asked_for() {
        return forwarder::run();
    }
    if !has_root() {
        return;
    }
    let options = options();
    let mut table = Table::default();
    for round in 1..=options.rounds {
        eprintln!("round {round} of {}", options.rounds);
        for load in [Load::Packets, Load::SuperPackets] {
            let network = Network::new(load);
            for arm in Arm::ALL {
                let wanted =
                    options.only.as_ref().is_none_or(|o| o.iter().any(|n| n == arm.name()));
                if wanted && arm.takes(load) {
                    table.add(load, arm, measure(&network, arm, options.seconds));
                }
            }
        }
    }
    if options.json {
        println!("{:#}", table.json());
    } else {
        print!("{table}");
    }
}

/// Cost and throughput of one run of an arm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Payload that arrived, in Gbit/s.
    pub(crate) rate: f64,
    /// CPU seconds per gigabit of everything that took part.
    pub(crate) all: f64,
    /// CPU seconds per gigabit that the machine was busier than before the run.
    pub(crate) machine: f64,
    /// CPU seconds per second of the box's own processes.
    pub(crate) daemon: f64,
}

fn measure(network: &Network, arm: Arm, seconds: u64) -> Run {
    let set_up = arm.set_up(network);
    // Background load, including the idle box's own.
    let pause = Duration::from_millis(500);
    let idle = Cpu::now(set_up.pid());
    thread::sleep(pause);
    let idle = Cpu::now(set_up.pid()).since(idle);
    let traffic = traffic::start(network, arm.way());
    thread::sleep(pause);
    let (cpu, received) = (Cpu::now(set_up.pid()), traffic.received());
    thread::sleep(Duration::from_secs(seconds));
    let (cpu, received) = (Cpu::now(set_up.pid()).since(cpu), traffic.received() - received);
    drop(traffic);
    drop(set_up);
    let gigabits = received as f64 * 8.0 / 1e9;
    // The idle cost of the box is part of its cost.
    let background = (idle.busy - idle.ours() / idle.elapsed).max(0.0);
    Run {
        rate: gigabits / cpu.elapsed,
        all: cpu.ours() / gigabits,
        machine: (cpu.busy - background) * cpu.elapsed / gigabits,
        daemon: cpu.daemon / cpu.elapsed,
    }
}
