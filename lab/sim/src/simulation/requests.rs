//! Requests, sent on a schedule or by clients in a closed loop, on persistent or new connections.

use super::{Event, Simulation};
use crate::observer::Observer;
use crate::traffic::{Application, REQUEST, Request};

impl<O: Observer> Simulation<O> {
    /// Sends the next request of a schedule.
    pub(super) fn send_scheduled_request(&mut self, requests: u32) {
        let of = &mut self.requests[requests as usize];
        let Some((scheduled, id, request)) = of.next_scheduled() else { return };
        let traffic = of.traffic as usize;
        if let Some(time) = of.next_time() {
            self.events.push(time, Event::NextRequest(requests));
        }
        self.observer.requested(traffic, id, scheduled.connection, scheduled.size, self.now);
        if let Some(request) = request {
            self.send_request(requests, request);
        }
    }

    /// Sends the next request of a client in a closed loop, until the traffic stops.
    pub(super) fn send_next_request(&mut self, requests: u32, client: u32) {
        let of = &mut self.requests[requests as usize];
        if self.now >= of.stop {
            return;
        }
        if let Some(request) = of.next_of_client(client) {
            let traffic = of.traffic as usize;
            self.observer.requested(
                traffic,
                request.id,
                request.connection,
                request.size,
                self.now,
            );
            self.send_request(requests, request);
        }
    }

    fn send_request(&mut self, requests: u32, Request { id, size, connection }: Request) {
        let of = &mut self.requests[requests as usize];
        of.connections[connection as usize].ask(id, size);
        if !of.connects() {
            let client = of.connections[connection as usize].client;
            return self.write_request(client);
        }
        let (traffic, path, stack) = (of.traffic, of.path, of.stack);
        // Each connection has another port, so another flow hash.
        let hash = self.flow_hash(traffic, id as u32);
        let ends = [
            Application::Client { requests, connection },
            Application::Server { requests, connection },
        ];
        let client = self.new_connection(path, stack, hash, ends);
        self.requests[requests as usize].connections[connection as usize].client = client;
        self.begin_handshake(client);
    }

    fn write_request(&mut self, client: u32) {
        if let Some(tcp) = &mut self.hosts[client as usize].tcp {
            tcp.write(REQUEST);
        }
        self.flush(client);
    }

    /// Sends the request on a connection that is now open.
    pub(super) fn on_connected(&mut self, client: u32) {
        self.write_request(client);
    }

    /// Handles a connection that could not be opened; its request stays unanswered.
    pub(super) fn on_connection_failed(&mut self, application: Application) {
        if let Application::Client { requests, connection } = application {
            self.reuse_connection(requests, connection);
        }
    }

    /// Handles `bytes` of answers that a client read.
    pub(super) fn on_answer(&mut self, requests: u32, connection: u32, bytes: u64) {
        let of = &mut self.requests[requests as usize];
        let traffic = of.traffic as usize;
        self.observer.read(traffic, 0, bytes);
        let (observer, now) = (&mut self.observer, self.now);
        let mut answered = 0;
        let at = &mut of.connections[connection as usize];
        let client = at.client;
        at.account(bytes, |id| {
            observer.answered(traffic, id, now);
            answered += 1;
        });
        if !of.connects() {
            for _ in 0..answered {
                self.send_next_request(requests, connection);
            }
        } else if answered > 0 {
            self.close(client);
            self.reuse_connection(requests, connection);
        }
    }

    /// Uses the place of an ended connection for a waiting request, or for its client in a closed
    /// loop.
    fn reuse_connection(&mut self, requests: u32, connection: u32) {
        match self.requests[requests as usize].release(connection) {
            Some(request) => self.send_request(requests, request),
            None => self.send_next_request(requests, connection),
        }
    }
}
