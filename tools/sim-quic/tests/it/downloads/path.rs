//! A path between a QUIC client and a server, and the datagrams on it.

use std::net::SocketAddr;

use forebay_queue::Ecn;
use forebay_sim::{
    Capacity, Endpoint, EndpointId, LinkConfig, LinkId, Queue, Received, Route, RouteId,
    Simulation, Transmit,
};
use forebay_sim_quic::quinn_proto::TransportConfig;
use forebay_sim_quic::{Download, Files, Quic};
use forebay_units::{Nanos, Rate};

/// A datagram that an endpoint sent or received.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Datagram {
    pub(crate) at: Nanos,
    pub(crate) sent: bool,
    pub(crate) ecn: Ecn,
    pub(crate) payload: Vec<u8>,
}

/// An endpoint with a record of its datagrams.
pub(crate) struct Recorded<E> {
    pub(crate) endpoint: E,
    pub(crate) datagrams: Vec<Datagram>,
}

impl<E: Endpoint> Endpoint for Recorded<E> {
    fn on_datagram(&mut self, at: Nanos, datagram: Received<'_>) {
        let Received { ecn, payload, .. } = datagram;
        self.datagrams.push(Datagram { at, sent: false, ecn, payload: payload.to_vec() });
        self.endpoint.on_datagram(at, datagram);
    }

    fn poll_transmit(&mut self, at: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
        let transmit = self.endpoint.poll_transmit(at, payload)?;
        let ecn = transmit.ecn;
        self.datagrams.push(Datagram { at, sent: true, ecn, payload: payload.clone() });
        Some(transmit)
    }

    fn next_timer(&mut self) -> Option<Nanos> {
        self.endpoint.next_timer()
    }

    fn on_timer(&mut self, now: Nanos) {
        self.endpoint.on_timer(now);
    }
}

/// The bottleneck towards clients; the way back is unlimited and has the same delay.
pub(crate) struct Bottleneck {
    pub(crate) rate: Rate,
    pub(crate) delay: Nanos,
    pub(crate) queue: Queue,
    pub(crate) seed: u64,
}

/// A network with a server.
pub(crate) struct Net {
    pub(crate) sim: Simulation<()>,
    pub(crate) down: LinkId,
    pub(crate) server: EndpointId<Quic<Files>>,
    up_route: RouteId,
    down_route: RouteId,
    seed: u64,
    clients: u16,
}

pub(crate) type Client = EndpointId<Recorded<Quic<Download>>>;

impl Net {
    /// Builds the network with a server that has the transport configuration.
    pub(crate) fn new(of: Bottleneck, transport: TransportConfig) -> Self {
        let Bottleneck { rate, delay, queue, seed } = of;
        let mut sim = Simulation::new(seed, ());
        let capacity = Capacity::Constant(rate);
        let down = LinkConfig { capacity, delay, queue: Some(queue), ..LinkConfig::default() };
        let down = sim.add_link(down).unwrap();
        let up = sim.add_link(LinkConfig { delay, ..LinkConfig::default() }).unwrap();
        let down_route = sim.add_route(Route::over(down)).unwrap();
        let up_route = sim.add_route(Route::over(up)).unwrap();
        let server = Quic::server(seed, transport, Files::default()).unwrap();
        let server = sim.add_endpoint(Self::server(), server).unwrap();
        Self { sim, down, server, up_route, down_route, seed, clients: 0 }
    }

    fn server() -> SocketAddr {
        "[2001:db8::1]:443".parse().unwrap()
    }

    /// Adds a client that requests `size` bytes.
    pub(crate) fn client(&mut self, size: u64, transport: TransportConfig) -> Client {
        self.clients += 1;
        let seed = self.seed << 16 | u64::from(self.clients);
        let endpoint = Quic::client(seed, transport, Self::server(), Download::new(size)).unwrap();
        let address = SocketAddr::new("2001:db8:1::1".parse().unwrap(), 5000 + self.clients);
        let client = Recorded { endpoint, datagrams: Vec::new() };
        let client = self.sim.add_endpoint(address, client).unwrap();
        self.sim.join(client, self.server, self.up_route, self.down_route).unwrap();
        client
    }

    pub(crate) fn download(&self, client: Client) -> &Download {
        self.sim.endpoint(client).endpoint.application()
    }

    pub(crate) fn datagrams(&self, client: Client) -> &[Datagram] {
        &self.sim.endpoint(client).datagrams
    }
}
