//! Construction of a simulation: links and bundles, routes through them, and traffic on the routes.

use forebay_control::Shares;
use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::connections::Phase;
use super::{Event, Simulation, TICK, Totals};
use crate::boxes::{Bundle, BundleSetup};
use crate::endpoint::Endpoints;
use crate::events::EventQueue;
use crate::link::{Link, LinkConfig};
use crate::network::{BundleId, LinkId, Path, Route, RouteCounters, RouteId, SetupError};
use crate::observer::Observer;
use crate::packet::Packets;
use crate::random::{Random, mix};
use crate::tcp::{Endpoint, Pacing, Stack};
use crate::traffic::{
    Application, RequestTiming, Requests, Socket, SocketKind, Stagger, Traffic, TrafficKind,
};
use crate::udp::Sink;

impl<O: Observer> Simulation<O> {
    /// Creates an empty network. `seed` determines all random numbers.
    pub fn new(seed: u64, observer: O) -> Self {
        Self {
            now: Nanos::ZERO,
            seed,
            events: EventQueue::new(),
            packets: Packets::default(),
            links: Vec::new(),
            bundles: Vec::new(),
            shares: Shares::new(0),
            egresses: Vec::new(),
            routes: Vec::new(),
            route_counters: Vec::new(),
            hosts: Vec::new(),
            ended: Vec::new(),
            requests: Vec::new(),
            sockets: Vec::new(),
            endpoints: Endpoints::default(),
            traffics: 0,
            ecn: false,
            pacing: Pacing::default(),
            drops: Vec::new(),
            totals: Totals::default(),
            observer,
        }
    }

    /// Sets whether connections added from now on use ECN (RFC 3168) by default. DCTCP and Prague
    /// always use their own form of ECN.
    pub fn set_ecn(&mut self, ecn: bool) {
        self.ecn = ecn;
    }

    /// Sets the pacing of TCP for connections added from now on.
    pub fn set_pacing(&mut self, pacing: Pacing) {
        self.pacing = pacing;
    }

    /// Adds a link to the network.
    ///
    /// # Errors
    /// Fails if no packet could pass it, or a parameter is out of range.
    pub fn add_link(&mut self, config: LinkConfig) -> Result<LinkId, SetupError> {
        let id = number(self.links.len(), "links")?;
        let random = Random::new(self.seed, 1 + u64::from(id));
        self.links.push(Link::new(config, random)?);
        Ok(LinkId(id))
    }

    /// Adds a bundle, whose first tick is one tick period from now.
    ///
    /// # Errors
    /// Fails if the configuration of its control loop is refused, or a route does not exist.
    pub fn add_bundle(&mut self, setup: BundleSetup) -> Result<BundleId, SetupError> {
        let id = number(self.bundles.len(), "bundles")?;
        self.exists(setup.feedback_route)?;
        self.exists(setup.update_route)?;
        self.bundles.push(Bundle::new(setup, self.now).map_err(SetupError::Control)?);
        self.shares.add();
        self.events.push(self.now.saturating_add(TICK), Event::Tick(id));
        Ok(BundleId(id))
    }

    /// Adds a route. For routes through bundles that are added later, see
    /// [`Simulation::set_route`].
    ///
    /// # Errors
    /// Fails if the route is empty, has a loop, or has a hop that does not exist.
    pub fn add_route(&mut self, route: Route) -> Result<RouteId, SetupError> {
        let id = number(self.routes.len(), "routes")?;
        self.routes.push(self.checked(route)?);
        self.route_counters.push(RouteCounters::default());
        Ok(RouteId(id))
    }

    /// Replaces route `id` with `route`.
    ///
    /// A bundle needs routes for its messages before it exists, and later routes lead through it.
    /// Packets in transit keep the number of hops that they have passed.
    ///
    /// # Errors
    /// Fails if the route is empty, has a loop, or has a hop that does not exist, if a bundle's
    /// messages would pass through its own boxes, or if a route between endpoints would cross no
    /// link.
    pub fn set_route(&mut self, id: RouteId, route: Route) -> Result<(), SetupError> {
        self.exists(id)?;
        let route = self.checked(route)?;
        let own = |(n, b): (u16, &Bundle)| {
            [b.feedback_route, b.update_route].contains(&id) && route.passes_boxes_of(BundleId(n))
        };
        if (0..).zip(&self.bundles).any(own) {
            return Err(SetupError::OwnMessages);
        }
        if !route.crosses_link() && self.endpoints.use_route(id) {
            return Err(SetupError::NoLink(id.index()));
        }
        self.routes[usize::from(id.0)] = route;
        Ok(())
    }

    fn checked(&self, route: Route) -> Result<Route, SetupError> {
        route.check(self.links.len(), self.bundles.len())?;
        Ok(route)
    }

    /// Checks that the route exists.
    pub(super) fn exists(&self, route: RouteId) -> Result<(), SetupError> {
        let index = usize::from(route.0);
        if index < self.routes.len() { Ok(()) } else { Err(SetupError::Route(index)) }
    }

    /// Adds traffic. Returns its number for the observer, starting at zero.
    ///
    /// # Errors
    /// Fails if the traffic is not possible or its path does not exist.
    pub fn add_traffic(&mut self, traffic: Traffic) -> Result<usize, SetupError> {
        traffic.check()?;
        let Traffic { path, start, stop, ecn, kind } = traffic;
        self.exists(path.forward)?;
        self.exists(path.backward)?;
        // Ids of endpoints have 32 bits, and each connection has two.
        if self.hosts.len() > 1 << 30 || self.sockets.len() > 1 << 30 {
            return Err(SetupError::TooMany("connections or UDP flows"));
        }
        let id = self.traffics;
        self.traffics += 1;
        let stagger = self.stagger(id, path);
        let usual = if self.ecn { Ecn::Ect0 } else { Ecn::NotEct };
        let pacing = self.pacing;
        let stack = |congestion| Stack { congestion, ecn: ecn.unwrap_or(usual), pacing };
        let begins = |flow| start.saturating_add(stagger.of(flow)).min(stop);
        match kind {
            TrafficKind::Requests { timing, connections, congestion } => {
                let requests =
                    Requests::new((id, path, stop), timing, connections, stack(congestion));
                self.add_requests(requests, start);
            }
            TrafficKind::Bulk { flows, congestion } => {
                for flow in 0..flows {
                    let sink = Application::Sink { traffic: id, flow };
                    let hash = self.flow_hash(id, flow);
                    let ends = [sink, Application::Source];
                    let source = self.connect(path, stack(congestion), hash, ends) + 1;
                    self.events.push(begins(flow), Event::Begin(source));
                    self.events.push(stop, Event::End(source));
                }
            }
            TrafficKind::UdpBulk { flows } => {
                for flow in 0..flows {
                    let kind = SocketKind::Bulk { window: None, sink: Sink::default() };
                    self.add_socket((id, flow), path, (begins(flow), stop), kind);
                }
            }
            TrafficKind::UdpPrague { flows } => {
                for flow in 0..flows {
                    let kind = SocketKind::Prague { sender: None, receiver: Box::default() };
                    self.add_socket((id, flow), path, (begins(flow), stop), kind);
                }
            }
            TrafficKind::UdpLoops { flows } => {
                for flow in 0..flows {
                    let kind = SocketKind::Loop { round: 0, asked: None };
                    self.add_socket((id, flow), path, (begins(flow), stop), kind);
                }
            }
            TrafficKind::Datagrams(pattern) => {
                let mut rest = pattern.datagrams();
                if let Some(next) = rest.next() {
                    let ecn = ecn.unwrap_or_default();
                    let kind = SocketKind::Pattern { start, next, rest, ecn };
                    self.add_socket((id, 0), path, (start, stop), kind);
                }
            }
        }
        Ok(id as usize)
    }

    /// Returns the start times of a traffic's flows, within a round trip of the empty path.
    fn stagger(&self, traffic: u32, path: Path) -> Stagger {
        Stagger { seed: self.seed, traffic, within: path.rtt }
    }

    fn add_requests(&mut self, mut of: Requests, start: Nanos) {
        let requests = self.requests.len() as u32;
        if !of.connects() {
            for (connection, at) in (0..).zip(&mut of.connections) {
                let ends = [
                    Application::Client { requests, connection },
                    Application::Server { requests, connection },
                ];
                let hash = self.flow_hash(of.traffic, connection);
                at.client = self.connect(of.path, of.stack, hash, ends);
            }
        }
        if let Some(time) = of.next_time() {
            self.events.push(time, Event::NextRequest(requests));
        }
        if matches!(of.timing, RequestTiming::Closed { .. }) {
            let stagger = self.stagger(of.traffic, of.path);
            for client in 0..of.connections.len() as u32 {
                let begin = start.saturating_add(stagger.of(client)).min(of.stop);
                self.events.push(begin, Event::FirstRequest { requests, client });
            }
        }
        self.requests.push(of);
    }

    /// Creates a connection that was opened before the simulation, with a handshake of the path's
    /// round-trip time. The first end is the client's at the far end; the data of the second end
    /// goes forward.
    fn connect(&mut self, path: Path, stack: Stack, hash: u32, ends: [Application; 2]) -> u32 {
        let first = self.new_connection(path, stack, hash, ends);
        for end in [first, first + 1] {
            let random = mix(self.seed ^ u64::from(end));
            let tcp = Endpoint::new(self.now, stack, Some(path.rtt), random);
            let host = &mut self.hosts[end as usize];
            (host.tcp, host.phase) = (Some(tcp), Phase::Open);
        }
        first
    }

    fn add_socket(
        &mut self,
        (traffic, flow): (u32, u32),
        path: Path,
        (start, stop): (Nanos, Nanos),
        kind: SocketKind,
    ) {
        let index = self.sockets.len() as u32;
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
    }

    /// Returns the flow hash, which differs between seeds as ports differ between runs.
    pub(super) fn flow_hash(&self, traffic: u32, flow: u32) -> u32 {
        mix(mix(self.seed) ^ (u64::from(traffic) << 32 | u64::from(flow))) as u32
    }
}

fn number(taken: usize, what: &'static str) -> Result<u16, SetupError> {
    u16::try_from(taken).map_err(|_| SetupError::TooMany(what))
}
