//! Backpressure with real guests: a short run with zD and one with drops. The test is skipped where
//! no guest can run. `cargo bench -p forebay-benches --features live --bench
//! vhost_zd` takes longer and prints tables.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::ExitCode;

use forebay_guest::Kernel;
use forebay_vhost_guests::{EgressKind, Inside, Mode, Run, greedy, mixed, with_dualpi2};

fn main() -> ExitCode {
    if let Some(code) = forebay_vhost_guests::as_started() {
        return code;
    }
    let Some(kernel) = forebay_vhost_guests::kernel(Kernel::Plain) else { return ExitCode::SUCCESS };
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
    // Four pairs of rings: the guest's driver sets them up and takes them into use. The greedy
    // application in the first ring is paused, and requests in the second one go on.
    let rings = mixed(&kernel, Mode::Zd, run, 4);
    println!("{rings:#?}");
    assert_eq!((rings.dropped, rings.taken.len()), (0, 4));
    assert!(rings.paused[0] > 0, "the greedy application filled the buffer: {rings:?}");
    assert!(rings.requests > 0 && rings.taken[1] >= rings.requests, "{rings:?}");
    assert!(rings.taken[0] > rings.taken[1], "{rings:?}");
    // DualPI2 marks packets of the guest's TCP, which asks for ECN; nothing is paused.
    let inside = Inside { flows: 20, ..Inside::USUAL };
    let aqm = with_dualpi2(&kernel, Run { limit: 1000, inside, ..run });
    println!("{aqm:#?}");
    assert!(aqm.marked > 0 && aqm.goodput > 1.0, "{aqm:?}");
    assert_eq!(aqm.paused, 0, "{aqm:?}");
    ExitCode::SUCCESS
}
