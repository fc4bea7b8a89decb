//! zD with real guests: what it is for, in as short a time as shows it. Where there can be no guest,
//! this says so and passes. `cargo bench -p forebay-vhost --bench zd` takes longer and prints a table.
#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, reason = "the benchmark needs more")]
mod harness;

use std::process::ExitCode;

use harness::{Mode, Run, Way, greedy};

fn main() -> ExitCode {
    if let Some(code) = harness::as_started() {
        return code;
    }
    let Some(kernel) = harness::kernel() else { return ExitCode::SUCCESS };
    let run = Run { way: Way::Tap, warm_up: 2, seconds: 4, mbps: 60, limit: 100 };
    let dropping = greedy(&kernel, Mode::Drop, run);
    let zd = greedy(&kernel, Mode::Zd, run);
    // The other way out, whose frames and checksums are made in software.
    let port = greedy(&kernel, Mode::Zd, Run { way: Way::Port, seconds: 2, ..run });
    println!("{dropping:#?}\n{zd:#?}\n{port:#?}");
    assert!(port.goodput > 1.0, "{port:?}");
    assert_eq!(port.dropped, 0);
    assert!(zd.paused > 0, "the guest filled the buffer");
    assert_eq!(zd.dropped, 0, "nothing that was taken is dropped");
    assert!(dropping.dropped > 300, "the same guest loses packets without");
    assert!(zd.retransmissions * 4 <= dropping.retransmissions, "{zd:?}, {dropping:?}");
    ExitCode::SUCCESS
}
