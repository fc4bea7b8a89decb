//! Compares zD with dropping, with real guests.
//!
//! ```text
//! cargo bench -p forebay-benches --features live --bench vhost_zd -- ARGUMENT...
//! ```
//!
//! - `[RUNS] [MBPS] [SECONDS] [PACKETS]` prints tables. With the word `rings` before the numbers,
//!   it prints only the table of a guest with several rings.
//! - `--store DIR [CLAIM]` runs the claims of `forebay lab reproduce zd` and stores the results.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

mod store;

use std::path::Path;
use std::process::ExitCode;

use forebay_guest::Kernel;
use forebay_vhost_guests::{EgressKind, Inside, Mode, Run, greedy, mixed, shared};

fn main() -> ExitCode {
    if let Some(code) = forebay_vhost_guests::as_started() {
        return code;
    }
    let mut words = std::env::args().skip_while(|word| word != "--store").skip(1);
    if let Some(dir) = words.next() {
        store::run(Path::new(&dir), words.next().filter(|word| !word.starts_with('-')));
        return ExitCode::SUCCESS;
    }
    let Some(kernel) = forebay_vhost_guests::kernel(Kernel::Plain) else {
        return ExitCode::SUCCESS;
    };
    let given: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let of = |i: usize, default: u64| given.get(i).copied().unwrap_or(default);
    let (mbps, limit) = (of(1, 200), of(3, 1000));
    let run = Run {
        egress: EgressKind::Tap,
        warm_up: 3,
        seconds: of(2, 20),
        mbps,
        limit,
        inside: Inside::USUAL,
    };
    let runs = of(0, 3);
    println!(
        "{runs} runs of {} s at {} Mbit/s, a buffer of {} packets, load {}",
        run.seconds,
        run.mbps,
        run.limit,
        load()
    );
    if std::env::args().any(|word| word == "rings") {
        several_rings(&kernel, runs, run);
        return ExitCode::SUCCESS;
    }
    println!("\none guest, 100 flows\n");
    println!(
        "| mode | dropped | retransmissions | round trips | RTT p50 ms | RTT p99.9 ms | p99.99 ms | Mbit/s | back end's CPU % | taken | paused |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for _ in 0..runs {
        for mode in [Mode::Drop, Mode::Zd] {
            let g = greedy(&kernel, mode, run);
            println!(
                "| {mode:?} | {} | {} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {} |",
                g.dropped,
                g.retransmissions,
                g.round_trips,
                g.p50,
                g.p999,
                g.p9999,
                g.goodput,
                g.cpu,
                g.taken,
                g.paused
            );
        }
    }
    println!("\ntwo guests: that one, and a closed loop of requests\n");
    println!(
        "| mode | requests | p50 ms | p99 ms | dropped | the other's Mbit/s |\n|---|---|---|---|---|---|"
    );
    for _ in 0..runs {
        for mode in [Mode::Drop, Mode::Zd] {
            let s = shared(&kernel, mode, run);
            println!(
                "| {mode:?} | {} | {:.1} | {:.1} | {} | {:.1} |",
                s.requests, s.p50, s.p99, s.dropped, s.goodput
            );
        }
    }
    several_rings(&kernel, runs, run);
    ExitCode::SUCCESS
}

/// Compares flows in one ring with flows in different ones.
fn several_rings(kernel: &Path, runs: u64, run: Run) {
    println!(
        "\none guest, 100 flows in one ring, and a closed loop of requests in this or another\n"
    );
    println!(
        "| mode | rings | requests | p50 ms | p99 ms | dropped | dropped in the guest | Mbit/s | taken of each | paused by each |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for _ in 0..runs {
        for mode in [Mode::Drop, Mode::Zd] {
            for rings in [1, 4] {
                let m = mixed(kernel, mode, run, rings);
                println!(
                    "| {mode:?} | {rings} | {} | {:.1} | {:.1} | {} | {} | {:.1} | {:?} | {:?} |",
                    m.requests,
                    m.p50,
                    m.p99,
                    m.dropped,
                    m.local_drops,
                    m.goodput,
                    m.taken,
                    m.paused
                );
            }
        }
    }
}

/// Returns the machine's load average of the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}
