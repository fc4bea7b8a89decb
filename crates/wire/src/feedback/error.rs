use core::fmt;

use super::message::VERSION;
use super::{BundleId, Replay};

/// Why a datagram was not accepted. It changed nothing; count it and go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveError {
    /// It is too short or too long for its type.
    Length {
        /// Its bytes.
        actual: usize,
        /// What a message of its type has; zero if it is too short to tell.
        expected: usize,
    },
    /// The other end speaks this other version of the protocol.
    Version(u8),
    /// There is no such message, or none that this end should be sent.
    Type(u8),
    /// It is for another bundle.
    Bundle(BundleId),
    /// The tag is wrong: another key, another session or a forgery.
    Tag,
    /// The binary logarithm of the epoch size is out of range.
    EpochSize(u8),
    /// It was received before, or might have been.
    Replay(Replay),
    /// It is feedback from a receivebox that this sendbox has not met yet; send an update.
    NoSession,
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { actual, expected: 0 } => write!(f, "{actual} bytes are no message"),
            Self::Length { actual, expected } => {
                write!(f, "{actual} bytes instead of {expected}")
            }
            Self::Version(v) => {
                write!(
                    f,
                    "protocol version {v} instead of {VERSION}: run the same release on both boxes"
                )
            }
            Self::Type(t) => write!(f, "unexpected message type {t}"),
            Self::Bundle(b) => write!(f, "meant for bundle {}", b.0),
            Self::Tag => f.write_str("wrong tag: check that both boxes have the same key"),
            Self::EpochSize(e) => write!(f, "epoch size 2^{e} is out of range"),
            Self::Replay(replay) => replay.fmt(f),
            Self::NoSession => f.write_str("feedback before a session is agreed"),
        }
    }
}

impl core::error::Error for ReceiveError {}

impl From<Replay> for ReceiveError {
    fn from(replay: Replay) -> Self {
        Self::Replay(replay)
    }
}
