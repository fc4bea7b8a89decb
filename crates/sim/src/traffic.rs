//! What hosts do: the applications on top of the transports.

use std::collections::VecDeque;

use forebay_units::{Bytes, Nanos, Rate};

use crate::network::{Path, SetupError};
use crate::tcp::Congestion;
use crate::udp::{Sink, Window};

/// A request of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// When to ask.
    pub at: Nanos,
    /// On which connection.
    pub connection: u32,
    /// Bytes of the answer.
    pub size: u64,
}

/// Traffic towards the far end of a path.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The way.
    pub path: Path,
    /// When it begins.
    pub start: Nanos,
    /// When it ends.
    pub stop: Nanos,
    /// What it is.
    pub kind: TrafficKind,
}

/// What traffic is.
#[derive(Clone, Debug)]
pub enum TrafficKind {
    /// Requests of 16 bytes from the far end over persistent connections, answered in order.
    Requests {
        /// In the order of their times.
        schedule: Vec<Asked>,
        /// How many connections there are.
        connections: u32,
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
    /// Closed loops of one request from the far end and its response each.
    UdpLoops {
        /// How many.
        flows: u32,
    },
    /// Datagrams at a constant rate.
    Cbr {
        /// UDP payload per second.
        rate: Rate,
        /// UDP payload of each.
        size: Bytes,
    },
}

impl Traffic {
    pub(crate) fn check(&self) -> Result<(), SetupError> {
        match &self.kind {
            TrafficKind::Cbr { rate, size } if *rate == Rate::ZERO || size.0 == 0 => {
                Err(SetupError::Nothing)
            }
            TrafficKind::Cbr { size, .. } if size.0 > 65_000 => Err(SetupError::Nothing),
            TrafficKind::Requests { schedule, connections, .. } => {
                let wrong = |i: usize| {
                    schedule[i].connection >= *connections
                        || (i > 0 && schedule[i].at < schedule[i - 1].at)
                };
                match (0..schedule.len()).find(|i| wrong(*i)) {
                    Some(i) => Err(SetupError::Schedule(i)),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
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

/// The bytes of a request.
pub(crate) const REQUEST: u64 = 16;

/// A request workload under way.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) traffic: u32,
    pub(crate) schedule: Vec<Asked>,
    /// The next to ask.
    pub(crate) next: usize,
    pub(crate) connections: Vec<Connection>,
    /// The client's endpoint of connection zero; the server's is the next, and so on.
    pub(crate) first_endpoint: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Asked and not answered: the place in the schedule, and the bytes that are missing.
    pending: VecDeque<(u64, u64)>,
    /// Sizes that the server has not begun to answer, oldest first, and the bytes of a request that
    /// it has so far.
    unseen: VecDeque<u64>,
    partial: u64,
}

impl Connection {
    pub(crate) fn ask(&mut self, id: u64, size: u64) {
        self.pending.push_back((id, size));
        self.unseen.push_back(size);
    }

    /// The server read `bytes`: how much it answers.
    pub(crate) fn serve(&mut self, bytes: u64) -> u64 {
        self.partial += bytes;
        let mut answer = 0;
        while self.partial >= REQUEST {
            self.partial -= REQUEST;
            answer += self.unseen.pop_front().unwrap_or(0);
        }
        answer
    }

    /// The client read `bytes`: calls `done` for each request that they complete.
    pub(crate) fn account(&mut self, mut bytes: u64, mut done: impl FnMut(u64)) {
        while let Some((id, left)) = self.pending.front_mut() {
            let taken = bytes.min(*left);
            (bytes, *left) = (bytes - taken, *left - taken);
            if *left > 0 {
                return;
            }
            done(*id);
            self.pending.pop_front();
        }
    }
}

/// A UDP flow, both ends.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) traffic: u32,
    pub(crate) flow: u32,
    pub(crate) path: Path,
    pub(crate) hash: u32,
    /// Packets made, for fingerprints.
    pub(crate) made: u64,
    pub(crate) stop: Nanos,
    /// The earliest event that will look at it.
    pub(crate) awaited: Nanos,
    pub(crate) kind: SocketKind,
}

#[derive(Debug)]
pub(crate) enum SocketKind {
    Bulk { window: Option<Window>, sink: Sink },
    Cbr { rate: Rate, size: u64, start: Nanos, sent: u64 },
    Loop { round: u64, asked: Option<Nanos> },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_to_the_oldest_request() {
        let mut connection = Connection::default();
        connection.ask(1, 10);
        connection.ask(2, 5);
        assert_eq!(connection.serve(15), 0);
        assert_eq!(connection.serve(17), 15, "both are there now");
        let mut done = Vec::new();
        connection.account(9, |id| done.push(id));
        assert!(done.is_empty());
        connection.account(6, |id| done.push(id));
        assert_eq!(done, [1, 2]);
    }
}
