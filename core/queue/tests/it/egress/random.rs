//! Random histories: flows that come and go, packets of all lengths, policies that change.

use forebay_queue::egress::{Config, FlowId, Policy, Settings};
use forebay_units::{Bytes, Nanos, Rate};
use proptest::prelude::*;

use crate::egress::world::{World, small};

#[derive(Clone, Debug)]
enum Op {
    Open { weight: u16, kbps: Option<u64> },
    Close(usize),
    Data { flow: usize, lengths: Vec<u64>, deadline: u64 },
    Set { flow: usize, weight: u16, kbps: Option<u64> },
    Poll { pause: u64 },
    Depart(usize),
    Change(Policy),
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        Just(Policy::FAIR),
        Just(Policy::EARLIEST_DEADLINE),
        Just(Policy::SHORTEST_FIRST),
        Just(Policy::shortest_first(3000)),
        Just(Policy::Paced),
    ]
}

fn kbps() -> impl Strategy<Value = Option<u64>> {
    prop::option::of(prop_oneof![Just(100), 100..100_000_u64, Just(100_000_000)])
}

fn op() -> impl Strategy<Value = Op> {
    let length =
        prop_oneof![Just(0), Just(1), 2..1500_u64, Just(1500), Just(65_536), Just(100_000)];
    let lengths = prop::collection::vec(length, 0..20);
    prop_oneof![
        3 => (1..=1024_u16, kbps()).prop_map(|(weight, kbps)| Op::Open { weight, kbps }),
        1 => any::<usize>().prop_map(Op::Close),
        5 => (any::<usize>(), lengths, 0..1_000_000_u64)
            .prop_map(|(flow, lengths, deadline)| Op::Data { flow, lengths, deadline }),
        1 => (any::<usize>(), 1..=1024_u16, kbps())
            .prop_map(|(flow, weight, kbps)| Op::Set { flow, weight, kbps }),
        5 => (0..3_000_000_u64).prop_map(|pause| Op::Poll { pause }),
        3 => (1..6_usize).prop_map(Op::Depart),
        1 => policy().prop_map(Op::Change),
    ]
}

fn settings(weight: u16, kbps: Option<u64>) -> Settings {
    Settings { weight, rate: kbps.map(|kbps| Rate::from_bps(kbps * 1000)) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// All packets of flows that stay open are sent, those of closed flows never, and all room
    /// comes back.
    #[test]
    fn no_flow_is_lost_and_none_waits_for_ever(
        start in policy(),
        packets in 1..12_u32,
        bytes in prop_oneof![Just(1_u64), Just(3000), Just(1 << 20)],
        turns in 1..5_u32,
        micros in prop_oneof![Just(20_u64), Just(1000)],
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let granularity = Nanos::from_micros(micros);
        let config = Config { packets, bytes: Bytes(bytes), turns, granularity, ..small(8) };
        let mut world = World::new(config, start);
        let memory = world.engine.memory();
        let mut open: Vec<FlowId> = Vec::new();
        let mut closed: Vec<FlowId> = Vec::new();
        for op in ops {
            match op {
                Op::Open { weight, kbps } => {
                    let flow = world.open(settings(weight, kbps));
                    prop_assert_eq!(flow.is_some(), open.len() < 8);
                    open.extend(flow);
                }
                Op::Close(at) if !open.is_empty() => {
                    let flow = open.swap_remove(at % open.len());
                    prop_assert!(world.engine.close(flow));
                    // A packet of a closed flow would panic: it has none.
                    world.sources.sources[flow.index() as usize].waiting.clear();
                    closed.push(flow);
                }
                Op::Data { flow, lengths, deadline } if !open.is_empty() => {
                    let flow = open[flow % open.len()];
                    let at = world.now.saturating_add(Nanos(deadline * 1000));
                    world.sources.sources[flow.index() as usize].deadline = at;
                    world.data(flow, lengths);
                }
                Op::Set { flow, weight, kbps } if !open.is_empty() => {
                    let flow = open[flow % open.len()];
                    prop_assert_eq!(world.engine.set(flow, settings(weight, kbps)), Ok(true));
                }
                Op::Poll { pause } => {
                    world.now += Nanos(pause);
                    let polled = world.poll();
                    prop_assert!(polled.turns <= turns);
                }
                Op::Depart(count) => world.depart(count),
                Op::Change(policy) => world.engine.set_policy(policy),
                _ => {}
            }
            for &flow in &closed {
                prop_assert!(!world.engine.wake(world.now, flow, Default::default()));
                prop_assert!(!world.engine.close(flow));
            }
        }
        world.drain();
        world.depart(usize::MAX);
        for &flow in &open {
            let source = &world.sources.sources[flow.index() as usize];
            prop_assert!(source.waiting.is_empty(), "{flow:?} has {:?} left", source.waiting);
        }
        let load = world.engine.load();
        prop_assert_eq!((load.free_packets, load.free_bytes), (packets, bytes));
        prop_assert_eq!(world.engine.open_flows() as usize, open.len());
        for flow in open {
            prop_assert!(world.engine.close(flow));
        }
        prop_assert_eq!((world.engine.open_flows(), world.engine.waiting()), (0, 0));
        prop_assert_eq!(world.engine.memory(), memory);
    }
}
