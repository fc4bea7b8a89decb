//! Runs tests of the gate more often.

use forebay_test_support::has_root;

use crate::live::faults::reload::{RELOADS, reload_in_user_space, reload_over_kernel_queues};
use crate::live::kernel::faults::crash;
use crate::support::probe::Probe;
use crate::support::span::METHODS;

#[test]
fn twenty_crashes_cost_no_connection_and_no_packet() {
    if !has_root() {
        return;
    }
    let mut times = crash(20);
    times.sort_unstable();
    eprintln!("packets passed without a limit after {times:.1?}");
}

/// The figures of decision 48. It takes some minutes.
#[test]
#[ignore = "a measurement"]
fn ten_thousand_reloads() {
    let judge = |what: &str, probe: Probe| {
        let passed = probe.end();
        passed.check(what);
        assert_eq!(passed.lost(), 0, "{what}");
    };
    if has_root() {
        reload_over_kernel_queues(100 * RELOADS, judge);
        // With a FIFO among them, connections would wait for its order.
        for method in METHODS {
            reload_in_user_space((method, 1), 100 * RELOADS, ["sfq", "sfq"], judge);
        }
    }
}
