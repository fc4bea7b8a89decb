//! The control queue: requests of the driver to the device (virtio 1.2, section 5.1.6.5).

use super::{Ring, RingError};

/// Maximum length in bytes of a request that is read. A longer one is refused.
const MAX_REQUEST: usize = 64;
/// The answers `VIRTIO_NET_OK` and `VIRTIO_NET_ERR`.
const OK: u8 = 0;
const ERR: u8 = 1;
/// `VIRTIO_NET_CTRL_MQ` and `VIRTIO_NET_CTRL_MQ_VQ_PAIRS_SET` (section 5.1.6.5.6).
const MULTIQUEUE: u8 = 4;
const PAIRS_SET: u8 = 0;

/// Reads the number of pairs of rings that a request wants to use, if it is such a request.
pub(crate) fn pairs(request: &[u8]) -> Option<u16> {
    match *request {
        [MULTIQUEUE, PAIRS_SET, low, high] => Some(u16::from_le_bytes([low, high])),
        _ => None,
    }
}

impl Ring {
    /// Answers the next request of the driver: `accepts` gets its bytes, class and command first,
    /// and returns whether the device has done it. Returns `false` if there was no request.
    ///
    /// A chain without an end, without room for the answer, or outside the guest's memory goes back
    /// without an answer.
    ///
    /// # Errors
    /// If the ring is invalid.
    pub fn answer(&mut self, accepts: impl FnOnce(&[u8]) -> bool) -> Result<bool, RingError> {
        let Some(head) = self.take()? else { return Ok(false) };
        let mut written = 0;
        if self.chain.is_whole() && self.chain.writable() > 0 {
            let mut request = [0; MAX_REQUEST];
            let read = usize::try_from(self.chain.readable()).ok();
            let request = read.and_then(|len| request.get_mut(..len)).and_then(|request| {
                self.chain.copy_out(&self.memory, 0, request).is_ok().then_some(&*request)
            });
            let answer = if request.is_some_and(accepts) { OK } else { ERR };
            written = u32::from(self.chain.copy_in(&self.memory, 0, &[answer]).is_ok());
        }
        self.use_all(std::iter::once((head, written)))?;
        Ok(true)
    }
}
