//! Packets and their storage: one slab for the whole simulation, accessed by index.

use forebay_control::Feedback;
use forebay_queue::Ecn;
use forebay_units::{Bytes, Nanos};

use crate::headers::ControlNumbers;
use crate::network::RouteId;
use crate::random::mix;
use crate::tcp::Segment;
use crate::udp::prague;

/// The length of Ethernet, IPv4 and TCP headers with the timestamp option, which every Linux
/// segment has.
pub(crate) const TCP_HEADERS: u64 = 14 + 20 + 20 + 12;
/// The length of Ethernet, IPv4 and UDP headers.
pub(crate) const UDP_HEADERS: u64 = 14 + 20 + 8;

/// Returns the fingerprint of packet `number` of a flow. A retransmission has a new number, as it
/// has a new IP ID.
pub(crate) fn fingerprint(flow_hash: u32, number: u64) -> u32 {
    mix(u64::from(flow_hash) << 32 ^ number) as u32
}

/// The destination and the content of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// A segment to a TCP endpoint.
    Segment { endpoint: u32, segment: Segment },
    /// A segment of a handshake or a close, to the end of a connection.
    Control { endpoint: u32, control: Control, numbers: ControlNumbers },
    /// Datagram `number` of a flow, to a UDP socket.
    Datagram { socket: u32, number: u64 },
    /// The request of round `number`, to the responder of a closed loop.
    Request { socket: u32, number: u64 },
    /// A report of the receiver, to a UDP sender.
    Report { socket: u32, next: u64, received: u64 },
    /// A report of the receiver, to a UDP sender with Prague.
    Marks { socket: u32, report: prague::Report },
    /// A datagram with a payload, from the sending end of a path between endpoints.
    Payload { end: u32 },
    /// Feedback to a bundle's sendbox.
    Feedback { bundle: u32, feedback: Feedback },
    /// The acknowledgement of an epoch size, to a bundle's sendbox.
    EpochAck { bundle: u32, epoch: u32 },
    /// A new epoch size, to a bundle's receivebox.
    EpochUpdate { bundle: u32, epoch: u32 },
}

/// A TCP segment without data that opens or closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Syn,
    SynAck,
    Ack,
    Fin,
    FinAck,
}

/// A packet in transit between two hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) body: Body,
    /// The length on the wire.
    pub(crate) len: u16,
    pub(crate) ecn: Ecn,
    pub(crate) route: RouteId,
    /// The number of hops of the route that it has passed.
    pub(crate) hop: u8,
    pub(crate) flow_hash: u32,
    pub(crate) fingerprint: u32,
}

/// A packet as a qdisc sees it.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub(crate) id: u32,
    pub(crate) flow_hash: u32,
    pub(crate) len: u16,
    pub(crate) ecn: Ecn,
    /// The class at a sendbox, 0 is the most urgent; links do not use it.
    pub(crate) class: u8,
    /// Whether this queue set the congestion mark.
    pub(crate) marked: bool,
    /// The time of its arrival at the queue.
    pub(crate) arrived: Nanos,
}

impl forebay_queue::Packet for Queued {
    fn len(&self) -> Bytes {
        Bytes(u64::from(self.len))
    }

    fn flow_hash(&self) -> u32 {
        self.flow_hash
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn class(&self) -> u8 {
        self.class
    }

    fn set_ce(&mut self) {
        self.marked |= self.ecn != Ecn::Ce;
        self.ecn = Ecn::Ce;
    }
}

/// All packets in transit.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    all: Vec<Packet>,
    free: Vec<u32>,
    /// The payloads of datagrams of endpoints, by the index of the packet. The memory of a payload
    /// stays when its packet has gone, for the next one with that index.
    payloads: Vec<Vec<u8>>,
    made: u64,
}

impl Packets {
    #[inline]
    pub(crate) fn insert(&mut self, packet: Packet) -> u32 {
        self.made += 1;
        if let Some(id) = self.free.pop() {
            self.all[id as usize] = packet;
            return id;
        }
        self.all.push(packet);
        (self.all.len() - 1) as u32
    }

    /// Inserts a packet with a payload, which is exchanged for the memory of an earlier one.
    pub(crate) fn insert_with(&mut self, packet: Packet, payload: &mut Vec<u8>) -> u32 {
        let id = self.insert(packet);
        let index = id as usize;
        if self.payloads.len() <= index {
            self.payloads.resize_with(index + 1, Vec::new);
        }
        std::mem::swap(&mut self.payloads[index], payload);
        id
    }

    /// Returns the payload of a packet that was inserted with one.
    pub(crate) fn payload(&self, id: u32) -> &[u8] {
        &self.payloads[id as usize]
    }

    pub(crate) fn get(&self, id: u32) -> &Packet {
        &self.all[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.all[id as usize]
    }

    /// Frees the packet.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Returns the number of packets in transit.
    pub(crate) fn live(&self) -> u64 {
        (self.all.len() - self.free.len()) as u64
    }

    /// Returns the number of packets created since the beginning.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }
}
