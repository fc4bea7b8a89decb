//! Networks whose simulation is measured.

mod endpoints;

use forebay_control::ControlConfig;
use forebay_queue::{Fifo, FqCodel, Limit, Sfq, fifo, fq_codel, sfq};
use forebay_sim::{
    BundleSetup, Capacity, Congestion, Hop, Jitter, LinkConfig, Loss, Path, Queue, Route,
    Simulation, Traffic, TrafficKind,
};
use forebay_units::{Bytes, Nanos, Rate};

/// The simulated time of a run.
pub const LENGTH: Nanos = Nanos::from_secs(10);
const RTT: Nanos = Nanos::from_millis(50);

fn fifo_queue(rate: Rate) -> Queue {
    let limit = Limit::bytes(rate.bytes_in(RTT));
    Box::new(Fifo::new(fifo::Config { limit }).expect("a limit above zero"))
}

fn fq_codel_queue(_: Rate) -> Queue {
    Box::new(FqCodel::new(fq_codel::Config::default()).expect("the defaults"))
}

fn sfq_queue() -> Queue {
    Box::new(Sfq::new(sfq::Config::default()).expect("the defaults"))
}

/// Builds a dumbbell with `flows` Cubic flows, with or without boxes.
fn dumbbell(rate: Rate, flows: u32, queue: Queue, boxes: bool) -> Simulation<()> {
    let mut sim = Simulation::new(1, ());
    let mut link = |capacity, queue| {
        let config = LinkConfig {
            capacity,
            delay: RTT / 2,
            queue,
            loss: Loss::None,
            jitter: Jitter { up_to: Nanos::from_micros(20), reorders: false },
            ..LinkConfig::default()
        };
        sim.add_link(config).expect("a link that passes packets")
    };
    let forward = link(Capacity::Constant(rate), Some(queue));
    let backward = link(Capacity::Unlimited, None);
    let mut route = |hops: Vec<Hop>| {
        sim.add_route(Route { hops, source: 0, class: 0 }).expect("all hops are there")
    };
    let back = route(vec![Hop::Link(backward)]);
    let mut way = route(vec![Hop::Link(forward)]);
    if boxes {
        let setup = BundleSetup {
            control: ControlConfig::default(),
            queue: sfq_queue(),
            burst: Nanos::from_micros(500),
            feedback_route: back,
            update_route: way,
            feedback_len: Bytes(94),
            update_len: Bytes(86),
            outer: false,
        };
        let bundle = sim.add_bundle(setup).expect("the defaults");
        let hops = vec![Hop::Sendbox(bundle), Hop::Link(forward), Hop::Receivebox(bundle)];
        way = sim.add_route(Route { hops, source: 0, class: 0 }).expect("all hops are there");
    }
    let path = Path { forward: way, backward: back, rtt: RTT };
    let kind = TrafficKind::Bulk { flows, congestion: Congestion::Cubic };
    let traffic = Traffic { path, start: Nanos::ZERO, stop: Nanos::MAX, ecn: None, kind };
    sim.add_traffic(traffic).expect("traffic that makes sense");
    sim
}

/// The name of a network and the function that builds it.
pub type Case = (&'static str, fn() -> Simulation<()>);

/// All networks that the benchmarks simulate for [`LENGTH`].
pub const CASES: [Case; 6] = [
    ("50 flows, 96 Mbit/s, fifo", || {
        let rate = Rate::from_mbps(96);
        dumbbell(rate, 50, fifo_queue(rate), false)
    }),
    ("50 flows, 96 Mbit/s, fq_codel", || {
        let rate = Rate::from_mbps(96);
        dumbbell(rate, 50, fq_codel_queue(rate), false)
    }),
    ("50 flows, 96 Mbit/s, boxes with sfq", || {
        let rate = Rate::from_mbps(96);
        dumbbell(rate, 50, fifo_queue(rate), true)
    }),
    ("1000 flows, 1 Gbit/s, fifo", || {
        let rate = Rate::from_mbps(1000);
        dumbbell(rate, 1000, fifo_queue(rate), false)
    }),
    ("100000 flows, 1 Gbit/s, fifo", || {
        let rate = Rate::from_mbps(1000);
        dumbbell(rate, 100_000, fifo_queue(rate), false)
    }),
    ("2 endpoints, 1 Gbit/s, fifo", || {
        let rate = Rate::from_mbps(1000);
        endpoints::pair(rate, RTT, fifo_queue(rate), 6_000)
    }),
];
