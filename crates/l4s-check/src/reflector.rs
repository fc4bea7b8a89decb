//! The far end of a check.

use forebay_queue::Ecn;
use forebay_units::Nanos;

use crate::message::{Echo, MessageError, Probe};

/// Answers probes. It keeps nothing of them, so that any number of checks may run at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reflector;

impl Reflector {
    /// Returns the answer to `datagram`, which arrived at `now` with the codepoint `ecn`. It goes
    /// back to where the datagram came from, as Not-ECT.
    ///
    /// # Errors
    /// Fails if `datagram` is no probe; nothing is to be sent then.
    pub fn answer(
        &self,
        now: Nanos,
        ecn: Ecn,
        datagram: &[u8],
    ) -> Result<[u8; Echo::LEN], MessageError> {
        let Probe { session, sequence } = Probe::decode(datagram)?;
        Ok(Echo { session, sequence, received_at: now, ecn }.encode())
    }
}
