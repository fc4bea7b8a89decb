//! Opening and closing of connections: the handshake before a request and the close after its
//! answer.
//!
//! Both consist of packets that cross the network and may be lost: SYN, SYN-ACK and ACK, then the
//! client's FIN, which acknowledges the whole answer, and the server's FIN in reply (RFC 9293
//! sections 3.5 and 3.6). A packet without a reply is retransmitted after a second, then after two,
//! and so on (RFC 6298 section 2), as often as Linux does. When a connection has ended, its memory
//! is freed and the next connection takes its place.

use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::{Event, Host, Simulation};
use crate::headers::{ControlNumbers, number};
use crate::network::{Path, RouteId};
use crate::observer::Observer;
use crate::packet::{Body, Control, Packet, TCP_HEADERS, fingerprint};
use crate::random::mix;
use crate::tcp::{Endpoint, Stack};
use crate::traffic::Application;

/// The first timeout, before a round-trip time is known (RFC 6298 section 2.1).
const FIRST_TIMEOUT: Nanos = Nanos::from_secs(1);
/// The number of retransmissions (Linux's `tcp_syn_retries`).
const RETRIES: u8 = 6;
/// The length of a SYN's options beyond those of other segments: maximum segment size, window
/// scale, SACK permitted and padding.
const SYN_OPTIONS: u64 = 8;

/// The phase of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Data may flow. Only in this phase does the end have a TCP endpoint.
    Open,
    /// A server's end before the SYN.
    Listening,
    /// A client's end that sent its last SYN at `sent`, after `tries` earlier ones.
    Connecting { sent: Nanos, tries: u8 },
    /// A server's end that answered the SYN.
    Accepting { sent: Nanos, tries: u8 },
    /// A client's end that has its answer and has sent a FIN.
    Closing { sent: Nanos, tries: u8 },
    /// The peer has closed the connection, or the place is free.
    Closed,
}

impl Phase {
    /// Returns the packet that is retransmitted in this phase, the time of the timeout, and the
    /// phase afterwards.
    fn retransmission(self, now: Nanos) -> Option<(Control, Nanos, Self)> {
        let due = |sent: Nanos, tries: u8| sent.saturating_add(FIRST_TIMEOUT * (1 << tries));
        match self {
            Self::Connecting { sent, tries } => {
                let next = Self::Connecting { sent: now, tries: tries + 1 };
                Some((Control::Syn, due(sent, tries), next))
            }
            Self::Accepting { sent, tries } => {
                let next = Self::Accepting { sent: now, tries: tries + 1 };
                Some((Control::SynAck, due(sent, tries), next))
            }
            Self::Closing { sent, tries } => {
                let next = Self::Closing { sent: now, tries: tries + 1 };
                Some((Control::Fin, due(sent, tries), next))
            }
            Self::Open | Self::Listening | Self::Closed => None,
        }
    }

    fn tries(self) -> u8 {
        match self {
            Self::Connecting { tries, .. }
            | Self::Accepting { tries, .. }
            | Self::Closing { tries, .. } => tries,
            Self::Open | Self::Listening | Self::Closed => 0,
        }
    }
}

impl Host {
    /// Returns whether a packet with this flow hash is from the peer, and not from an earlier
    /// connection in the same place.
    pub(super) fn is_from_peer(&self, flow_hash: u32) -> bool {
        flow_hash == !self.hash
    }

    /// Returns the round-trip time of the handshake, if no packet was retransmitted (Karn's rule,
    /// RFC 6298 section 3).
    fn handshake_rtt(&self, now: Nanos) -> Option<Nanos> {
        match self.phase {
            Phase::Connecting { sent, tries: 0 } | Phase::Accepting { sent, tries: 0 } => {
                Some(now.saturating_sub(sent))
            }
            _ => None,
        }
    }
}

impl<O: Observer> Simulation<O> {
    /// Creates the two ends of a connection, in the place of an ended one if possible. Returns the
    /// client's end at the far end of `path`; the server's end is the next one.
    pub(super) fn new_connection(
        &mut self,
        path: Path,
        stack: Stack,
        hash: u32,
        [client, server]: [Application; 2],
    ) -> u32 {
        let first = self.ended.pop().unwrap_or(self.hosts.len() as u32);
        let host = |route, hash, application, phase, peer| Host {
            tcp: None,
            phase,
            stack,
            peer,
            route,
            hash,
            made: 0,
            numbers: (number(0), number(0)),
            marked: 0,
            opening: Ecn::NotEct,
            awaited: Nanos::MAX,
            application,
        };
        let connecting = Phase::Connecting { sent: self.now, tries: 0 };
        let client = host(path.backward, !hash, client, connecting, first + 1);
        let server = host(path.forward, hash, server, Phase::Listening, first);
        if first as usize == self.hosts.len() {
            self.hosts.extend([client, server]);
        } else {
            self.hosts[first as usize] = client;
            self.hosts[first as usize + 1] = server;
        }
        first
    }

    /// Sends the client's SYN.
    pub(super) fn begin_handshake(&mut self, client: u32) {
        self.send_control(client, Control::Syn);
        self.await_reply(client);
    }

    /// Closes the connection from the client's side: removes its endpoint and sends a FIN.
    pub(super) fn close(&mut self, client: u32) {
        self.forget_endpoint(client);
        self.hosts[client as usize].phase = Phase::Closing { sent: self.now, tries: 0 };
        self.send_control(client, Control::Fin);
        self.await_reply(client);
    }

    /// Handles a packet of a handshake or a close, which arrived with this ECN field.
    pub(super) fn on_control(&mut self, endpoint: u32, control: Control, ecn: Ecn) {
        let now = self.now;
        let host = &mut self.hosts[endpoint as usize];
        if matches!(control, Control::Syn | Control::SynAck) {
            host.opening = ecn;
        }
        match (control, host.phase) {
            (Control::Syn, Phase::Listening) => {
                host.phase = Phase::Accepting { sent: now, tries: 0 };
                self.send_control(endpoint, Control::SynAck);
                self.await_reply(endpoint);
            }
            (Control::Syn, Phase::Accepting { .. }) => self.send_control(endpoint, Control::SynAck),
            (Control::SynAck, Phase::Connecting { .. }) => {
                self.establish(endpoint);
                self.send_control(endpoint, Control::Ack);
                self.on_connected(endpoint);
            }
            // The ACK of the handshake was lost.
            (Control::SynAck, Phase::Open) => self.send_control(endpoint, Control::Ack),
            (Control::Ack, Phase::Accepting { .. }) => self.establish(endpoint),
            (Control::Fin, Phase::Open) => {
                self.forget_endpoint(endpoint);
                self.send_control(endpoint, Control::FinAck);
            }
            (Control::Fin, Phase::Closed) => self.send_control(endpoint, Control::FinAck),
            (Control::FinAck, Phase::Closing { .. }) => self.free(endpoint),
            // The packet is late or a duplicate.
            _ => {}
        }
    }

    /// Opens the connection for data.
    pub(super) fn establish(&mut self, endpoint: u32) {
        let random = mix(self.seed ^ u64::from(self.hosts[endpoint as usize].hash) << 32);
        let host = &self.hosts[endpoint as usize];
        let tcp = Endpoint::new(self.now, host.stack, host.handshake_rtt(self.now), random);
        let host = &mut self.hosts[endpoint as usize];
        host.tcp = Some(tcp);
        host.phase = Phase::Open;
        host.awaited = Nanos::MAX;
    }

    /// Handles the timer of an end that is not open: retransmits or gives up.
    pub(super) fn on_handshake_timeout(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        let Some((control, _, next)) = host.phase.retransmission(self.now) else { return };
        if host.phase.tries() < RETRIES {
            host.phase = next;
            self.totals.timeouts += 1;
            self.send_control(endpoint, control);
            return self.await_reply(endpoint);
        }
        match host.phase {
            Phase::Connecting { .. } => {
                let application = host.application;
                self.free(endpoint);
                self.on_connection_failed(application);
            }
            Phase::Accepting { .. } => host.phase = Phase::Listening,
            _ => self.free(endpoint),
        }
    }

    fn await_reply(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        if let Some((_, due, _)) = host.phase.retransmission(self.now) {
            host.awaited = due;
            self.events.push(due, Event::Timer(endpoint));
        }
    }

    fn forget_endpoint(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        if let Some(tcp) = host.tcp.take() {
            let (next, expected) = tcp.next_bytes();
            host.numbers = (number(next), number(expected));
            host.marked = tcp.marked();
            let (retransmissions, timeouts) = tcp.repairs();
            self.totals.retransmissions += retransmissions;
            self.totals.timeouts += timeouts;
        }
        host.phase = Phase::Closed;
        host.awaited = Nanos::MAX;
    }

    /// Frees both ends for another connection.
    fn free(&mut self, client: u32) {
        self.forget_endpoint(client);
        self.forget_endpoint(client + 1);
        self.ended.push(client);
    }

    fn send_control(&mut self, endpoint: u32, control: Control) {
        let host = &mut self.hosts[endpoint as usize];
        host.made += 1;
        let options = match control {
            Control::Syn | Control::SynAck => SYN_OPTIONS,
            Control::Ack | Control::Fin | Control::FinAck => 0,
        };
        let (route, hash): (RouteId, u32) = (host.route, host.hash);
        let (seq, ack) = host.numbers;
        let (marked, opening) = (host.marked, host.opening);
        let numbers = ControlNumbers { seq, ack, sent: self.now.0, marked, opening };
        // Congestion controls that need ECN also set their codepoint on handshakes (as in Linux),
        // so that these are queued as the data is.
        let ecn = host.stack.ecn_mode().codepoint_of_others();
        let packet = Packet {
            body: Body::Control { endpoint: host.peer, control, numbers },
            len: (TCP_HEADERS + options) as u16,
            ecn,
            route,
            hop: 0,
            flow_hash: hash,
            fingerprint: fingerprint(hash, host.made),
        };
        self.send(packet);
    }
}
