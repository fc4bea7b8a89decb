//! The simulating engine: the scenario's path, boxes and traffic in virtual time.
//!
//! It is laid out as the network namespaces are: the sendbox and the bottleneck follow each other
//! without delay, propagation follows the bottleneck, and the way back only takes its time. Packets
//! of hosts are up to [`NOISE`] late at random, as on a machine that does other things too; without
//! that, flows in lockstep would find the same full queue for ever (Floyd and Jacobson, "On traffic
//! phase effects in packet-switched gateways", 1991).

mod collect;
mod faults;
mod queues;

use std::num::NonZeroUsize;

use forebay_queue::token_bucket;
use forebay_sim::{
    Asked, BundleSetup, Capacity, Congestion, Hop, Jitter, LinkConfig, LinkId, Loss, Path, Queue,
    Route, RouteId, SetupError, Simulation, Traffic, TrafficKind,
};
use forebay_units::{Bytes, Nanos};
use forebay_wire::feedback::{EPOCH_UPDATE_LEN, FEEDBACK_LEN};

use self::collect::Collector;
use self::faults::Faults;
use crate::engine::{self, Engine, EngineError, Interrupt, Job, Phase, Progress};
use crate::link::QueueSpec;
use crate::results::Run;
use crate::scenario::{self, Maker, Origin, Scenario, Sendbox, Transport};

/// How much later than it could a packet arrives at most.
const NOISE: Nanos = Nanos::from_micros(20);
/// How often progress is recorded, as the real programs do.
pub(super) const INTERVAL: Nanos = Nanos::from_millis(100);
/// Ethernet, IPv4 and UDP headers of the boxes' messages. Simulated packets have IPv4's lengths
/// whatever the scenario's version.
const UDP_HEADERS: u64 = 14 + 20 + 8;
/// The ports of the link, as its records number them.
const LEFT: u8 = 0;
const CROSS: u8 = 2;

/// The simulating engine. A run needs no privilege, and gives the same records every time and
/// everywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sim;

impl Engine for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    /// A run keeps one core busy and looks at no clock.
    fn side_by_side(&self) -> NonZeroUsize {
        engine::cores()
    }

    fn check(&self, job: &Job<'_>) -> Result<(), EngineError> {
        build(job).map(drop)
    }

    fn run(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Run, EngineError> {
        let scenario = job.scenario;
        let length = scenario.length();
        progress(Progress { phase: Phase::SetUp, elapsed: Nanos::ZERO, length });
        let mut simulated = build(job)?;
        let mut faults = Faults::new(job);
        while simulated.sim.now() < length {
            if interrupt.is_raised() {
                return Err(EngineError::Interrupted);
            }
            let sim = &mut simulated.sim;
            let stop = sim.now().saturating_add(INTERVAL).min(length);
            let stop = sim.observer().next_interval().unwrap_or(stop).min(stop);
            // What happens at the border belongs to the interval that ends there.
            let time = faults.next().unwrap_or(stop).min(stop);
            sim.run_until(time);
            sim.observer_mut().end_intervals(time);
            faults.act(&mut simulated);
            progress(Progress::at(scenario, time));
        }
        Ok(Run { faults: faults.into_records(), ..simulated.finish() })
    }
}

/// A network with a scenario's traffic on it.
struct Simulated {
    sim: Simulation<Collector>,
    links: [LinkId; 2],
    /// What passes the sendbox: from the site, and back to it.
    routes: [RouteId; 2],
    bundle: Option<forebay_sim::BundleId>,
}

fn refused(error: SetupError) -> EngineError {
    EngineError::Unfit(format!("this scenario cannot be simulated: {error}"))
}

fn build(job: &Job<'_>) -> Result<Simulated, EngineError> {
    let scenario = job.scenario;
    let path = scenario.path;
    let (collector, schedules) = Collector::new(job).map_err(EngineError::Unfit)?;
    let mut sim = Simulation::new(job.seed, collector);
    let jitter = Jitter { up_to: NOISE, reorders: false };
    let link = |capacity, queue| LinkConfig {
        capacity,
        delay: path.rtt / 2,
        queue,
        loss: Loss::None,
        jitter,
    };
    let bottleneck = bottleneck(&job.arm.queue, &path)?;
    let forward = sim.add_link(link(Capacity::Constant(path.rate), Some(bottleneck)));
    let forward = forward.map_err(refused)?;
    let backward = sim.add_link(link(Capacity::Unlimited, None)).map_err(refused)?;
    let mut route = |hops: Vec<Hop>, source| sim.add_route(Route { hops, source });
    let back = route(vec![Hop::Link(backward)], LEFT).map_err(refused)?;
    let straight = route(vec![Hop::Link(forward)], LEFT).map_err(refused)?;
    let cross = route(vec![Hop::Link(forward)], CROSS).map_err(refused)?;
    let cross_back = route(vec![Hop::Link(backward)], CROSS).map_err(refused)?;
    let (mut through, mut bundle) = (straight, None);
    if let Sendbox::Bundle(queue) = job.arm.sendbox {
        let setup = BundleSetup {
            control: forebay_control::BundleConfig::default(),
            queue: queues::sendbox(&queue, &path, job.seed).map_err(unfit)?,
            burst: token_bucket::Config::BURST,
            feedback_route: back,
            update_route: straight,
            feedback_len: Bytes(FEEDBACK_LEN as u64 + UDP_HEADERS),
            update_len: Bytes(EPOCH_UPDATE_LEN as u64 + UDP_HEADERS),
        };
        let id = sim.add_bundle(setup).map_err(refused)?;
        let hops = vec![Hop::Sendbox(id), Hop::Link(forward), Hop::Receivebox(id)];
        through = sim.add_route(Route { hops, source: LEFT }).map_err(refused)?;
        bundle = Some(id);
    }
    for (traffic, schedule) in scenario.traffic.iter().zip(schedules) {
        let (forward, backward) = match traffic.from {
            Origin::Site(_) => (through, back),
            Origin::Cross => (cross, cross_back),
        };
        let traffic = simulated(traffic, scenario, forward, backward, schedule);
        sim.add_traffic(traffic).map_err(refused)?;
    }
    Ok(Simulated { sim, links: [forward, backward], routes: [through, back], bundle })
}

/// The queue at a bottleneck, as the real link has it.
fn bottleneck(queue: &scenario::Queue, path: &scenario::Path) -> Result<Queue, EngineError> {
    let ours = (queue.by == Maker::Forebay).then(|| QueueSpec::of(queue, path)).flatten();
    let Some(spec) = ours else {
        return Err(EngineError::Unfit(format!(
            "the simulator has no queue \"{queue}\": run it with an engine that has a real kernel"
        )));
    };
    spec.build().map_err(unfit)
}

fn unfit(error: forebay_queue::ConfigError) -> EngineError {
    EngineError::Unfit(format!("a queue of this scenario: {error}"))
}

fn simulated(
    traffic: &scenario::Traffic,
    scenario: &Scenario,
    forward: RouteId,
    backward: RouteId,
    schedule: Vec<Asked>,
) -> Traffic {
    use scenario::TrafficKind as Kind;
    let kind = match &traffic.kind {
        Kind::Requests { requests, congestion } => TrafficKind::Requests {
            schedule,
            connections: requests.connections,
            congestion: simulated_congestion(*congestion),
        },
        Kind::Bulk { flows, transport: Transport::Tcp(congestion) } => {
            TrafficKind::Bulk { flows: *flows, congestion: simulated_congestion(*congestion) }
        }
        Kind::Bulk { flows, transport: Transport::Udp } => TrafficKind::UdpBulk { flows: *flows },
        Kind::UdpRr { flows } => TrafficKind::UdpLoops { flows: *flows },
        Kind::Stream { rate, size, .. } => TrafficKind::Cbr { rate: *rate, size: *size },
    };
    let path = Path { forward, backward, rtt: scenario.path.rtt };
    Traffic { path, start: traffic.start, stop: traffic.stop, kind }
}

fn simulated_congestion(congestion: scenario::Congestion) -> Congestion {
    match congestion {
        scenario::Congestion::Cubic => Congestion::Cubic,
        scenario::Congestion::Reno => Congestion::Reno,
        scenario::Congestion::Bbr => Congestion::Bbr,
        scenario::Congestion::Dctcp | scenario::Congestion::Prague => Congestion::Dctcp,
        scenario::Congestion::Fixed { window } => Congestion::Fixed(window),
    }
}
