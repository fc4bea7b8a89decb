//! A frame between a ring and the way out, and the buffers that frames are kept in.

use forebay_queue::{Ecn, Packet as Queueable};
use forebay_units::Bytes;

use crate::offload::Offload;

/// A frame of a virtual machine that was taken out of its ring.
#[derive(Debug)]
pub(crate) struct Packet {
    /// The frame.
    pub(crate) bytes: Vec<u8>,
    /// What is left to do to it.
    pub(crate) offload: Offload,
    /// Whose it is.
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

    /// Of a virtual machine's packets as one flow: the scheduled buffer sees aggregates (thesis,
    /// section 4.3.2).
    fn flow_hash(&self) -> u32 {
        u32::from(self.vm)
    }

    fn class(&self) -> u8 {
        self.vm
    }

    /// No queue of the back end marks: it has no AQM.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn set_ce(&mut self) {}
}

/// Buffers that are used again, so that a packet costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

impl Buffers {
    /// A full frame and what is around it.
    const SMALL: usize = 2048;
    /// At most so many of full frames are kept, 8 MB; more are given back to the system.
    const MAX_SMALL: usize = 4096;
    /// At most so many that can hold a super-packet are kept, 16 MB.
    const MAX_LARGE: usize = 256;

    /// An empty buffer for `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let kept = if len <= Self::SMALL { self.small.pop() } else { self.large.pop() };
        let mut buffer = kept.unwrap_or_default();
        buffer.reserve(len.max(Self::SMALL));
        buffer
    }

    /// Gives a buffer back.
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
