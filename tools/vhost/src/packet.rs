//! A frame between a guest's ring and its departure, and the buffers that hold frames.

use forebay_queue::{Ecn, Packet as Queueable};
use forebay_units::Bytes;
use forebay_wire::{Frame, set_ce};

use crate::offload::Offload;

/// The ring that a frame was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// Index of the virtual machine.
    pub(crate) vm: u8,
    /// Number of its pair of rings.
    pub(crate) ring: u8,
}

/// A frame that was taken out of a virtual machine's transmit ring.
#[derive(Debug)]
pub(crate) struct Packet {
    /// The frame, from its Ethernet header on.
    pub(crate) bytes: Vec<u8>,
    /// Checksum and segmentation that are still to be done.
    pub(crate) offload: Offload,
    /// The ring that it was taken from.
    pub(crate) source: Source,
    length: Bytes,
    /// Hash of its flow. A frame that is not IP is in the flow of its virtual machine.
    flow_hash: u32,
    ecn: Ecn,
    /// Whether the scheduled buffer has set its congestion mark.
    is_marked: bool,
}

impl Packet {
    pub(crate) fn new(bytes: Vec<u8>, offload: Offload, source: Source) -> Self {
        let length = Bytes(offload.wire_length(&bytes));
        let (flow_hash, ecn) = match Frame::parse(&bytes) {
            Ok(Frame::Ip(headers)) => (headers.flow_hash(), ecn(headers.ecn)),
            _ => (source.vm.into(), Ecn::NotEct),
        };
        Self { bytes, offload, source, length, flow_hash, ecn, is_marked: false }
    }

    /// Whether the scheduled buffer has set its congestion mark. A packet that the guest sent with
    /// CE does not count.
    pub(crate) fn is_marked(&self) -> bool {
        self.is_marked
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
        self.length
    }

    fn flow_hash(&self) -> u32 {
        self.flow_hash
    }

    fn class(&self) -> u8 {
        self.source.vm
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Marks the frame, or every segment that a super-packet will become. The transport's checksum
    /// does not cover the ECN field, so an open one stays right.
    fn set_ce(&mut self) {
        if let Ok(Frame::Ip(headers)) = Frame::parse(&self.bytes) {
            set_ce(&mut self.bytes, &headers);
            self.is_marked |= self.ecn != Ecn::Ce;
            self.ecn = Ecn::Ce;
        }
    }
}

/// A pool of buffers, so that a packet costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

impl Buffers {
    /// Size in bytes of a buffer for a full frame with its headers.
    const SMALL: usize = 2048;
    /// Maximum number of small buffers in the pool (8 MB); further ones are freed.
    const MAX_SMALL: usize = 4096;
    /// Maximum number of buffers for super-packets in the pool (16 MB).
    const MAX_LARGE: usize = 256;

    /// Takes an empty buffer with room for `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let kept = if len <= Self::SMALL { self.small.pop() } else { self.large.pop() };
        let mut buffer = kept.unwrap_or_default();
        buffer.reserve(len.max(Self::SMALL));
        buffer
    }

    /// Returns a buffer to the pool.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        let (kept, most) = if buffer.capacity() <= 2 * Self::SMALL {
            (&mut self.small, Self::MAX_SMALL)
        } else {
            (&mut self.large, Self::MAX_LARGE)
        };
        if kept.len() < most {
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests;
