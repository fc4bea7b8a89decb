//! Whether L4S works for the TCP connections of a capture, and if not, why.
//!
//! [`Analysis`] takes the packets of one capture, [`Analysis::report`] judges them, and
//! [`Analysis::report_of_both`] those of two captures of the same connections. Nothing here opens a
//! file or reads a clock.
//!
//! | what | bound | beyond it |
//! |---|---|---|
//! | connections | [`MAX_CONNECTIONS`] | packets of others are counted |
//! | segments that wait for their acknowledgement | 4096 of each direction | the oldest one gives no round trip |
//! | packets whose time is kept | [`MAX_RECORDS`] | codepoints and marks are counted further, delays are not |
//!
//! What makes packets the same:
//!
//! | what | the same if |
//! |---|---|
//! | connections | addresses and ports are, until a SYN has another number behind the end (RFC 9293, section 3.4) |
//! | data that was captured twice | numbers, IP identifier and timestamp are, within a millisecond: a retransmission differs in one of them or in time (RFC 6864, section 4; RFC 7323, section 3) |
//! | acknowledgements that were captured twice | all fields that are read are, within a millisecond |
//! | answers to the SYN/ACK | they are pure acknowledgements of it, whenever they come (RFC 9768, section 3.2.2.1) |

mod ace;
mod connection;
mod delay;
mod half;
mod judge;
mod losses;
mod others;
mod pair;
mod report;
mod segment;
mod waits;

use std::collections::HashMap;
use std::net::SocketAddr;

use forebay_capture::{IpPacket, LeftOut};

use connection::Connection;
use others::Others;

pub use ace::{Ace, Feedback, Marks, fed_back, negotiated};
pub use half::Codepoints;
pub use others::OtherPackets;
pub use report::{
    ConnectionReport, Direction, Echo, Handshake, OneWay, Place, Quantiles, Response, TcpReport,
};
pub use segment::{Counters, Flags, Segment, Timestamps};

/// The most connections that are followed.
pub const MAX_CONNECTIONS: usize = 4_096;
/// The most packets whose time and delay are kept, over all connections.
pub const MAX_RECORDS: usize = 4 << 20;

/// What is known of the packets of a capture so far.
#[derive(Clone, Debug)]
pub struct Analysis {
    connections: Vec<Connection>,
    /// The latest connection between two ends, the lower one first.
    latest: HashMap<(SocketAddr, SocketAddr), usize>,
    /// The end at which it was taken, if that is known.
    at: Option<Place>,
    room: usize,
    packets: u64,
    segments: u64,
    not_followed: u64,
    others: Others,
}

impl Analysis {
    /// Begins with no packet. `at` is the end of the data at which the capture was taken, if that
    /// is known; otherwise the delays show it.
    pub fn new(at: Option<Place>) -> Self {
        Self {
            connections: Vec::new(),
            latest: HashMap::new(),
            at,
            room: MAX_RECORDS,
            packets: 0,
            segments: 0,
            not_followed: 0,
            others: Others::default(),
        }
    }

    /// Takes a packet of the capture, in the order of the capture.
    pub fn push(&mut self, packet: &IpPacket<'_>) {
        self.packets += 1;
        match Segment::parse(packet) {
            Some(segment) => self.push_segment(&segment),
            None => self.others.push(packet),
        }
    }

    /// Takes the numbers of packets that the reader of the capture left out.
    pub fn push_left_out(&mut self, left_out: LeftOut) {
        let LeftOut { fragments, not_ip, short } = left_out;
        self.packets += fragments + not_ip + short;
        self.others.push_left_out(left_out);
    }

    /// Takes a segment of the capture, in the order of the capture.
    pub fn push_segment(&mut self, segment: &Segment) {
        self.segments += 1;
        let key = (segment.from.min(segment.to), segment.from.max(segment.to));
        let known = self.latest.get(&key).copied();
        let number = match known.filter(|&n| !self.connections[n].is_over(segment)) {
            Some(number) => number,
            None if self.connections.len() >= MAX_CONNECTIONS => {
                self.not_followed += 1;
                return;
            }
            None => {
                self.connections.push(Connection::new(segment));
                self.latest.insert(key, self.connections.len() - 1);
                self.connections.len() - 1
            }
        };
        self.connections[number].push(segment, &mut self.room);
    }

    /// Judges the capture.
    pub fn report(&self) -> TcpReport {
        report::single(self)
    }

    /// Judges this capture at the sender of the data together with `receiver`, one of the same
    /// connections at its receiver.
    pub fn report_of_both(&self, receiver: &Self) -> TcpReport {
        pair::report(self, receiver)
    }
}

#[cfg(test)]
mod tests;
