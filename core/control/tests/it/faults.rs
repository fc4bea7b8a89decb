//! The loop with feedback that is lost, late, duplicated, forged or missing, and with coarse clocks
//! and shapers.

use crate::common::path::{Change, World};
use crate::common::seeds::{Seeds, tests_over_seeds};
use forebay_control::{Event, Mode};
use forebay_units::{Bytes, Nanos};

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

/// Runs paths modified by `spoil`. At least the share `least` of the link must be used while
/// packets wait, and the median queue must be at most eight packets plus `more` milliseconds.
fn still_works(name: &str, least: f64, more: f64, spoil: impl Fn(&mut World)) {
    for (mbps, rtt) in [(96, 50), (24, 20), (48, 100)] {
        for seed in 1..=2 {
            let mut world = World::new(mbps, rtt).bundles(1, 8);
            world.seed = seed;
            world.duration = s(12.0);
            spoil(&mut world);
            let o = world.run();
            let (used, _) = o.efficiency(s(3.0), s(12.0));
            let queue = o.queue(0.5, s(3.0), s(12.0)).as_millis_f64();
            println!(
                "{name}: {mbps} Mbit/s, {rtt} ms, seed {seed}: {used:.3} in use, median queue {queue:.2} ms"
            );
            assert!(used >= least, "{name}: {mbps} Mbit/s, {rtt} ms, seed {seed}: {used:.3}");
            let packets = 8.0 * 1514.0 * 8.0 / (mbps as f64 * 1000.0);
            assert!(
                queue <= packets + more,
                "{name}: {mbps} Mbit/s, {rtt} ms, seed {seed}: {queue:.2} ms"
            );
        }
    }
}

#[test]
fn lost_feedback_is_tolerated() {
    still_works("a tenth lost", 0.97, 1.5, |w| w.feedback_loss = 0.1);
    still_works("half lost", 0.88, 2.5, |w| w.feedback_loss = 0.5);
}

#[test]
fn reordered_feedback_is_tolerated() {
    still_works("a tenth late", 0.97, 2.0, |w| w.feedback_late = 0.1);
    let mut world = World::new(96, 50);
    world.feedback_late = 0.1;
    let o = world.run();
    assert!(o.sendboxes[0].bundle.snapshot().counters.out_of_order > 20);
}

#[test]
fn repeated_fingerprints_are_tolerated() {
    still_works("a tenth repeated", 0.97, 1.5, |w| w.duplicate_fingerprints = 0.1);
    let mut world = World::new(96, 50);
    world.duplicate_fingerprints = 0.1;
    let rtt = world.rtt;
    let o = world.run();
    let s = o.sendboxes[0].bundle.snapshot();
    assert!(s.counters.ambiguous > 20);
    assert!(s.min_rtt.unwrap() >= rtt, "no packet was matched to another's feedback");
}

#[test]
fn a_busy_machine_is_tolerated() {
    still_works("coarse timers", 0.93, 2.5, |w| {
        w.shaper_grain = Nanos::from_millis(3);
        w.spikes = (0.05, Nanos::from_millis(5));
        w.stamp_jitter = Nanos::from_micros(200);
    });
}

#[test]
fn coarse_time_stamps_are_tolerated() {
    still_works("time stamps of 1 ms", 0.97, 2.0, |w| w.stamp_jitter = Nanos::from_millis(1));
}

#[test]
fn a_flood_of_invalid_feedback_is_tolerated() {
    still_works("garbage", 0.98, 1.25, |w| w.garbage = 2000.0);
}

/// Loss that is not caused by a queue does not lower the rate.
#[test]
fn random_loss_is_tolerated() {
    let mut world = World::new(24, 20).bundles(1, 8);
    world.packet_loss = 0.01;
    let o = world.run();
    assert!(o.utilisation(s(3.0), s(15.0)) >= 0.95);
    assert!(o.queue(0.5, s(3.0), s(15.0)) <= Nanos::from_millis(6));
}

/// The buffer holds fewer packets than the target. The loss must not lower the rate for good.
#[test]
fn a_short_buffer_is_tolerated() {
    let mut world = World::new(24, 20).bundles(1, 8);
    world.buffer = Bytes(6 * 1514);
    let o = world.run();
    assert!(o.utilisation(s(3.0), s(15.0)) >= 0.9);
}

fn a_receivebox_that_dies_under_load_and_returns_is_tolerated(seeds: Seeds) {
    for (mbps, rtt) in [(96, 50), (24, 20), (48, 100)] {
        for seed in seeds.clone() {
            let mut world = World::new(mbps, rtt).bundles(1, 8);
            world.seed = seed;
            world.duration = s(16.0);
            world.changes = vec![(s(6.0), Change::Kill(0)), (s(10.0), Change::Revive(0))];
            let o = world.run();
            let cell = format!("{mbps} Mbit/s, {rtt} ms, seed {seed}");
            let modes: Vec<_> = o
                .events
                .iter()
                .filter_map(|(at, _, e)| match e {
                    Event::ModeChanged { to, .. } => Some((*at, *to)),
                    _ => None,
                })
                .collect();
            let [(_, first), (died, open), (back, controlled)] = modes[..] else {
                panic!("{cell}: {modes:?}");
            };
            assert_eq!(
                (first, open, controlled),
                (Mode::DelayControl, Mode::Open, Mode::DelayControl)
            );
            assert!((s(6.0)..s(7.0)).contains(&died), "{cell}: open at {died}");
            assert!((s(10.0)..s(11.0)).contains(&back), "{cell}: back at {back}");
            let ticks = &o.ticks[0];
            assert!(
                ticks
                    .iter()
                    .all(|t| (died..back).contains(&t.0) == (t.1.is_none() && t.0 > s(1.0))
                        || t.0 < s(1.0))
            );
            // The queue that built meanwhile is gone two seconds later.
            let queue = o.queue(0.5, s(12.0), s(16.0)).as_millis_f64();
            assert!(
                queue <= 8.0 * 1514.0 * 8.0 / (mbps as f64 * 1000.0) + 1.25,
                "{cell}: {queue:.2} ms"
            );
            assert!(o.utilisation(s(11.0), s(16.0)) >= 0.95, "{cell}");
            assert_eq!(o.sendboxes[0].bundle.snapshot().counters.restarts, 1, "{cell}");
        }
    }
}

tests_over_seeds! {
    a_receivebox_that_dies_under_load_and_returns_is_tolerated: 3;
}
