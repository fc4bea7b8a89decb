//! The state of a request workload.

use std::collections::VecDeque;

use forebay_units::Nanos;

use super::{Connections, RequestTiming, ScheduledRequest};
use crate::network::Path;
use crate::tcp::Stack;

/// The size of a request in bytes.
pub(crate) const REQUEST: u64 = 16;
/// The number that means "no endpoint".
const NONE: u32 = u32::MAX;

/// The requests of a traffic.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) traffic: u32,
    pub(crate) timing: RequestTiming,
    pub(crate) connections: Vec<Connection>,
    /// The unused places in [`Requests::connections`], if each request has a new connection.
    free: Option<Vec<u32>>,
    /// The number and the size of requests that wait for a place. The schedule bounds their number.
    waiting: VecDeque<(u64, u64)>,
    /// The number of requests so far.
    pub(crate) made: u64,
    pub(crate) path: Path,
    pub(crate) stack: Stack,
    pub(crate) stop: Nanos,
}

/// A request to send on a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) size: u64,
    pub(crate) connection: u32,
}

impl Requests {
    pub(crate) fn new(
        (traffic, path, stop): (u32, Path, Nanos),
        timing: RequestTiming,
        connections: Connections,
        stack: Stack,
    ) -> Self {
        let free = match connections {
            Connections::Persistent(_) => None,
            Connections::PerRequest { limit } => Some((0..limit).rev().collect()),
        };
        Self {
            traffic,
            timing,
            connections: (0..connections.count()).map(|_| Connection::default()).collect(),
            free,
            waiting: VecDeque::new(),
            made: 0,
            path,
            stack,
            stop,
        }
    }

    /// Returns whether each request has a new connection.
    pub(crate) fn connects(&self) -> bool {
        self.free.is_some()
    }

    /// Returns the time of the next scheduled request.
    pub(crate) fn next_time(&self) -> Option<Nanos> {
        match &self.timing {
            RequestTiming::Scheduled(schedule) => {
                schedule.get(self.made as usize).map(|a| a.at).filter(|at| *at < self.stop)
            }
            RequestTiming::Closed { .. } => None,
        }
    }

    /// Takes the next scheduled request with its number. The last value is the request to send now;
    /// it is `None` if the request must wait.
    pub(crate) fn next_scheduled(&mut self) -> Option<(ScheduledRequest, u64, Option<Request>)> {
        let RequestTiming::Scheduled(schedule) = &self.timing else { return None };
        let id = self.made;
        let scheduled = *schedule.get(id as usize)?;
        self.made += 1;
        let connection = match &mut self.free {
            None => Some(scheduled.connection),
            Some(free) => free.pop(),
        };
        if connection.is_none() {
            self.waiting.push_back((id, scheduled.size));
        }
        let request = connection.map(|connection| Request { id, size: scheduled.size, connection });
        Some((scheduled, id, request))
    }

    /// Returns the next request of a client in a closed loop.
    pub(crate) fn next_of_client(&mut self, client: u32) -> Option<Request> {
        let RequestTiming::Closed { sizes } = &self.timing else { return None };
        let clients = self.connections.len() as u64;
        let round = &mut self.connections[client as usize].rounds;
        let place = u64::from(client) + *round * clients;
        *round += 1;
        let size = sizes[(place % sizes.len() as u64) as usize];
        self.made += 1;
        Some(Request { id: self.made - 1, size, connection: client })
    }

    /// Releases the place of an ended connection. Returns a waiting request that uses it, if any.
    pub(crate) fn release(&mut self, connection: u32) -> Option<Request> {
        self.connections[connection as usize].clear();
        match self.waiting.pop_front() {
            Some((id, size)) => Some(Request { id, size, connection }),
            None => {
                // In a closed loop the place belongs to its client, which sends the next request.
                if let (Some(free), RequestTiming::Scheduled(_)) = (&mut self.free, &self.timing) {
                    free.push(connection);
                }
                None
            }
        }
    }
}

/// The requests of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The client's endpoint; the server's is the next one.
    pub(crate) client: u32,
    /// The number of requests of its client in a closed loop.
    rounds: u64,
    /// The number of each unanswered request, and the bytes of its answer that are missing.
    pending: VecDeque<(u64, u64)>,
    /// The answer sizes of the requests that the server has not received, oldest first.
    unseen: VecDeque<u64>,
    /// The bytes of an incomplete request that the server has received.
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
    /// Adds request `id` for an answer of `size` bytes.
    pub(crate) fn ask(&mut self, id: u64, size: u64) {
        self.pending.push_back((id, size));
        self.unseen.push_back(size);
    }

    /// Handles `bytes` that the server read. Returns how many bytes it answers.
    pub(crate) fn serve(&mut self, bytes: u64) -> u64 {
        self.partial += bytes;
        let mut answer = 0;
        while self.partial >= REQUEST {
            self.partial -= REQUEST;
            answer += self.unseen.pop_front().unwrap_or(0);
        }
        answer
    }

    /// Handles `bytes` that the client read, and calls `done` for each completed request.
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
    fn bytes_complete_the_oldest_request_first() {
        let mut connection = Connection::default();
        connection.ask(1, 10);
        connection.ask(2, 5);
        assert_eq!(connection.serve(15), 0);
        assert_eq!(connection.serve(17), 15, "both requests are complete");
        let mut done = Vec::new();
        connection.account(9, |id| done.push(id));
        assert!(done.is_empty());
        connection.account(6, |id| done.push(id));
        assert_eq!(done, [1, 2]);
    }
}
