//! The length of the bottleneck's queue and its utilization when the traffic exceeds the path's
//! rate. `cargo test --test it convergence -- --nocapture` prints a table.

use crate::common::path::World;
use crate::common::seeds::{Seeds, tests_over_seeds};
use forebay_units::{Nanos, Rate};

const START: Nanos = Nanos::from_millis(500);
/// What a guard's tests may add to the queue's 90th percentile, in ms.
const GUARDED: f64 = 15.0;
const SETTLED: Nanos = Nanos::from_millis(2_500);

/// Returns the time for the packets that a bundle keeps in the queue and as many for bursts.
fn eight_packets(mbps: u64) -> Nanos {
    Rate::from_mbps(mbps).time_for(forebay_units::Bytes(8 * 1514))
}

/// The paths range from an access line to a data centre's uplink, with different sendbox queues.
fn backlogged_bundles_use_the_link_with_a_short_queue(seeds: Seeds) {
    println!(
        "{:>16} | {:>5} {:>5} {:>5} {:>5} | {:>9} {:>7}",
        "Mbit/s ms", "q10", "q50", "q90", "q99", "in use", "0.5-2.5"
    );
    for (mbps, rtt, limit) in [
        (24, 20, 1000),
        (24, 50, 1000),
        (24, 100, 1000),
        (48, 20, 1000),
        (48, 50, 1000),
        (48, 100, 1000),
        (96, 20, 1000),
        (96, 50, 1000),
        (96, 100, 1500),
        (10, 5, 500),
        (100, 2, 1000),
        (1000, 10, 8000),
        (2500, 20, 12_000),
    ] {
        if mbps > 1000 && seeds.end() == seeds.start() {
            // As many packets as all others together.
            continue;
        }
        let cases = [(1, false, 1.5), (2, false, 1.5), (1, true, GUARDED)];
        for (seed, guard, more) in cases.into_iter().filter(|case| seeds.contains(&case.0)) {
            let mut world = World::new(mbps, rtt).bundles(1, 16);
            world.seed = seed;
            world.config.guard = guard;
            world.sendbox_limit = limit;
            world.duration = Nanos::from_secs(if mbps < 200 { 12 } else { 5 });
            if mbps >= 1000 {
                // A box that shapes gigabits wakes more often.
                world.shaper_grain = Nanos::from_micros(200);
            }
            let end = world.duration;
            let o = world.run();
            let q = |p| o.queue(p, SETTLED, end).as_millis_f64();
            let (use_, waiting) = o.efficiency(SETTLED, end);
            let (first, _) = o.efficiency(START, SETTLED);
            println!(
                "{mbps:>8} {rtt:>4} #{seed} | {:5.2} {:5.2} {:5.2} {:5.2} | {use_:6.3} {:2.0} % {first:7.3}",
                q(0.1),
                q(0.5),
                q(0.9),
                q(0.99),
                waiting * 100.0
            );
            let cell = format!("{mbps} Mbit/s, {rtt} ms, seed {seed}");
            assert!(waiting > 0.5, "{cell}: the traffic hardly waited");
            assert!(use_ >= 0.98, "{cell}: {use_:.3} of the link used");
            assert!(first >= 0.9, "{cell}: {first:.3} of the link used in the first seconds");
            let least = eight_packets(mbps).as_millis_f64();
            assert!(q(0.5) <= least + 1.25, "{cell}: median queue {:.2} ms", q(0.5));
            assert!(q(0.9) <= 2.0 * least + more, "{cell}: 90th percentile {:.2} ms", q(0.9));
        }
    }
}

/// The traffic of the evaluation: half of the link in heavy-tailed requests, and one backlogged
/// flow.
fn requests_and_a_bulk_transfer_use_the_link_with_a_short_queue(seeds: Seeds) {
    for (mbps, rtt) in [(96, 50), (24, 20), (96, 100)] {
        let cases = [
            (1, false, 1.5),
            (2, false, 1.5),
            (3, false, 1.5),
            (1, true, GUARDED),
            (3, true, GUARDED),
        ];
        for (seed, guard, more) in cases.into_iter().filter(|case| seeds.contains(&case.0)) {
            let mut world = World::new(mbps, rtt).bundles(1, 1);
            world.seed = seed;
            world.config.guard = guard;
            world.requests = vec![Rate::from_mbps(mbps / 2)];
            world.duration = Nanos::from_secs(20);
            let end = world.duration;
            let o = world.run();
            let q = |p| o.queue(p, SETTLED, end).as_millis_f64();
            let (use_, waiting) = o.efficiency(SETTLED, end);
            println!(
                "{mbps:>8} {rtt:>4} #{seed} | {:5.2} {:5.2} {:5.2} {:5.2} | {use_:6.3} {:2.0} %",
                q(0.1),
                q(0.5),
                q(0.9),
                q(0.99),
                waiting * 100.0
            );
            let cell = format!("{mbps} Mbit/s, {rtt} ms, seed {seed}");
            assert!(use_ >= 0.97, "{cell}: {use_:.3} of the link used while packets waited");
            let least = eight_packets(mbps).as_millis_f64();
            assert!(q(0.5) <= least + 1.25, "{cell}: median queue {:.2} ms", q(0.5));
            assert!(q(0.9) <= 2.0 * least + more, "{cell}: 90th percentile {:.2} ms", q(0.9));
        }
    }
}

/// Feedback takes at most its budget of the bundle's bytes.
#[test]
fn feedback_stays_within_its_budget() {
    for (mbps, rtt, guard, most) in
        [(24, 20, false, 0.001), (96, 50, false, 0.001), (24, 20, true, 0.01), (2, 20, true, 0.01)]
    {
        let mut world = World::new(mbps, rtt);
        world.config.guard = guard;
        let o = world.run();
        let share = o.feedback_sent[0] as f64 * 94.0 / o.sent[0].as_f64();
        // The number of boundaries among random fingerprints varies by its square root. The bound
        // is five standard deviations.
        let slack = 1.0 + 5.0 / (o.feedback_sent[0] as f64).sqrt();
        assert!(share <= most * slack, "{mbps} Mbit/s: {share:.6}");
    }
}

tests_over_seeds! {
    backlogged_bundles_use_the_link_with_a_short_queue: 2;
    requests_and_a_bulk_transfer_use_the_link_with_a_short_queue: 3;
}
