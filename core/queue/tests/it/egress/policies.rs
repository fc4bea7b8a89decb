//! The order of each policy, and that none starves a flow.

use forebay_queue::egress::{Account, Config, Engine, FlowId, Policy, Ranking, Settings};
use forebay_units::Nanos;

use crate::egress::world::{World, small};

/// Opens flows of these weights that each have `packets` full packets.
fn backlogged(world: &mut World, weights: &[u16], packets: usize) -> Vec<FlowId> {
    let open = |&weight: &u16| {
        let flow = world.open(Settings { weight, ..Settings::default() }).unwrap();
        world.data(flow, std::iter::repeat_n(1500, packets));
        flow
    };
    weights.iter().map(open).collect()
}

fn turns(world: &mut World, count: usize) {
    while world.sources.order.len() < count {
        assert!(world.poll().turns > 0, "a stall after {} turns", world.sources.order.len());
        world.depart(usize::MAX);
        world.now += Nanos::from_micros(1);
    }
}

#[test]
fn equal_flows_take_turns() {
    let mut world = World::new(small(100), Policy::FAIR);
    backlogged(&mut world, &[1; 100], 50);
    turns(&mut world, 1600);
    for round in world.sources.order[..1600].chunks(100) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert!(round.into_iter().eq(0..100), "each flow once in each round");
    }
}

#[test]
fn weighted_flows_get_their_shares() {
    let weights = [1, 2, 5, 10, 100, 1024];
    let mut world = World::new(Config { in_host: 100, ..small(6) }, Policy::FAIR);
    backlogged(&mut world, &weights, 20_000);
    let count = 17_130;
    turns(&mut world, count);
    let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
    for (index, &weight) in weights.iter().enumerate() {
        let got = world.sources.order[..count].iter().filter(|&&i| i == index as u32).count();
        let due = count as f64 * f64::from(weight) / total as f64;
        // A packet of the flow itself, and what ranks within a bucket may be out of order.
        assert!((got as f64 - due).abs() <= 2.0 + due / 100.0, "{weight}: {got} of {due}");
    }
}

#[test]
fn a_flow_of_empty_packets_gets_no_more_turns_than_its_share() {
    let mut world = World::new(Config { in_host: 1000, ..small(2) }, Policy::FAIR);
    let empty = world.open(Settings::default()).unwrap();
    world.data(empty, std::iter::repeat_n(0, 100_000));
    let full = world.open(Settings::default()).unwrap();
    world.data(full, std::iter::repeat_n(1500, 1000));
    // Eight empty packets of a turn count for 512 bytes.
    turns(&mut world, 400);
    let full = world.sources.order.iter().filter(|&&i| i == full.index()).count();
    assert!((95..=105).contains(&full), "{full} of 400, where 102 are due");
}

#[test]
fn the_earliest_deadline_is_first() {
    let mut world = World::new(small(4), Policy::EARLIEST_DEADLINE);
    for micros in [9000, 100, 50_000, 700] {
        let flow = world.open(Settings::default()).unwrap();
        let deadline = world.now + Nanos::from_micros(micros);
        world.sources.sources[flow.index() as usize].deadline = deadline;
        world.data(flow, [1500]);
        if micros == 50_000 {
            // A deadline that moved forward.
            let deadline = world.now + Nanos::from_micros(40);
            world.sources.sources[flow.index() as usize].deadline = deadline;
            world.data(flow, []);
        }
    }
    world.drain();
    assert_eq!(world.sources.order, [2, 1, 3, 0]);
}

#[test]
fn a_flow_without_a_deadline_is_not_starved() {
    let mut world = World::new(small(3), Policy::EARLIEST_DEADLINE);
    let flows = backlogged(&mut world, &[1; 3], 0);
    // Far behind the 67 ms that the buckets span.
    let deadline = world.now + Nanos::from_millis(900);
    world.sources.sources[2].deadline = deadline;
    world.data(flows[2], [1500]);
    while world.sources.sources[2].sent == 0 {
        assert!(world.now <= deadline + Nanos::from_millis(1), "starved");
        for &flow in &flows[..2] {
            world.sources.sources[flow.index() as usize].deadline = world.now;
            world.data(flow, [1500]);
        }
        world.poll();
        world.depart(usize::MAX);
        world.now += Nanos::from_micros(500);
    }
}

#[test]
fn the_shortest_is_first() {
    let mut world = World::new(small(4), Policy::SHORTEST_FIRST);
    for packets in [40, 2, 10, 1] {
        let flow = world.open(Settings::default()).unwrap();
        world.data(flow, std::iter::repeat_n(1500, packets));
    }
    world.drain();
    let last = |flow: u32| world.sources.order.iter().rposition(|&i| i == flow).unwrap();
    assert!(last(3) < last(1) && last(1) < last(2) && last(2) < last(0));
    assert_eq!(world.sources.order[..3], [3, 1, 1]);
}

#[test]
fn a_long_flow_is_not_starved_by_short_ones() {
    let ageing = 3000;
    let mut world = World::new(small(2), Policy::shortest_first(ageing));
    let flows = backlogged(&mut world, &[1; 2], 0);
    world.data(flows[0], std::iter::repeat_n(1500, 1_000_000));
    while world.sources.sources[0].sent < 3 {
        let short = &world.sources.sources[1];
        assert!(short.sent_bytes <= 3 * 464 * ageing + 3000, "starved");
        world.data(flows[1], [100]);
        world.poll();
        world.depart(usize::MAX);
    }
}

/// After a change, each of many flows is served once before any is twice.
#[test]
fn a_changed_policy_loses_no_flow() {
    const FLOWS: u32 = 5000;
    let policies = [Policy::FAIR, Policy::Paced, Policy::FAIR, Policy::EARLIEST_DEADLINE];
    for (before, after) in policies.into_iter().zip(policies.into_iter().skip(1)) {
        let config = Config { packets: u32::MAX, ..small(FLOWS) };
        let mut world = World::new(config, before);
        backlogged(&mut world, &[1; FLOWS as usize], 8);
        turns(&mut world, 2 * FLOWS as usize + 77);
        world.engine.set_policy(after);
        world.engine.set_policy(Policy::SHORTEST_FIRST);
        world.engine.set_policy(after);
        assert_eq!(world.engine.waiting(), FLOWS, "the change itself moves nobody");
        world.drain();
        assert!(world.sources.sources.iter().all(|source| source.sent == 8));
    }
}

/// A policy of a caller: flows with an even number of full packets left first.
struct EvenFirst;

impl Ranking for EvenFirst {
    fn shift(&self) -> u32 {
        0
    }

    fn low(&self, _now: Nanos) -> u64 {
        0
    }

    fn rank(&mut self, _now: Nanos, account: &mut Account) -> u64 {
        u64::from(account.remaining / 1500 % 2)
    }

    fn served(&mut self, _account: &mut Account, _rank: u64, _bytes: u64) {}
}

#[test]
fn a_caller_can_bring_its_own_policy() {
    let mut engine = Engine::new(small(3), EvenFirst).unwrap();
    let mut world = World::new(small(3), Policy::FAIR);
    for packets in [3, 2, 4] {
        let flow = engine.open(Settings::default()).unwrap().unwrap();
        let source = &mut world.sources.sources[flow.index() as usize];
        source.waiting.extend(std::iter::repeat_n(1500, packets));
        source.left = 1500 * packets as u64;
        let hint = world.sources.hint(flow.index());
        assert!(engine.wake(world.now, flow, hint));
    }
    engine.poll(world.now, &mut world.sources);
    assert_eq!(world.sources.order, [1, 2, 0, 0, 1, 2]);
}
