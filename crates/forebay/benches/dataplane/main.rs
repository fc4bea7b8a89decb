//! What forwarding costs: CPU per gigabit of plain routing, of HTB with a pfifo, of a sendbox over the
//! kernel's queues with one bundle and with a thousand, of a sendbox of its own queues, and of a bare
//! forwarder over AF_XDP. `make bench-dataplane`, as root:
//!
//! ```text
//! cargo bench -p forebay --bench dataplane -- [--rounds N] [--seconds S] [--only ARM,...] [--json]
//! ```
//!
//! # What is measured
//!
//! TCP between two namespaces, as fast as it goes, through a third with what is measured; all of it on
//! this machine. Arms take turns, round by round, and the median counts.
//!
//! Two loads. *Packets*: every packet is one of 1500 bytes from end to end. *Super-packets*: segmentation
//! offloads are on, as they are on a router, and the kernel moves up to 64 KiB at once; ports of AF_XDP
//! have none of that.
//!
//! # What counts as CPU
//!
//! veths have no interrupts: a packet goes through all three namespaces on the time of the thread that
//! sends it, or of the box that forwards it, or of the kernel's `ksoftirqd`. So the CPU of a run is what
//! the scheduler has counted, to the nanosecond, for the threads of this program (both ends), the
//! processes of the box, and `ksoftirqd`. *All* is that per gigabit. *Forwarding* is that less what the
//! same TCP costs with no router between the ends (the arm `ends`): the part that a sendbox can change,
//! and the difference of two noisy figures.
//!
//! *Machine* is the second opinion: all time that the machine's CPUs were not idle, less the same in the
//! seconds before the run. Where it is far from *all*, the machine was busy with something else, or the
//! kernel worked on time that it counts for nobody.
//!
//! The bundles are open: there is no receivebox, whose XDP program would cost more on a veth than all
//! that is measured here. What changes of rate cost is measured by `cargo bench -p forebay-tc`.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod arms;
mod cpu;
mod forwarder;
#[path = "../../../dataplane/tests/namespace/mod.rs"]
mod namespace;
mod network;
mod table;
mod traffic;

use std::thread;
use std::time::Duration;

use arms::Arm;
use cpu::Cpu;
use network::{Load, Network};
use table::Table;

/// What to do, by the arguments.
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
            // Of cargo's.
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
    if !namespace::needs_root() {
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

/// What one run of an arm took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// Payload that arrived, in gigabits a second.
    pub(crate) rate: f64,
    /// Seconds of CPU for each gigabit, of all that took part.
    pub(crate) all: f64,
    /// Seconds for each gigabit in which the machine was busier than before.
    pub(crate) machine: f64,
    /// Seconds of CPU of the box's own processes, a second.
    pub(crate) daemon: f64,
}

fn measure(network: &Network, arm: Arm, seconds: u64) -> Run {
    let set_up = arm.set_up(network);
    // What else goes on, the box's own idling included.
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
    // The box's own idling is a part of what it costs.
    let background = (idle.busy - idle.ours() / idle.elapsed).max(0.0);
    Run {
        rate: gigabits / cpu.elapsed,
        all: cpu.ours() / gigabits,
        machine: (cpu.busy - background) * cpu.elapsed / gigabits,
        daemon: cpu.daemon / cpu.elapsed,
    }
}
