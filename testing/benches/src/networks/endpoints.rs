//! Two trivial endpoints: one keeps a window of datagrams in transit, the other one answers each.

use std::net::SocketAddr;

use forebay_queue::Ecn;
use forebay_sim::{Capacity, Endpoint, LinkConfig, Queue, Received, Route, Simulation, Transmit};
use forebay_units::{Nanos, Rate};

/// Sends a datagram of `len` bytes for each datagram that arrives, after the first `due`.
struct Trivial {
    peer: SocketAddr,
    due: u32,
    len: usize,
}

impl Endpoint for Trivial {
    fn on_datagram(&mut self, _: Nanos, _: Received<'_>) {
        self.due += 1;
    }

    fn poll_transmit(&mut self, _: Nanos, payload: &mut Vec<u8>) -> Option<Transmit> {
        self.due = self.due.checked_sub(1)?;
        payload.resize(self.len, 1);
        Some(Transmit { to: self.peer, ecn: Ecn::Ect0 })
    }
}

/// Builds a path with a window of 1200 B datagrams from one endpoint, and answers of 50 B.
pub(super) fn pair(rate: Rate, rtt: Nanos, queue: Queue, window: u32) -> Simulation<()> {
    let mut sim = Simulation::new(1, ());
    let link =
        |capacity, queue| LinkConfig { capacity, delay: rtt / 2, queue, ..LinkConfig::default() };
    let there = sim.add_link(link(Capacity::Constant(rate), Some(queue))).expect("a rate");
    let back = sim.add_link(link(Capacity::Unlimited, None)).expect("no limits");
    let there = sim.add_route(Route::over(there)).expect("the link is there");
    let back = sim.add_route(Route::over(back)).expect("the link is there");
    let [near, far] = [([10, 0, 0, 1], 1000).into(), ([10, 0, 0, 2], 2000).into()];
    let sender = Trivial { peer: far, due: window, len: 1200 };
    let sender = sim.add_endpoint(near, sender).expect("the first one");
    let receiver = Trivial { peer: near, due: 0, len: 50 };
    let receiver = sim.add_endpoint(far, receiver).expect("another address");
    sim.join(sender, receiver, there, back).expect("routes over links");
    sim
}
