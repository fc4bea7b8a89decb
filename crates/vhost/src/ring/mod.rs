//! A virtio ring (virtio 1.2, section 2.7) as the device sees it, in memory of a guest that may write
//! anything there at any time.
//!
//! Nothing read from the ring is believed: every address goes through the guest's memory map, chains
//! have a bound, and an index that no driver could have written ends the ring and nothing else. Two
//! kinds of wrong are told apart. A [`RingError`] means that the ring itself cannot be followed any
//! further. A chain that makes no sense is one packet lost, and the ring goes on.

mod chain;
#[cfg(test)]
pub(crate) mod driver;
mod receive;
mod transmit;

use std::fs::File;
use std::io::{Read, Write};
use std::num::Wrapping;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Address, Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use self::chain::Chain;
pub use self::receive::Put;
pub use self::transmit::{Taken, Unusable};

/// A guest's memory.
pub type Memory = GuestMemoryMmap<()>;

/// The longest ring that a front end may set up.
pub const MAX_SIZE: u16 = 1024;

/// `VRING_AVAIL_F_NO_INTERRUPT` (virtio 1.2, section 2.7.6).
const NO_INTERRUPT: u16 = 1;

/// Why a ring cannot be followed any further, until it is set up anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Its size is no power of two, or above [`MAX_SIZE`].
    #[error("its size is no power of two up to 1024")]
    Size,
    /// A part of it is not aligned as it must be.
    #[error("a part of it is not aligned")]
    Alignment,
    /// A part of it is outside the guest's memory.
    #[error("a part of it is outside the guest's memory")]
    Outside,
    /// More chains are said to be available than the ring has room for.
    #[error("its index jumped by more than the ring holds")]
    Index,
    /// A chain begins at a descriptor that the ring does not have.
    #[error("a chain begins past its descriptors")]
    Head,
}

/// What a front end says of a ring. Addresses are the guest's own.
#[derive(Debug)]
pub struct Setup {
    /// Descriptors.
    pub size: u16,
    /// Where the descriptor table is.
    pub descriptors: u64,
    /// Where the ring of available chains is.
    pub available: u64,
    /// Where the ring of used chains is.
    pub used: u64,
    /// The first available chain to take.
    pub next: u16,
    /// Whether kicks and calls are asked for by index (`VIRTIO_F_EVENT_IDX`).
    pub event_index: bool,
    /// Whether a frame may be spread over several chains (`VIRTIO_NET_F_MRG_RXBUF`).
    pub merge: bool,
    /// Bytes of the header before each frame.
    pub header: usize,
    /// Where the driver says that chains are available.
    pub kick: Option<File>,
    /// Where the driver hears that chains were used.
    pub call: Option<File>,
}

/// A ring that runs.
#[derive(Debug)]
pub struct Ring {
    queue: Queue,
    memory: Arc<Memory>,
    merge: bool,
    header: usize,
    kick: Option<File>,
    call: Option<File>,
    /// Up to which used chain the driver was told.
    told: Wrapping<u16>,
    /// The chain in hand; kept for its memory.
    chain: Chain,
    /// The chains of a frame that takes several.
    merged: Vec<(u16, Chain)>,
}

impl Ring {
    /// Begins at `setup.next`, in `memory`.
    ///
    /// # Errors
    /// If it is not whole, or not in the guest's memory.
    pub fn new(setup: Setup, memory: Arc<Memory>) -> Result<Self, RingError> {
        let mut queue = Queue::new(MAX_SIZE).map_err(|_| RingError::Size)?;
        queue.try_set_size(setup.size).map_err(|_| RingError::Size)?;
        let aligned =
            |done: Result<(), virtio_queue::Error>| done.map_err(|_| RingError::Alignment);
        aligned(queue.try_set_desc_table_address(GuestAddress(setup.descriptors)))?;
        aligned(queue.try_set_avail_ring_address(GuestAddress(setup.available)))?;
        aligned(queue.try_set_used_ring_address(GuestAddress(setup.used)))?;
        queue.set_event_idx(setup.event_index);
        queue.set_next_avail(setup.next);
        queue.set_ready(true);
        // Six bytes are what both rings have beside their entries; checked here, since a region's
        // end near the end of all addresses would overflow below.
        let size = u64::from(setup.size);
        let parts = [
            (setup.descriptors, 16 * size),
            (setup.available, 6 + 2 * size),
            (setup.used, 6 + 8 * size),
        ];
        let inside = |&(at, len): &(u64, u64)| {
            let fits = at.checked_add(len).is_some();
            fits && memory.check_range(GuestAddress(at), len as usize)
        };
        if !parts.iter().all(inside) {
            return Err(RingError::Outside);
        }
        let used = queue.used_idx(&*memory, Ordering::Acquire).map_err(|_| RingError::Outside)?;
        queue.set_next_used(used.0);
        let Setup { merge, header, kick, call, .. } = setup;
        let (chain, merged) = (Chain::default(), Vec::new());
        Ok(Self { queue, memory, merge, header, kick, call, told: used, chain, merged })
    }

    /// What becomes readable when the driver has made chains available.
    pub fn kick(&self) -> Option<RawFd> {
        self.kick.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Takes note of kicks.
    pub fn clear_kick(&mut self) {
        if let Some(kick) = &mut self.kick {
            // Nothing to read is nothing to do.
            let _ = kick.read(&mut [0; 8]);
        }
    }

    /// The chain that is taken next, by its place in the ring's order.
    pub fn next(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Descriptors.
    pub fn size(&self) -> u16 {
        self.queue.size()
    }

    /// Chains that are available and not taken.
    ///
    /// # Errors
    /// If there are more than the ring can have.
    pub fn waiting(&self) -> Result<u16, RingError> {
        let available = self.queue.avail_idx(&*self.memory, Ordering::Acquire);
        let available = available.map_err(|_| RingError::Outside)?;
        let waiting = (available - Wrapping(self.queue.next_avail())).0;
        if waiting > self.queue.size() { Err(RingError::Index) } else { Ok(waiting) }
    }

    /// Asks the driver to kick from now on. Whether it has made chains available meanwhile: those it
    /// does not kick for.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn enable_kicks(&mut self) -> Result<bool, RingError> {
        self.queue.enable_notification(&*self.memory).map_err(|_| RingError::Outside)
    }

    /// Asks the driver not to kick. It may, all the same.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn disable_kicks(&mut self) -> Result<(), RingError> {
        self.queue.disable_notification(&*self.memory).map_err(|_| RingError::Outside)
    }

    /// Takes the next available chain into `self.chain`; its head, or `None` if there is none.
    fn take(&mut self) -> Result<Option<u16>, RingError> {
        let mut available = self.queue.iter(&*self.memory).map_err(|_| RingError::Index)?;
        let Some(chain) = available.next() else { return Ok(None) };
        let head = chain.head_index();
        if head >= self.queue.size() {
            return Err(RingError::Head);
        }
        self.chain.read(chain);
        Ok(Some(head))
    }

    /// Puts the last `count` chains back that were taken.
    fn put_back(&mut self, count: u16) {
        let next = Wrapping(self.queue.next_avail()) - Wrapping(count);
        self.queue.set_next_avail(next.0);
    }

    /// Hands chains back to the driver, each with the bytes written into it, all at the same moment: a
    /// driver that sees some of a frame's buffers only would drop the frame.
    fn use_all(
        &mut self,
        chains: impl ExactSizeIterator<Item = (u16, u32)>,
    ) -> Result<(), RingError> {
        let last = chains.len().wrapping_sub(1);
        for (i, (head, len)) in chains.enumerate() {
            if i == last {
                self.queue.add_used(&*self.memory, head, len).map_err(|_| RingError::Outside)?;
            } else {
                let next = self.queue.next_used();
                let place = u64::from(next % self.queue.size()) * 8 + 4;
                let at = GuestAddress(self.queue.used_ring()).checked_add(place);
                let mut element = [0; 8];
                element[..4].copy_from_slice(&u32::from(head).to_le_bytes());
                element[4..].copy_from_slice(&len.to_le_bytes());
                at.and_then(|at| self.memory.write_slice(&element, at).ok())
                    .ok_or(RingError::Outside)?;
                self.queue.set_next_used(next.wrapping_add(1));
            }
        }
        Ok(())
    }

    /// Tells the driver of used chains, if there are new ones and it wants to hear.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn call(&mut self) -> Result<(), RingError> {
        let used = Wrapping(self.queue.next_used());
        if used != self.told {
            // The used index must be seen before what the driver wants is read (section 2.7.7.1).
            fence(Ordering::SeqCst);
            let wanted = if self.queue.event_idx_enabled() {
                // At the end of the available ring: `used_event` (section 2.7.10).
                let event = Wrapping(self.read(4 + 2 * u64::from(self.queue.size()))?);
                used - event - Wrapping(1) < used - self.told
            } else {
                self.read(0)? & NO_INTERRUPT == 0
            };
            self.told = used;
            if wanted {
                self.call_now();
            }
        }
        Ok(())
    }

    /// Tells the driver to look at the ring, whether it asked for that or not.
    pub fn call_now(&mut self) {
        if let Some(call) = &mut self.call {
            // A full eventfd is one that the driver has yet to read.
            let _ = call.write(&1u64.to_ne_bytes());
        }
    }

    /// A field of the available ring.
    fn read(&self, offset: u64) -> Result<u16, RingError> {
        let at = GuestAddress(self.queue.avail_ring()).checked_add(offset);
        let value = at.and_then(|at| self.memory.load::<u16>(at, Ordering::Relaxed).ok());
        value.map(u16::from_le).ok_or(RingError::Outside)
    }
}

#[cfg(test)]
mod tests;
