//! The state of the senders of bulk TCP flows.

use forebay_units::Nanos;

use super::Simulation;
use crate::traffic::Application;

/// The state of the sender of a bulk TCP flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowState {
    /// The index of the traffic.
    pub traffic: usize,
    /// The index of the flow within the traffic.
    pub flow: u32,
    /// The congestion window in segments.
    pub window: u32,
    /// The number of segments in flight.
    pub in_flight: u32,
    /// The smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Nanos>,
    /// The number of segments retransmitted so far.
    pub retransmissions: u64,
}

impl<O> Simulation<O> {
    /// Returns the states of all bulk TCP flows that have sent data, in the order of their setup.
    pub fn flows(&self) -> impl Iterator<Item = FlowState> + '_ {
        self.hosts.iter().filter_map(|host| {
            let (Application::Source, Some(tcp)) = (host.application, &host.tcp) else {
                return None;
            };
            let peer = self.hosts.get(host.peer as usize)?;
            let Application::Sink { traffic, flow } = peer.application else { return None };
            let (window, in_flight, rtt) = tcp.sender_state()?;
            let (retransmissions, _) = tcp.repairs();
            let traffic = traffic as usize;
            Some(FlowState { traffic, flow, window, in_flight, rtt, retransmissions })
        })
    }
}
