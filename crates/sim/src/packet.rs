//! Packets, and where they are kept: one slab for the whole simulation, passed around by index.

use forebay_control::Feedback;
use forebay_queue::Ecn;
use forebay_units::{Bytes, Nanos};

use crate::network::RouteId;
use crate::random::mix;
use crate::tcp::Segment;
use crate::udp::prague;

/// Ethernet, IPv4 and TCP headers with the timestamp option, which every Linux segment has.
pub(crate) const TCP_HEADERS: u64 = 14 + 20 + 20 + 12;
/// Ethernet, IPv4 and UDP headers.
pub(crate) const UDP_HEADERS: u64 = 14 + 20 + 8;

/// The fingerprint of a flow's packet number `number`; retransmissions have numbers of their own, as
/// they have IP IDs of their own.
pub(crate) fn fingerprint(flow_hash: u32, number: u64) -> u32 {
    mix(u64::from(flow_hash) << 32 ^ number) as u32
}

/// What a packet says to where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body {
    /// To the TCP endpoint.
    Segment { endpoint: u32, segment: Segment },
    /// To a connection's end.
    Control { endpoint: u32, control: Control },
    /// To the UDP socket: number `number` of its flow.
    Datagram { socket: u32, number: u64 },
    /// To the echo of a closed loop: round `number`.
    Request { socket: u32, number: u64 },
    /// To the UDP sender: what its receiver has.
    Report { socket: u32, next: u64, received: u64 },
    /// To the sender under Prague, likewise.
    Marks { socket: u32, report: prague::Report },
    /// To a bundle's sendbox.
    Feedback { bundle: u32, feedback: Feedback },
    /// To a bundle's sendbox: the receivebox uses this epoch size.
    EpochAck { bundle: u32, epoch: u32 },
    /// To a bundle's receivebox.
    EpochUpdate { bundle: u32, epoch: u32 },
}

/// A TCP segment that says only that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Syn,
    SynAck,
    Ack,
    Fin,
    FinAck,
}

/// A packet anywhere between two hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) body: Body,
    /// On the wire.
    pub(crate) len: u16,
    pub(crate) ecn: Ecn,
    pub(crate) route: RouteId,
    /// How many hops of the route lie behind it.
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
    /// 0 being the most urgent; links do not ask.
    pub(crate) class: u8,
    /// Whether a queue here set its congestion mark: it came without.
    pub(crate) marked: bool,
    /// When it came.
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

/// All packets that are under way.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    all: Vec<Packet>,
    free: Vec<u32>,
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

    pub(crate) fn get(&self, id: u32) -> &Packet {
        &self.all[id as usize]
    }

    pub(crate) fn get_mut(&mut self, id: u32) -> &mut Packet {
        &mut self.all[id as usize]
    }

    /// The packet is gone.
    #[inline]
    pub(crate) fn remove(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Under way now.
    pub(crate) fn live(&self) -> u64 {
        (self.all.len() - self.free.len()) as u64
    }

    /// Made since the beginning.
    pub(crate) fn made(&self) -> u64 {
        self.made
    }
}
