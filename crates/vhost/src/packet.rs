//! A frame between a guest's ring and its departure, and the buffers that hold frames.

use forebay_queue::{Ecn, Packet as Queueable};
use forebay_units::Bytes;

use crate::offload::Offload;

/// A frame that was taken out of a virtual machine's transmit ring.
#[derive(Debug)]
pub(crate) struct Packet {
    /// The frame, from its Ethernet header on.
    pub(crate) bytes: Vec<u8>,
    /// Checksum and segmentation that are still to be done.
    pub(crate) offload: Offload,
    /// Index of the virtual machine that sent it.
    pub(crate) vm: u8,
    length: Bytes,
}

impl Packet {
    pub(crate) fn new(bytes: Vec<u8>, offload: Offload, vm: u8) -> Self {
        let length = Bytes(offload.wire_length(&bytes));
        Self { bytes, offload, vm, length }
    }
}

impl Queueable for Packet {
    fn len(&self) -> Bytes {
        self.length
    }

    /// All packets of a virtual machine are one flow: the scheduled buffer sees aggregates (thesis,
    /// section 4.3.2).
    fn flow_hash(&self) -> u32 {
        u32::from(self.vm)
    }

    fn class(&self) -> u8 {
        self.vm
    }

    /// Always `NotEct`: the back end has no AQM and never marks.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn set_ce(&mut self) {}
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
