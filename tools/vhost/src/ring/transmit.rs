//! The ring of frames that the guest sends.

use super::{Ring, RingError};
use crate::offload::{HEADER, MAX_FRAME, MIN_FRAME, Offload};

/// Reason why a chain holds no frame that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The chain has no end, is outside the guest's memory, or is too short or too long for a
    /// frame.
    Chain,
    /// The frame's header asks for an impossible offload.
    Header,
}

/// A chain that was taken out of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenChain {
    /// Index of its first descriptor.
    pub head: u16,
    /// Offload that the frame needs, or the reason why there is no frame.
    pub frame: Result<Offload, Unusable>,
}

impl Ring {
    /// Replaces `out` by the frame of the next available chain. [`Ring::finish`] returns the chain
    /// to the driver; [`Ring::return_chain`] leaves it available.
    ///
    /// # Errors
    /// If the ring is invalid.
    pub fn transmit(&mut self, out: &mut Vec<u8>) -> Result<Option<TakenChain>, RingError> {
        let Some(head) = self.take()? else { return Ok(None) };
        Ok(Some(TakenChain { head, frame: self.copy_frame(out) }))
    }

    fn copy_frame(&self, out: &mut Vec<u8>) -> Result<Offload, Unusable> {
        let (chain, skip) = (&self.chain, self.header);
        let fits = (skip + MIN_FRAME) as u64..=(skip + MAX_FRAME) as u64;
        if !chain.is_whole() || !fits.contains(&chain.readable()) {
            return Err(Unusable::Chain);
        }
        let mut header = [0; HEADER];
        let header = &mut header[..skip.min(HEADER)];
        chain.copy_out(&self.memory, 0, header).map_err(|_| Unusable::Chain)?;
        out.clear();
        out.resize(chain.readable() as usize - skip, 0);
        chain.copy_out(&self.memory, skip, out).map_err(|_| Unusable::Chain)?;
        Offload::read(header, out).map_err(|_| Unusable::Header)
    }

    /// Makes the chain that was taken last the next available one again.
    pub fn return_chain(&mut self) {
        self.put_back(1);
    }

    /// Returns a chain to the driver after its frame was taken.
    ///
    /// # Errors
    /// If the ring is invalid.
    pub fn finish(&mut self, head: u16) -> Result<(), RingError> {
        self.use_all(std::iter::once((head, 0)))
    }
}
