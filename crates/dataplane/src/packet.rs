//! A frame with what queues and boxes want to know of it, read from its headers once.

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
    /// When it came in.
    pub arrived: Nanos,
    /// The bytes that both boxes count: the frame's without what pads it.
    pub counted: Bytes,
    /// Where it came from: a bundle's index, or a port's.
    pub source: u8,
    /// What the two boxes know it by, if its headers tell it apart from others.
    pub fingerprint: Option<u32>,
}

impl Packet {
    /// A packet that came in at `arrived`. Without headers (it is no IP packet) it is in the flow of
    /// all such packets and cannot be marked.
    pub fn new(frame: Frame, headers: Option<&Headers>, arrived: Nanos) -> Self {
        let ecn = headers.map_or(Ecn::NotEct, |h| ecn(h.ecn));
        let len = frame.len();
        Self {
            len: Bytes(len as u64),
            counted: Bytes(headers.map_or(len, |h| h.packet_len(len)) as u64),
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

    /// The same packet in another class.
    #[must_use]
    pub fn in_class(self, class: u8) -> Self {
        Self { class, ..self }
    }

    /// The same packet where it takes the room and the time of `len`: on a link whose own layer adds to
    /// frames, or takes away.
    #[must_use]
    pub fn of_length(self, len: Bytes) -> Self {
        Self { len, ..self }
    }

    /// Whether it came as L4S traffic: with ECT(1) or CE (RFC 9331).
    pub fn is_l4s(&self) -> bool {
        self.l4s
    }

    /// Whether a queue set its congestion mark: it came without.
    pub fn is_marked(&self) -> bool {
        self.marked
    }

    /// The frame, for sending; a congestion mark that a queue set is written into it now.
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
