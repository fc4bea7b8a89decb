//! Connections that come and go: the handshake before a request and the farewell after its answer.
//!
//! Both are packets that cross the network and may be lost: SYN, SYN-ACK and ACK, then the client's
//! FIN, which acknowledges the whole answer, and the server's FIN in reply (RFC 9293 sections 3.5
//! and 3.6). What one side waits for in vain it asks for again after a second, then after two, and
//! so on (RFC 6298 section 2), as often as Linux does. A connection's memory is given back when it
//! has ended, and its place is taken by the next one.

use forebay_units::Nanos;

use super::{Event, Host, Simulation};
use crate::network::{Path, RouteId};
use crate::observer::Observer;
use crate::packet::{Body, Control, Packet, TCP_HEADERS, fingerprint};
use crate::random::mix;
use crate::tcp::{Endpoint, Stack};
use crate::traffic::Application;

/// The first timeout, before there is a round-trip time (RFC 6298 section 2.1).
const FIRST_TIMEOUT: Nanos = Nanos::from_secs(1);
/// How often something is sent again (Linux's `tcp_syn_retries`).
const RETRIES: u8 = 6;
/// What the options of a SYN take beyond those of other segments: maximum segment size, window
/// scale, SACK permitted and padding.
const SYN_OPTIONS: u64 = 8;

/// Where a connection's end is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Data may flow; the end has a TCP endpoint now, and in no other phase.
    Open,
    /// A server's end before the SYN.
    Listening,
    /// A client's end that sent its SYN at this time, after so many in vain.
    Connecting { sent: Nanos, tries: u8 },
    /// A server's end that answered the SYN.
    Accepting { sent: Nanos, tries: u8 },
    /// A client's end that has all it wanted and said so.
    Closing { sent: Nanos, tries: u8 },
    /// The other side has said farewell, or there is no connection here.
    Closed,
}

impl Phase {
    /// What is sent again in this phase, after which time of silence, and the phase then.
    fn again(self, now: Nanos) -> Option<(Control, Nanos, Self)> {
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
    /// What a packet with this flow hash is to it: its peer's, or left over from a connection that
    /// had this place before.
    pub(super) fn knows(&self, flow_hash: u32) -> bool {
        flow_hash == !self.hash
    }

    /// A round trip of the handshake, if it is clear which packet was answered (Karn's rule, RFC
    /// 6298 section 3).
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
    /// A new connection's two ends, in the place of one that has ended if there is one: the client's
    /// at the far end of `path` and, next to it, the server's. Returns the former.
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

    /// The client's SYN.
    pub(super) fn begin_handshake(&mut self, client: u32) {
        self.control(client, Control::Syn);
        self.await_reply(client);
    }

    /// The client has all it wanted: its endpoint goes, and it says so.
    pub(super) fn close(&mut self, client: u32) {
        self.forget_endpoint(client);
        self.hosts[client as usize].phase = Phase::Closing { sent: self.now, tries: 0 };
        self.control(client, Control::Fin);
        self.await_reply(client);
    }

    /// A packet of a handshake or farewell came.
    pub(super) fn on_control(&mut self, endpoint: u32, control: Control) {
        let now = self.now;
        let host = &mut self.hosts[endpoint as usize];
        match (control, host.phase) {
            (Control::Syn, Phase::Listening) => {
                host.phase = Phase::Accepting { sent: now, tries: 0 };
                self.control(endpoint, Control::SynAck);
                self.await_reply(endpoint);
            }
            (Control::Syn, Phase::Accepting { .. }) => self.control(endpoint, Control::SynAck),
            (Control::SynAck, Phase::Connecting { .. }) => {
                self.establish(endpoint);
                self.control(endpoint, Control::Ack);
                self.on_connected(endpoint);
            }
            // The acknowledgement was lost.
            (Control::SynAck, Phase::Open) => self.control(endpoint, Control::Ack),
            (Control::Ack, Phase::Accepting { .. }) => self.establish(endpoint),
            (Control::Fin, Phase::Open) => {
                self.forget_endpoint(endpoint);
                self.control(endpoint, Control::FinAck);
            }
            (Control::Fin, Phase::Closed) => self.control(endpoint, Control::FinAck),
            (Control::FinAck, Phase::Closing { .. }) => self.free(endpoint),
            // Late or double.
            _ => {}
        }
    }

    /// Data may flow from now on.
    pub(super) fn establish(&mut self, endpoint: u32) {
        let random = mix(self.seed ^ u64::from(self.hosts[endpoint as usize].hash) << 32);
        let host = &self.hosts[endpoint as usize];
        let tcp = Endpoint::new(self.now, host.stack, host.handshake_rtt(self.now), random);
        let host = &mut self.hosts[endpoint as usize];
        host.tcp = Some(tcp);
        host.phase = Phase::Open;
        host.awaited = Nanos::MAX;
    }

    /// The other side was silent for too long: the timer's event while an end is not open.
    pub(super) fn on_silence(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        let Some((control, _, next)) = host.phase.again(self.now) else { return };
        if host.phase.tries() < RETRIES {
            host.phase = next;
            self.totals.timeouts += 1;
            self.control(endpoint, control);
            return self.await_reply(endpoint);
        }
        match host.phase {
            Phase::Connecting { .. } => {
                let application = host.application;
                self.free(endpoint);
                self.on_given_up(application);
            }
            Phase::Accepting { .. } => host.phase = Phase::Listening,
            _ => self.free(endpoint),
        }
    }

    fn await_reply(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        if let Some((_, due, _)) = host.phase.again(self.now) {
            host.awaited = due;
            self.events.push(due, Event::Timer(endpoint));
        }
    }

    fn forget_endpoint(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        if let Some(tcp) = host.tcp.take() {
            let (retransmissions, timeouts) = tcp.repairs();
            self.totals.retransmissions += retransmissions;
            self.totals.timeouts += timeouts;
        }
        host.phase = Phase::Closed;
        host.awaited = Nanos::MAX;
    }

    /// Both ends are free for another connection.
    fn free(&mut self, client: u32) {
        self.forget_endpoint(client);
        self.forget_endpoint(client + 1);
        self.ended.push(client);
    }

    fn control(&mut self, endpoint: u32, control: Control) {
        let host = &mut self.hosts[endpoint as usize];
        host.made += 1;
        let options = match control {
            Control::Syn | Control::SynAck => SYN_OPTIONS,
            Control::Ack | Control::Fin | Control::FinAck => 0,
        };
        let (route, hash): (RouteId, u32) = (host.route, host.hash);
        // Congestion controls that cannot do without ECN have their codepoint on handshakes too
        // (Linux), and so are served as their data is.
        let ecn = host.stack.ecn_mode().codepoint_of_others();
        let packet = Packet {
            body: Body::Control { endpoint: host.peer, control },
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
