//! The control queue of a guest whose front end passes it on, as User-mode Linux does. QEMU answers
//! it itself, and enables and disables rings instead.

use super::vm::{RunningRing, Vm};
use crate::ring::control;
use crate::session::RingId;

/// Maximum number of requests that are answered at once.
const BUDGET: usize = 16;

impl Vm {
    /// Answers the requests of the driver. The only one that the device knows sets the number of
    /// pairs in use; all others are refused.
    pub(super) fn answer_requests(&mut self) {
        for _ in 0..BUDGET {
            let (pairs, in_use) = (self.transmit.len(), &mut self.pairs_in_use);
            let Some(RunningRing { ring, .. }) = &mut self.control else {
                self.control_ready = false;
                return;
            };
            let accepts = |request: &[u8]| {
                let wanted = control::pairs(request).and_then(|pairs| u8::try_from(pairs).ok());
                let wanted = wanted.filter(|n| (1..=pairs).contains(&usize::from(*n)));
                *in_use = wanted.unwrap_or(*in_use);
                wanted.is_some()
            };
            let answered = ring.answer(accepts).and_then(|answered| {
                // The driver does not kick for requests that arrived before kicks were enabled.
                Ok(answered || ring.enable_kicks()?)
            });
            match answered {
                Ok(true) => {}
                Ok(false) => {
                    self.control_ready = false;
                    return;
                }
                Err(error) => self.give_up(RingId::Control, error),
            }
        }
    }

    /// Number of pairs, from the first on, whose rings may get frames.
    pub(super) fn pairs_to_receive(&self) -> usize {
        // Without the queue the front end disables the rings that are not in use.
        if self.control.is_some() { self.pairs_in_use.into() } else { self.receive.len() }
    }
}
