use core::fmt;

use super::message::VERSION;
use super::{BundleId, Replay};

/// The reason why a datagram was not accepted. The datagram has no effect; count it and continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveError {
    /// The length does not match the message type.
    Length {
        /// The length of the datagram in bytes.
        actual: usize,
        /// The length of a message of this type in bytes; zero if the datagram has no type.
        expected: usize,
    },
    /// The datagram has another protocol version, which the field holds.
    Version(u8),
    /// The message type does not exist or is not for this end.
    Type(u8),
    /// The datagram is for another bundle.
    Bundle(BundleId),
    /// The tag is wrong: the key or session is another one, or the message is forged.
    Tag,
    /// The message is of the sendbox beside this receivebox.
    Own,
    /// The binary logarithm of the epoch size is out of range.
    EpochSize(u8),
    /// The message was received before, or may have been.
    Replay(Replay),
    /// The feedback is from a receivebox without a session with this sendbox. Send an update.
    NoSession,
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { actual, expected: 0 } => {
                write!(f, "a datagram of {actual} bytes is too short for a message")
            }
            Self::Length { actual, expected } => {
                write!(f, "a message of {actual} bytes instead of {expected}")
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
            Self::Own => f.write_str("this machine's own message came back"),
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
