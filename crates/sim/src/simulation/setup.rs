//! How a simulation is put together: links and bundles, routes through them, traffic on those.

use forebay_units::Nanos;

use super::{Event, Host, Simulation, TICK, Totals};
use crate::boxes::{Bundle, BundleSetup};
use crate::events::EventQueue;
use crate::link::{Link, LinkConfig};
use crate::network::{BundleId, Hop, LinkId, Path, Route, RouteCounters, RouteId, SetupError};
use crate::observer::Observer;
use crate::packet::Packets;
use crate::random::{Random, mix};
use crate::tcp::{Congestion, Endpoint};
use crate::traffic::{Application, Connection, Requests, Socket, SocketKind, Traffic, TrafficKind};
use crate::udp::Sink;

/// Flows of one traffic begin within this, at random: programs do not start at one instant, and
/// flows in lockstep would meet a full queue together.
const START_WITHIN: u64 = 1_000_000;

impl<O: Observer> Simulation<O> {
    /// An empty network; all that is random follows from `seed`.
    pub fn new(seed: u64, observer: O) -> Self {
        Self {
            now: Nanos::ZERO,
            seed,
            events: EventQueue::new(),
            packets: Packets::default(),
            links: Vec::new(),
            bundles: Vec::new(),
            routes: Vec::new(),
            route_counters: Vec::new(),
            hosts: Vec::new(),
            requests: Vec::new(),
            sockets: Vec::new(),
            traffics: 0,
            random: Random::new(seed, 0),
            drops: Vec::new(),
            totals: Totals::default(),
            observer,
        }
    }

    /// Adds a link.
    ///
    /// # Errors
    /// If nothing would ever pass it.
    pub fn add_link(&mut self, config: LinkConfig) -> Result<LinkId, SetupError> {
        let id = number(self.links.len(), "links")?;
        let random = Random::new(self.seed, 1 + u64::from(id));
        self.links.push(Link::new(config, random).ok_or(SetupError::Link)?);
        Ok(LinkId(id))
    }

    /// Adds a bundle. Its first tick is a tick's length from now.
    ///
    /// # Errors
    /// If its control loop does not take its configuration.
    pub fn add_bundle(&mut self, setup: BundleSetup) -> Result<BundleId, SetupError> {
        let id = number(self.bundles.len(), "bundles")?;
        self.bundles.push(Bundle::new(setup, self.now).map_err(SetupError::Control)?);
        self.events.push(self.now.saturating_add(TICK), Event::Tick(id));
        Ok(BundleId(id))
    }

    /// Adds a route. It may lead through bundles that are added later: see
    /// [`Simulation::set_route`].
    ///
    /// # Errors
    /// If it leads through what is not there.
    pub fn add_route(&mut self, route: Route) -> Result<RouteId, SetupError> {
        let id = number(self.routes.len(), "routes")?;
        self.routes.push(self.checked(route)?);
        self.route_counters.push(RouteCounters::default());
        Ok(RouteId(id))
    }

    /// Puts `route` in place of the one that `id` was: a bundle needs routes for its messages before
    /// it is there, and routes lead through it.
    ///
    /// # Errors
    /// If it leads through what is not there.
    pub fn set_route(&mut self, id: RouteId, route: Route) -> Result<(), SetupError> {
        let route = self.checked(route)?;
        self.routes[usize::from(id.0)] = route;
        Ok(())
    }

    fn checked(&self, route: Route) -> Result<Route, SetupError> {
        let exists = |hop: &Hop| match *hop {
            Hop::Link(link) => link.index() < self.links.len(),
            Hop::AnyOf { first, count, .. } => {
                count > 0 && first.index() + usize::from(count) <= self.links.len()
            }
            Hop::Sendbox(bundle) | Hop::Receivebox(bundle) => bundle.index() < self.bundles.len(),
        };
        if route.hops.len() > usize::from(u8::MAX) {
            return Err(SetupError::TooMany("hops of a route"));
        }
        match route.hops.iter().position(|hop| !exists(hop)) {
            Some(hop) => Err(SetupError::Hop { hop }),
            None => Ok(route),
        }
    }

    /// Adds traffic and returns the number that the observer is told; the first is zero.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn add_traffic(&mut self, traffic: Traffic) -> Result<usize, SetupError> {
        traffic.check()?;
        let Traffic { path, start, stop, kind } = traffic;
        let id = self.traffics;
        self.traffics += 1;
        match kind {
            TrafficKind::Requests { schedule, connections, congestion } => {
                self.add_requests(id, path, schedule, connections, congestion)?;
            }
            TrafficKind::Bulk { flows, congestion } => {
                for flow in 0..flows {
                    let sink = Application::Sink { traffic: id, flow };
                    let (_, source) =
                        self.connect(path, congestion, (id, flow), sink, Application::Source)?;
                    let begin = start.saturating_add(Nanos(self.random.below(START_WITHIN)));
                    self.events.push(begin, Event::Begin(source));
                    self.events.push(stop, Event::End(source));
                }
            }
            TrafficKind::UdpBulk { flows } => {
                for flow in 0..flows {
                    let kind = SocketKind::Bulk { window: None, sink: Sink::default() };
                    let begin = start.saturating_add(Nanos(self.random.below(START_WITHIN)));
                    self.add_socket((id, flow), path, (begin, stop), kind)?;
                }
            }
            TrafficKind::UdpLoops { flows } => {
                for flow in 0..flows {
                    let kind = SocketKind::Loop { round: 0, asked: None };
                    let begin = start.saturating_add(Nanos(self.random.below(START_WITHIN)));
                    self.add_socket((id, flow), path, (begin, stop), kind)?;
                }
            }
            TrafficKind::Cbr { rate, size } => {
                let kind = SocketKind::Cbr { rate, size: size.0, start, sent: 0 };
                self.add_socket((id, 0), path, (start, stop), kind)?;
            }
        }
        Ok(id as usize)
    }

    fn add_requests(
        &mut self,
        traffic: u32,
        path: Path,
        schedule: Vec<crate::traffic::Asked>,
        connections: u32,
        congestion: Congestion,
    ) -> Result<(), SetupError> {
        let requests = self.requests.len() as u32;
        let first_endpoint = self.hosts.len() as u32;
        for connection in 0..connections {
            let client = Application::Client { requests, connection };
            let server = Application::Server { requests, connection };
            self.connect(path, congestion, (traffic, connection), client, server)?;
        }
        if let Some(first) = schedule.first() {
            self.events.push(first.at, Event::Ask(requests));
        }
        self.requests.push(Requests {
            traffic,
            schedule,
            next: 0,
            connections: (0..connections).map(|_| Connection::default()).collect(),
            first_endpoint,
        });
        Ok(())
    }

    /// Two endpoints: the one at the far end, which asked for the connection, and the one here,
    /// whose data goes forward. The latter has the congestion control.
    fn connect(
        &mut self,
        path: Path,
        congestion: Congestion,
        (traffic, flow): (u32, u32),
        far: Application,
        here: Application,
    ) -> Result<(u32, u32), SetupError> {
        if self.hosts.len() > (u32::MAX - 2) as usize {
            return Err(SetupError::TooMany("connections"));
        }
        let first = self.hosts.len() as u32;
        let hash = self.flow_hash(traffic, flow);
        let ends = [(far, path.backward, !hash, 1), (here, path.forward, hash, 0)];
        for (n, (application, route, hash, peer)) in (0..).zip(ends) {
            let random = mix(self.seed ^ u64::from(first + n));
            self.hosts.push(Host {
                tcp: Endpoint::new(self.now, congestion, Some(path.rtt), random),
                peer: first + peer,
                route,
                hash,
                made: 0,
                awaited: Nanos::MAX,
                application,
            });
        }
        Ok((first, first + 1))
    }

    fn add_socket(
        &mut self,
        (traffic, flow): (u32, u32),
        path: Path,
        (start, stop): (Nanos, Nanos),
        kind: SocketKind,
    ) -> Result<(), SetupError> {
        let index =
            u32::try_from(self.sockets.len()).map_err(|_| SetupError::TooMany("UDP flows"))?;
        let hash = self.flow_hash(traffic, flow);
        self.sockets.push(Socket {
            traffic,
            flow,
            path,
            hash,
            made: 0,
            stop,
            awaited: start,
            kind,
        });
        self.events.push(start, Event::Socket(index));
        Ok(())
    }

    /// Differs from seed to seed, as ports do from run to run.
    fn flow_hash(&self, traffic: u32, flow: u32) -> u32 {
        mix(mix(self.seed) ^ (u64::from(traffic) << 32 | u64::from(flow))) as u32
    }
}

fn number(taken: usize, what: &'static str) -> Result<u16, SetupError> {
    u16::try_from(taken).map_err(|_| SetupError::TooMany(what))
}
