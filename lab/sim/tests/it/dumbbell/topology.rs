//! Tests of parallel links, parallel bundles, and boxes around boxes.

use forebay_control::ControlConfig;
use forebay_sim::{
    BundleId, BundleSetup, Capacity, Congestion, Hop, Jitter, LinkConfig, LinkId, Loss, Path,
    Pattern, Route, RouteId, SetupError, Simulation, Trace, Traffic, TrafficKind,
};
use forebay_units::{Bytes, Nanos, Rate};

use crate::dumbbell::network::{Seen, fifo_queue, sfq_queue};

const S: Nanos = Nanos::from_secs(1);
const RTT: Nanos = Nanos::from_millis(40);

type Sim = Simulation<Seen>;

fn link(sim: &mut Sim, capacity: Capacity, loss: Loss) -> LinkId {
    let queue = (capacity != Capacity::Unlimited).then(|| fifo_queue(Bytes(1_000_000)));
    let jitter = Jitter { up_to: Nanos::from_micros(20), reorders: false };
    sim.add_link(LinkConfig {
        capacity,
        delay: RTT / 2,
        queue,
        loss,
        jitter,
        ..LinkConfig::default()
    })
    .unwrap()
}

fn route(sim: &mut Sim, hops: &[Hop], source: u8) -> RouteId {
    sim.add_route(Route { hops: hops.to_vec(), source, class: 0 }).unwrap()
}

fn bundle(sim: &mut Sim, feedback_route: RouteId, update_route: RouteId) -> BundleId {
    let setup = BundleSetup {
        control: ControlConfig::default(),
        queue: sfq_queue(1000),
        burst: Nanos::from_micros(500),
        feedback_route,
        update_route,
        feedback_len: Bytes(94),
        update_len: Bytes(86),
        outer: false,
    };
    sim.add_bundle(setup).unwrap()
}

fn bulk(sim: &mut Sim, forward: RouteId, backward: RouteId, flows: u32, stop: Nanos) {
    let kind = TrafficKind::Bulk { flows, congestion: Congestion::Cubic };
    let path = Path { forward, backward, rtt: RTT };
    sim.add_traffic(Traffic { path, start: Nanos::ZERO, stop, ecn: None, kind }).unwrap();
}

/// Returns the rate of each source through the bottleneck from `start` to `end`, in Mbit/s.
fn shares(seen: &Seen, sources: u8, start: Nanos, end: Nanos) -> Vec<f64> {
    let of = |source| {
        let sent = seen.queue.iter().filter(|p| !p.dropped && p.source == source);
        let bytes = sent.filter(|p| p.time >= start && p.time < end).map(|p| p.len.0).sum();
        Rate::from_bytes_over(Bytes(bytes), end - start).as_mbps_f64()
    };
    (0..sources).map(of).collect()
}

#[test]
fn two_bundles_share_a_bottleneck_and_keep_it_short() {
    let mut sim = Sim::new(3, Seen::default());
    let forward = link(&mut sim, Capacity::Constant(Rate::from_mbps(48)), Loss::None);
    let backward = link(&mut sim, Capacity::Unlimited, Loss::None);
    for source in 0..2 {
        let back = route(&mut sim, &[Hop::Link(backward)], source);
        let straight = route(&mut sim, &[Hop::Link(forward)], source);
        let b = bundle(&mut sim, back, straight);
        let hops = [Hop::Sendbox(b), Hop::Link(forward), Hop::Receivebox(b)];
        let through = route(&mut sim, &hops, source);
        bulk(&mut sim, through, back, 3, S * 60);
    }
    sim.run_until(S * 60);
    let seen = sim.observer();
    let shares = shares(seen, 2, S * 20, S * 60);
    assert!(shares[0] + shares[1] > 44.0, "{shares:?}");
    assert!(shares.iter().all(|s| *s > 12.0), "neither starves: {shares:?}");
    let wait = seen.mean_wait_ms(S * 20);
    assert!(wait < 15.0, "of up to 166: {wait} ms");
}

#[test]
fn boxes_work_inside_other_boxes() {
    let mut sim = Sim::new(3, Seen::default());
    let forward = link(&mut sim, Capacity::Constant(Rate::from_mbps(48)), Loss::None);
    let backward = link(&mut sim, Capacity::Unlimited, Loss::None);
    let back = route(&mut sim, &[Hop::Link(backward)], 9);
    let straight = route(&mut sim, &[Hop::Link(forward)], 9);
    let outer = bundle(&mut sim, back, straight);
    let around = [Hop::Sendbox(outer), Hop::Link(forward), Hop::Receivebox(outer)];
    let mut inner = Vec::new();
    for source in 0..2 {
        // The updates of the inner boxes are traffic of the outer ones.
        let update = route(&mut sim, &around, 9);
        let b = bundle(&mut sim, back, update);
        let hops = [&[Hop::Sendbox(b)], &around[..], &[Hop::Receivebox(b)]].concat();
        let through = route(&mut sim, &hops, source);
        bulk(&mut sim, through, back, 3, S * 60);
        inner.push(b);
    }
    sim.run_until(S * 60);
    for b in [outer, inner[0], inner[1]] {
        let c = sim.sendbox(b);
        assert_eq!(c.received, c.sent + c.dropped + c.queued);
        assert!(c.messages > 1000, "{b:?}: {c:?}");
    }
    let (within, out) =
        (sim.sendbox(inner[0]).sent + sim.sendbox(inner[1]).sent, sim.sendbox(outer));
    let updates = out.received - within;
    assert!((1..2_000).contains(&updates), "everything passes the outer box: {updates}");
    let seen = sim.observer();
    let shares = shares(seen, 2, S * 20, S * 60);
    assert!(shares[0] + shares[1] > 40.0, "{shares:?}");
    assert!(shares.iter().all(|s| *s > 10.0), "neither starves: {shares:?}");
    let wait = seen.mean_wait_ms(S * 20);
    assert!(wait < 15.0, "of up to 166: {wait} ms");
}

#[test]
fn a_sendbox_receives_the_messages_that_are_not_lost() {
    let mut received = Vec::new();
    for loss in [0.0, 0.5, 0.999] {
        let mut sim = Sim::new(3, Seen::default());
        let forward = link(&mut sim, Capacity::Constant(Rate::from_mbps(24)), Loss::None);
        let backward = link(&mut sim, Capacity::Unlimited, Loss::None);
        let losing = link(&mut sim, Capacity::Unlimited, Loss::Random(loss));
        let back = route(&mut sim, &[Hop::Link(losing)], 0);
        let update = route(&mut sim, &[Hop::Link(forward)], 0);
        let acks = route(&mut sim, &[Hop::Link(backward)], 0);
        let b = bundle(&mut sim, back, update);
        let hops = [Hop::Sendbox(b), Hop::Link(forward), Hop::Receivebox(b)];
        let through = route(&mut sim, &hops, 0);
        bulk(&mut sim, through, acks, 2, S * 20);
        sim.run_until(S * 20);
        let lost = sim.link(losing);
        assert_eq!(lost.received, lost.sent + lost.lost + lost.inside);
        assert_eq!(lost.sent, sim.sendbox(b).messages);
        received.push(lost.sent);
    }
    assert!(received[0] > 500 && received[2] < 20, "{received:?}");
    let half = received[0] / 2;
    assert!((half / 2..half * 3 / 2).contains(&received[1]), "{received:?}");
}

#[test]
fn traffic_spreads_over_parallel_links() {
    for (per_packet, flows) in [(false, 400), (true, 1)] {
        let mut sim = Sim::new(5, Seen::default());
        let links: Vec<_> = (1..=4)
            .map(|n| link(&mut sim, Capacity::Constant(Rate::from_mbps(100 * n)), Loss::None))
            .collect();
        let backward = link(&mut sim, Capacity::Unlimited, Loss::None);
        let forward = route(&mut sim, &[Hop::AnyOf { first: links[0], count: 4, per_packet }], 0);
        let back = route(&mut sim, &[Hop::Link(backward)], 0);
        let path = Path { forward, backward: back, rtt: RTT };
        let pattern = Pattern::Constant { rate: Rate::from_mbps(40 / flows + 1), size: Bytes(500) };
        for _ in 0..flows {
            let kind = TrafficKind::Datagrams(pattern);
            sim.add_traffic(Traffic { path, start: Nanos::ZERO, stop: S * 2, ecn: None, kind })
                .unwrap();
        }
        sim.run_until(S * 3);
        let sent: Vec<_> = links.iter().map(|link| sim.link(*link).sent).collect();
        let all: u64 = sent.iter().sum();
        // A quarter on each link, for 400 flows within four standard deviations.
        assert!(sent.iter().all(|n| n.abs_diff(all / 4) < all / 11), "{per_packet} {sent:?}");
        assert_eq!(all, sim.totals().delivered);
    }
}

#[test]
fn consecutive_junctions_choose_independently() {
    let mut sim = Sim::new(5, Seen::default());
    let links: Vec<_> = (0..4).map(|_| link(&mut sim, Capacity::Unlimited, Loss::None)).collect();
    let any = |first| Hop::AnyOf { first, count: 2, per_packet: false };
    let forward = route(&mut sim, &[any(links[0]), any(links[2])], 0);
    let path = Path { forward, backward: forward, rtt: RTT };
    let pattern = Pattern::Constant { rate: Rate::from_mbps(1), size: Bytes(500) };
    let mut pairs = std::collections::BTreeSet::new();
    let mut before = [0; 4];
    for n in 0..40 {
        let (start, stop) = (S * n, S * n + S / 2);
        let kind = TrafficKind::Datagrams(pattern);
        sim.add_traffic(Traffic { path, start, stop, ecn: None, kind }).unwrap();
        sim.run_until(S * (n + 1) - Nanos(1));
        let now = [0, 1, 2, 3].map(|w| sim.link(links[w]).sent);
        pairs.insert([0, 1, 2, 3].map(|w| now[w] > before[w]));
        before = now;
    }
    assert_eq!(pairs.len(), 4, "every pair of links is used: {pairs:?}");
}

#[test]
fn a_link_follows_its_trace() {
    let mut sim = Sim::new(1, Seen::default());
    // One opportunity in each of the first ten milliseconds of forty.
    let text: String = (1..=10).map(|n| format!("{n}\n")).collect::<String>() + "40\n";
    let trace = Trace::parse("burst", &text).unwrap();
    assert_eq!(trace.mean_rate().as_bps(), 11 * 1504 * 8 * 25);
    let forward = link(&mut sim, Capacity::Trace(trace), Loss::None);
    let backward = link(&mut sim, Capacity::Unlimited, Loss::None);
    let forward_route = route(&mut sim, &[Hop::Link(forward)], 0);
    let back = route(&mut sim, &[Hop::Link(backward)], 0);
    bulk(&mut sim, forward_route, back, 2, S * 20);
    sim.run_until(S * 20);
    let seen = sim.observer();
    assert!(seen.queue.iter().filter(|p| !p.dropped).all(|p| p.time.0 % 1_000_000 == 0));
    let silent = seen.queue.iter().filter(|p| (11..40).contains(&(p.time.0 / 1_000_000 % 40)));
    assert_eq!(silent.filter(|p| !p.dropped).count(), 0);
    let share = shares(seen, 1, S * 5, S * 20)[0];
    // A full frame has 1514 bytes, for which the trace counts 1504.
    assert!((3.2..3.34).contains(&share), "of 3.33: {share}");
}

#[test]
fn impossible_networks_and_traffic_are_refused() {
    let mut sim = Sim::new(1, Seen::default());
    let forward = link(&mut sim, Capacity::Constant(Rate::from_mbps(1)), Loss::None);
    let backward = link(&mut sim, Capacity::Unlimited, Loss::None);
    let config = |capacity, loss, delay| LinkConfig {
        capacity,
        delay,
        queue: None,
        loss,
        jitter: Jitter::default(),
        ..LinkConfig::default()
    };
    let unlimited = || Capacity::Unlimited;
    for config in [
        config(Capacity::Constant(Rate::ZERO), Loss::None, RTT),
        config(unlimited(), Loss::Random(1.0), RTT),
        config(unlimited(), Loss::Random(f64::NAN), RTT),
        config(unlimited(), Loss::Random(-0.1), RTT),
        config(unlimited(), Loss::Burst { begin: 0.1, end: 0.0 }, RTT),
        config(unlimited(), Loss::Burst { begin: 1.1, end: 0.5 }, RTT),
        config(unlimited(), Loss::None, S * 101),
    ] {
        assert!(matches!(sim.add_link(config), Err(SetupError::Range { .. })));
    }
    let no_queue = config(Capacity::Constant(Rate::from_mbps(1)), Loss::None, RTT);
    assert_eq!(sim.add_link(no_queue), Err(SetupError::NoQueue));

    let back = route(&mut sim, &[Hop::Link(backward)], 0);
    let straight = route(&mut sim, &[Hop::Link(forward)], 0);
    let b = bundle(&mut sim, back, straight);
    let any = Hop::AnyOf { first: forward, count: 2, per_packet: false };
    let (send, receive) = (Hop::Sendbox(b), Hop::Receivebox(b));
    for (hops, error) in [
        (vec![], SetupError::NoHops),
        (vec![Hop::Link(forward), any], SetupError::Loop { hop: 1 }),
        (vec![send, Hop::Link(forward), send], SetupError::Loop { hop: 2 }),
        (vec![receive, Hop::Link(forward), send], SetupError::Loop { hop: 2 }),
        (
            vec![send, Hop::AnyOf { first: forward, count: 3, per_packet: true }],
            SetupError::Hop { hop: 1 },
        ),
        (
            vec![Hop::AnyOf { first: forward, count: 0, per_packet: true }],
            SetupError::Hop { hop: 0 },
        ),
    ] {
        assert_eq!(sim.add_route(Route { hops, source: 0, class: 0 }), Err(error));
    }
    let hops = vec![send, Hop::Link(forward), receive];
    let through = Route { hops, source: 0, class: 0 };
    assert_eq!(sim.set_route(straight, through), Err(SetupError::OwnMessages));

    let path = Path { forward: straight, backward: back, rtt: RTT };
    let mut refused = |start, stop, kind| {
        sim.add_traffic(Traffic { path, start, stop, ecn: None, kind }).unwrap_err().to_string()
    };
    let loops = |flows| TrafficKind::UdpLoops { flows };
    assert!(refused(S, S, loops(1)).contains("stop after it starts"));
    assert!(refused(S, S * 2, loops(0)).contains("1 to 1048576"));
    let nothing = Pattern::Constant { rate: Rate::ZERO, size: Bytes(1) };
    assert!(refused(S, S * 2, TrafficKind::Datagrams(nothing)).contains("rate above zero"));
}

/// Returns the packets per second that a bundle gets through its own bottleneck, which serves
/// 48 Mbit/s in bursts every 20 ms, with bundles to other places beside it.
fn rate_of_a_bursty_link(others: Vec<Capacity>) -> f64 {
    let mut sim = Sim::new(3, Seen::default());
    let first = Capacity::Trace(Trace::parse("bursts", &"20\n".repeat(80)).unwrap());
    let mut links = Vec::new();
    for (capacity, flows) in [first].into_iter().chain(others).zip([4, 3, 2, 5]) {
        let forward = link(&mut sim, capacity, Loss::None);
        let backward = link(&mut sim, Capacity::Unlimited, Loss::None);
        let back = route(&mut sim, &[Hop::Link(backward)], 0);
        let update = route(&mut sim, &[Hop::Link(forward)], 0);
        let id = bundle(&mut sim, back, update);
        let hops = [Hop::Sendbox(id), Hop::Link(forward), Hop::Receivebox(id)];
        let way = route(&mut sim, &hops, 0);
        bulk(&mut sim, way, back, flows, S * 40);
        links.push(forward);
    }
    sim.run_until(S * 10);
    let before = sim.link(links[0]).sent;
    sim.run_until(S * 40);
    (sim.link(links[0]).sent - before) as f64 / 30.0
}

/// What bundles know of each other is for those that share a bottleneck, which they cannot know.
#[test]
fn bundles_with_bottlenecks_of_their_own_cost_each_other_nothing() {
    let steps = |mbps: [u64; 4]| {
        let rates = (0..20).map(|n| (S * (2 * n), Rate::from_mbps(mbps[n as usize % 4])));
        Capacity::Steps(rates.collect())
    };
    let others = vec![steps([20, 60, 35, 80]), steps([90, 30, 70, 10]), steps([5, 25, 5, 45])];
    let alone = rate_of_a_bursty_link(Vec::new());
    let beside = rate_of_a_bursty_link(others);
    eprintln!("alone {alone:.0}, beside others {beside:.0} packets a second");
    assert!(beside > 0.95 * alone);
}
