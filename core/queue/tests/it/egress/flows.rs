//! Many flows: memory, flows that come and go, limits of the host's queue.

use forebay_queue::egress::{
    Answer, Ask, Config, Departure, Engine, Hint, Next, Policy, Sample, Settings, Transport,
};
use forebay_units::{Bytes, Nanos, Rate};

use crate::egress::world::{World, small};

#[test]
fn a_million_flows_take_at_most_128_bytes_each() {
    let flows = 1_000_000;
    for wheel_bits in [10, 17, 18] {
        let config = Config { flows, wheel_bits, ..Config::default() };
        let memory = Engine::new(config, Policy::FAIR).unwrap().memory();
        assert!(memory.flows >= 64 * flows as usize);
        let each = memory.total() as f64 / f64::from(flows);
        assert!(each <= 128.0, "{each} bytes with a wheel of 2^{wheel_bits}");
    }
}

/// A second in which 100 000 flows appear, send and die, with a new policy in each 10 ms.
#[test]
fn flows_that_appear_and_die_leave_nothing_behind() {
    let config = Config { turns: 64, packets: 64, ..small(2000) };
    let mut world = World::new(config, Policy::FAIR);
    let memory = world.engine.memory();
    let policies = [Policy::FAIR, Policy::Paced, Policy::EARLIEST_DEADLINE, Policy::SHORTEST_FIRST];
    let (mut open, mut opened, mut killed) = (std::collections::VecDeque::new(), 0_u64, 0_u64);
    for tick in 0..10_000_u64 {
        if tick % 100 == 0 {
            world.engine.set_policy(policies[(tick / 100 % 4) as usize]);
        }
        for n in 0..10 {
            let rate = (n % 3 == 0).then_some(Rate::from_mbps(100 * (1 + n)));
            let flow = world.open(Settings { rate, ..Settings::default() }).unwrap();
            opened += 1;
            world.data(flow, [[0, 1500, 65_536, 700][n as usize % 4], 64]);
            open.push_back(flow);
        }
        world.poll();
        world.depart(20);
        while open.len() > 1500 {
            // Some have sent, some are waiting, some have packets in the host's queue.
            let flow = open.pop_front().unwrap();
            let source = &mut world.sources.sources[flow.index() as usize];
            killed += u64::from(!source.waiting.is_empty());
            source.waiting.clear();
            assert!(world.engine.close(flow));
        }
        world.now += Nanos::from_micros(100);
    }
    assert_eq!(opened, 100_000);
    assert!(killed < opened / 20, "{killed} flows had not sent after 15 ms");
    world.drain();
    world.depart(usize::MAX);
    for &flow in &open {
        assert!(world.sources.sources[flow.index() as usize].waiting.is_empty());
        assert!(world.engine.close(flow));
    }
    assert_eq!((world.engine.open_flows(), world.engine.waiting()), (0, 0));
    let load = world.engine.load();
    assert_eq!((load.free_packets, load.free_bytes), (64, 4 << 20));
    assert_eq!(world.engine.memory(), memory);
}

#[test]
fn a_full_queue_and_a_flow_at_its_limit_wait() {
    let config = Config { packets: 3, in_host: 1, ..small(4) };
    let mut world = World::new(config, Policy::FAIR);
    let flows: Vec<_> = (0..4).map(|_| world.open(Settings::default()).unwrap()).collect();
    world.data(flows[0], [1500; 5]);
    let polled = world.poll();
    assert_eq!((polled.turns, polled.next), (1, None), "one packet of a flow in the host's queue");
    for &flow in &flows[1..] {
        world.data(flow, [1500]);
    }
    let polled = world.poll();
    assert_eq!((polled.turns, polled.next), (2, None), "the queue is full");
    world.depart(1);
    assert_eq!(world.poll().turns, 1, "the fourth flow, which waited longer than the first");
    assert_eq!(world.sources.order, [0, 1, 2, 3]);
    world.drain();
    assert_eq!(world.sources.sources[0].sent, 5);
}

#[test]
fn a_report_about_a_closed_flow_does_not_reach_the_next_one() {
    let mut world = World::new(Config { in_host: 1, ..small(1) }, Policy::FAIR);
    let first = world.open(Settings::default()).unwrap();
    world.data(first, [1500, 1500]);
    world.poll();
    assert!(world.engine.close(first));
    let second = world.open(Settings::default()).unwrap();
    assert_eq!(second.index(), first.index());
    world.data(second, [1500, 1500]);
    world.poll();
    assert_eq!(world.sources.order, [0, 0]);
    world.depart(1);
    assert_eq!(world.engine.load().free_packets, 999, "the closed flow's packet gives its room");
    assert_eq!(world.poll().turns, 0, "the second flow is at its limit");
    world.depart(1);
    assert_eq!(world.poll().turns, 1);
}

/// An overloaded host doubles round-trip times by its own queue. Sized by the whole round-trip
/// time, segments halve, and the host has twice the packets.
#[test]
fn the_hosts_own_delay_does_not_make_segments_smaller() {
    let mut world = World::new(small(2), Policy::FAIR);
    let flows: Vec<_> = (0..2).map(|_| world.open(Settings::default()).unwrap()).collect();
    let network = Nanos::from_millis(10);
    // 500 kB in 10 ms: 50 kB in 1 ms.
    let window = Bytes(500_000);
    let host = {
        world.data(flows[0], [1500]);
        world.poll();
        let (_, departure) = world.sources.host.pop_front().unwrap();
        let left = world.now + Nanos::from_millis(10);
        world.engine.departed(left, flows[0], departure)
    };
    assert_eq!(host, Nanos::from_millis(10));
    let rtt = network + host;
    world.engine.measured(flows[0], Sample { window, rtt, host });
    world.engine.measured(flows[1], Sample { window, rtt, host: Nanos::ZERO });
    // The congestion of the host ends, so that it does not enlarge segments.
    for _ in 0..50 {
        let departure = Departure { packets: 0, bytes: Bytes(0), asked: world.now };
        world.engine.departed(world.now, flows[0], departure);
    }
    assert_eq!(world.engine.load().pressure, 0);
    for flow in flows {
        assert!(world.engine.wake(world.now, flow, Hint::default()));
    }
    let mut asked = Asked::default();
    world.engine.poll(world.now, &mut asked);
    asked.bytes.sort_unstable();
    assert_eq!(asked.bytes, [(0, 50_000), (1, 25_000)]);
}

/// Records for which flow and how many bytes it was asked, and sends none.
#[derive(Default)]
struct Asked {
    bytes: Vec<(u32, u64)>,
}

impl Transport for Asked {
    fn send(&mut self, ask: Ask<'_>) -> Answer {
        self.bytes.push((ask.flow.index(), ask.bytes.0));
        Answer { bytes: Bytes(0), packets: 0, next: Next::Idle }
    }
}
