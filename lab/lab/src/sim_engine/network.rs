//! The links, boxes and routes of a scenario's path, sites and arm.

use std::collections::{BTreeMap, BTreeSet};

use forebay_control::ControlConfig;
use forebay_queue::{Fifo, Limit, fifo, token_bucket};
use forebay_sim::{
    BundleId, BundleSetup, Capacity, Hop, Jitter, LinkConfig, LinkId, Loss, Observer, Queue, Route,
    RouteId, SetupError, Simulation,
};
use forebay_units::{Bytes, Nanos};
use forebay_wire::feedback::{EPOCH_UPDATE_LEN, FEEDBACK_LEN};

use super::queues;
use crate::engine::{EngineError, Job};
use crate::scenario::{
    self, ClassShares, FaultKind, Maker, Origin, Path, Process, Sendbox, Spread,
};

/// The largest random delay of an arriving packet.
const NOISE: Nanos = Nanos::from_micros(20);
/// The size of the Ethernet, IPv4 and UDP headers of the boxes' messages. Simulated packets have
/// IPv4's lengths for either version.
const UDP_HEADERS: u64 = 14 + 20 + 8;
/// The numbers of the link's ports in its records. The second is the receivers' side; further sites
/// have the numbers after these.
pub(super) const LEFT: u8 = 0;
pub(super) const CROSS: u8 = 2;

/// The links and boxes of a scenario, and the routes through them.
pub(super) struct Network {
    /// The bottleneck of each parallel way.
    pub(super) ways: Vec<LinkId>,
    /// The return links: one for all, others for messages of receiveboxes if some are lost, and for
    /// traffic with its own round-trip time.
    pub(super) backward: BTreeSet<LinkId>,
    /// The bottleneck of the way back, if there is one.
    pub(super) back: Option<LinkId>,
    /// The sites in order.
    pub(super) sites: Vec<Site>,
    /// The outer bundle, if there is one.
    pub(super) outer: Option<BundleId>,
    /// The route of each traffic, and the route back to its origin.
    pub(super) traffics: Vec<[RouteId; 2]>,
}

/// A site and its sendbox.
pub(super) struct Site {
    /// The routes from the site through its sendbox, and back to it, for each of its traffics.
    pub(super) traffics: Vec<[RouteId; 2]>,
    /// The hops of its traffic.
    hops: Vec<Hop>,
    /// The source of its packets in records.
    pub(super) source: u8,
    /// The route from the receivebox to its sendbox.
    pub(super) messages: RouteId,
    /// Its bundle; `None` if the sendbox only forwards.
    pub(super) bundle: Option<BundleId>,
    /// The link in the sendbox's place, if there is one.
    pub(super) link: Option<LinkId>,
}

impl Network {
    /// Adds `job`'s network to `sim`.
    pub(super) fn build<O: Observer>(
        job: &Job<'_>,
        sim: &mut Simulation<O>,
    ) -> Result<Self, EngineError> {
        let (ways, way) = add_ways(job, sim)?;
        let Path { rtt: path_rtt, .. } = job.scenario.path;
        let trace = &job.scenario.conditions.delay_trace;
        // The forward direction has the path's delay, and the trace that of both.
        let forward = if trace.is_some() { path_rtt } else { path_rtt - path_rtt / 2 };
        let way_back = |loss| LinkConfig {
            delay: path_rtt.saturating_sub(forward),
            delay_trace: trace.clone(),
            loss,
            jitter: Jitter { up_to: NOISE, reorders: false },
            ..LinkConfig::default()
        };
        let back = add_back_bottleneck(job, sim)?;
        let mut add_back = |loss| sim.add_link(way_back(loss)).map_err(refused);
        let backward = add_back(Loss::None)?;
        let lossy = job.scenario.conditions.feedback_loss;
        let for_messages = if lossy > 0.0 { add_back(Loss::Random(lossy))? } else { backward };
        // The hops back to a host, which may be behind the sendbox of a bundle, or to a box.
        let has_kills =
            job.scenario.faults.iter().any(|fault| {
                matches!(fault.kind, FaultKind::Killed { process: Process::Sendbox, .. })
            });
        let hops_back = |link: LinkId, through: Option<BundleId>| -> Vec<Hop> {
            let through = through.filter(|_| has_kills).map(Hop::BackThrough);
            back.into_iter().chain([link]).map(Hop::Link).chain(through).collect()
        };
        let mut route =
            |hops, source| sim.add_route(Route { hops, source, class: 0 }).map_err(refused);

        // The hops that all sites share, within the outer pair of boxes if there is one.
        let (mut shared, mut outer) = (vec![way], None);
        if let Some(bundle) = &job.arm.outer {
            let messages = [route(vec![way], LEFT)?, route(hops_back(for_messages, None), LEFT)?];
            let id = add_bundle(job, sim, bundle, messages)?;
            shared = vec![Hop::Sendbox(id), way, Hop::Receivebox(id)];
            outer = Some(id);
        }
        let mut sites = Vec::new();
        let mut messages_links = vec![for_messages];
        for site in 0..job.scenario.sites {
            // At most 200 sites, which the scenario's checks ensure.
            let source = if site == 0 { LEFT } else { CROSS + site as u8 };
            // What the site's path is longer than the others' follows the bottleneck.
            let conditions = &job.scenario.conditions;
            let longer = conditions.site_longer(site, &job.scenario.path);
            let mut shared = match conditions.spread {
                // The scenario's checks ensure that each site has its way.
                Spread::Site => vec![Hop::Link(ways[site as usize])],
                Spread::Flow | Spread::Packet => shared.clone(),
            };
            let mut own_messages = for_messages;
            if longer > Nanos::ZERO {
                let config = LinkConfig { delay: longer - longer / 2, ..LinkConfig::default() };
                shared.push(Hop::Link(sim.add_link(config).map_err(refused)?));
                let config = way_back(if lossy > 0.0 { Loss::Random(lossy) } else { Loss::None });
                let config = LinkConfig { delay: config.delay + longer / 2, ..config };
                own_messages = sim.add_link(config).map_err(refused)?;
                messages_links.push(own_messages);
            }
            let mut route = |hops: &[Hop]| {
                let route = Route { hops: hops.to_vec(), source, class: 0 };
                sim.add_route(route).map_err(refused)
            };
            let straight = route(&shared)?;
            let messages = route(&hops_back(own_messages, None))?;
            let (mut hops, mut bundle, mut link) = (shared.clone(), None, None);
            match &job.arm.sendbox {
                Sendbox::Forward => {}
                Sendbox::Bundle(own) => {
                    let id = add_bundle(job, sim, own, [straight, messages])?;
                    hops =
                        [&[Hop::Sendbox(id)], shared.as_slice(), &[Hop::Receivebox(id)]].concat();
                    bundle = Some(id);
                    if job.arm.start > Nanos::ZERO {
                        sim.forward_only(id);
                    }
                }
                Sendbox::Link(own) => {
                    let id = add_link_box(job, sim, own)?;
                    hops.insert(0, Hop::Link(id));
                    link = Some(id);
                }
            }
            sites.push(Site { traffics: Vec::new(), hops, source, messages, bundle, link });
        }
        let mut backs = BTreeMap::from([(path_rtt, backward)]);
        let mut traffics = Vec::new();
        for traffic in &job.scenario.traffic {
            // The way back is longer by what the forward direction of the path is not.
            let (rtt, through) = match traffic.from {
                Origin::Cross => (traffic.rtt.unwrap_or(path_rtt), None),
                Origin::Site(site) => {
                    let conditions = &job.scenario.conditions;
                    let own = conditions.site_rtt(site, &job.scenario.path);
                    let longer = conditions.site_longer(site, &job.scenario.path);
                    let more = traffic.rtt.map_or(Nanos::ZERO, |rtt| rtt.saturating_sub(own));
                    let rtt = path_rtt + longer / 2 + more;
                    (rtt, sites[site as usize].bundle)
                }
            };
            let back = match backs.get(&rtt) {
                Some(back) => *back,
                None => {
                    let delay = rtt.saturating_sub(forward);
                    let own = sim.add_link(LinkConfig { delay, ..way_back(Loss::None) });
                    *backs.entry(rtt).or_insert(own.map_err(refused)?)
                }
            };
            let (hops, source) = match traffic.from {
                Origin::Cross => (vec![way], CROSS),
                // A scenario's traffic comes from its sites.
                Origin::Site(site) => {
                    let site = &sites[site as usize];
                    (site.hops.clone(), site.source)
                }
            };
            let mut route =
                |hops, class| sim.add_route(Route { hops, source, class }).map_err(refused);
            let routes = [route(hops, traffic.class)?, route(hops_back(back, through), 0)?];
            traffics.push(routes);
            if let Origin::Site(site) = traffic.from {
                sites[site as usize].traffics.push(routes);
            }
        }
        let backward = backs.into_values().chain(messages_links).collect();
        Ok(Self { ways, backward, back, sites, outer, traffics })
    }

    /// The index of the traffic that goes forward on each route.
    pub(super) fn whose(&self) -> BTreeMap<RouteId, u8> {
        // At most 16 traffics, which the scenario's checks ensure.
        (0..).zip(&self.traffics).map(|(n, [forward, _])| (*forward, n)).collect()
    }

    /// The name of `bundle` in results.
    pub(super) fn name(bundle: BundleId, outer: Option<BundleId>) -> String {
        let inner = bundle.index() - usize::from(outer.is_some_and(|outer| outer < bundle));
        match inner {
            _ if outer == Some(bundle) => "outer".to_owned(),
            0 => "b".to_owned(),
            n => format!("b{}", n + 1),
        }
    }
}

/// Adds the bottlenecks and the hop that leads through one of them.
fn add_ways<O: Observer>(
    job: &Job<'_>,
    sim: &mut Simulation<O>,
) -> Result<(Vec<LinkId>, Hop), EngineError> {
    let scenario = job.scenario;
    let conditions = &scenario.conditions;
    let way = |capacity: &Capacity, path: &Path| {
        Ok(LinkConfig {
            capacity: capacity.clone(),
            // All ways share one return link, which takes half of the path's round-trip time.
            delay: match conditions.delay_trace {
                Some(_) => Nanos::ZERO,
                None => path.rtt.saturating_sub(scenario.path.rtt / 2),
            },
            delay_trace: conditions.delay_trace.clone(),
            queue: Some(bottleneck(&job.arm.queue, path)?),
            policer: conditions.policer,
            loss: conditions.loss,
            jitter: Jitter {
                up_to: conditions.jitter.up_to.saturating_add(NOISE),
                ..conditions.jitter
            },
        })
    };
    let configs: Vec<_> = if conditions.ways.is_empty() {
        vec![way(&conditions.capacity, &scenario.path)?]
    } else {
        let ways = conditions.ways.iter();
        ways.map(|path| way(&Capacity::Constant(path.rate), path)).collect::<Result<_, _>>()?
    };
    let ways = configs.into_iter().map(|config| sim.add_link(config));
    let ways = ways.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let hop = match ways[..] {
        [only] => Hop::Link(only),
        // At most 64 ways, which the scenario's checks ensure.
        _ => Hop::AnyOf {
            first: ways[0],
            count: ways.len() as u16,
            per_packet: conditions.spread == Spread::Packet,
        },
    };
    Ok((ways, hop))
}

/// Adds the bottleneck of the way back, if the path has one.
fn add_back_bottleneck<O: Observer>(
    job: &Job<'_>,
    sim: &mut Simulation<O>,
) -> Result<Option<LinkId>, EngineError> {
    let Some(back) = job.scenario.conditions.back else { return Ok(None) };
    let fifo = Fifo::new(fifo::Config { limit: Limit::bytes(back.limit) });
    let fifo = fifo.map_err(|e| EngineError::Unfit(format!("`path.back.limit`: {e}")))?;
    let config = LinkConfig {
        capacity: back.rate.map_or(Capacity::Unlimited, Capacity::Constant),
        queue: back.rate.map(|_| Box::new(fifo) as Queue),
        loss: back.loss,
        ..LinkConfig::default()
    };
    sim.add_link(config).map(Some).map_err(refused)
}

/// Adds a bundle whose messages go forward and back on these routes.
fn add_bundle<O: Observer>(
    job: &Job<'_>,
    sim: &mut Simulation<O>,
    bundle: &scenario::Bundle,
    [update_route, feedback_route]: [RouteId; 2],
) -> Result<BundleId, EngineError> {
    let defaults = ControlConfig::default();
    let setup = BundleSetup {
        control: ControlConfig {
            min_rate: bundle.min_rate.unwrap_or(defaults.min_rate),
            max_rate: bundle.max_rate.unwrap_or(defaults.max_rate),
            controller: bundle.controller,
            cross_traffic: bundle.cross_traffic,
            multipath: bundle.multipath,
            guard: bundle.guard,
            ..defaults
        },
        queue: queues::sendbox(&bundle.queue, &bundle.classes, job.scenario, job.seed)
            .map_err(unfit)?,
        burst: token_bucket::Config::BURST,
        feedback_route,
        update_route,
        feedback_len: Bytes(FEEDBACK_LEN as u64 + UDP_HEADERS),
        update_len: Bytes(EPOCH_UPDATE_LEN as u64 + UDP_HEADERS),
        outer: job.arm.outer.as_ref().is_some_and(|outer| std::ptr::eq(outer, bundle)),
    };
    sim.add_bundle(setup).map_err(refused)
}

/// Adds `forebay link`. What it sends takes its time, and arrives at the next hop at once.
fn add_link_box<O: Observer>(
    job: &Job<'_>,
    sim: &mut Simulation<O>,
    own: &scenario::LinkBox,
) -> Result<LinkId, EngineError> {
    let queue = queues::sendbox(&own.queue, &ClassShares::default(), job.scenario, job.seed);
    let config = LinkConfig {
        capacity: Capacity::Constant(own.rate),
        queue: Some(queue.map_err(unfit)?),
        ..LinkConfig::default()
    };
    sim.add_link(config).map_err(refused)
}

/// Builds the queue at a bottleneck, the same as in the real link.
fn bottleneck(queue: &scenario::Queue, path: &Path) -> Result<Queue, EngineError> {
    let ours = (queue.by == Maker::Forebay).then(|| queue.spec(path)).flatten();
    let Some(spec) = ours else {
        return Err(EngineError::Unfit(format!(
            "the simulator has no queue \"{queue}\": run it with an engine that has a real kernel"
        )));
    };
    spec.build().map_err(unfit)
}

pub(super) fn refused(error: SetupError) -> EngineError {
    EngineError::Unfit(format!("this scenario cannot be simulated: {error}"))
}

fn unfit(error: forebay_discipline::BuildError) -> EngineError {
    EngineError::Unfit(format!("a queue of this scenario: {error}"))
}
