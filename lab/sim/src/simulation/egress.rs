//! Packets that leave a machine whose sockets share a queue.

use super::{Event, Simulation};
use crate::egress::{Admitted, Egress, EgressCounters, EgressSetup, SuperPacket, WhenFull};
use crate::network::{Hop, SetupError};
use crate::observer::Observer;
use crate::tcp::{Endpoint, Segment};
use forebay_units::Rate;

/// An upper bound of the segments of a super-packet of 64 KiB.
const MAX_SEGMENTS: u64 = 48;

impl<O: Observer> Simulation<O> {
    /// Adds the egress of a machine before the first link of a route, see [`EgressSetup`].
    ///
    /// # Errors
    /// Fails if the route does not begin with the link, the link has no queue, or a queue or the
    /// ring is empty or too large.
    pub fn add_egress(&mut self, setup: EgressSetup) -> Result<(), SetupError> {
        let refuse = |what, must| Err(SetupError::Range { what, must });
        self.exists(setup.route)?;
        if self.routes[setup.route.index()].hops.first() != Some(&Hop::Link(setup.link)) {
            return refuse("a machine's egress", "before the first link of its route");
        }
        if !(1..=1 << 20).contains(&setup.ring) || setup.slots > 1 << 20 {
            return refuse("a machine's ring and its queue", "1 to 1048576 each");
        }
        if self.egresses.iter().any(|other| other.setup.link == setup.link) {
            return refuse("a link's machine", "the only one of the link");
        }
        if self.links[setup.link.index()].room() < MAX_SEGMENTS {
            return refuse("the queue of a machine's link", "at least 48 full packets long");
        }
        let Ok(egress) = Egress::new(setup, self.hosts.len() as u32) else {
            return refuse("a machine's queue", "1 to 1048576 super-packets");
        };
        self.egresses.push(egress);
        Ok(())
    }

    /// Returns the counters of the egress of `route`, if it has one.
    pub fn egress(&self, route: crate::RouteId) -> Option<EgressCounters> {
        self.egresses.iter().find(|egress| egress.setup.route == route).map(|e| e.counters)
    }

    /// Returns the egress of an endpoint's machine, if it has one.
    pub(super) fn egress_of(&self, endpoint: u32) -> Option<usize> {
        if self.egresses.is_empty() {
            return None;
        }
        let route = self.hosts[endpoint as usize].route;
        self.egresses.iter().position(|egress| egress.setup.route == route)
    }

    /// Enqueues the super-packets of an endpoint as long as there is room.
    pub(super) fn flush_through(&mut self, egress: usize, endpoint: u32) {
        let (now, index) = (self.now, endpoint as usize);
        let mut segment = Segment::default();
        loop {
            let Some(tcp) = &mut self.hosts[index].tcp else { return };
            if !tcp.wants_to_send(now) {
                // Called for its side effects, such as timers.
                tcp.transmit(now, &mut segment);
                self.egresses[egress].idle(endpoint);
                break;
            }
            match self.egresses[egress].admit(now, endpoint) {
                Admitted::Yes => {}
                Admitted::Waits => break,
                Admitted::Refused => {
                    tcp.on_local_drop(now);
                    break;
                }
            }
            let mut packet = self.egresses[egress].begin(endpoint);
            self.fill(endpoint, &mut packet);
            if packet.segments.is_empty() {
                self.egresses[egress].reuse(packet.segments);
                self.egresses[egress].idle(endpoint);
                break;
            }
            let rate = self.hosts[index].tcp.as_ref().map(Endpoint::pacing_rate);
            self.egresses[egress].enqueue(now, packet, rate.unwrap_or(Rate::ZERO));
        }
        self.await_timer(endpoint);
        self.serve_egress(egress);
    }

    /// Fills a super-packet with the segments of a burst.
    fn fill(&mut self, endpoint: u32, packet: &mut SuperPacket) {
        let mut segment = Segment::default();
        let host = &mut self.hosts[endpoint as usize];
        while host.tcp.as_mut().is_some_and(|tcp| tcp.transmit(self.now, &mut segment)) {
            let made = host.packet(segment);
            let (len, route) = (made.len, made.route);
            let id = self.packets.insert(made);
            self.route_counters[route.index()].sent += 1;
            packet.push(id, len);
            let more = host.tcp.as_ref().is_some_and(Endpoint::is_within_burst);
            if !more {
                break;
            }
        }
    }

    /// Moves super-packets from the guest to the hypervisor.
    pub(super) fn serve_egress(&mut self, index: usize) {
        let now = self.now;
        // Wake-ups are separate events after this one, like a tasklet.
        let events = &mut self.events;
        let egress = &mut self.egresses[index];
        egress.resume(now, |endpoint| events.push(now, Event::Wake(endpoint)));
        loop {
            let events = &mut self.events;
            let wake = |endpoint| events.push(now, Event::Wake(endpoint));
            let egress = &mut self.egresses[index];
            let stopped = egress.stopped.take();
            let Some(packet) = stopped.or_else(|| egress.dequeue(now, wake)) else { break };
            let wake = |endpoint| events.push(now, Event::Wake(endpoint));
            egress.resume(now, wake);
            let link = egress.setup.link;
            let room = self.links[link.index()].room();
            if room >= packet.segments.len() as u64 {
                self.enter_hypervisor(index, packet);
            } else if egress.setup.hypervisor == WhenFull::Wait {
                egress.stopped = Some(packet);
                break;
            } else {
                egress.counters.physical_drops += 1;
                for &id in &packet.segments {
                    self.totals.dropped += 1;
                    self.packets.remove(id);
                }
                self.egresses[index].reuse(packet.segments);
            }
        }
        if let Some(at) = self.egresses[index].next_departure(now) {
            self.events.push(at, Event::Depart(index as u16));
        }
    }

    fn enter_hypervisor(&mut self, index: usize, packet: SuperPacket) {
        self.egresses[index].entered(packet.segments.len() as u32);
        for &id in &packet.segments {
            self.forward(id);
        }
        self.egresses[index].reuse(packet.segments);
    }

    /// Frees a place in the ring of a machine, after its link has put a packet on the wire.
    pub(super) fn left_hypervisor(&mut self, link: u16, id: u32) {
        let route = self.packets.get(id).route;
        for egress in &mut self.egresses {
            if egress.setup.link.0 == link && egress.setup.route == route {
                egress.sent();
            }
        }
    }

    /// Serves the egress of a link after the link has sent what it can.
    pub(super) fn resume_egress(&mut self, link: u16) {
        for index in 0..self.egresses.len() {
            if self.egresses[index].setup.link.0 == link {
                self.serve_egress(index);
            }
        }
    }
}
