//! The ring of frames that a guest sends.

use super::{Ring, RingError};
use crate::offload::{HEADER, MAX_FRAME, MIN_FRAME, Offload};

/// Why a chain holds no frame that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// The chain has no end, is not in the guest's memory, or too short or too long for a frame.
    Chain,
    /// What the frame's header asks for cannot be done to it.
    Header,
}

/// A chain that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What the driver knows it by.
    pub head: u16,
    /// What is to be done to the frame, or why there is none.
    pub frame: Result<Offload, Unusable>,
}

impl Ring {
    /// Copies the frame of the next available chain into `out`, instead of what is there. The driver has
    /// the chain back with [`Ring::finish`]; [`Ring::leave`] leaves it where it was.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn transmit(&mut self, out: &mut Vec<u8>) -> Result<Option<Taken>, RingError> {
        let Some(head) = self.take()? else { return Ok(None) };
        Ok(Some(Taken { head, frame: self.copy_frame(out) }))
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

    /// Leaves the chain in the ring that was looked at last: it is the next one again.
    pub fn leave(&mut self) {
        self.put_back(1);
    }

    /// Hands a chain back: its frame was taken.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn finish(&mut self, head: u16) -> Result<(), RingError> {
        self.use_all(std::iter::once((head, 0)))
    }
}
