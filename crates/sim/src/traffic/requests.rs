//! A request workload under way: who asks what, and what is answered.

use std::collections::VecDeque;

use forebay_units::Nanos;

use super::{Asked, Asks, Connections};
use crate::network::Path;
use crate::tcp::Stack;

/// The bytes of a request.
pub(crate) const REQUEST: u64 = 16;
/// No endpoint.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) traffic: u32,
    pub(crate) asks: Asks,
    pub(crate) connections: Vec<Connection>,
    /// Where each request gets a connection of its own: which of [`Requests::connections`] are not
    /// in use, and the requests that wait for one. A schedule bounds the latter.
    free: Option<Vec<u32>>,
    waiting: VecDeque<(u64, u64)>,
    /// How many were asked.
    pub(crate) asked: u64,
    pub(crate) path: Path,
    pub(crate) stack: Stack,
    pub(crate) stop: Nanos,
}

/// A request to put on a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) id: u64,
    pub(crate) size: u64,
    pub(crate) connection: u32,
}

impl Requests {
    pub(crate) fn new(
        (traffic, path, stop): (u32, Path, Nanos),
        asks: Asks,
        connections: Connections,
        stack: Stack,
    ) -> Self {
        let free = match connections {
            Connections::Persistent(_) => None,
            Connections::PerRequest { limit } => Some((0..limit).rev().collect()),
        };
        Self {
            traffic,
            asks,
            connections: (0..connections.count()).map(|_| Connection::default()).collect(),
            free,
            waiting: VecDeque::new(),
            asked: 0,
            path,
            stack,
            stop,
        }
    }

    /// Whether each request gets a connection of its own.
    pub(crate) fn connects(&self) -> bool {
        self.free.is_some()
    }

    /// When the next of a schedule is to be asked.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        match &self.asks {
            Asks::Scheduled(schedule) => {
                schedule.get(self.asked as usize).map(|a| a.at).filter(|at| *at < self.stop)
            }
            Asks::Closed { .. } => None,
        }
    }

    /// The next of a schedule is asked: its number and size, and where to ask it, unless it waits.
    pub(crate) fn ask_scheduled(&mut self) -> Option<(Asked, u64, Option<Ask>)> {
        let Asks::Scheduled(schedule) = &self.asks else { return None };
        let id = self.asked;
        let asked = *schedule.get(id as usize)?;
        self.asked += 1;
        let connection = match &mut self.free {
            None => Some(asked.connection),
            Some(free) => free.pop(),
        };
        if connection.is_none() {
            self.waiting.push_back((id, asked.size));
        }
        let ask = connection.map(|connection| Ask { id, size: asked.size, connection });
        Some((asked, id, ask))
    }

    /// A client of a closed loop asks, on the connection that is its own or was free.
    pub(crate) fn ask_again(&mut self, client: u32) -> Option<Ask> {
        let Asks::Closed { sizes } = &self.asks else { return None };
        let clients = self.connections.len() as u64;
        let round = &mut self.connections[client as usize].rounds;
        let place = u64::from(client) + *round * clients;
        *round += 1;
        let size = sizes[(place % sizes.len() as u64) as usize];
        self.asked += 1;
        Some(Ask { id: self.asked - 1, size, connection: client })
    }

    /// A connection of one request has ended; the request that waited for it, if any.
    pub(crate) fn release(&mut self, connection: u32) -> Option<Ask> {
        self.connections[connection as usize].clear();
        match self.waiting.pop_front() {
            Some((id, size)) => Some(Ask { id, size, connection }),
            None => {
                // In a closed loop it is its client's, who asks again.
                if let (Some(free), Asks::Scheduled(_)) = (&mut self.free, &self.asks) {
                    free.push(connection);
                }
                None
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    /// The client's endpoint; the server's is the next.
    pub(crate) client: u32,
    /// Requests of its client in a closed loop.
    rounds: u64,
    /// Asked and not answered: their numbers, and the bytes that are missing.
    pending: VecDeque<(u64, u64)>,
    /// Sizes that the server has not begun to answer, oldest first, and the bytes of a request that
    /// it has so far.
    unseen: VecDeque<u64>,
    partial: u64,
}

impl Default for Connection {
    fn default() -> Self {
        Self {
            client: NONE,
            rounds: 0,
            pending: VecDeque::new(),
            unseen: VecDeque::new(),
            partial: 0,
        }
    }
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

    fn clear(&mut self) {
        self.client = NONE;
        self.pending.clear();
        self.unseen.clear();
        self.partial = 0;
    }
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
