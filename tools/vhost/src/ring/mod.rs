//! A virtio ring (virtio 1.2, section 2.7) from the device's side, in memory that the guest may
//! change at any time.
//!
//! The ring's content is not trusted: every address goes through the guest's memory map, chains
//! have a bound, and an impossible index ends only this ring. There are two kinds of errors. A
//! [`RingError`] means that the ring itself is invalid. An invalid chain loses one packet, and the
//! ring goes on.

mod chain;
pub(crate) mod control;
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
pub use self::receive::Delivery;
pub use self::transmit::{TakenChain, Unusable};

/// The memory of a guest.
pub type Memory = GuestMemoryMmap<()>;

/// Maximum number of descriptors of a ring.
pub const MAX_SIZE: u16 = 1024;

/// `VRING_AVAIL_F_NO_INTERRUPT` (virtio 1.2, section 2.7.6).
const NO_INTERRUPT: u16 = 1;

/// Reason why a ring is invalid until it is set up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The size is not a power of two, or is above [`MAX_SIZE`].
    #[error("its size is not a power of two up to 1024")]
    Size,
    /// A part of the ring is not aligned.
    #[error("a part of it is not aligned")]
    Alignment,
    /// A part of the ring is outside the guest's memory.
    #[error("a part of it is outside the guest's memory")]
    Outside,
    /// The index claims more available chains than the ring can hold.
    #[error("its index jumped by more than the ring holds")]
    Index,
    /// The front end has truncated the file of the guest's memory.
    #[error("its front end truncated the guest's memory: use a memfd with seal=on")]
    Truncated,
    /// A chain begins at a descriptor outside the table.
    #[error("a chain begins past its descriptor table")]
    Head,
}

/// Description of a ring by its front end. Addresses are the guest's.
#[derive(Debug)]
pub struct Setup {
    /// Number of descriptors.
    pub size: u16,
    /// Address of the descriptor table.
    pub descriptors: u64,
    /// Address of the ring of available chains.
    pub available: u64,
    /// Address of the ring of used chains.
    pub used: u64,
    /// Index of the first available chain to take.
    pub next: u16,
    /// Whether kicks and calls are requested by index (`VIRTIO_F_EVENT_IDX`).
    pub event_index: bool,
    /// Whether a frame may be spread over several chains (`VIRTIO_NET_F_MRG_RXBUF`).
    pub merge: bool,
    /// Length in bytes of the header before each frame.
    pub header: usize,
    /// Descriptor on which the driver signals available chains.
    pub kick: Option<File>,
    /// Descriptor on which the device signals used chains.
    pub call: Option<File>,
}

/// A virtio ring that runs.
#[derive(Debug)]
pub struct Ring {
    queue: Queue,
    memory: Arc<Memory>,
    merge: bool,
    header: usize,
    kick: Option<File>,
    call: Option<File>,
    /// Index of the used chain up to which the driver was notified.
    notified: Wrapping<u16>,
    /// The chain taken last; its allocation is reused.
    chain: Chain,
    /// The chains of a frame that needs several.
    merged: Vec<(u16, Chain)>,
}

impl Ring {
    /// Starts a ring in `memory` at the chain `setup.next`.
    ///
    /// # Errors
    /// If the description is invalid, or the ring is not in the guest's memory.
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
        // Both rings have six bytes beside their entries. This is checked here because a region
        // that ends near the end of the address space would overflow below.
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
        Ok(Self { queue, memory, merge, header, kick, call, notified: used, chain, merged })
    }

    /// Descriptor that becomes readable when the driver has kicked.
    pub fn kick(&self) -> Option<RawFd> {
        self.kick.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Clears the kick descriptor.
    pub fn clear_kick(&mut self) {
        if let Some(kick) = &mut self.kick {
            // An error means that there was no kick.
            let _ = kick.read(&mut [0; 8]);
        }
    }

    /// Index of the next available chain to take.
    pub fn next(&self) -> u16 {
        self.queue.next_avail()
    }

    /// Number of descriptors.
    pub fn size(&self) -> u16 {
        self.queue.size()
    }

    /// Number of available chains that are not taken yet.
    ///
    /// # Errors
    /// If the index claims more than the ring can hold.
    pub fn waiting(&self) -> Result<u16, RingError> {
        let available = self.queue.avail_idx(&*self.memory, Ordering::Acquire);
        let available = available.map_err(|_| RingError::Outside)?;
        let waiting = (available - Wrapping(self.queue.next_avail())).0;
        if waiting > self.queue.size() { Err(RingError::Index) } else { Ok(waiting) }
    }

    /// Asks the driver to kick. Returns whether chains became available before the driver could see
    /// the request; it does not kick for those.
    ///
    /// # Errors
    /// If the ring is invalid.
    pub fn enable_kicks(&mut self) -> Result<bool, RingError> {
        self.queue.enable_notification(&*self.memory).map_err(|_| RingError::Outside)
    }

    /// Asks the driver not to kick. The driver may still do so.
    ///
    /// # Errors
    /// If the ring is invalid.
    pub fn disable_kicks(&mut self) -> Result<(), RingError> {
        self.queue.disable_notification(&*self.memory).map_err(|_| RingError::Outside)
    }

    /// Takes the next available chain into `self.chain`; returns its head, if there is a chain.
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

    /// Returns the `count` chains taken last to the available ring.
    fn put_back(&mut self, count: u16) {
        let next = Wrapping(self.queue.next_avail()) - Wrapping(count);
        self.queue.set_next_avail(next.0);
    }

    /// Returns chains to the driver, each with the number of bytes written into it. All become
    /// visible at the same moment, because a driver that sees only some of a frame's buffers drops
    /// the frame.
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

    /// Notifies the driver of used chains, if there are new ones and it has asked for that.
    ///
    /// # Errors
    /// If the ring is invalid.
    pub fn call(&mut self) -> Result<(), RingError> {
        let used = Wrapping(self.queue.next_used());
        if used != self.notified {
            // The driver must see the used index before its request is read (section 2.7.7.1).
            fence(Ordering::SeqCst);
            let wanted = if self.queue.event_idx_enabled() {
                // `used_event` is at the end of the available ring (section 2.7.10).
                let event = Wrapping(self.read(4 + 2 * u64::from(self.queue.size()))?);
                used - event - Wrapping(1) < used - self.notified
            } else {
                self.read(0)? & NO_INTERRUPT == 0
            };
            self.notified = used;
            if wanted {
                self.call_now();
            }
        }
        Ok(())
    }

    /// Notifies the driver, whether it has asked for that or not.
    pub fn call_now(&mut self) {
        if let Some(call) = &mut self.call {
            // A full eventfd means that the driver has not read it yet.
            let _ = call.write(&1u64.to_ne_bytes());
        }
    }

    /// Reads a field of the available ring.
    fn read(&self, offset: u64) -> Result<u16, RingError> {
        let at = GuestAddress(self.queue.avail_ring()).checked_add(offset);
        let value = at.and_then(|at| self.memory.load::<u16>(at, Ordering::Relaxed).ok());
        value.map(u16::from_le).ok_or(RingError::Outside)
    }
}

#[cfg(test)]
mod tests;
