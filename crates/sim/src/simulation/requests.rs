//! Requests: asked on schedule or by clients that were answered, on connections that are there or
//! are made for them.

use super::{Event, Simulation};
use crate::observer::Observer;
use crate::traffic::{Application, Ask, REQUEST};

impl<O: Observer> Simulation<O> {
    /// The time came of the next request of a schedule.
    pub(super) fn ask_scheduled(&mut self, requests: u32) {
        let of = &mut self.requests[requests as usize];
        let Some((asked, id, ask)) = of.ask_scheduled() else { return };
        let traffic = of.traffic as usize;
        if let Some(time) = of.next_time() {
            self.events.push(time, Event::Ask(requests));
        }
        self.observer.asked(traffic, id, asked.connection, asked.size, self.now);
        if let Some(ask) = ask {
            self.ask(requests, ask);
        }
    }

    /// A client of a closed loop may ask.
    pub(super) fn ask_again(&mut self, requests: u32, client: u32) {
        let of = &mut self.requests[requests as usize];
        if self.now >= of.stop {
            return;
        }
        if let Some(ask) = of.ask_again(client) {
            let traffic = of.traffic as usize;
            self.observer.asked(traffic, ask.id, ask.connection, ask.size, self.now);
            self.ask(requests, ask);
        }
    }

    fn ask(&mut self, requests: u32, Ask { id, size, connection }: Ask) {
        let of = &mut self.requests[requests as usize];
        of.connections[connection as usize].ask(id, size);
        if !of.connects() {
            let client = of.connections[connection as usize].client;
            return self.write_request(client);
        }
        let (traffic, path, stack) = (of.traffic, of.path, of.stack);
        // Another port for each, as it is with real ones.
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

    /// A client's end is connected.
    pub(super) fn on_connected(&mut self, client: u32) {
        self.write_request(client);
    }

    /// A connection never came about; its request stays unanswered.
    pub(super) fn on_given_up(&mut self, application: Application) {
        if let Application::Client { requests, connection } = application {
            self.next_on(requests, connection);
        }
    }

    /// A client read `bytes`.
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
                self.ask_again(requests, connection);
            }
        } else if answered > 0 {
            self.close(client);
            self.next_on(requests, connection);
        }
    }

    /// The place of a connection that has ended is free: for the request that waits for it, or for
    /// its client in a closed loop.
    fn next_on(&mut self, requests: u32, connection: u32) {
        match self.requests[requests as usize].release(connection) {
            Some(ask) => self.ask(requests, ask),
            None => self.ask_again(requests, connection),
        }
    }
}
