//! Backpressure with real guests: a short run with zD and one with drops. The test is skipped where
//! no guest can run. `cargo bench -p forebay-vhost --bench zd` takes longer and prints a table.
#![allow(clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, reason = "the benchmark needs more")]
mod harness;

use std::process::ExitCode;

use forebay_guest::Kernel;
use harness::{EgressKind, Inside, Mode, Run, greedy};

fn main() -> ExitCode {
    if let Some(code) = harness::as_started() {
        return code;
    }
    let Some(kernel) = harness::kernel(Kernel::Plain) else { return ExitCode::SUCCESS };
    let run = Run {
        egress: EgressKind::Tap,
        warm_up: 2,
        seconds: 4,
        mbps: 60,
        limit: 100,
        inside: Inside::USUAL,
    };
    let dropping = greedy(&kernel, Mode::Drop, run);
    let zd = greedy(&kernel, Mode::Zd, run);
    // A port, for which the back end does segmentation and checksums in software.
    let port = greedy(&kernel, Mode::Zd, Run { egress: EgressKind::Port, seconds: 2, ..run });
    println!("{dropping:#?}\n{zd:#?}\n{port:#?}");
    assert!(port.goodput > 1.0, "{port:?}");
    assert_eq!(port.dropped, 0);
    assert!(zd.paused > 0, "the guest filled the buffer");
    assert_eq!(zd.dropped, 0, "packets that were taken are not dropped");
    assert!(dropping.dropped > 300, "the same guest loses packets without zD");
    assert!(zd.retransmissions * 4 <= dropping.retransmissions, "{zd:?}, {dropping:?}");
    ExitCode::SUCCESS
}
