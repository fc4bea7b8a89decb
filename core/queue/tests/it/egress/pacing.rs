//! Pacing with a driven clock.

use forebay_queue::egress::{Config, Policy, Settings};
use forebay_units::{Nanos, Rate};

use crate::egress::world::{World, small};

/// Rates from below to above what the wheel of 2 ms spans.
#[test]
fn flows_keep_their_rates_under_each_policy() {
    let policies = [Policy::Paced, Policy::FAIR, Policy::EARLIEST_DEADLINE, Policy::SHORTEST_FIRST];
    for policy in policies {
        let mut world = World::new(small(10), policy);
        let rates: Vec<_> = (1..=10).map(|n| Rate::from_bps(1_234_567 * n * n)).collect();
        for &rate in &rates {
            let flow = world.open(Settings { rate: Some(rate), ..Settings::default() }).unwrap();
            world.data(flow, std::iter::repeat_n(1500, 100_000));
        }
        let start = world.now;
        let step = Nanos(3000);
        while world.now < start + Nanos::from_secs(1) {
            world.poll();
            world.depart(usize::MAX);
            world.now += step;
        }
        for (rate, source) in rates.iter().zip(&world.sources.sources) {
            let due = rate.bytes_in(Nanos::from_secs(1)).0;
            assert!(
                source.sent_bytes.abs_diff(due) <= 1500 + due / 1000,
                "{source:?} of {due}",
                source = source.sent_bytes
            );
        }
        // A flow is late by a granularity and the step of the clock at most.
        for (due, at) in world.sources.times {
            assert!(at.saturating_sub(due) < Nanos(2048) + step, "due {due:?}, at {at:?}");
        }
    }
}

#[test]
fn an_idle_flow_saves_no_credit_but_a_late_one_catches_up() {
    let mut world = World::new(small(1), Policy::Paced);
    // A packet in 100 us.
    let rate = Some(Rate::from_mbps(120));
    let flow = world.open(Settings { rate, ..Settings::default() }).unwrap();
    world.data(flow, [1500]);
    world.drain();
    world.now += Nanos::from_secs(1);
    world.data(flow, [1500; 100]);
    world.poll();
    assert_eq!(world.sources.sources[0].sent, 2, "one, not the packets of a second");
    world.depart(usize::MAX);
    // The host is busy for 500 us; five packets are due.
    world.now += Nanos::from_micros(500);
    for _ in 0..9 {
        world.poll();
        world.depart(usize::MAX);
    }
    assert_eq!(world.sources.sources[0].sent, 2 + 5);
    // The credit ends with 1 ms.
    world.now += Nanos::from_secs(1);
    for _ in 0..50 {
        world.poll();
        world.depart(usize::MAX);
    }
    assert_eq!(world.sources.sources[0].sent, 2 + 5 + 11);
}

#[test]
fn a_rate_can_change() {
    let mut world = World::new(Config { wheel_bits: 4, ..small(1) }, Policy::FAIR);
    let settings = |mbps| Settings { rate: Some(Rate::from_mbps(mbps)), ..Settings::default() };
    let flow = world.open(settings(12)).unwrap();
    world.data(flow, [1500; 4]);
    world.poll();
    world.depart(1);
    assert!(world.engine.set(flow, settings(120)).unwrap());
    world.drain();
    let at: Vec<_> = world.sources.times.iter().map(|(due, _)| due.0 - 1_000_000_000).collect();
    // Rounding up to 2^-20 ns per byte.
    assert_eq!(at, [0, 1_000_000, 1_100_000, 1_200_000]);
}
