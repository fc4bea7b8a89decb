//! Hosts with TCP, and the applications on it.

use forebay_queue::Ecn;
use forebay_units::Nanos;

use super::{Event, Simulation};
use crate::observer::Observer;
use crate::packet::{Body, Packet, TCP_HEADERS, fingerprint};
use crate::tcp::Segment;
use crate::traffic::{Application, REQUEST};

/// More than any flow can send in a run.
const ENDLESS: u64 = 1 << 62;

impl<O: Observer> Simulation<O> {
    pub(super) fn on_segment(&mut self, endpoint: u32, segment: &Segment, ce: bool) {
        let host = &mut self.hosts[endpoint as usize];
        let read = host.tcp.on_segment(self.now, segment, ce);
        if read > 0 {
            self.on_read(endpoint, read);
        }
        self.flush(endpoint);
    }

    fn on_read(&mut self, endpoint: u32, bytes: u64) {
        match self.hosts[endpoint as usize].application {
            Application::Source => {}
            Application::Sink { traffic, flow } => {
                self.observer.read(traffic as usize, flow, bytes);
            }
            Application::Client { requests, connection } => {
                let of = &mut self.requests[requests as usize];
                let traffic = of.traffic as usize;
                self.observer.read(traffic, 0, bytes);
                let (observer, now) = (&mut self.observer, self.now);
                of.connections[connection as usize]
                    .account(bytes, |id| observer.answered(traffic, id, now));
            }
            Application::Server { requests, connection } => {
                let of = &mut self.requests[requests as usize].connections[connection as usize];
                let answer = of.serve(bytes);
                self.hosts[endpoint as usize].tcp.write(answer);
            }
        }
    }

    /// Sends what an endpoint has to send, and sees to its timer.
    fn flush(&mut self, endpoint: u32) {
        let index = endpoint as usize;
        while let Some(segment) = self.hosts[index].tcp.transmit(self.now) {
            let host = &mut self.hosts[index];
            host.made += 1;
            let len = TCP_HEADERS + u64::from(segment.len) + segment.sack.option_len();
            let packet = Packet {
                body: Body::Segment { endpoint: host.peer, segment },
                len: len as u16,
                ecn: if segment.ect { Ecn::Ect0 } else { Ecn::NotEct },
                route: host.route,
                hop: 0,
                flow_hash: host.hash,
                fingerprint: fingerprint(host.hash, host.made),
            };
            self.send(packet);
        }
        let host = &mut self.hosts[index];
        let deadline = host.tcp.deadline();
        if deadline < host.awaited {
            host.awaited = deadline;
            self.events.push(deadline, Event::Timer(endpoint));
        }
    }

    pub(super) fn on_timer(&mut self, endpoint: u32) {
        let host = &mut self.hosts[endpoint as usize];
        // An earlier event took its place.
        if host.awaited != self.now {
            return;
        }
        host.awaited = Nanos::MAX;
        host.tcp.on_timer(self.now);
        self.flush(endpoint);
    }

    pub(super) fn begin(&mut self, endpoint: u32) {
        self.hosts[endpoint as usize].tcp.write(ENDLESS);
        self.flush(endpoint);
    }

    pub(super) fn end(&mut self, endpoint: u32) {
        self.hosts[endpoint as usize].tcp.stop();
    }

    pub(super) fn ask(&mut self, requests: u32) {
        let of = &mut self.requests[requests as usize];
        let id = of.next;
        let asked = of.schedule[id];
        of.next += 1;
        of.connections[asked.connection as usize].ask(id as u64, asked.size);
        let client = of.first_endpoint + 2 * asked.connection;
        if let Some(next) = of.schedule.get(of.next) {
            self.events.push(next.at, Event::Ask(requests));
        }
        self.hosts[client as usize].tcp.write(REQUEST);
        self.flush(client);
    }
}
