//! Each controller in conditions that make its estimates hard. A bundle must not be worse off than
//! without boxes for longer than two seconds. `cargo test --test it robustness -- --nocapture`
//! prints a table.

use crate::common::path::{Change, Outcome, World};
use crate::common::seeds::{Seeds, tests_over_seeds};
use forebay_control::ControllerKind;
use forebay_units::{Nanos, Rate};

/// The span of time that is compared, long enough for a sawtooth of TCP.
const SPAN: Nanos = Nanos::from_millis(400);
/// Returns how many spans in a row may be worse: two seconds, with exceptions.
fn most(controller: ControllerKind, name: &str) -> usize {
    match (controller, name) {
        // It finds a quarter more every eight round trips.
        (ControllerKind::Bbr, "24 to 96 Mbit/s") => 10,
        // Half a millisecond above the target takes half a percent of the rate each round trip, and
        // a tenth must be gone before that is evidence.
        (ControllerKind::BasicDelay, "50 to 63 ms") => 8,
        // A guard's test can raise a rate that losses have kept low, and the flows then lose more.
        (ControllerKind::Forebay, "5 % of packets lost") => 7,
        _ => 5,
    }
}
/// The share of the throughput without boxes that does not count as worse. Two runs of TCP differ
/// by as much.
const AS_GOOD: f64 = 0.85;

/// All controllers except Copa as published, which serves as a comparison.
const CONTROLLERS: [ControllerKind; 3] =
    [ControllerKind::Forebay, ControllerKind::BasicDelay, ControllerKind::Bbr];

fn s(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

/// Returns the largest number of spans in a row in which less was carried with boxes than without
/// although traffic was waiting, and when they began.
fn longest_worse(boxes: &Outcome, quo: &Outcome) -> (usize, Nanos) {
    let (mut longest, mut run) = ((0, Nanos::ZERO), 0);
    let mut from = s(1.0);
    while from + SPAN <= quo.world.duration {
        let carried = |o: &Outcome| o.throughput(from, from + SPAN).as_mbps_f64();
        let waits = boxes.world.backlogged[0] > 0 || boxes.waits(from, from + SPAN);
        let worse = waits && carried(boxes) < AS_GOOD * carried(quo);
        run = if worse { run + 1 } else { 0 };
        if run > longest.0 {
            longest = (run, from + SPAN - Nanos(SPAN.0 * run as u64));
        }
        from += SPAN;
    }
    longest
}

/// Runs a path of 96 Mbit/s and 50 ms, modified by `spoil`, with each controller and without boxes.
fn never_worse(name: &str, seeds: Seeds, spoil: impl Fn(&mut World)) {
    let mut failed = vec![];
    for seed in seeds {
        let world = || {
            let mut world = World::new(96, 50).bundles(1, 16);
            world.seed = seed;
            world.duration = s(20.0);
            world.sendbox_limit = 2000;
            spoil(&mut world);
            world
        };
        let quo = World { cross_from: 0, ..world() }.run();
        for controller in CONTROLLERS {
            let mut world = world();
            world.config.controller = controller;
            let o = world.run();
            let (spans, from) = longest_worse(&o, &quo);
            let worse = Nanos(SPAN.0 * spans as u64);
            let carried = |o: &Outcome| o.throughput(s(1.0), s(20.0)).as_mbps_f64();
            let share = carried(&o) / carried(&quo);
            let queue = |o: &Outcome| o.queue(0.5, s(3.0), s(20.0)).as_millis_f64();
            println!(
                "{name:>22} {controller:>11} #{seed}: worse for {worse} from {from}, share of all \
                 {share:.3}, median queue {:.1} ms of {:.1} ms",
                queue(&o),
                queue(&quo)
            );
            if spans > most(controller, name) {
                failed.push((controller, seed, worse, from));
            }
        }
    }
    assert!(failed.is_empty(), "{name}: {failed:?}");
}

fn an_idle_period_does_not_cost_throughput(seeds: Seeds) {
    never_worse("idle for 6 s", seeds, |w| {
        w.changes = vec![(s(6.0), Change::Stop(0)), (s(12.0), Change::Start(0, 16))];
    });
}

fn traffic_that_does_not_fill_the_path_is_not_limited(seeds: Seeds) {
    never_worse("20 Mbit/s, then more", seeds, |w| {
        w.backlogged = vec![0];
        w.requests = vec![Rate::from_mbps(20)];
        w.changes = vec![(s(12.0), Change::Start(0, 16))];
    });
}

fn a_fourfold_rate_is_found(seeds: Seeds) {
    never_worse("24 to 96 Mbit/s", seeds, |w| {
        w.rate = Rate::from_mbps(24);
        w.changes = vec![(s(10.0), Change::LinkRate(Rate::from_mbps(96)))];
    });
}

fn a_quarter_of_the_rate_is_found(seeds: Seeds) {
    never_worse("96 to 24 Mbit/s", seeds, |w| {
        w.changes = vec![(s(10.0), Change::LinkRate(Rate::from_mbps(24)))];
    });
}

fn a_longer_route_is_found(seeds: Seeds) {
    never_worse("50 to 90 ms", seeds, |w| {
        w.changes = vec![(s(8.0), Change::Rtt(Nanos::from_millis(90)))];
    });
}

fn a_slightly_longer_route_is_found(seeds: Seeds) {
    never_worse("50 to 70 ms", seeds, |w| {
        w.changes = vec![(s(8.0), Change::Rtt(Nanos::from_millis(70)))];
    });
}

fn a_route_longer_by_about_a_target_is_found(seeds: Seeds) {
    never_worse("50 to 63 ms", seeds, |w| {
        w.changes = vec![(s(8.0), Change::Rtt(Nanos::from_millis(63)))];
    });
}

fn a_shorter_route_is_found(seeds: Seeds) {
    never_worse("90 to 50 ms", seeds, |w| {
        w.rtt = Nanos::from_millis(90);
        w.changes = vec![(s(8.0), Change::Rtt(Nanos::from_millis(50)))];
    });
}

fn a_jump_of_the_receiveboxs_clock_does_not_cost_throughput(seeds: Seeds) {
    // The clock started at 1000 s.
    never_worse("receivebox 5 s ahead", seeds.clone(), |w| {
        w.changes = vec![(s(8.0), Change::ReceiveboxClock(0, s(1005.0)))];
    });
    never_worse("receivebox 5 s behind", seeds, |w| {
        w.changes = vec![(s(8.0), Change::ReceiveboxClock(0, s(995.0)))];
    });
}

fn a_jump_of_the_sendboxs_clock_does_not_cost_throughput(seeds: Seeds) {
    never_worse("sendbox 300 ms ahead", seeds.clone(), |w| {
        w.changes = vec![(s(8.0), Change::SendboxClock(0, s(0.3)))];
    });
    never_worse("sendbox 5 s ahead", seeds, |w| {
        w.changes = vec![(s(8.0), Change::SendboxClock(0, s(5.0)))];
    });
}

fn lost_feedback_does_not_cost_throughput(seeds: Seeds) {
    never_worse("30 % of feedback lost", seeds, |w| w.feedback_loss = 0.3);
}

fn lost_packets_do_not_cost_throughput(seeds: Seeds) {
    never_worse("5 % of packets lost", seeds, |w| w.packet_loss = 0.05);
}

tests_over_seeds! {
    an_idle_period_does_not_cost_throughput: 3;
    traffic_that_does_not_fill_the_path_is_not_limited: 3;
    a_fourfold_rate_is_found: 3;
    a_quarter_of_the_rate_is_found: 3;
    a_longer_route_is_found: 3;
    a_slightly_longer_route_is_found: 3;
    a_route_longer_by_about_a_target_is_found: 3;
    a_shorter_route_is_found: 3;
    a_jump_of_the_receiveboxs_clock_does_not_cost_throughput: 3;
    a_jump_of_the_sendboxs_clock_does_not_cost_throughput: 3;
    lost_feedback_does_not_cost_throughput: 3;
    lost_packets_do_not_cost_throughput: 3;
}
