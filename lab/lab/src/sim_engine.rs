//! The simulating engine: the scenario's path, boxes and traffic in virtual time.
//!
//! It is laid out as the network namespaces are: the sendbox and the bottleneck follow each other
//! without delay, propagation follows the bottleneck, and the way back only takes its time. Packets
//! of hosts are up to 20 µs late at random, as on a machine that does other things too; without
//! that, flows in lockstep would find the same full queue for ever (Floyd and Jacobson, "On traffic
//! phase effects in packet-switched gateways", 1991).

mod capture;
mod collect;
mod faults;
mod network;
mod queues;

use std::num::NonZeroUsize;

use forebay_queue::Ecn;
use forebay_sim::{
    Congestion, Connections, Pacing, Path, RequestTiming, RouteId, Simulation, Totals, Traffic,
    TrafficKind,
};
use forebay_units::Nanos;

use self::capture::{Capture, cannot_write};
pub use self::capture::{Capturing, Cut, MAX_CAPTURE};
use self::collect::Collector;
use self::faults::Faults;
use self::network::{Network, refused};
use crate::engine::{self, Engine, EngineError, Interrupt, Job, Phase, Progress};
use crate::results::Run;
use crate::scenario::{self, EcnField, Origin, Scenario, Transport};

/// The interval of progress records, the same as of the real programs.
pub(super) const INTERVAL: Nanos = Nanos::from_millis(100);
/// The simulating engine. A run needs no privilege and gives the same records every time and on
/// every machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sim;

impl Engine for Sim {
    fn name(&self) -> &'static str {
        "sim"
    }

    /// A run uses one core and does not depend on time.
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
        self.run_counted(job, interrupt, progress).map(|(run, _)| run)
    }
}

impl Sim {
    /// Runs `job` like [`Engine::run`], and also returns the amount of work.
    ///
    /// # Errors
    ///
    /// Fails under the conditions of [`Engine::run`].
    pub fn run_counted(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Run, Totals), EngineError> {
        self.run_with(job, interrupt, progress, None).map(|(run, totals, _)| (run, totals))
    }

    /// Runs `job`, and also captures its packets if there is a file and its largest size for them.
    fn run_with(
        &self,
        job: &Job<'_>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(Progress),
        capture: Option<(&std::path::Path, u64)>,
    ) -> Result<(Run, Totals, Option<Capture>), EngineError> {
        let scenario = job.scenario;
        let length = scenario.length();
        progress(Progress { phase: Phase::SetUp, elapsed: Nanos::ZERO, length });
        let mut simulated = build(job)?;
        if let Some(capture) = capture {
            let made = Capture::create(capture, job, &simulated.network);
            simulated.sim.observer_mut().capture = Some(made.map_err(cannot_write(capture.0))?);
        }
        let mut faults = Faults::new(job);
        let mut sampled = Nanos::ZERO;
        while simulated.sim.now() < length {
            if interrupt.is_raised() {
                return Err(EngineError::Interrupted);
            }
            let sim = &mut simulated.sim;
            let stop = sim.now().saturating_add(INTERVAL).min(length);
            let stop = sim.observer().next_interval().unwrap_or(stop).min(stop);
            // An event at a border belongs to the interval that ends there.
            let time = faults.next().unwrap_or(stop).min(stop);
            sim.run_until(time);
            sim.observer_mut().end_intervals(time);
            if time >= sampled.saturating_add(INTERVAL) || time == length {
                sampled = time;
                simulated.sample_senders();
            }
            faults.act(&mut simulated);
            progress(Progress::at(scenario, time));
        }
        let totals = simulated.sim.totals();
        let capture = simulated.sim.observer_mut().capture.take();
        Ok((Run { faults: faults.into_records(), ..simulated.finish() }, totals, capture))
    }
}

/// A network with a scenario's traffic.
struct Simulated {
    sim: Simulation<Collector>,
    network: Network,
}

fn build(job: &Job<'_>) -> Result<Simulated, EngineError> {
    let scenario = job.scenario;
    if let Some(policy) = job.arm.kernel_policy() {
        return Err(EngineError::Unfit(format!(
            "only Linux has the policy \"{}\", which arm {} asks for: run it with `--engine uml \
             --dataplane kernel`",
            policy.name(),
            job.arm.name
        )));
    }
    if !job.arm.program.is_empty() {
        return Err(EngineError::Unfit(format!(
            "arm {} runs a `program`, which needs Linux: run it with `--engine uml` or `netns`",
            job.arm.name
        )));
    }
    let (collector, schedules) = Collector::new(job).map_err(EngineError::Unfit)?;
    let mut sim = Simulation::new(job.seed, collector);
    sim.set_ecn(scenario.ecn);
    sim.set_pacing(Pacing { always: scenario.paced, largest_burst: scenario.largest_burst });
    let network = Network::build(job, &mut sim)?;
    sim.observer_mut().outer = network.outer;
    sim.observer_mut().back = network.back;
    for ((traffic, schedule), routes) in
        scenario.traffic.iter().zip(schedules).zip(&network.traffics)
    {
        let traffic = simulated(traffic, scenario, *routes, schedule);
        sim.add_traffic(traffic).map_err(refused)?;
    }
    sim.observer_mut().whose = network.whose();
    sim.observer_mut().boxes = network.sites.iter().filter_map(|site| site.link).collect();
    Ok(Simulated { sim, network })
}

fn simulated(
    traffic: &scenario::Traffic,
    scenario: &Scenario,
    [forward, backward]: [RouteId; 2],
    timing: Option<RequestTiming>,
) -> Traffic {
    use scenario::TrafficKind as Kind;
    let kind = match &traffic.kind {
        Kind::Requests { requests, congestion } => TrafficKind::Requests {
            timing: timing.unwrap_or(RequestTiming::Scheduled(Vec::new())),
            connections: if requests.new_connections {
                Connections::PerRequest { limit: requests.connections }
            } else {
                Connections::Persistent(requests.connections)
            },
            congestion: simulated_congestion(*congestion),
        },
        Kind::Bulk { flows, transport: Transport::Tcp(congestion) } => {
            TrafficKind::Bulk { flows: *flows, congestion: simulated_congestion(*congestion) }
        }
        Kind::Bulk { flows, transport: Transport::Udp } => TrafficKind::UdpBulk { flows: *flows },
        Kind::Bulk { flows, transport: Transport::UdpPrague } => {
            TrafficKind::UdpPrague { flows: *flows }
        }
        Kind::UdpRr { flows } => TrafficKind::UdpLoops { flows: *flows },
        Kind::Datagrams(pattern) => TrafficKind::Datagrams(*pattern),
    };
    let rtt = match traffic.from {
        Origin::Cross => scenario.path.rtt,
        Origin::Site(site) => scenario.conditions.site_rtt(site, &scenario.path),
    };
    let path = Path { forward, backward, rtt: traffic.rtt.unwrap_or(rtt) };
    let ecn = traffic.ecn.map(|ecn| match ecn {
        EcnField::NotEct => Ecn::NotEct,
        EcnField::Ect0 => Ecn::Ect0,
        EcnField::Ect1 => Ecn::Ect1,
    });
    Traffic { path, start: traffic.start, stop: traffic.stop, ecn, kind }
}

fn simulated_congestion(congestion: scenario::Congestion) -> Congestion {
    match congestion {
        scenario::Congestion::Cubic => Congestion::Cubic,
        scenario::Congestion::Reno => Congestion::Reno,
        scenario::Congestion::Bbr => Congestion::Bbr,
        scenario::Congestion::Dctcp => Congestion::Dctcp,
        scenario::Congestion::DctcpExact => Congestion::DctcpExact,
        scenario::Congestion::Prague => Congestion::Prague,
        scenario::Congestion::Fixed { window } => Congestion::Fixed(window),
    }
}
