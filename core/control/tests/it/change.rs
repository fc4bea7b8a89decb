//! The loop on paths and with traffic that change, and with bundles that share a bottleneck.

use crate::common::path::{Change, Outcome, World};
use crate::common::report::jain;
use crate::common::seeds::{Seeds, tests_over_seeds};
use forebay_control::{Detection, Event, MinRttReason};
use forebay_units::{Nanos, Rate};

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

fn world(seed: u64, duration: f64) -> World {
    let mut world = World::new(96, 50).bundles(1, 8);
    world.seed = seed;
    world.duration = s(duration);
    world
}

/// Returns the median queue in milliseconds.
fn median(o: &Outcome, from: f64, to: f64) -> f64 {
    o.queue(0.5, s(from), s(to)).as_millis_f64()
}

fn mbps(o: &Outcome, from: f64, to: f64) -> f64 {
    o.throughput(s(from), s(to)).as_mbps_f64()
}

fn the_rate_follows_a_capacity_that_halves_and_returns(seeds: Seeds) {
    for seed in seeds {
        let mut w = world(seed, 15.0);
        w.changes = vec![
            (s(5.0), Change::LinkRate(Rate::from_mbps(48))),
            (s(10.0), Change::LinkRate(Rate::from_mbps(96))),
        ];
        let o = w.run();
        // A round trip at twice the capacity left 50 ms of queue, which is gone a second later.
        assert!(median(&o, 6.0, 7.0) <= 4.0, "seed {seed}: {}", median(&o, 6.0, 7.0));
        assert!(mbps(&o, 6.0, 10.0) >= 0.98 * 48.0, "seed {seed}: {}", mbps(&o, 6.0, 10.0));
        // The full capacity is found again within a second.
        assert!(mbps(&o, 10.0, 11.0) >= 0.7 * 96.0, "seed {seed}: {}", mbps(&o, 10.0, 11.0));
        assert!(mbps(&o, 11.0, 15.0) >= 0.98 * 96.0, "seed {seed}: {}", mbps(&o, 11.0, 15.0));
        assert!(median(&o, 11.0, 15.0) <= 2.5, "seed {seed}: {}", median(&o, 11.0, 15.0));
    }
}

fn the_rate_recovers_when_the_path_becomes_longer_and_shorter(seeds: Seeds) {
    // The tests of a guard cost some queue.
    let cases = [(1, false, 2.5), (2, false, 2.5), (3, false, 2.5), (1, true, 10.0)];
    for (seed, guard, queue) in cases.into_iter().filter(|case| seeds.contains(&case.0)) {
        let mut w = world(seed, 15.0);
        w.config.guard = guard;
        w.changes = vec![
            (s(5.0), Change::Rtt(Nanos::from_millis(80))),
            (s(10.0), Change::Rtt(Nanos::from_millis(50))),
        ];
        let o = w.run();
        // This is noticed within a second, not only after the ten seconds of the minimum's window.
        let longer = o.events.iter().find(|(_, _, e)| {
            matches!(e, Event::MinRttChanged { reason: MinRttReason::PathLonger, .. })
        });
        let (at, _, event) = longer.expect("the longer path was not noticed");
        assert!((s(5.0)..s(6.0)).contains(at), "seed {seed}: {at} {event}");
        assert!(mbps(&o, 5.0, 6.0) >= 0.7 * 96.0, "seed {seed}: {}", mbps(&o, 5.0, 6.0));
        assert!(mbps(&o, 7.0, 10.0) >= 0.98 * 96.0, "seed {seed}: {}", mbps(&o, 7.0, 10.0));
        assert!(median(&o, 7.0, 10.0) <= queue, "seed {seed}: {}", median(&o, 7.0, 10.0));
        assert!(mbps(&o, 10.0, 15.0) >= 0.97 * 96.0, "seed {seed}: {}", mbps(&o, 10.0, 15.0));
        assert!(median(&o, 12.0, 15.0) <= queue, "seed {seed}: {}", median(&o, 12.0, 15.0));
    }
}

fn a_path_that_does_not_change_is_never_taken_for_longer(seeds: Seeds) {
    for seed in seeds {
        for (mbps, rtt) in [(24, 20), (96, 50), (48, 100)] {
            let mut w = World::new(mbps, rtt).bundles(1, 8);
            w.seed = seed;
            w.duration = s(10.0);
            w.requests = vec![Rate::from_mbps(mbps / 4)];
            let o = w.run();
            let longer = o.events.iter().find(|(_, _, e)| {
                matches!(e, Event::MinRttChanged { reason: MinRttReason::PathLonger, .. })
            });
            assert!(longer.is_none(), "{mbps} Mbit/s, {rtt} ms, seed {seed}: {longer:?}");
        }
    }
}

fn a_backlog_after_thin_traffic_finds_the_rate(seeds: Seeds) {
    for seed in seeds {
        let mut w = world(seed, 20.0);
        w.backlogged = vec![0];
        w.requests = vec![Rate::from_mbps(10)];
        w.changes = vec![(s(10.0), Change::Start(0, 8))];
        let o = w.run();
        // Thin traffic does not wait.
        let waited =
            o.ticks[0].iter().filter(|t| t.0 > s(1.0) && t.0 < s(10.0) && t.2.0 > 30_000).count();
        assert!(waited < 90, "seed {seed}: packets waited in {waited} of 900 ticks");
        // The backlog finds the path's rate within a second.
        let (used, _) = o.efficiency(s(11.0), s(13.0));
        assert!(used >= 0.9, "seed {seed}: {used}");
        let (used, _) = o.efficiency(s(13.0), s(20.0));
        assert!(used >= 0.98, "seed {seed}: {used}");
        assert!(median(&o, 13.0, 20.0) <= 2.5, "seed {seed}: {}", median(&o, 13.0, 20.0));
    }
}

fn two_bundles_share_equally(seeds: Seeds) {
    for (rate, rtt) in [(96, 50), (24, 20), (96, 100)] {
        // A guard's floor costs some queue. Without the receivebox's word on the other bundle, the
        // two guards would take each other for others' traffic.
        let cases = [(1, false, 2.0), (2, false, 2.0), (3, false, 2.0), (1, true, 15.0)];
        for (seed, guard, more) in cases.into_iter().filter(|case| seeds.contains(&case.0)) {
            let mut w = World::new(rate, rtt).bundles(2, 8);
            w.seed = seed;
            w.config.guard = guard;
            w.duration = s(25.0);
            w.backlogged = vec![8, 0];
            w.changes = vec![(s(5.0), Change::Start(1, 8))];
            let o = w.run();
            let share = |from, to| [0, 1].map(|b| o.bundle_throughput(b, s(from), s(to)));
            let cell = format!("{rate} Mbit/s, {rtt} ms, seed {seed}");
            println!(
                "{cell}: Jain {:.3} at 10 s, {:.3} at 20 s",
                jain(&share(8.0, 12.0)),
                jain(&share(15.0, 25.0))
            );
            let soon = if guard { 0.85 } else { 0.9 };
            assert!(jain(&share(8.0, 12.0)) >= soon, "{cell}: {:?}", share(8.0, 12.0));
            assert!(jain(&share(15.0, 25.0)) >= 0.95, "{cell}: {:?}", share(15.0, 25.0));
            let used = o.utilisation(s(10.0), s(25.0));
            assert!(used >= 0.97, "{cell}: {used}");
            // Each keeps four packets in the queue, and as much again for noise.
            let least =
                Rate::from_mbps(rate).time_for(forebay_units::Bytes(16 * 1514)).as_millis_f64();
            assert!(median(&o, 10.0, 25.0) <= least + more, "{cell}: {}", median(&o, 10.0, 25.0));
        }
    }
}

/// Trains of packets pass a shared bottleneck at its whole rate. If two bundles took this for their
/// own share, both rates would be too high to limit their flows, and their queue of 60 ms would
/// remain.
#[test]
fn two_bundles_whose_flows_do_not_fill_their_rates_leave_no_queue() {
    for cross_traffic in [Detection::Ignore, Detection::Detect] {
        let mut w = World::new(96, 100).bundles(2, 8);
        w.config.cross_traffic = cross_traffic;
        w.seed = 2;
        w.duration = s(9.0);
        w.backlogged = vec![8, 0];
        w.changes = vec![(s(5.0), Change::Start(1, 8))];
        let o = w.run();
        assert!(median(&o, 6.0, 9.0) <= 6.0, "{cross_traffic:?}: {}", median(&o, 6.0, 9.0));
    }
}

fn a_bundle_uses_what_another_leaves(seeds: Seeds) {
    for seed in seeds {
        let mut w = World::new(96, 50).bundles(2, 8);
        w.seed = seed;
        w.changes = vec![(s(10.0), Change::Stop(1))];
        let o = w.run();
        assert!(mbps(&o, 12.0, 15.0) >= 0.97 * 96.0, "seed {seed}: {}", mbps(&o, 12.0, 15.0));
        assert!(median(&o, 12.0, 15.0) <= 2.5, "seed {seed}: {}", median(&o, 12.0, 15.0));
    }
}

/// Cross traffic that passes no box: requests take up to half of the link.
fn the_rest_of_the_link_is_used_beside_requests(seeds: Seeds) {
    let cases = [(1, false, 10.0), (2, false, 10.0), (3, false, 10.0), (1, true, 20.0)];
    for (seed, guard, queue) in cases.into_iter().filter(|case| seeds.contains(&case.0)) {
        for load in [12, 24] {
            let mut w = World::new(96, 50).bundles(2, 8);
            w.config.guard = guard;
            w.seed = seed;
            w.duration = s(20.0);
            w.cross_from = 1;
            w.backlogged = vec![8, 0];
            w.requests = vec![Rate::ZERO, Rate::from_mbps(load)];
            let o = w.run();
            let used = o.utilisation(s(3.0), s(20.0));
            assert!(used >= 0.9, "seed {seed}, {load} Mbit/s: {used}");
            assert!(
                median(&o, 3.0, 20.0) <= queue,
                "seed {seed}, {load} Mbit/s: {}",
                median(&o, 3.0, 20.0)
            );
        }
    }
}

tests_over_seeds! {
    the_rate_follows_a_capacity_that_halves_and_returns: 3;
    the_rate_recovers_when_the_path_becomes_longer_and_shorter: 3;
    a_path_that_does_not_change_is_never_taken_for_longer: 6;
    a_backlog_after_thin_traffic_finds_the_rate: 3;
    two_bundles_share_equally: 3;
    a_bundle_uses_what_another_leaves: 16;
    the_rest_of_the_link_is_used_beside_requests: 3;
}
