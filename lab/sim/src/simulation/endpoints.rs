//! Endpoints that a caller wrote: their calls, and their datagrams.

use std::any::Any;
use std::net::SocketAddr;

use forebay_queue::Ecn;
use forebay_units::{Bytes, Nanos};

use super::{Event, Simulation};
use crate::endpoint::{Endpoint, EndpointCounters, EndpointId, Received, Transmit};
use crate::network::{RouteId, SetupError};
use crate::observer::Observer;
use crate::packet::{Body, Packet, fingerprint};

/// The number in place of a traffic's from which the flow hashes of endpoints follow.
const NO_TRAFFIC: u32 = u32::MAX;

impl<O: Observer> Simulation<O> {
    /// Adds an endpoint with its address, and calls it from now on.
    ///
    /// # Errors
    /// Fails if another endpoint has the address.
    pub fn add_endpoint<T: Endpoint>(
        &mut self,
        address: SocketAddr,
        endpoint: T,
    ) -> Result<EndpointId<T>, SetupError> {
        let index = self.endpoints.add(self.now, address, Box::new(endpoint))?;
        self.events.push(self.now, Event::Endpoint(index));
        Ok(EndpointId::new(index))
    }

    /// Joins two endpoints: the first one sends to the second one on the route `forward`, and the
    /// second one to the first one on `backward`.
    ///
    /// Their datagrams are one flow for fair queues, and one more for the reverse direction. An
    /// endpoint may be joined with many others. The MTU of the path is 1500 bytes.
    ///
    /// # Errors
    /// Fails if the endpoints are the same or joined already, if one has an IPv4 address and the
    /// other one an IPv6 address, or if a route does not exist or crosses no link.
    pub fn join<A, B>(
        &mut self,
        first: EndpointId<A>,
        second: EndpointId<B>,
        forward: RouteId,
        backward: RouteId,
    ) -> Result<(), SetupError> {
        for route in [forward, backward] {
            self.exists(route)?;
            if !self.routes[route.index()].crosses_link() {
                return Err(SetupError::NoLink(route.index()));
            }
        }
        let hash = self.flow_hash(NO_TRAFFIC, self.endpoints.ends.len() as u32);
        self.endpoints.join([first.index, second.index], [forward, backward], hash)
    }

    /// Sets the MTU between two joined endpoints, in both directions and for datagrams from now
    /// on. It is the largest length of an IP packet; longer ones are dropped and counted.
    ///
    /// # Errors
    /// Fails if the endpoints are not joined, or the MTU is out of range.
    pub fn set_mtu<A, B>(
        &mut self,
        first: EndpointId<A>,
        second: EndpointId<B>,
        mtu: Bytes,
    ) -> Result<(), SetupError> {
        self.endpoints.set_mtu([first.index, second.index], mtu)
    }

    /// Returns an endpoint.
    ///
    /// # Panics
    /// Panics if the id is that of another simulation.
    pub fn endpoint<T: Endpoint>(&self, id: EndpointId<T>) -> &T {
        let endpoint: &dyn Any = self.endpoints.all[id.index as usize].endpoint.as_ref();
        endpoint.downcast_ref().expect("the id is that of another simulation")
    }

    /// Returns an endpoint for changes, and asks it afterwards, at the current time, what it
    /// sends.
    ///
    /// # Panics
    /// Panics if the id is that of another simulation.
    pub fn endpoint_mut<T: Endpoint>(&mut self, id: EndpointId<T>) -> &mut T {
        let attached = &mut self.endpoints.all[id.index as usize];
        if !attached.woken {
            (attached.woken, attached.awaited) = (true, self.now);
            self.events.push(self.now, Event::Endpoint(id.index));
        }
        let endpoint: &mut dyn Any = attached.endpoint.as_mut();
        endpoint.downcast_mut().expect("the id is that of another simulation")
    }

    /// Returns the datagram counters of an endpoint.
    pub fn endpoint_counters<T>(&self, id: EndpointId<T>) -> EndpointCounters {
        self.endpoints.all[id.index as usize].counters
    }

    /// Handles the timer of an endpoint, or the wish to ask it what it sends.
    pub(super) fn on_endpoint(&mut self, index: u32) {
        let now = self.now;
        let attached = &mut self.endpoints.all[index as usize];
        // An earlier event has replaced this one.
        if attached.awaited != now {
            return;
        }
        attached.awaited = Nanos::MAX;
        let expired = attached.endpoint.next_timer().is_some_and(|time| time <= now);
        if expired {
            attached.count_call(now);
            attached.endpoint.on_timer(now);
        }
        if std::mem::take(&mut attached.woken) || expired {
            self.flush_endpoint(index);
        }
        self.await_endpoint(index);
    }

    /// Delivers packet `id`, a datagram of an endpoint.
    pub(super) fn on_payload(&mut self, end: u32, id: u32, ecn: Ecn) {
        let end = &self.endpoints.ends[end as usize];
        let (from, receiver) = (end.from, end.receiver);
        let attached = &mut self.endpoints.all[receiver as usize];
        attached.counters.received += 1;
        attached.count_call(self.now);
        let payload = self.packets.payload(id);
        attached.endpoint.on_datagram(self.now, Received { from, ecn, payload });
        self.packets.remove(id);
        self.flush_endpoint(receiver);
        self.await_endpoint(receiver);
    }

    /// Sends everything that an endpoint has to send now.
    fn flush_endpoint(&mut self, index: u32) {
        loop {
            let endpoints = &mut self.endpoints;
            endpoints.payload.clear();
            let attached = &mut endpoints.all[index as usize];
            attached.count_call(self.now);
            let transmit = attached.endpoint.poll_transmit(self.now, &mut endpoints.payload);
            let Some(transmit) = transmit else { return };
            self.send_payload(index as usize, transmit);
        }
    }

    /// Sends the datagram whose payload an endpoint has just written.
    fn send_payload(&mut self, index: usize, Transmit { to, ecn }: Transmit) {
        let endpoints = &mut self.endpoints;
        let number = endpoints.end(index, to);
        let counters = &mut endpoints.all[index].counters;
        let Some(number) = number else {
            counters.no_route += 1;
            return;
        };
        let end = &mut endpoints.ends[number as usize];
        let Some(len) = end.wire_len(endpoints.payload.len()) else {
            counters.too_long += 1;
            return;
        };
        counters.sent += 1;
        end.made += 1;
        let packet = Packet {
            body: Body::Payload { end: number },
            len,
            ecn,
            route: end.route,
            hop: 0,
            flow_hash: end.flow_hash,
            fingerprint: fingerprint(end.flow_hash, end.made),
        };
        self.route_counters[end.route.index()].sent += 1;
        let id = self.packets.insert_with(packet, &mut endpoints.payload);
        self.forward(id);
    }

    /// Schedules an event at the endpoint's timer, unless an earlier one is pending.
    fn await_endpoint(&mut self, index: u32) {
        let attached = &mut self.endpoints.all[index as usize];
        let Some(time) = attached.endpoint.next_timer() else { return };
        let time = time.max(self.now);
        if time < attached.awaited {
            attached.awaited = time;
            self.events.push(time, Event::Endpoint(index));
        }
    }
}
