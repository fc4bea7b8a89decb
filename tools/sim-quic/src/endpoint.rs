//! A QUIC endpoint for the simulator.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use forebay_queue::Ecn;
use forebay_sim::{Random, Received, Transmit};
use forebay_units::Nanos;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, TransportConfig,
};

use crate::application::Application;
use crate::clock::{instant, simulated};
use crate::identity::NAME;
use crate::randomness;
use crate::setup::{self, SetupError};

/// The largest number of answers without a connection that wait to be sent: refusals, retries and
/// resets. Further ones are dropped, as a network may do.
const MAX_ANSWERS: usize = 1024;

/// A QUIC endpoint of `quinn-proto` with its connections and their application.
///
/// It asks every connection at every event, so it is for tens of connections, not for thousands.
pub struct Quic<A> {
    quic: quinn_proto::Endpoint,
    /// The connections by the number of their handle.
    connections: Vec<Option<Connection>>,
    /// A connection to open at the first call, and the server.
    opens: Option<(ClientConfig, SocketAddr)>,
    /// Datagrams of the endpoint itself.
    answers: VecDeque<(quinn_proto::Transmit, Vec<u8>)>,
    random: Random,
    application: A,
}

impl<A: Application> Quic<A> {
    /// Creates a client that opens a connection to `server` when the simulation calls it first.
    ///
    /// `seed` determines all random numbers. Endpoints of one simulation need different seeds.
    ///
    /// # Errors
    /// Fails if the configuration of TLS is refused.
    pub fn client(
        seed: u64,
        transport: TransportConfig,
        server: SocketAddr,
        application: A,
    ) -> Result<Self, SetupError> {
        let mut random = Random::new(seed, 0);
        let client = setup::client(&mut random, transport)?;
        Ok(Self { opens: Some((client, server)), ..Self::new(random, None, application) })
    }

    /// Creates a server that accepts all connections.
    ///
    /// # Errors
    /// Fails if the configuration of TLS is refused.
    pub fn server(
        seed: u64,
        transport: TransportConfig,
        application: A,
    ) -> Result<Self, SetupError> {
        let mut random = Random::new(seed, 1);
        let server = Arc::new(setup::server(&mut random, transport)?);
        Ok(Self::new(random, Some(server), application))
    }

    fn new(
        mut random: Random,
        server: Option<Arc<quinn_proto::ServerConfig>>,
        application: A,
    ) -> Self {
        let config = Arc::new(setup::endpoint(&mut random));
        Self {
            quic: quinn_proto::Endpoint::new(config, server, true, None),
            connections: Vec::new(),
            opens: None,
            answers: VecDeque::new(),
            random,
            application,
        }
    }

    /// Returns the application.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// Returns the connections that exist, for their statistics.
    pub fn connections(&self) -> impl Iterator<Item = &Connection> {
        self.connections.iter().flatten()
    }

    /// Returns the connections that exist for changes. The simulation sends what follows from them
    /// if the caller got this endpoint from [`forebay_sim::Simulation::endpoint_mut`].
    pub fn connections_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.connections.iter_mut().flatten()
    }

    /// Calls `run` while TLS takes its random numbers from this endpoint.
    fn run<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        let mut random = self.random.clone();
        let result = randomness::with(&mut random, || run(self));
        self.random = random;
        result
    }

    fn insert(&mut self, handle: ConnectionHandle, connection: Connection) {
        let index = handle.0;
        if self.connections.len() <= index {
            self.connections.resize_with(index + 1, || None);
        }
        self.connections[index] = Some(connection);
    }

    /// Opens the connection of a client, once.
    fn open(&mut self, now: Nanos) {
        let Some((config, server)) = self.opens.take() else { return };
        match self.quic.connect(instant(now), config, server, NAME) {
            Ok((handle, connection)) => self.insert(handle, connection),
            Err(error) => self.application.on_refused(now, &error),
        }
    }

    fn on_event(&mut self, now: Nanos, event: Option<DatagramEvent>, answer: Vec<u8>) {
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(Some(connection)) = self.connections.get_mut(handle.0) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let mut refusal = Vec::new();
                match self.quic.accept(incoming, instant(now), &mut refusal, None) {
                    Ok((handle, connection)) => self.insert(handle, connection),
                    Err(error) => {
                        if let Some(transmit) = error.response {
                            self.answer(transmit, refusal);
                        }
                    }
                }
            }
            Some(DatagramEvent::Response(transmit)) => self.answer(transmit, answer),
        }
    }

    fn answer(&mut self, transmit: quinn_proto::Transmit, payload: Vec<u8>) {
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back((transmit, payload));
        }
    }

    /// Passes events between a connection, the endpoint and the application until none is left.
    fn drive(&mut self, now: Nanos, index: usize) {
        let handle = ConnectionHandle(index);
        while let Some(Some(connection)) = self.connections.get_mut(index) {
            // The last event of a connection to the application precedes its end.
            if let Some(event) = connection.poll() {
                self.application.on_event(now, handle, connection, event);
            } else if let Some(event) = connection.poll_endpoint_events() {
                let is_drained = event.is_drained();
                if let Some(event) = self.quic.handle_event(handle, event) {
                    connection.handle_event(event);
                }
                if is_drained {
                    self.connections[index] = None;
                }
            } else {
                return;
            }
        }
    }

    fn drive_all(&mut self, now: Nanos) {
        (0..self.connections.len()).for_each(|index| self.drive(now, index));
    }

    fn next_transmit(&mut self, now: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
        self.open(now);
        self.drive_all(now);
        let transmit = if let Some((transmit, answer)) = self.answers.pop_front() {
            payload.extend(answer);
            transmit
        } else {
            let mut connections = self.connections.iter_mut().flatten();
            connections.find_map(|c| c.poll_transmit(instant(now), 1, payload))?
        };
        Some(Transmit { to: transmit.destination, ecn: to_ecn(transmit.ecn) })
    }
}

impl<A: Application> forebay_sim::Endpoint for Quic<A> {
    fn on_datagram(&mut self, now: Nanos, datagram: Received<'_>) {
        self.run(|quic| {
            let Received { from, ecn, payload } = datagram;
            let mut answer = Vec::new();
            let (ecn, payload) = (from_ecn(ecn), BytesMut::from(payload));
            let event = quic.quic.handle(instant(now), from, None, ecn, payload, &mut answer);
            quic.on_event(now, event, answer);
            quic.drive_all(now);
        });
    }

    fn poll_transmit(&mut self, now: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
        self.run(|quic| quic.next_transmit(now, payload))
    }

    fn next_timer(&mut self) -> Option<Nanos> {
        let connections = self.connections.iter_mut().flatten();
        connections.filter_map(Connection::poll_timeout).min().map(simulated)
    }

    fn on_timer(&mut self, now: Nanos) {
        self.run(|quic| {
            let instant = instant(now);
            for connection in quic.connections.iter_mut().flatten() {
                if connection.poll_timeout().is_some_and(|timeout| timeout <= instant) {
                    connection.handle_timeout(instant);
                }
            }
            quic.drive_all(now);
        });
    }
}

fn to_ecn(ecn: Option<EcnCodepoint>) -> Ecn {
    match ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

fn from_ecn(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}
