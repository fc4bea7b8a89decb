//! The ring of buffers that a guest receives frames into.

use super::chain::Chain;
use super::{Ring, RingError};
use crate::offload::Offload;

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The guest has it.
    Done,
    /// The guest has no buffers for it now; nothing was changed.
    NoRoom,
    /// A buffer was not what it said, or too small for a frame that may not be spread: the frame is lost,
    /// and the buffers are the driver's again.
    Unusable,
}

impl Ring {
    /// Hands `frame` to the guest, with what is left to do to it.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn receive(&mut self, offload: &Offload, frame: &[u8]) -> Result<Put, RingError> {
        let wanted = (self.header + frame.len()) as u64;
        let mut room = 0;
        let mut count = 0;
        let mut usable = true;
        while room < wanted && usable {
            let Some(head) = self.take()? else {
                if count < usize::from(self.size()) {
                    self.put_back(count as u16);
                    return Ok(Put::NoRoom);
                }
                // All that the ring can hold is too small, and waiting would not change it.
                usable = false;
                break;
            };
            if self.merged.len() == count {
                self.merged.push((0, Chain::default()));
            }
            room += self.chain.writable();
            // An empty buffer makes no progress, and the guest could offer them for ever.
            usable = self.chain.is_whole() && self.chain.writable() > 0;
            let slot = &mut self.merged[count];
            slot.0 = head;
            std::mem::swap(&mut slot.1, &mut self.chain);
            count += 1;
            usable &= self.merge || room >= wanted;
        }
        let written = usable && self.write(count, offload, frame);
        let merged = std::mem::take(&mut self.merged);
        let mut left = wanted;
        let lengths = merged[..count].iter().map(|(head, chain)| {
            let len = if written { left.min(chain.writable()) } else { 0 };
            left -= len;
            (*head, len as u32)
        });
        let used = self.use_all(lengths);
        self.merged = merged;
        used.map(|()| if written { Put::Done } else { Put::Unusable })
    }

    /// Spreads the header and the frame over the first `count` chains.
    fn write(&self, count: usize, offload: &Offload, frame: &[u8]) -> bool {
        let chains = &self.merged[..count];
        // Only the header's last two bytes can be missing, which drivers without merging may not know.
        let header = offload.write(frame, count as u16);
        let header = &header[..self.header.min(header.len())];
        let mut parts = [header, frame];
        for (_, chain) in chains {
            let (mut skip, mut room) = (0, chain.writable() as usize);
            for part in &mut parts {
                let (now, later) = part.split_at(part.len().min(room));
                if !now.is_empty() && chain.copy_in(&self.memory, skip, now).is_err() {
                    return false;
                }
                skip += now.len();
                room -= now.len();
                *part = later;
            }
        }
        true
    }
}
