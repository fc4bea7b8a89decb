//! A chain of descriptors, read once, so that later changes by the guest have no effect.

use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress};

use super::Memory;

/// Maximum number of descriptors of a chain, as in the longest ring. An indirect table could have
/// 65 536.
const MAX_DESCRIPTORS: usize = super::MAX_SIZE as usize;

/// A range of the guest's addresses, not yet checked.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: GuestAddress,
    len: u32,
}

/// The descriptors of one chain.
#[derive(Debug, Default)]
pub(super) struct Chain {
    readable: Vec<Span>,
    writable: Vec<Span>,
    whole: bool,
}

/// Error: a descriptor points outside the guest's memory.
#[derive(Debug)]
pub(super) struct Outside;

impl Chain {
    /// Reads the descriptors of `chain`.
    pub(super) fn read(&mut self, chain: DescriptorChain<&Memory>) {
        self.readable.clear();
        self.writable.clear();
        // The iterator ends without an error where a chain is broken or loops. Its last descriptor
        // then still has a successor.
        self.whole = false;
        for descriptor in chain.take(MAX_DESCRIPTORS) {
            let span = Span { at: descriptor.addr(), len: descriptor.len() };
            let list =
                if descriptor.is_write_only() { &mut self.writable } else { &mut self.readable };
            list.push(span);
            self.whole = !descriptor.has_next();
        }
    }

    /// Whether the chain has an end.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Number of bytes in the driver's readable descriptors.
    pub(super) fn readable(&self) -> u64 {
        self.readable.iter().map(|s| u64::from(s.len)).sum()
    }

    /// Number of bytes in the driver's writable descriptors.
    pub(super) fn writable(&self) -> u64 {
        self.writable.iter().map(|s| u64::from(s.len)).sum()
    }

    /// Fills `out` from the readable descriptors, after the first `skip` bytes.
    pub(super) fn copy_out(
        &self,
        memory: &Memory,
        skip: usize,
        out: &mut [u8],
    ) -> Result<(), Outside> {
        copy(&self.readable, skip, out.len(), |at, part| {
            memory.read_slice(&mut out[part], at).map_err(|_| Outside)
        })
    }

    /// Writes `bytes` to the writable descriptors, after the first `skip` bytes.
    pub(super) fn copy_in(
        &self,
        memory: &Memory,
        skip: usize,
        bytes: &[u8],
    ) -> Result<(), Outside> {
        copy(&self.writable, skip, bytes.len(), |at, part| {
            memory.write_slice(&bytes[part], at).map_err(|_| Outside)
        })
    }
}

/// Calls `piece` for each part of `len` bytes that lies in one span, after `skip` bytes.
fn copy(
    spans: &[Span],
    mut skip: usize,
    len: usize,
    mut piece: impl FnMut(GuestAddress, std::ops::Range<usize>) -> Result<(), Outside>,
) -> Result<(), Outside> {
    let mut done = 0;
    for span in spans {
        let have = span.len as usize;
        if skip >= have {
            skip -= have;
            continue;
        }
        let take = (have - skip).min(len - done);
        if take == 0 {
            break;
        }
        let at = span.at.0.checked_add(skip as u64).ok_or(Outside)?;
        piece(GuestAddress(at), done..done + take)?;
        done += take;
        skip = 0;
    }
    if done == len { Ok(()) } else { Err(Outside) }
}
