//! Forwarding of packets from hop to hop and through boxes.

use forebay_queue::Ecn;
use forebay_units::{Bytes, Rate};

use super::{Event, Simulation, TICK};
use crate::boxes::SendboxState;
use crate::headers::{self, Headers, PacketFate};
use crate::junction::Junction;
use crate::link::Departure;
use crate::network::{BundleId, Hop, LinkId, RouteId};
use crate::observer::{At, Observer, Passage};
use crate::packet::{Body, Packet, Queued, UDP_HEADERS, fingerprint};
use crate::random::mix;
use crate::tcp::EcnMode;
use forebay_prefetch::prefetch;

/// The number of packets before an arrival at which its connection is prefetched: early enough for
/// main memory, late enough to stay in the nearest cache.
const AHEAD: usize = 3;
/// The number of connection ends from which prefetching helps; fewer stay in the second-level
/// cache.
const MANY: usize = 512;

/// The length by which feedback beside other bundles is longer (`forebay_wire::feedback`).
const OTHERS_LEN: u16 = 12;

impl<O: Observer> Simulation<O> {
    /// Sends a new packet.
    pub(super) fn send(&mut self, packet: Packet) {
        self.route_counters[usize::from(packet.route.0)].sent += 1;
        let id = self.packets.insert(packet);
        self.forward(id);
    }

    /// Forwards a packet to its next queue, or delivers it.
    pub(super) fn forward(&mut self, id: u32) {
        loop {
            let packet = self.packets.get_mut(id);
            let route = &self.routes[usize::from(packet.route.0)];
            let Some(hop) = route.hops.get(usize::from(packet.hop)) else {
                return self.deliver(id);
            };
            packet.hop += 1;
            self.totals.hops += 1;
            match *hop {
                Hop::Link(link) => return self.enter_link(link.0, id),
                Hop::AnyOf { first, count, per_packet } => {
                    let junction = Junction::new(self.seed, first, count);
                    let number = per_packet.then_some(packet.fingerprint);
                    let choice = junction.choose(packet.flow_hash, number);
                    return self.enter_link(first.0 + choice, id);
                }
                Hop::Sendbox(bundle) | Hop::BackThrough(bundle)
                    if self.bundles[bundle.index()].state == SendboxState::Dead =>
                {
                    self.totals.dropped += 1;
                    self.packets.remove(id);
                    return;
                }
                Hop::BackThrough(_) => {}
                Hop::Sendbox(bundle) => {
                    let queued = Queued { class: route.class, ..self.queued(id) };
                    let drops = &mut self.drops;
                    self.bundles[bundle.index()]
                        .enqueue(self.now, queued, &mut |p, r| drops.push((p, r)));
                    self.discard(At::Sendbox(bundle));
                    return self.release(bundle.0);
                }
                Hop::Receivebox(bundle) => {
                    let (len, fingerprint) = (packet.len, packet.fingerprint);
                    let of = &mut self.bundles[bundle.index()];
                    let feedback = of.on_received(self.now, len, fingerprint);
                    if !of.outer {
                        self.shares.on_total(self.now, bundle.index(), of.received_bytes());
                    }
                    if let Some(mut feedback) = feedback {
                        if !of.outer {
                            feedback.others = self.shares.others(bundle.index());
                        }
                        let message = Body::Feedback { bundle: u32::from(bundle.0), feedback };
                        let beside = u16::from(feedback.others.fair > Rate::ZERO);
                        let route = of.feedback_route;
                        let len = of.feedback_len + beside * OTHERS_LEN;
                        self.send_message(message, route, len);
                    }
                }
            }
        }
    }

    fn queued(&self, id: u32) -> Queued {
        let Packet { flow_hash, len, ecn, .. } = *self.packets.get(id);
        Queued { id, flow_hash, len, ecn, class: 0, marked: false, arrived: self.now }
    }

    fn enter_link(&mut self, link: u16, id: u32) {
        let queued = self.queued(id);
        let drops = &mut self.drops;
        let through =
            self.links[usize::from(link)].enter(self.now, queued, &mut |p, r| drops.push((p, r)));
        match through {
            Some(departure) => self.on_wire(link, departure),
            // The event at the end of the current packet serves this one as well.
            None if self.links[usize::from(link)].waits(self.now) => {
                self.discard(At::Link(LinkId(link)));
            }
            None => self.serve(link),
        }
    }

    pub(super) fn serve(&mut self, link: u16) {
        let index = usize::from(link);
        loop {
            let drops = &mut self.drops;
            let departure = self.links[index].serve(self.now, &mut |p, r| drops.push((p, r)));
            self.discard(At::Link(LinkId(link)));
            let Some(departure) = departure else { break };
            let fate = match departure.arrival {
                Some(_) => PacketFate::Sent,
                None => PacketFate::Lost,
            };
            self.record(At::Link(LinkId(link)), &departure.packet, fate);
            if !self.egresses.is_empty() {
                self.left_hypervisor(link, departure.packet.id);
            }
            self.on_wire(link, departure);
        }
        let of = &mut self.links[index];
        if !of.awaited
            && let Some(time) = of.next_event(self.now)
        {
            of.awaited = true;
            self.events.push_near(time, Event::Serve(link));
        }
    }

    fn on_wire(&mut self, link: u16, departure: Departure) {
        let Queued { id, ecn, .. } = departure.packet;
        match departure.arrival {
            Some(time) => {
                self.packets.get_mut(id).ecn = ecn;
                let Some(wire) = &mut self.links[usize::from(link)].in_order else {
                    return self.events.push(time, Event::Arrive { packet: id, link });
                };
                wire.packets.push_back((time, id));
                if !wire.awaited {
                    wire.awaited = true;
                    self.events.push_near(time, Event::ArriveFirst(link));
                }
            }
            None => {
                self.totals.dropped += 1;
                self.packets.remove(id);
            }
        }
    }

    pub(super) fn arrive(&mut self, link: u16, packet: u32) {
        let counters = &mut self.links[usize::from(link)].counters;
        counters.sent += 1;
        counters.inside -= 1;
        self.forward(packet);
    }

    /// Delivers all packets that reach the end now, and schedules the next arrival.
    pub(super) fn arrive_first(&mut self, link: u16) {
        while let Some(wire) = &mut self.links[usize::from(link)].in_order {
            let Some(&(time, packet)) = wire.packets.front() else {
                wire.awaited = false;
                return;
            };
            if time > self.now {
                return self.events.push_near(time, Event::ArriveFirst(link));
            }
            wire.packets.pop_front();
            self.prefetch_ahead(link);
            self.arrive(link, packet);
        }
    }

    /// Prefetches packets that arrive soon, and then the connections that they are for.
    fn prefetch_ahead(&self, link: u16) {
        if self.hosts.len() < MANY {
            return;
        }
        let Some(wire) = &self.links[usize::from(link)].in_order else { return };
        if let Some((_, packet)) = wire.packets.get(2 * AHEAD) {
            prefetch(self.packets.get(*packet));
        }
        if let Some((_, packet)) = wire.packets.get(AHEAD)
            && let Body::Segment { endpoint, .. } = self.packets.get(*packet).body
        {
            prefetch(&self.hosts[endpoint as usize]);
        }
    }

    pub(super) fn release(&mut self, bundle: u16) {
        let index = usize::from(bundle);
        let at = At::Sendbox(BundleId(bundle));
        loop {
            let drops = &mut self.drops;
            let packet = self.bundles[index].dequeue(self.now, &mut |p, r| drops.push((p, r)));
            self.discard(at);
            let Some(packet) = packet else { break };
            let of = self.packets.get_mut(packet.id);
            of.ecn = packet.ecn;
            let fingerprint = of.fingerprint;
            self.bundles[index].on_sent(self.now, &packet, fingerprint);
            self.record(at, &packet, PacketFate::Sent);
            self.forward(packet.id);
        }
        let of = &mut self.bundles[index];
        if let Some(time) = of.next_event(self.now).filter(|t| *t < of.awaited) {
            of.awaited = time;
            self.events.push_near(time, Event::Release(bundle));
        }
    }

    pub(super) fn tick(&mut self, bundle: u16) {
        let now = self.now;
        let of = &mut self.bundles[usize::from(bundle)];
        if of.state != SendboxState::Controls {
            return self.events.push(now.saturating_add(TICK), Event::Tick(bundle));
        }
        let update = of.tick(now);
        let id = BundleId(bundle);
        self.observer.ticked(id, now, &of.control.snapshot(), of.backlog());
        while let Some(event) = of.control.poll_event() {
            self.observer.decided(id, now, &event);
        }
        self.events.push(now.saturating_add(TICK), Event::Tick(bundle));
        if let Some(epoch) = update {
            let (route, len) = (of.update_route, of.update_len);
            let message = Body::EpochUpdate { bundle: u32::from(bundle), epoch };
            self.send_message(message, route, len);
        }
        self.release(bundle);
    }

    fn send_message(&mut self, body: Body, route: RouteId, len: u16) {
        // Each direction of each bundle is a separate flow, and messages have fingerprints like
        // other packets: an outer pair of boxes handles them like any traffic.
        let flow_hash = mix(self.seed ^ u64::from(route.0)) as u32;
        let fingerprint = fingerprint(flow_hash, self.packets.made());
        self.send(Packet { body, len, ecn: Ecn::NotEct, route, hop: 0, flow_hash, fingerprint });
    }

    /// Frees the packets that a queue has just dropped.
    #[inline]
    fn discard(&mut self, at: At) {
        if !self.drops.is_empty() {
            self.discard_all(at);
        }
    }

    fn discard_all(&mut self, at: At) {
        while let Some((packet, reason)) = self.drops.pop() {
            self.totals.dropped += 1;
            match at {
                At::Link(link) => {
                    let counters = &mut self.links[link.index()].counters;
                    counters.dropped += 1;
                    counters.inside -= 1;
                }
                At::Sendbox(bundle) => {
                    self.bundles[bundle.index()].counters.dropped += 1;
                }
            }
            self.record(at, &packet, PacketFate::Dropped(reason));
            self.packets.remove(packet.id);
        }
    }

    fn record(&mut self, at: At, packet: &Queued, fate: PacketFate) {
        let route = self.packets.get(packet.id).route;
        let passage = Passage {
            time: self.now,
            sojourn: self.now.saturating_sub(packet.arrived),
            len: Bytes(u64::from(packet.len)),
            source: self.routes[usize::from(route.0)].source,
            route,
            flow_hash: packet.flow_hash,
            dropped: matches!(fate, PacketFate::Dropped(_)),
            marked: packet.marked,
        };
        self.observer.passed(at, &passage);
        if self.observer.captures() {
            let headers = self.headers(packet, fate);
            self.observer.captured(at, &passage, &headers);
        }
    }

    /// Returns the headers of a packet that leaves a queue.
    fn headers(&self, queued: &Queued, fate: PacketFate) -> Headers {
        let packet = self.packets.get(queued.id);
        let mode = match packet.body {
            Body::Segment { endpoint, .. } | Body::Control { endpoint, .. } => {
                self.hosts[endpoint as usize].stack.ecn_mode()
            }
            _ => EcnMode::Off,
        };
        Headers {
            ecn: queued.ecn,
            class: queued.class,
            id: packet.fingerprint,
            fate,
            content: headers::content(&packet.body, mode),
        }
    }

    /// Delivers a packet at its destination.
    fn deliver(&mut self, id: u32) {
        let packet = self.packets.get(id);
        self.route_counters[usize::from(packet.route.0)].arrived += 1;
        self.totals.delivered += 1;
        // Nearly all packets are segments, which are read in place.
        if let Body::Segment { endpoint, .. } = packet.body {
            return self.on_segment(endpoint, id);
        }
        if let Body::Payload { end } = packet.body {
            let ecn = packet.ecn;
            return self.on_payload(end, id, ecn);
        }
        let Packet { body, len, ecn, flow_hash, .. } = *packet;
        self.packets.remove(id);
        match body {
            Body::Segment { .. } | Body::Payload { .. } => {} // Handled above.
            Body::Control { endpoint, control, .. } => {
                if self.hosts[endpoint as usize].is_from_peer(flow_hash) {
                    self.on_control(endpoint, control, ecn);
                }
            }
            Body::Datagram { socket, number } => {
                let payload = u64::from(len) - UDP_HEADERS;
                self.on_datagram(socket, number, payload, ecn == Ecn::Ce);
            }
            Body::Request { socket, number } => self.on_loop_request(socket, number),
            Body::Report { socket, next, received } => self.on_report(socket, next, received),
            Body::Marks { socket, report } => self.on_marks(socket, &report),
            Body::Feedback { bundle, feedback } => {
                self.bundles[bundle as usize].on_feedback(self.now, &feedback);
            }
            Body::EpochAck { bundle, epoch } => {
                self.bundles[bundle as usize].on_epoch_ack(self.now, epoch);
            }
            Body::EpochUpdate { bundle, epoch } => {
                let of = &mut self.bundles[bundle as usize];
                let (route, len) = (of.feedback_route, of.update_len);
                if of.receivebox.on_update(epoch) {
                    self.send_message(Body::EpochAck { bundle, epoch }, route, len);
                }
            }
        }
    }
}
