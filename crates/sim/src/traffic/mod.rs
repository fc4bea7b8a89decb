//! What hosts do: the traffic that a simulation is given.

mod requests;
mod socket;
mod stagger;

use forebay_queue::Ecn;
use forebay_units::Nanos;

pub(crate) use self::requests::{Ask, REQUEST, Requests};
pub(crate) use self::socket::{Socket, SocketKind};
pub use self::stagger::Stagger;
use crate::network::{Path, SetupError};
use crate::pattern::Pattern;
use crate::tcp::Congestion;

/// The most TCP connections or UDP flows of one traffic.
const MOST_FLOWS: u32 = 1 << 20;

/// A request of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When to ask.
    pub at: Nanos,
    /// On which connection, where connections persist.
    pub connection: u32,
    /// Bytes of the answer, at least one.
    pub size: u64,
}

/// When requests are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Each at its time, whatever has become of those before it: an open loop. In the order of their
    /// times.
    Scheduled(Vec<Asked>),
    /// By as many clients as there are connections. Each asks again at once when it is answered,
    /// until the traffic stops: a closed loop.
    Closed {
        /// Bytes of the answers: of `n` clients, client `c` asks for those in places `c`, `c + n`,
        /// `c + 2n` and so on, and after the last place comes the first again.
        sizes: Vec<u64>,
    },
}

/// What requests are asked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// So many, which are there before the simulation begins. Answers on one follow each other.
    Persistent(u32),
    /// A new one for each request, with a handshake before it and a farewell after its answer.
    PerRequest {
        /// How many may be unanswered at a time. At that bound requests wait, which counts as part
        /// of the time that they take.
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
    /// The way.
    pub path: Path,
    /// When it begins; each of its flows within a round trip from then, see [`Stagger`].
    pub start: Nanos,
    /// When it ends: nothing new is sent or asked from then on, and what is under way still arrives.
    pub stop: Nanos,
    /// What its data says of ECN; where it does not say, TCP's as its congestion control needs and
    /// [`crate::Simulation::set_ecn`] has it, and [`Ecn::NotEct`] over UDP but under Prague. Only TCP and datagrams at
    /// set times may say something else; the latter heed no marks whatever they say.
    pub ecn: Option<Ecn>,
    /// What it is.
    pub kind: TrafficKind,
}

/// What traffic is.
#[derive(Clone, Debug)]
pub enum TrafficKind {
    /// Requests of 16 bytes from the far end, answered in order.
    Requests {
        /// When they are asked.
        asks: Asks,
        /// What they are asked on.
        connections: Connections,
        /// The answers' congestion control.
        congestion: Congestion,
    },
    /// Backlogged TCP flows.
    Bulk {
        /// How many.
        flows: u32,
        /// Their congestion control.
        congestion: Congestion,
    },
    /// Backlogged QUIC-like UDP flows.
    UdpBulk {
        /// How many.
        flows: u32,
    },
    /// Backlogged UDP flows under Prague, which say ECT(1) (see [`crate::udp::prague`]).
    UdpPrague {
        /// How many.
        flows: u32,
    },
    /// Closed loops of one request from the far end and its response each.
    UdpLoops {
        /// How many.
        flows: u32,
    },
    /// Datagrams at set times, whatever becomes of them.
    Datagrams(Pattern),
}

impl Traffic {
    pub(crate) fn check(&self) -> Result<(), SetupError> {
        if self.stop <= self.start {
            return Err(SetupError::Stops);
        }
        let may_say = |ecn| match self.kind {
            TrafficKind::Requests { congestion, .. } | TrafficKind::Bulk { congestion, .. } => {
                congestion.may_send(ecn)
            }
            TrafficKind::Datagrams(_) => ecn != Ecn::Ce,
            TrafficKind::UdpPrague { .. } => ecn == Ecn::Ect1,
            TrafficKind::UdpBulk { .. } | TrafficKind::UdpLoops { .. } => false,
        };
        if !self.ecn.is_none_or(may_say) {
            return Err(SetupError::Ecn);
        }
        let flows = match &self.kind {
            TrafficKind::Datagrams(pattern) => {
                pattern.check()?;
                1
            }
            TrafficKind::Requests { asks, connections, .. } => {
                asks.check(*connections)?;
                connections.count()
            }
            TrafficKind::Bulk { flows, .. }
            | TrafficKind::UdpBulk { flows }
            | TrafficKind::UdpPrague { flows }
            | TrafficKind::UdpLoops { flows } => *flows,
        };
        if !(1..=MOST_FLOWS).contains(&flows) {
            let what = "a traffic's number of flows or connections";
            return Err(SetupError::Range { what, must: "1 to 1048576" });
        }
        Ok(())
    }
}

impl Asks {
    fn check(&self, connections: Connections) -> Result<(), SetupError> {
        let wrong = match self {
            Self::Scheduled(schedule) => {
                let last = match connections {
                    Connections::Persistent(n) => n,
                    Connections::PerRequest { .. } => u32::MAX,
                };
                (0..schedule.len()).find(|&i| {
                    let Asked { at, connection, size } = schedule[i];
                    size == 0 || connection >= last || (i > 0 && at < schedule[i - 1].at)
                })
            }
            Self::Closed { sizes } if sizes.is_empty() => Some(0),
            Self::Closed { sizes } => sizes.iter().position(|size| *size == 0),
        };
        wrong.map_or(Ok(()), |place| Err(SetupError::Schedule(place)))
    }
}

/// What the application on a TCP endpoint is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Application {
    /// Sends what it is given.
    Source,
    /// Counts what comes.
    Sink { traffic: u32, flow: u32 },
    /// Asks, on this connection.
    Client { requests: u32, connection: u32 },
    /// Answers.
    Server { requests: u32, connection: u32 },
}
