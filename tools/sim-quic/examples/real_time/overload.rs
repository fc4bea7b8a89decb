//! A sender of datagrams at a constant rate, and a receiver: ends that take little processor time.

use std::net::SocketAddr;

use forebay_queue::Ecn;
use forebay_sim::{Endpoint, Received, Transmit};
use forebay_units::{Nanos, Rate};

use crate::record::HEADERS;

/// The payload of each datagram, that of a full IPv4 packet.
const PAYLOAD: u64 = 1472;

/// Sends full datagrams until its end.
pub(crate) struct Source {
    to: SocketAddr,
    interval: Nanos,
    end: Nanos,
    next: Nanos,
    number: u64,
}

impl Source {
    /// Creates a sender whose frames have the given rate.
    pub(crate) fn new(to: SocketAddr, rate: Rate, end: Nanos) -> Self {
        let interval = rate.time_for(forebay_units::Bytes(PAYLOAD + HEADERS));
        Self { to, interval, end, next: Nanos::ZERO, number: 0 }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.next >= self.end
    }
}

impl Endpoint for Source {
    fn on_datagram(&mut self, _: Nanos, _: Received<'_>) {}

    fn poll_transmit(&mut self, now: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
        if now < self.next || self.has_ended() {
            return None;
        }
        self.next += self.interval;
        self.number += 1;
        payload.extend(self.number.to_be_bytes());
        payload.resize(PAYLOAD as usize, 0);
        Some(Transmit { to: self.to, ecn: Ecn::NotEct })
    }

    fn next_timer(&mut self) -> Option<Nanos> {
        (!self.has_ended()).then_some(self.next)
    }
}

/// Takes datagrams and sends none.
pub(crate) struct Sink;

impl Endpoint for Sink {
    fn on_datagram(&mut self, _: Nanos, _: Received<'_>) {}

    fn poll_transmit(&mut self, _: Nanos, _: &mut Vec<u8>) -> Option<Transmit> {
        None
    }
}
