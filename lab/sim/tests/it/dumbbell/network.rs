//! A path with a bottleneck, and the records of an observer.

use forebay_control::ControlConfig;
use forebay_queue::{DualPi2, Ecn, Fifo, FqCodel, Limit, Sfq, dualpi2, fifo, fq_codel, sfq};
use forebay_sim::{
    At, BundleSetup, Capacity, Congestion, Connections, Hop, Jitter, LinkConfig, LinkId, Loss,
    Observer, Passage, Path, Queue, RequestTiming, Route, ScheduledRequest, Simulation, Traffic,
    TrafficKind,
};
use forebay_units::{Bytes, Nanos, Rate};

/// The records of an observer.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) queue: Vec<Passage>,
    pub(crate) read: Vec<u64>,
    /// The number, the size and the time of each request.
    pub(crate) asked: Vec<(u64, u64, Nanos)>,
    pub(crate) answered: Vec<(u64, Nanos)>,
    pub(crate) loops: Vec<(Nanos, Option<Nanos>)>,
    pub(crate) rates: Vec<Option<Rate>>,
}

impl Observer for Seen {
    fn passed(&mut self, at: At, passage: &Passage) {
        if matches!(at, At::Link(_)) {
            self.queue.push(*passage);
        }
    }
    fn ticked(
        &mut self,
        _: forebay_sim::BundleId,
        _: Nanos,
        state: &forebay_control::Snapshot,
        _: Bytes,
    ) {
        self.rates.push(state.rate);
    }
    fn read(&mut self, _: usize, flow: u32, bytes: u64) {
        let flow = flow as usize;
        if self.read.len() <= flow {
            self.read.resize(flow + 1, 0);
        }
        self.read[flow] += bytes;
    }
    fn requested(&mut self, _: usize, id: u64, _: u32, size: u64, now: Nanos) {
        self.asked.push((id, size, now));
    }
    fn answered(&mut self, _: usize, id: u64, now: Nanos) {
        self.answered.push((id, now));
    }
    fn looped(&mut self, _: usize, _: u32, start: Nanos, end: Option<Nanos>) {
        self.loops.push((start, end));
    }
}

impl Seen {
    /// Returns the mean queue delay at the bottleneck from `start` on, in milliseconds.
    pub(crate) fn mean_wait_ms(&self, start: Nanos) -> f64 {
        let waits = self.queue.iter().filter(|p| !p.dropped && p.time >= start && p.len.0 > 1000);
        let waits: Vec<_> = waits.map(|p| p.sojourn.as_millis_f64()).collect();
        waits.iter().sum::<f64>() / waits.len() as f64
    }
}

pub(crate) fn requests(schedule: Vec<ScheduledRequest>, connections: Connections) -> TrafficKind {
    let timing = RequestTiming::Scheduled(schedule);
    TrafficKind::Requests { timing, connections, congestion: Congestion::Cubic }
}

pub(crate) fn fifo_queue(limit: Bytes) -> Queue {
    Box::new(Fifo::new(fifo::Config { limit: Limit::bytes(limit) }).unwrap())
}

pub(crate) fn sfq_queue(limit: u32) -> Queue {
    let config = sfq::Config { limit, depth: limit, ..sfq::Config::default() };
    Box::new(Sfq::new(config).unwrap())
}

pub(crate) fn fq_codel_queue() -> Queue {
    Box::new(FqCodel::new(fq_codel::Config::default()).unwrap())
}

pub(crate) fn dualpi2_queue() -> Queue {
    Box::new(DualPi2::new(dualpi2::Config::default()).unwrap())
}

/// The configuration of a path with a bottleneck and an unlimited reverse direction, with or
/// without a bundle.
pub(crate) struct Dumbbell {
    pub(crate) rate: Rate,
    pub(crate) rtt: Nanos,
    pub(crate) queue: Queue,
    pub(crate) sendbox: Option<Queue>,
    /// The loss of the bottleneck's wire.
    pub(crate) loss: Loss,
    /// The loss of the reverse direction.
    pub(crate) back: Loss,
    pub(crate) jitter: Jitter,
    pub(crate) seed: u64,
}

impl Dumbbell {
    pub(crate) fn new(mbps: u64, rtt_ms: u64, queue: Queue) -> Self {
        Self {
            rate: Rate::from_mbps(mbps),
            rtt: Nanos::from_millis(rtt_ms),
            queue,
            sendbox: None,
            loss: Loss::None,
            back: Loss::None,
            jitter: Jitter { up_to: Nanos::from_micros(20), reorders: false },
            seed: 1,
        }
    }

    pub(crate) fn with_sendbox(self, queue: Queue) -> Self {
        Self { sendbox: Some(queue), ..self }
    }

    pub(crate) fn build(self) -> Network {
        let mut sim = Simulation::new(self.seed, Seen::default());
        let delay = self.rtt / 2;
        let forward = LinkConfig {
            capacity: Capacity::Constant(self.rate),
            delay,
            queue: Some(self.queue),
            loss: self.loss,
            jitter: self.jitter,
            ..LinkConfig::default()
        };
        let forward = sim.add_link(forward).unwrap();
        let backward = LinkConfig {
            capacity: Capacity::Unlimited,
            delay,
            queue: None,
            loss: self.back,
            jitter: Jitter::default(),
            ..LinkConfig::default()
        };
        let backward = sim.add_link(backward).unwrap();
        let plain = Route { hops: vec![Hop::Link(forward)], source: 0, class: 0 };
        let back =
            sim.add_route(Route { hops: vec![Hop::Link(backward)], source: 0, class: 0 }).unwrap();
        let mut way = sim.add_route(plain.clone()).unwrap();
        let mut bundle = None;
        if let Some(queue) = self.sendbox {
            let setup = BundleSetup {
                control: ControlConfig::default(),
                queue,
                burst: Nanos::from_micros(500),
                feedback_route: back,
                update_route: way,
                feedback_len: Bytes(94),
                update_len: Bytes(86),
                outer: false,
            };
            let id = sim.add_bundle(setup).unwrap();
            bundle = Some(id);
            let hops = vec![Hop::Sendbox(id), Hop::Link(forward), Hop::Receivebox(id)];
            way = sim.add_route(Route { hops, source: 0, class: 0 }).unwrap();
        }
        let path = Path { forward: way, backward: back, rtt: self.rtt };
        Network { sim, path, forward, backward, bundle, rate: self.rate, rtt: self.rtt }
    }
}

pub(crate) struct Network {
    pub(crate) sim: Simulation<Seen>,
    pub(crate) path: Path,
    pub(crate) forward: LinkId,
    pub(crate) backward: LinkId,
    pub(crate) bundle: Option<forebay_sim::BundleId>,
    pub(crate) rate: Rate,
    pub(crate) rtt: Nanos,
}

impl Network {
    pub(crate) fn add(&mut self, kind: TrafficKind, stop: Nanos) {
        self.add_with_ecn(kind, stop, None);
    }

    pub(crate) fn add_with_ecn(&mut self, kind: TrafficKind, stop: Nanos, ecn: Option<Ecn>) {
        let traffic = Traffic { path: self.path, start: Nanos::ZERO, stop, ecn, kind };
        self.sim.add_traffic(traffic).unwrap();
    }

    /// Asserts that every packet has left, was dropped, or is inside, for all counters.
    pub(crate) fn check_accounts(&self) {
        for link in [self.forward, self.backward] {
            let c = self.sim.link(link);
            assert_eq!(c.received, c.sent + c.dropped + c.lost + c.inside, "{c:?}");
        }
        if let Some(bundle) = self.bundle {
            let c = self.sim.sendbox(bundle);
            assert_eq!(c.received, c.sent + c.dropped + c.queued, "{c:?}");
        }
        let t = self.sim.totals();
        assert_eq!(t.made, t.delivered + t.dropped + t.live, "{t:?}");
    }
}
