//! The loop where somebody else disturbs it: a stranger sends to the bundle's prefixes.

use crate::common::path::{Change, Outcome, World};
use crate::common::seeds::{Seeds, tests_over_seeds};
use forebay_control::Event;
use forebay_units::{Nanos, Rate};

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

/// Runs a bundle with a stranger that sends at `rate` to its prefixes from 10 s on, and the same
/// without boxes.
fn beside(rate: Rate, seed: u64) -> [Outcome; 2] {
    [usize::MAX, 0].map(|cross_from| {
        let mut world = World::new(48, 50).bundles(1, 8);
        world.seed = seed;
        world.duration = s(40.0);
        world.cross_from = cross_from;
        world.changes = vec![(s(10.0), Change::Stranger(0, rate))];
        world.run()
    })
}

fn bytes_that_were_never_sent_do_not_raise_the_rate(seeds: Seeds) {
    for seed in seeds {
        for mbps in [12, 24] {
            let [o, without] = beside(Rate::from_mbps(mbps), seed);
            let ms = |o: &Outcome, from, to| o.queue(0.5, s(from), s(to)).as_millis_f64();
            let own = |o: &Outcome| o.bundle_throughput(0, s(15.0), s(40.0)).as_mbps_f64();
            let cell = format!("{mbps} Mbit/s, seed {seed}");
            let (before, beside) = (50.0 + ms(&o, 5.0, 10.0), 50.0 + ms(&o, 15.0, 40.0));
            println!(
                "{cell}: RTT {before:.1} ms, then {beside:.1} ms ({:.1} ms without boxes); {:.1} of \
                 {:.1} Mbit/s",
                50.0 + ms(&without, 15.0, 40.0),
                own(&o),
                own(&without)
            );
            assert!(beside <= 1.3 * before, "{cell}: {before:.1} ms, then {beside:.1} ms");
            assert!(own(&o) >= 0.9 * own(&without), "{cell}");
        }
    }
}

/// A stranger who sends as much as the path carries takes the bundle's share, also without boxes.
/// The bundle says it, and is no worse off than without boxes.
fn a_stranger_at_the_bundles_own_rate_is_reported_and_does_no_more_harm_than_without_boxes(
    seeds: Seeds,
) {
    for seed in seeds {
        let [o, without] = beside(Rate::from_mbps(48), seed);
        let reports: Vec<_> = o
            .events
            .iter()
            .filter(|(_, _, e)| matches!(e, Event::ExcessReceived { .. }))
            .map(|(at, _, e)| (*at, e.to_string()))
            .collect();
        assert_eq!(reports.len(), 1, "seed {seed}: {reports:?}");
        assert!((s(10.0)..s(20.0)).contains(&reports[0].0), "seed {seed}: {reports:?}");
        let ms = |o: &Outcome| o.queue(0.5, s(15.0), s(40.0)).as_millis_f64();
        let own = |o: &Outcome| o.bundle_throughput(0, s(15.0), s(40.0)).as_mbps_f64();
        println!(
            "seed {seed}: queue {:.1} ms ({:.1} ms without boxes), {:.1} of {:.1} Mbit/s; {}",
            ms(&o),
            ms(&without),
            own(&o),
            own(&without),
            reports[0].1
        );
        assert!(ms(&o) <= 1.05 * ms(&without), "seed {seed}");
        assert!(own(&o) >= 0.9 * own(&without), "seed {seed}");
    }
}

#[test]
fn nothing_is_reported_without_a_stranger() {
    let mut world = World::new(96, 50).bundles(2, 8);
    world.cross_from = 1;
    world.packet_loss = 0.01;
    let o = world.run();
    assert!(!o.events.iter().any(|(_, _, e)| matches!(e, Event::ExcessReceived { .. })));
}

tests_over_seeds! {
    bytes_that_were_never_sent_do_not_raise_the_rate: 3;
    a_stranger_at_the_bundles_own_rate_is_reported_and_does_no_more_harm_than_without_boxes: 3;
}
