//! The two datagrams of a check.
//!
//! A probe is `FbL1`, the session and the sequence number, both big-endian, and zeros up to its
//! length. Its echo is `FbL2`, the same two, the time of arrival in nanoseconds and the codepoint
//! that arrived. An echo is never longer than its probe, so that a forged source address gains
//! nothing.

use forebay_queue::Ecn;
use forebay_units::Nanos;

const PROBE: &[u8; 4] = b"FbL1";
const ECHO: &[u8; 4] = b"FbL2";
/// The session and the sequence number end here.
const HEAD: usize = 16;

/// A datagram that is no message of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is shorter than the message.
    #[error("the datagram is too short")]
    Short,
    /// It begins with other bytes.
    #[error("the datagram is none of a check")]
    Foreign,
    /// Its codepoint is above 3.
    #[error("the codepoint is above 3")]
    Codepoint,
}

/// A probe, from the prober to the reflector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The run of the prober, a random number.
    pub session: u64,
    /// The number of the datagram in this run.
    pub sequence: u32,
}

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// That of the probe.
    pub session: u64,
    /// That of the probe.
    pub sequence: u32,
    /// When the probe arrived, by the reflector's clock.
    pub received_at: Nanos,
    /// The codepoint with which it arrived.
    pub ecn: Ecn,
}

impl Probe {
    /// The shortest length of a probe in bytes, that of an echo.
    pub const SHORTEST: usize = Echo::LEN;

    /// Writes the probe to `to`, whose length is that of the datagram.
    ///
    /// # Panics
    /// Panics if `to` is shorter than [`Probe::SHORTEST`].
    pub fn encode(&self, to: &mut [u8]) {
        assert!(to.len() >= Self::SHORTEST, "a probe is at least as long as its echo");
        to.fill(0);
        head(to, PROBE, self.session, self.sequence);
    }

    /// Reads a probe.
    ///
    /// # Errors
    /// Fails if `from` is no probe.
    pub fn decode(from: &[u8]) -> Result<Self, MessageError> {
        let (session, sequence) = read_head(from, PROBE, Self::SHORTEST)?;
        Ok(Self { session, sequence })
    }
}

impl Echo {
    /// The length of an echo in bytes.
    pub const LEN: usize = HEAD + 9;

    /// Answers `datagram`, which arrived at `now` with the codepoint `ecn`. The answer goes back to
    /// where the datagram came from, as Not-ECT. Nothing is kept, so any number of checks may run.
    ///
    /// # Errors
    /// Fails if `datagram` is no probe; nothing is to be sent then.
    pub fn of(now: Nanos, ecn: Ecn, datagram: &[u8]) -> Result<Self, MessageError> {
        let Probe { session, sequence } = Probe::decode(datagram)?;
        Ok(Self { session, sequence, received_at: now, ecn })
    }

    /// Returns the echo as a datagram.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut to = [0; Self::LEN];
        head(&mut to, ECHO, self.session, self.sequence);
        to[HEAD..HEAD + 8].copy_from_slice(&self.received_at.0.to_be_bytes());
        to[HEAD + 8] = bits(self.ecn);
        to
    }

    /// Reads an echo.
    ///
    /// # Errors
    /// Fails if `from` is no echo.
    pub fn decode(from: &[u8]) -> Result<Self, MessageError> {
        let (session, sequence) = read_head(from, ECHO, Self::LEN)?;
        let received_at = Nanos(u64::from_be_bytes(array(&from[HEAD..])));
        let ecn = codepoint(from[HEAD + 8]).ok_or(MessageError::Codepoint)?;
        Ok(Self { session, sequence, received_at, ecn })
    }
}

/// Returns the two bits of `ecn` (RFC 3168 section 5).
pub(crate) fn bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

fn codepoint(bits: u8) -> Option<Ecn> {
    [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].get(usize::from(bits)).copied()
}

fn head(to: &mut [u8], magic: &[u8; 4], session: u64, sequence: u32) {
    to[..4].copy_from_slice(magic);
    to[4..12].copy_from_slice(&session.to_be_bytes());
    to[12..HEAD].copy_from_slice(&sequence.to_be_bytes());
}

fn read_head(from: &[u8], magic: &[u8; 4], len: usize) -> Result<(u64, u32), MessageError> {
    if from.len() < len {
        return Err(MessageError::Short);
    }
    if &from[..4] != magic {
        return Err(MessageError::Foreign);
    }
    Ok((u64::from_be_bytes(array(&from[4..])), u32::from_be_bytes(array(&from[12..]))))
}

/// Returns the first bytes of `from`, whose length was checked.
fn array<const N: usize>(from: &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&from[..N]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_probe_and_its_echo_have_these_bytes() {
        let mut probe = [7; 26];
        Probe { session: 0x0102_0304_0506_0708, sequence: 9 }.encode(&mut probe);
        assert_eq!(&probe, b"FbL1\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x09\0\0\0\0\0\0\0\0\0\0");
        let echo = Echo { session: 1, sequence: 2, received_at: Nanos(258), ecn: Ecn::Ect0 };
        assert_eq!(&echo.encode(), b"FbL2\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\x01\x02\x02");
    }

    #[test]
    fn other_datagrams_are_refused() {
        assert_eq!(Probe::decode(b"FbL1"), Err(MessageError::Short));
        assert_eq!(Probe::decode(&[b'x'; 40]), Err(MessageError::Foreign));
        let mut echo =
            Echo { session: 1, sequence: 2, received_at: Nanos(3), ecn: Ecn::Ce }.encode();
        assert_eq!(Probe::decode(&echo), Err(MessageError::Foreign), "no loop of reflectors");
        echo[24] = 4;
        assert_eq!(Echo::decode(&echo), Err(MessageError::Codepoint));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(0_u8.., 0..64)) {
            let _ = Probe::decode(&bytes);
            let _ = Echo::decode(&bytes);
        }

        #[test]
        fn messages_survive_the_wire(
            session in 0_u64..,
            sequence in 0_u32..,
            at in 0_u64..,
            e in 0_u8..4,
        ) {
            let mut bytes = [0; 64];
            let probe = Probe { session, sequence };
            probe.encode(&mut bytes);
            prop_assert_eq!(Probe::decode(&bytes), Ok(probe));
            let ecn = codepoint(e).expect("below 4");
            let echo = Echo { session, sequence, received_at: Nanos(at), ecn };
            prop_assert_eq!(Echo::decode(&echo.encode()), Ok(echo));
        }
    }
}
