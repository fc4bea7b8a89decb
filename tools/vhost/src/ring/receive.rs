//! The ring of buffers into which the guest receives frames.

use super::chain::Chain;
use super::{Ring, RingError};
use crate::offload::Offload;

/// Result of the delivery of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The guest has it.
    Done,
    /// The guest has no buffers for it at present; nothing was changed.
    NoRoom,
    /// A buffer was invalid, or too small for a frame that may not be spread. The frame is lost,
    /// and the buffers return to the driver.
    Unusable,
}

impl Ring {
    /// Delivers `frame` to the guest, with its remaining `offload`.
    ///
    /// # Errors
    /// If the ring is invalid.
    pub fn receive(&mut self, offload: &Offload, frame: &[u8]) -> Result<Delivery, RingError> {
        let wanted = (self.header + frame.len()) as u64;
        let mut room = 0;
        let mut count = 0;
        let mut usable = true;
        while room < wanted && usable {
            let Some(head) = self.take()? else {
                if count < usize::from(self.size()) {
                    self.put_back(count as u16);
                    return Ok(Delivery::NoRoom);
                }
                // All buffers of the ring together are too small, and waiting cannot change that.
                usable = false;
                break;
            };
            if self.merged.len() == count {
                self.merged.push((0, Chain::default()));
            }
            room += self.chain.writable();
            // An empty buffer makes no progress, and the guest could offer such buffers for ever.
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
        used.map(|()| if written { Delivery::Done } else { Delivery::Unusable })
    }

    /// Writes the header and the frame to the first `count` chains.
    fn write(&self, count: usize, offload: &Offload, frame: &[u8]) -> bool {
        let chains = &self.merged[..count];
        // Only the header's last two bytes can be missing; drivers without merging may not know
        // them.
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
