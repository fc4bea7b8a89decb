//! A frame with what queues and boxes need to know about it, read once from its headers.

use forebay_queue::{Ecn, Packet as Queueable};
use forebay_units::{Bytes, Nanos};
use forebay_wire::{Frame as Parsed, Headers, set_ce};

use crate::pool::{Frame, Pool};

/// A frame on its way through a box.
#[derive(Debug)]
pub struct Packet {
    frame: Frame,
    len: Bytes,
    flow_hash: u32,
    ecn: Ecn,
    class: u8,
    l4s: bool,
    marked: bool,
    /// The time of arrival.
    pub arrived: Nanos,
    /// The bytes that both boxes count: those of the IP packet, by its header.
    pub counted: Bytes,
    /// The index of its bundle, or of the port where it arrived.
    pub source: u8,
    /// The fingerprint by which both boxes know it; `None` if its headers do not distinguish it
    /// from other packets.
    pub fingerprint: Option<u32>,
}

impl Packet {
    /// Makes a packet of a frame that arrived at `arrived`. Without headers it is no IP packet: it
    /// is in the flow of all such packets and cannot be marked.
    pub fn new(frame: Frame, headers: Option<&Headers>, arrived: Nanos) -> Self {
        let ecn = headers.map_or(Ecn::NotEct, |h| ecn(h.ecn));
        let len = frame.len();
        Self {
            len: Bytes(len as u64),
            counted: Bytes(headers.map_or(len, |h| h.ip_len(len)) as u64),
            frame,
            flow_hash: headers.map_or(0, Headers::flow_hash),
            ecn,
            l4s: matches!(ecn, Ecn::Ect1 | Ecn::Ce),
            class: 0,
            marked: false,
            arrived,
            source: 0,
            fingerprint: None,
        }
    }

    /// Returns the same packet in another class.
    #[must_use]
    pub fn in_class(self, class: u8) -> Self {
        Self { class, ..self }
    }

    /// Returns the same packet with another length: on a link whose own layer adds bytes to frames
    /// or takes bytes away.
    #[must_use]
    pub fn of_length(self, len: Bytes) -> Self {
        Self { len, ..self }
    }

    /// Whether it arrived as L4S traffic: with ECT(1) or CE (RFC 9331).
    pub fn is_l4s(&self) -> bool {
        self.l4s
    }

    /// Whether a queue set its congestion mark. A packet that arrived marked does not count.
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// Returns the frame for sending, and writes a congestion mark that a queue set into it.
    pub fn into_frame(self, pool: &mut Pool) -> Frame {
        let mut frame = self.frame;
        if self.marked {
            let bytes = pool.bytes_mut(&mut frame);
            if let Ok(Parsed::Ip(headers)) = Parsed::parse(bytes) {
                set_ce(bytes, &headers);
            }
        }
        frame
    }
}

/// Decodes the ECN field (RFC 3168 section 5).
fn ecn(field: u8) -> Ecn {
    match field {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

impl Queueable for Packet {
    fn len(&self) -> Bytes {
        self.len
    }

    fn flow_hash(&self) -> u32 {
        self.flow_hash
    }

    fn class(&self) -> u8 {
        self.class
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn set_ce(&mut self) {
        self.marked |= self.ecn != Ecn::Ce;
        self.ecn = Ecn::Ce;
    }
}
