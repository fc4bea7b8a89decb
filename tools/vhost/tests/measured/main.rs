//! Backpressure with real guests: short runs with zD, with drops and with an AQM. Tests are skipped
//! where no guest can run. The benchmark of zD takes longer and prints a table.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::ExitCode;

use forebay_guest::Kernel;
use forebay_vhost_guests::{EgressKind, Inside, Mode, Run, greedy, mixed, with_dualpi2};
use libtest_mimic::{Arguments, Trial};

/// A run of the usual guest over a buffer that it fills.
const RUN: Run = Run {
    egress: EgressKind::Tap,
    warm_up: 2,
    seconds: 4,
    mbps: 60,
    limit: 100,
    inside: Inside::USUAL,
};

fn main() -> ExitCode {
    if let Some(code) = forebay_vhost_guests::as_started() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let tests = vec![
        test("a_paused_guest_loses_nothing", a_paused_guest_loses_nothing),
        test("a_port_segments_in_software", a_port_segments_in_software),
        test("requests_go_on_while_another_ring_is_paused", requests_go_on),
        test("dualpi2_marks_and_pauses_nothing", dualpi2_marks_and_pauses_nothing),
    ];
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Makes a test that gets a kernel for guests. Without one, it reports a skip.
fn test(name: &'static str, run: fn(&Path)) -> Trial {
    Trial::test(name, move || {
        if let Some(kernel) = forebay_vhost_guests::kernel(Kernel::Plain) {
            run(&kernel);
        }
        Ok(())
    })
}

fn a_paused_guest_loses_nothing(kernel: &Path) {
    let dropping = greedy(kernel, Mode::Drop, RUN);
    let zd = greedy(kernel, Mode::Zd, RUN);
    println!("{dropping:#?}\n{zd:#?}");
    assert!(zd.paused > 0, "the guest filled the buffer");
    assert_eq!(zd.dropped, 0, "packets that were taken are not dropped");
    assert!(dropping.dropped > 300, "the same guest loses packets without zD");
    assert!(zd.retransmissions * 4 <= dropping.retransmissions, "{zd:?}, {dropping:?}");
}

/// For a port, the back end does segmentation and checksums in software.
fn a_port_segments_in_software(kernel: &Path) {
    let port = greedy(kernel, Mode::Zd, Run { egress: EgressKind::Port, seconds: 2, ..RUN });
    println!("{port:#?}");
    assert!(port.goodput > 1.0, "{port:?}");
    assert_eq!(port.dropped, 0);
}

/// The guest's driver sets up four pairs of rings. The greedy application in the first ring is
/// paused, and requests in the second one go on.
fn requests_go_on(kernel: &Path) {
    let rings = mixed(kernel, Mode::Zd, RUN, 4);
    println!("{rings:#?}");
    assert_eq!((rings.dropped, rings.taken.len()), (0, 4));
    assert!(rings.paused[0] > 0, "the greedy application filled the buffer: {rings:?}");
    assert!(rings.requests > 0 && rings.taken[1] >= rings.requests, "{rings:?}");
    assert!(rings.taken[0] > rings.taken[1], "{rings:?}");
}

/// DualPI2 marks packets of the guest's TCP, which asks for ECN.
fn dualpi2_marks_and_pauses_nothing(kernel: &Path) {
    let inside = Inside { flows: 20, ..Inside::USUAL };
    let aqm = with_dualpi2(kernel, Run { limit: 1000, inside, ..RUN });
    println!("{aqm:#?}");
    assert!(aqm.marked > 0 && aqm.goodput > 1.0, "{aqm:?}");
    assert_eq!(aqm.paused, 0, "{aqm:?}");
}
