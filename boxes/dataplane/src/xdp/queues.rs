//! The sockets of some of a port's receive queues.

use std::collections::VecDeque;
use std::os::fd::RawFd;

use super::socket::XdpSocket;
use crate::pool::{Frame, Pool};
use crate::port::{Port, PortStats};

/// The sockets of receive queues, at least one, which one thread uses. All frames leave by the
/// first one: one transmit queue keeps the order of everything that the thread sends.
pub(super) struct Queues {
    pub(super) sockets: Vec<XdpSocket>,
    pub(super) stats: PortStats,
}

impl Queues {
    /// Keeps every `parts`-th socket, and returns the others in `parts` - 1 parts; none if there
    /// are too few sockets.
    pub(super) fn split(&mut self, parts: usize) -> Vec<Self> {
        if parts > self.sockets.len() {
            return Vec::new();
        }
        let mut dealt: Vec<Vec<XdpSocket>> = (0..parts).map(|_| Vec::new()).collect();
        for (number, socket) in self.sockets.drain(..).enumerate() {
            dealt[number % parts].push(socket);
        }
        let mut dealt = dealt.into_iter();
        self.sockets.extend(dealt.next().into_iter().flatten());
        dealt.map(|sockets| Self { sockets, stats: PortStats::default() }).collect()
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        self.sockets.iter().all(|socket| socket.zero_copy)
    }
}

impl Port for Queues {
    fn receive(&mut self, pool: &mut Pool, out: &mut Vec<Frame>, limit: usize) {
        let share = limit.div_ceil(self.sockets.len());
        for socket in &mut self.sockets {
            self.stats.received += socket.receive(pool, out, share);
        }
    }

    fn send(&mut self, pool: &mut Pool, frames: &mut VecDeque<Frame>) {
        if let Some(socket) = self.sockets.first_mut()
            && (!frames.is_empty() || socket.is_sending())
        {
            self.stats.sent += socket.send(pool, frames);
        }
    }

    /// The port that these queues are from lets frames pass.
    fn bypass(&mut self) {}

    fn is_sending(&mut self, pool: &mut Pool) -> bool {
        self.sockets.iter_mut().any(|socket| socket.finish_sending(pool))
    }

    fn descriptors(&self) -> Vec<RawFd> {
        self.sockets.iter().map(XdpSocket::fd).collect()
    }

    fn stats(&mut self) -> PortStats {
        let mut stats = self.stats;
        for socket in &self.sockets {
            let (receive, send) = socket.lost();
            stats.receive_lost += receive;
            stats.send_lost += send;
        }
        stats
    }

    fn describe(&self) -> String {
        "AF_XDP".to_owned()
    }
}
