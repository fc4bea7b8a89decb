//! Rates and round trips on a quiet machine, within two bounds. The tests of the same names in the
//! module `wires` assert one bound, and what else such runs have.

use crate::wires::{
    BURST, FRAME, PERIOD, SITES, STEPS, bursts, cbr, departures, longer_paths, policer_and_sites,
    rate, restarted, round_trips, round_trips_of, run, shortest_of_flows, steps_and_loss, two_ways,
    varying_delays,
};

/// More is offered than passes, so each burst of the trace is full.
pub(crate) fn a_trace_is_served_in_bursts() {
    let (run, departures) = bursts();
    let full: Vec<_> = (20..90).map(|n| departures.get(&(n * PERIOD)).copied()).collect();
    let is_full = |bytes: &u64| (BURST - 2 * FRAME..=BURST + 2 * FRAME).contains(bytes);
    assert!(full.iter().all(|b| b.as_ref().is_some_and(is_full)), "{BURST}: {full:?}");
    assert!(run.hops[1].policy_drops > 100, "{:?}", run.hops[1]);
    let bytes: u64 = run.progress.iter().map(|p| p.bytes).sum();
    let mbps = bytes as f64 * 8e-6 / 2.0;
    // 1400 of 1432 bytes are payload.
    assert!((44.5..48.0).contains(&mbps), "the receiver got {mbps} Mbit/s");
}

pub(crate) fn steps_and_loss_are_carried_out() {
    let (_, departures) = steps_and_loss();
    for (ms, expected) in STEPS {
        let rate = rate(&departures, ms.clone());
        assert!((rate - expected).abs() < 0.5, "{rate} Mbit/s at {ms:?} ms, not {expected}");
    }
}

/// Round trips follow a trace of delays and its jitter.
pub(crate) fn delays_vary() {
    let (calm, stormy) = varying_delays();
    let trips = round_trips(&run(&calm));
    let near = |rtt: f64| trips.iter().filter(|t| (rtt..rtt + 5.0).contains(*t)).count();
    let (short, long) = (near(20.0), near(60.0));
    assert!(short > 120 && long > 40 && (short + long) * 10 > trips.len() * 9, "{trips:?}");
    let trips = round_trips(&run(&stormy));
    let short = || trips.iter().filter(|trip| **trip < 35.0);
    let mean = short().sum::<f64>() / short().count() as f64;
    assert!((23.0..27.0).contains(&mean), "half of the jitter is added on one way: {mean}");
}

pub(crate) fn a_policer_and_a_longer_path() {
    let (policed, sites) = policer_and_sites();
    let polled = run(&policed);
    let rate = rate(&departures(&policed, &polled), 200..1_900);
    assert!((rate - 20.0).abs() < 0.4, "{rate} Mbit/s pass");
    assert!(polled.hops[1].policy_drops > 1_000, "{:?}", polled.hops[1]);
    let run = run(&sites);
    for (name, rtt) in SITES {
        let median = median(round_trips_of(&run, name));
        assert!(median < rtt + 3.0, "{name}: {median}");
    }
}

/// The stand-in's bridge forwards while the sendbox is stopped.
pub(crate) fn a_sendbox_is_restarted() {
    let (scenario, run) = restarted();
    let departures = departures(&scenario, &run);
    assert!(rate(&departures, 200..590) > 9.0 && rate(&departures, 1_500..1_950) > 9.0);
}

/// Each way serves what it would serve alone.
pub(crate) fn several_ways_carry_the_path() {
    let shortest = shortest_of_flows();
    assert!(shortest.iter().all(|trip| *trip < 15.0 || *trip >= 39.9), "{shortest:?}");
    let one = "[[traffic]]\nname = \"one\"\nkind = \"udp_rr\"\nflows = 1\n";
    let trips = round_trips(&run(&two_ways("packet", one)));
    let far = trips.iter().filter(|trip| **trip >= 40.0).count();
    assert!(far * 5 > trips.len() && far * 5 < trips.len() * 4, "{far} of {}", trips.len());
    // Half of 30 Mbit/s goes to each way of 10.
    let scenario = two_ways("packet", &cbr("30 Mbit/s"));
    let rate = rate(&departures(&scenario, &run(&scenario)), 300..1_900);
    assert!((rate - 20.0).abs() < 0.4, "{rate} Mbit/s");
}

pub(crate) fn a_route_changes_and_a_traffic_s_way_back_is_longer() {
    let (changed, later) = longer_paths();
    let run_changed = run(&changed);
    let change = (run_changed.start - changed.warmup).0 + 1_000_000_000;
    let before = run_changed.round_trips.iter().filter_map(|trip| {
        let end = trip.end.filter(|end| *end < change)?;
        Some((end - trip.start) as f64 / 1e6)
    });
    let median = median(before.collect());
    assert!(median < 45.0, "{median}");
    let after = run_changed.round_trips.iter().filter(|trip| trip.start >= change).count();
    assert!(after > 20, "{after}");
    let pings = round_trips(&run(&later));
    assert!(pings.iter().any(|trip| *trip < 12.0), "others keep the path's: {pings:?}");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
