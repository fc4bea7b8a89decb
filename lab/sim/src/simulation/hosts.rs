//! Hosts with TCP, and their applications.

use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::connections::Phase;
use super::{Event, Host, Simulation};
use crate::observer::Observer;
use crate::packet::{Body, Packet, TCP_HEADERS, fingerprint};
use crate::tcp::Segment;
use crate::traffic::Application;

/// The size of an endless transfer in bytes, more than any flow can send in a run.
const ENDLESS: u64 = 1 << 62;

impl Host {
    /// Creates the packet of a segment to the other end.
    pub(super) fn packet(&mut self, segment: Segment) -> Packet {
        self.made += 1;
        let len = TCP_HEADERS + u64::from(segment.len) + segment.sack.option_len();
        Packet {
            body: Body::Segment { endpoint: self.peer, segment },
            len: len as u16,
            ecn: segment.ecn,
            route: self.route,
            hop: 0,
            flow_hash: self.hash,
            fingerprint: fingerprint(self.hash, self.made),
        }
    }
}

impl<O: Observer> Simulation<O> {
    /// Handles packet `id`, a segment that reached this endpoint.
    pub(super) fn on_segment(&mut self, endpoint: u32, id: u32) {
        let host = &self.hosts[endpoint as usize];
        if !host.is_from_peer(self.packets.get(id).flow_hash) {
            return self.packets.remove(id);
        }
        // Data completes the handshake like an acknowledgement.
        if matches!(host.phase, Phase::Accepting { .. }) {
            self.establish(endpoint);
        }
        let Packet { body: Body::Segment { segment, .. }, ecn, .. } = self.packets.get(id) else {
            return;
        };
        let tcp = self.hosts[endpoint as usize].tcp.as_mut();
        let read = tcp
            .map(|tcp| (tcp.on_segment(self.now, segment, *ecn == Ecn::Ce), tcp.take_round_trip()));
        self.packets.remove(id);
        let Some((read, round_trip)) = read else { return };
        if let Some(round_trip) = round_trip {
            self.on_round_trip(endpoint, round_trip);
        }
        if read > 0 {
            self.on_read(endpoint, read);
        }
        self.flush(endpoint);
    }

    /// Reports a round-trip time that an acknowledgement measured.
    fn on_round_trip(&mut self, endpoint: u32, took: Nanos) {
        let peer = self.hosts[endpoint as usize].peer;
        if let Application::Sink { traffic, flow } = self.hosts[peer as usize].application {
            self.observer.round_trip(traffic as usize, flow, took);
        }
    }

    fn on_read(&mut self, endpoint: u32, bytes: u64) {
        let host = &mut self.hosts[endpoint as usize];
        match host.application {
            Application::Source => {}
            Application::Sink { traffic, flow } => {
                self.observer.read(traffic as usize, flow, bytes);
            }
            Application::Client { requests, connection } => {
                self.on_answer(requests, connection, bytes);
            }
            Application::Server { requests, connection } => {
                let of = &mut self.requests[requests as usize].connections[connection as usize];
                let answer = of.serve(bytes);
                if let Some(tcp) = &mut host.tcp {
                    tcp.write(answer);
                }
            }
        }
    }

    /// Sends everything that an endpoint may send, and schedules its timer.
    pub(super) fn flush(&mut self, endpoint: u32) {
        if let Some(egress) = self.egress_of(endpoint) {
            return self.flush_through(egress, endpoint);
        }
        let index = endpoint as usize;
        let mut segment = Segment::default();
        loop {
            let host = &mut self.hosts[index];
            let Some(tcp) = &mut host.tcp else { return };
            if !tcp.transmit(self.now, &mut segment) {
                break;
            }
            let packet = host.packet(segment);
            self.send(packet);
        }
        self.await_timer(endpoint);
    }

    /// Schedules an event at the endpoint's next deadline, unless an earlier one is pending.
    pub(super) fn await_timer(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        let Some(tcp) = &host.tcp else { return };
        let deadline = tcp.deadline();
        if deadline < host.awaited {
            host.awaited = deadline;
            self.events.push(deadline, Event::Timer(endpoint));
        }
    }

    pub(super) fn on_timer(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        // An earlier event has replaced this one.
        if host.awaited != self.now {
            return;
        }
        host.awaited = Nanos::MAX;
        let Some(tcp) = &mut host.tcp else { return self.on_handshake_timeout(endpoint) };
        // Deadlines move much more often than timers expire. The event keeps its time, and the next
        // one is scheduled only here.
        if tcp.deadline() > self.now {
            return self.await_timer(endpoint);
        }
        tcp.on_timer(self.now);
        self.flush(endpoint);
    }

    pub(super) fn begin(&mut self, endpoint: u32) {
        if let Some(tcp) = &mut self.hosts[endpoint as usize].tcp {
            tcp.write(ENDLESS);
        }
        self.flush(endpoint);
    }

    pub(super) fn end(&mut self, endpoint: u32) {
        if let Some(tcp) = &mut self.hosts[endpoint as usize].tcp {
            tcp.stop();
        }
    }
}
