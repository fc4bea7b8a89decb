//! A chain of descriptors, read once: what the guest changes afterwards changes nothing.

use virtio_queue::DescriptorChain;
use vm_memory::{Bytes, GuestAddress};

use super::Memory;

/// Descriptors of a chain, at most: as many as the longest ring has. An indirect table could have 65 536.
const MAX_DESCRIPTORS: usize = super::MAX_SIZE as usize;

/// A piece of the guest's memory, which may be anywhere.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: GuestAddress,
    len: u32,
}

/// The descriptors of a chain.
#[derive(Debug, Default)]
pub(super) struct Chain {
    readable: Vec<Span>,
    writable: Vec<Span>,
    whole: bool,
}

/// Something outside the guest's memory.
#[derive(Debug)]
pub(super) struct Outside;

impl Chain {
    /// Takes in `chain`.
    pub(super) fn read(&mut self, chain: DescriptorChain<&Memory>) {
        self.readable.clear();
        self.writable.clear();
        // The iterator ends without a word where a chain is broken, or bites its own tail: then its
        // last descriptor still points on.
        self.whole = false;
        for descriptor in chain.take(MAX_DESCRIPTORS) {
            let span = Span { at: descriptor.addr(), len: descriptor.len() };
            let list =
                if descriptor.is_write_only() { &mut self.writable } else { &mut self.readable };
            list.push(span);
            self.whole = !descriptor.has_next();
        }
    }

    /// Whether it has an end.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Bytes that the driver wrote, as its descriptors say.
    pub(super) fn readable(&self) -> u64 {
        self.readable.iter().map(|s| u64::from(s.len)).sum()
    }

    /// Bytes that there is room for, as its descriptors say.
    pub(super) fn writable(&self) -> u64 {
        self.writable.iter().map(|s| u64::from(s.len)).sum()
    }

    /// Copies out what comes after the first `skip` bytes, as much as `out` has room for.
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

    /// Copies `bytes` in after the first `skip`.
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

/// Calls `piece` for each part of `len` bytes that lies in one span, past `skip` bytes.
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
