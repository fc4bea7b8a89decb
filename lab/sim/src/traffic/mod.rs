//! The traffic of a simulation.

mod requests;
mod socket;
mod stagger;

use forebay_queue::Ecn;
use forebay_units::Nanos;

pub(crate) use self::requests::{REQUEST, Request, Requests};
pub(crate) use self::socket::{Socket, SocketKind};
pub use self::stagger::Stagger;
use crate::network::{Path, SetupError};
use crate::pattern::Pattern;
use crate::tcp::Congestion;

/// The largest number of TCP connections or UDP flows of one traffic.
const MAX_FLOWS: u32 = 1 << 20;

/// A request of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledRequest {
    /// The time of the request.
    pub at: Nanos,
    /// The connection of the request, if connections are persistent.
    pub connection: u32,
    /// The size of the answer in bytes, at least one.
    pub size: u64,
}

/// The times at which requests are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTiming {
    /// An open loop: each request is sent at its time, whether earlier ones are answered or not.
    /// Requests are in the order of their times.
    Scheduled(Vec<ScheduledRequest>),
    /// A closed loop with as many clients as connections: each client sends its next request as
    /// soon as the last one is answered, until the traffic stops.
    Closed {
        /// The sizes of the answers in bytes. With `n` clients, client `c` requests the sizes at
        /// `c`, `c + n`, `c + 2n` and so on, and continues at the start after the end.
        sizes: Vec<u64>,
    },
}

/// The connections of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// A number of connections that exist before the simulation begins. The answers on a connection
    /// are sent in order.
    Persistent(u32),
    /// A new connection for each request, with a handshake before and a close afterwards.
    PerRequest {
        /// The largest number of unanswered requests. Further requests wait, and the wait is part
        /// of their completion time.
        limit: u32,
    },
}

impl Connections {
    pub(crate) fn count(self) -> u32 {
        let (Self::Persistent(n) | Self::PerRequest { limit: n }) = self;
        n
    }
}

/// Traffic towards the far end of a path.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The path of the traffic.
    pub path: Path,
    /// The start of the traffic. Each flow starts within a round trip of it, see [`Stagger`].
    pub start: Nanos,
    /// The end of the traffic. No new data or requests are sent from then on; packets in transit
    /// still arrive.
    pub stop: Nanos,
    /// The ECN codepoint of its data.
    ///
    /// The default for TCP follows from the congestion control and [`crate::Simulation::set_ecn`];
    /// for UDP it is [`Ecn::NotEct`], and ECT(1) with Prague. Only TCP and patterns of datagrams
    /// may set another one; the latter do not react to marks.
    pub ecn: Option<Ecn>,
    /// The kind of traffic.
    pub kind: TrafficKind,
}

/// The kind of a traffic.
#[derive(Clone, Debug)]
pub enum TrafficKind {
    /// Requests of 16 bytes from the far end, answered in order.
    Requests {
        /// The times of the requests.
        timing: RequestTiming,
        /// The connections of the requests.
        connections: Connections,
        /// The congestion control of the answers.
        congestion: Congestion,
    },
    /// Backlogged TCP flows.
    Bulk {
        /// The number of flows.
        flows: u32,
        /// The congestion control of the flows.
        congestion: Congestion,
    },
    /// Backlogged QUIC-like UDP flows.
    UdpBulk {
        /// The number of flows.
        flows: u32,
    },
    /// Backlogged UDP flows with Prague and ECT(1), see [`crate::udp::prague`].
    UdpPrague {
        /// The number of flows.
        flows: u32,
    },
    /// Closed loops over UDP, each of a request from the far end and its response.
    UdpLoops {
        /// The number of loops.
        flows: u32,
    },
    /// Datagrams by a pattern, without any reaction to loss or marks.
    Datagrams(Pattern),
}

impl Traffic {
    pub(crate) fn check(&self) -> Result<(), SetupError> {
        if self.stop <= self.start {
            return Err(SetupError::Stops);
        }
        let may_send = |ecn| match self.kind {
            TrafficKind::Requests { congestion, .. } | TrafficKind::Bulk { congestion, .. } => {
                congestion.may_send(ecn)
            }
            TrafficKind::Datagrams(_) => ecn != Ecn::Ce,
            TrafficKind::UdpPrague { .. } => ecn == Ecn::Ect1,
            TrafficKind::UdpBulk { .. } | TrafficKind::UdpLoops { .. } => false,
        };
        if !self.ecn.is_none_or(may_send) {
            return Err(SetupError::Ecn);
        }
        let flows = match &self.kind {
            TrafficKind::Datagrams(pattern) => {
                pattern.check()?;
                1
            }
            TrafficKind::Requests { timing, connections, .. } => {
                timing.check(*connections)?;
                connections.count()
            }
            TrafficKind::Bulk { flows, .. }
            | TrafficKind::UdpBulk { flows }
            | TrafficKind::UdpPrague { flows }
            | TrafficKind::UdpLoops { flows } => *flows,
        };
        if !(1..=MAX_FLOWS).contains(&flows) {
            let what = "a traffic's number of flows or connections";
            return Err(SetupError::Range { what, must: "1 to 1048576" });
        }
        Ok(())
    }
}

impl RequestTiming {
    fn check(&self, connections: Connections) -> Result<(), SetupError> {
        let wrong = match self {
            Self::Scheduled(schedule) => {
                let last = match connections {
                    Connections::Persistent(n) => n,
                    Connections::PerRequest { .. } => u32::MAX,
                };
                (0..schedule.len()).find(|&i| {
                    let ScheduledRequest { at, connection, size } = schedule[i];
                    size == 0 || connection >= last || (i > 0 && at < schedule[i - 1].at)
                })
            }
            Self::Closed { sizes } if sizes.is_empty() => Some(0),
            Self::Closed { sizes } => sizes.iter().position(|size| *size == 0),
        };
        wrong.map_or(Ok(()), |place| Err(SetupError::Schedule(place)))
    }
}

/// The application on a TCP endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Application {
    /// Sends data without end.
    Source,
    /// Reads data and reports it to the observer.
    Sink { traffic: u32, flow: u32 },
    /// Sends requests on a connection.
    Client { requests: u32, connection: u32 },
    /// Answers requests on a connection.
    Server { requests: u32, connection: u32 },
}
