//! Measures a sendbox whose packets two threads move.

use std::fs;

use forebay_test_support::has_root;

use crate::live::faults::workers::{send_and_check, span};

/// Prints the processor time of the process for a packet, with one thread and with two in turns.
#[test]
#[ignore = "a measurement"]
fn the_processor_time_of_a_packet() {
    const ROUNDS: usize = 7;
    if !has_root() {
        return;
    }
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (workers, times) in (1..).zip(&mut times) {
            let span = span("f4", workers);
            let running = span.start("sendbox");
            let used = || {
                let path = format!("/proc/{}/stat", running.id());
                let stat = fs::read_to_string(path).unwrap();
                // After the name: the state, and user and system time as the 12th and 13th value.
                let fields = stat.rsplit(") ").next().unwrap().split(' ');
                fields.skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>()
            };
            let before = used();
            let packets = send_and_check(&span);
            // A tick of this clock is 10 ms.
            times.push((used() - before) as f64 * 1e4 / packets as f64);
        }
    }
    for (workers, times) in (1..).zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let (median, last) = (times[ROUNDS / 2], times[ROUNDS - 1]);
        println!("{workers} threads: {median:.1} us a packet ({:.1} to {last:.1})", times[0]);
    }
}
