//! An endpoint that sends what it is told, and records what arrives.

use std::collections::VecDeque;
use std::net::SocketAddr;

use forebay_queue::Ecn;
use forebay_sim::{EndpointId, LinkConfig, LinkId, Received, Route, RouteId, Simulation, Transmit};
use forebay_units::Nanos;

/// A datagram that arrived.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arrival {
    pub(crate) at: Nanos,
    pub(crate) from: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

/// A datagram to send at a time.
#[derive(Clone, Debug)]
pub(crate) struct Departure {
    pub(crate) at: Nanos,
    pub(crate) to: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

/// Sends datagrams at their times, and records what arrives and when the timer expires.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) departures: VecDeque<Departure>,
    pub(crate) arrivals: Vec<Arrival>,
    pub(crate) expiries: Vec<Nanos>,
    /// Whether to send back what arrives.
    pub(crate) echoes: bool,
}

impl Script {
    pub(crate) fn send(&mut self, at: Nanos, to: SocketAddr, ecn: Ecn, payload: Vec<u8>) {
        self.departures.push_back(Departure { at, to, ecn, payload });
    }
}

impl forebay_sim::Endpoint for Script {
    fn on_datagram(&mut self, at: Nanos, Received { from, ecn, payload }: Received<'_>) {
        let payload = payload.to_vec();
        if self.echoes {
            self.departures.push_front(Departure { at, to: from, ecn, payload: payload.clone() });
        }
        self.arrivals.push(Arrival { at, from, ecn, payload });
    }

    fn poll_transmit(&mut self, now: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
        assert!(payload.is_empty());
        if self.departures.front().is_none_or(|next| next.at > now) {
            payload.extend(b"ignored");
            return None;
        }
        let next = self.departures.pop_front()?;
        payload.extend(next.payload);
        Some(Transmit { to: next.to, ecn: next.ecn })
    }

    fn next_timer(&mut self) -> Option<Nanos> {
        self.departures.front().map(|next| next.at)
    }

    fn on_timer(&mut self, now: Nanos) {
        self.expiries.push(now);
    }
}

/// Two endpoints with a link in each direction.
pub(crate) struct Pair {
    pub(crate) sim: Simulation<()>,
    pub(crate) a: EndpointId<Script>,
    pub(crate) b: EndpointId<Script>,
    pub(crate) forward: RouteId,
    pub(crate) backward: RouteId,
    pub(crate) link: LinkId,
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The addresses of a pair's endpoints.
pub(crate) fn addresses() -> [SocketAddr; 2] {
    ["10.0.0.1:1000", "10.0.0.2:2000"].map(address)
}

impl Pair {
    /// Joins two endpoints over `link` from the first to the second one, and back over an
    /// unlimited link of 5 ms.
    pub(crate) fn new(seed: u64, link: LinkConfig) -> Self {
        Self::at(seed, link, addresses())
    }

    pub(crate) fn at(seed: u64, link: LinkConfig, addresses: [SocketAddr; 2]) -> Self {
        let mut sim = Simulation::new(seed, ());
        let link = sim.add_link(link).unwrap();
        let delay = Nanos::from_millis(5);
        let back = sim.add_link(LinkConfig { delay, ..LinkConfig::default() }).unwrap();
        let forward = sim.add_route(Route::over(link)).unwrap();
        let backward = sim.add_route(Route::over(back)).unwrap();
        let a = sim.add_endpoint(addresses[0], Script::default()).unwrap();
        let b = sim.add_endpoint(addresses[1], Script::default()).unwrap();
        sim.join(a, b, forward, backward).unwrap();
        Self { sim, a, b, forward, backward, link }
    }

    pub(crate) fn arrivals_at_b(&self) -> &[Arrival] {
        &self.sim.endpoint(self.b).arrivals
    }
}
