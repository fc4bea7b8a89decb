//! The layouts of the messages; the module's documentation has them in a table.

use core::num::NonZeroU64;
use core::ops::Deref;

use forebay_units::{Bytes, Nanos, Rate};

use super::mac::{Direction, Mac, Sessions, TAG_LEN};
use super::{ReceiveError, Session};
use crate::EpochSize;
use crate::bytes::{at, be16};

/// The version of the protocol.
pub(super) const VERSION: u8 = 6;
const HEADER_LEN: usize = 4;

/// The length of a feedback message in bytes.
pub const FEEDBACK_LEN: usize = 52;
/// The length of a feedback message that tells of other bundles, in bytes.
pub const FEEDBACK_BESIDE_LEN: usize = 64;
/// The length of an epoch update in bytes.
pub const EPOCH_UPDATE_LEN: usize = 60;
/// The length of an epoch acknowledgement in bytes.
pub const EPOCH_ACK_LEN: usize = 52;

/// The number by which both boxes identify a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Feedback = 1,
    EpochUpdate = 2,
    EpochAck = 3,
    FeedbackBeside = 4,
}

impl Kind {
    const fn len(self) -> usize {
        match self {
            Self::Feedback => FEEDBACK_LEN,
            Self::EpochUpdate => EPOCH_UPDATE_LEN,
            Self::EpochAck => EPOCH_ACK_LEN,
            Self::FeedbackBeside => FEEDBACK_BESIDE_LEN,
        }
    }
}

/// Returns the bundle of a datagram, whose key its tag must be checked with.
///
/// # Errors
/// Returns an error if the datagram is not a message of this protocol version. It does not check
/// the tag.
pub fn bundle_of(datagram: &[u8]) -> Result<BundleId, ReceiveError> {
    kind_of(datagram).map(|(_, bundle)| bundle)
}

/// Whether a datagram is for a receivebox, by its type. It does not check the tag.
pub fn is_for_receivebox(datagram: &[u8]) -> bool {
    matches!(kind_of(datagram), Ok((Kind::EpochUpdate, _)))
}

/// Returns the type and the bundle, after a check that the length is that of the type.
pub(super) fn kind_of(datagram: &[u8]) -> Result<(Kind, BundleId), ReceiveError> {
    let actual = datagram.len();
    let &[first, _, high, low] =
        datagram.first_chunk().ok_or(ReceiveError::Length { actual, expected: 0 })?;
    if first >> 4 != VERSION {
        return Err(ReceiveError::Version(first >> 4));
    }
    let kind = match first & 15 {
        1 => Kind::Feedback,
        2 => Kind::EpochUpdate,
        3 => Kind::EpochAck,
        4 => Kind::FeedbackBeside,
        other => return Err(ReceiveError::Type(other)),
    };
    if actual != kind.len() {
        return Err(ReceiveError::Length { actual, expected: kind.len() });
    }
    Ok((kind, BundleId(be16(high, low))))
}

fn header(kind: Kind, epoch: EpochSize, bundle: BundleId) -> [u8; HEADER_LEN] {
    let [high, low] = bundle.0.to_be_bytes();
    [VERSION << 4 | kind as u8, epoch.log2(), high, low]
}

/// Returns the epoch size from a header that has been authenticated.
fn epoch_size<const N: usize>(message: &[u8; N]) -> Result<EpochSize, ReceiveError> {
    EpochSize::from_log2(message[1]).map_err(|_| ReceiveError::EpochSize(message[1]))
}

fn be32<const N: usize>(message: &[u8; N], offset: usize) -> u32 {
    at(message, offset).copied().map_or(0, u32::from_be_bytes)
}

fn be64<const N: usize>(message: &[u8; N], offset: usize) -> u64 {
    at(message, offset).copied().map_or(0, u64::from_be_bytes)
}

/// Writes the tag over the bytes before `end` into the last bytes of `message`.
fn seal<const N: usize>(
    message: &mut [u8; N],
    end: usize,
    mac: &Mac,
    direction: Direction,
    sessions: Sessions,
) {
    let tag = mac.tag(direction, sessions, &message[..end]);
    message[N - TAG_LEN..].copy_from_slice(&tag);
}

/// Checks the tag of `message`.
fn open<const N: usize>(
    message: &[u8; N],
    end: usize,
    mac: &Mac,
    direction: Direction,
    sessions: Sessions,
) -> Result<(), ReceiveError> {
    let tag = message.last_chunk().ok_or(ReceiveError::Tag)?;
    mac.verify(direction, sessions, &message[..end], tag)
}

/// The longest holding time that a feedback message can carry.
pub const MAX_HELD: Nanos = Nanos(u16::MAX as u64 * MICROSECOND);
const MICROSECOND: u64 = 1_000;

const SEQUENCE_BITS: u32 = 48;
/// The sequence number of the last feedback of a session.
pub(super) const MAX_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

/// What a receivebox records when a boundary packet arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The fingerprint of the packet.
    pub fingerprint: u32,
    /// When the packet arrived, on the receivebox's monotonic clock. Only differences are
    /// meaningful.
    pub time: Nanos,
    /// Bytes of the bundle that have arrived, including this packet's.
    pub bytes: Bytes,
    /// Packets of the bundle that have arrived, including this one, modulo 2^32.
    pub packets: u32,
}

/// The receivebox's answer to a boundary packet. Bundler calls it congestion ACK (section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// The sequence number, from 1 in every session. A gap means lost or late feedback.
    pub sequence: u64,
    /// The epoch size that the receivebox uses.
    pub epoch: EpochSize,
    /// The arrival of the boundary packet.
    pub arrival: Arrival,
    /// How long the receivebox held the answer after that. This time is not part of the path's
    /// round trip. It is in whole microseconds and at most [`MAX_HELD`].
    pub held: Nanos,
    /// What the receivebox's other bundles have received; `None` if it has no others.
    pub others: Option<Others>,
}

/// What the other bundles of a receivebox have received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others {
    /// Their bytes so far. Only differences are meaningful.
    pub bytes: Bytes,
    /// The mean rate of the large bundles, this one among them, in whole kbit/s.
    pub fair: Rate,
}

/// A sealed feedback message, which is longer beside other bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackMessage {
    bytes: [u8; FEEDBACK_BESIDE_LEN],
    len: usize,
}

impl Deref for FeedbackMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

const KBIT: u64 = 1_000;

impl Feedback {
    /// The fields that every feedback message has, with the header.
    const COMMON: usize = FEEDBACK_LEN - TAG_LEN;
    const BODY_BESIDE: usize = FEEDBACK_BESIDE_LEN - TAG_LEN;

    pub(super) fn seal(&self, bundle: BundleId, mac: &Mac, sessions: Sessions) -> FeedbackMessage {
        let mut bytes = [0; FEEDBACK_BESIDE_LEN];
        let Some(others) = self.others else {
            let mut out = [0; FEEDBACK_LEN];
            self.write(&mut out, Kind::Feedback, bundle);
            seal(&mut out, Self::COMMON, mac, Direction::ToSendbox, sessions);
            bytes[..FEEDBACK_LEN].copy_from_slice(&out);
            return FeedbackMessage { bytes, len: FEEDBACK_LEN };
        };
        self.write(&mut bytes, Kind::FeedbackBeside, bundle);
        bytes[36..44].copy_from_slice(&others.bytes.0.to_be_bytes());
        let fair = u32::try_from(others.fair.as_bps() / KBIT).unwrap_or(u32::MAX);
        bytes[44..48].copy_from_slice(&fair.to_be_bytes());
        seal(&mut bytes, Self::BODY_BESIDE, mac, Direction::ToSendbox, sessions);
        FeedbackMessage { bytes, len: FEEDBACK_BESIDE_LEN }
    }

    /// Writes the common fields.
    fn write<const N: usize>(&self, out: &mut [u8; N], kind: Kind, bundle: BundleId) {
        out[0..4].copy_from_slice(&header(kind, self.epoch, bundle));
        out[4..8].copy_from_slice(&self.arrival.fingerprint.to_be_bytes());
        let held = self.held.min(MAX_HELD).0 / MICROSECOND;
        let (sequence, held) = (self.sequence.min(MAX_SEQUENCE), held << SEQUENCE_BITS);
        out[8..16].copy_from_slice(&(held | sequence).to_be_bytes());
        out[16..24].copy_from_slice(&self.arrival.time.0.to_be_bytes());
        out[24..32].copy_from_slice(&self.arrival.bytes.0.to_be_bytes());
        out[32..36].copy_from_slice(&self.arrival.packets.to_be_bytes());
    }

    pub(super) fn open(
        message: &[u8; FEEDBACK_LEN],
        mac: &Mac,
        sessions: Sessions,
    ) -> Result<Self, ReceiveError> {
        open(message, Self::COMMON, mac, Direction::ToSendbox, sessions)?;
        Self::read(message, None)
    }

    pub(super) fn open_beside(
        message: &[u8; FEEDBACK_BESIDE_LEN],
        mac: &Mac,
        sessions: Sessions,
    ) -> Result<Self, ReceiveError> {
        open(message, Self::BODY_BESIDE, mac, Direction::ToSendbox, sessions)?;
        let fair = Rate::from_bps(u64::from(be32(message, 44)) * KBIT);
        Self::read(message, Some(Others { bytes: Bytes(be64(message, 36)), fair }))
    }

    /// Reads the common fields of a message that has been authenticated.
    fn read<const N: usize>(
        message: &[u8; N],
        others: Option<Others>,
    ) -> Result<Self, ReceiveError> {
        Ok(Self {
            sequence: be64(message, 8) & MAX_SEQUENCE,
            held: Nanos(be64(message, 8) >> SEQUENCE_BITS) * MICROSECOND,
            epoch: epoch_size(message)?,
            arrival: Arrival {
                fingerprint: be32(message, 4),
                time: Nanos(be64(message, 16)),
                bytes: Bytes(be64(message, 24)),
                packets: be32(message, 32),
            },
            others,
        })
    }
}

/// What a sendbox has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendboxCounts {
    /// Packets of the bundle that left, since the sendbox's start.
    pub packets: u64,
    /// Feedback messages since the last one that answered a packet that left.
    pub unrecognized: u64,
}

/// What a receivebox has counted, beside what the sendbox had sent by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveboxCounts {
    /// Packets of the bundle that arrived, since the receivebox's start.
    pub packets: u64,
    /// The sendbox's packets by the update that this answers.
    pub sent: u64,
}

/// The sendbox's request to use an epoch size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EpochUpdate {
    pub(super) sequence: u64,
    pub(super) epoch: EpochSize,
    pub(super) counts: SendboxCounts,
    pub(super) sessions: Sessions,
}

impl EpochUpdate {
    /// Length of the part under the tag without the sessions, which the tag covers separately.
    const BODY: usize = 28;

    pub(super) fn seal(&self, bundle: BundleId, mac: &Mac) -> [u8; EPOCH_UPDATE_LEN] {
        let Sessions { sendbox, receivebox } = self.sessions;
        let mut out = [0; EPOCH_UPDATE_LEN];
        out[0..4].copy_from_slice(&header(Kind::EpochUpdate, self.epoch, bundle));
        out[4..12].copy_from_slice(&self.sequence.to_be_bytes());
        out[12..20].copy_from_slice(&self.counts.packets.to_be_bytes());
        out[20..28].copy_from_slice(&self.counts.unrecognized.to_be_bytes());
        out[28..36].copy_from_slice(&sendbox.0.get().to_be_bytes());
        out[36..44].copy_from_slice(&receivebox.map_or(0, |s| s.0.get()).to_be_bytes());
        seal(&mut out, Self::BODY, mac, Direction::ToReceivebox, self.sessions);
        out
    }

    pub(super) fn open(message: &[u8; EPOCH_UPDATE_LEN], mac: &Mac) -> Result<Self, ReceiveError> {
        let sessions = Sessions {
            sendbox: session(message, 28).ok_or(ReceiveError::Tag)?,
            receivebox: session(message, 36),
        };
        open(message, Self::BODY, mac, Direction::ToReceivebox, sessions)?;
        Ok(Self {
            sequence: be64(message, 4),
            epoch: epoch_size(message)?,
            counts: SendboxCounts { packets: be64(message, 12), unrecognized: be64(message, 20) },
            sessions,
        })
    }
}

/// The receivebox's answer to an update, whether applied or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EpochAck {
    pub(super) acked: u64,
    pub(super) epoch: EpochSize,
    pub(super) counts: ReceiveboxCounts,
    pub(super) receivebox: Session,
}

impl EpochAck {
    const BODY: usize = 28;

    pub(super) fn seal(
        &self,
        bundle: BundleId,
        mac: &Mac,
        sendbox: Session,
    ) -> [u8; EPOCH_ACK_LEN] {
        let mut out = [0; EPOCH_ACK_LEN];
        out[0..4].copy_from_slice(&header(Kind::EpochAck, self.epoch, bundle));
        out[4..12].copy_from_slice(&self.acked.to_be_bytes());
        out[12..20].copy_from_slice(&self.counts.packets.to_be_bytes());
        out[20..28].copy_from_slice(&self.counts.sent.to_be_bytes());
        out[28..36].copy_from_slice(&self.receivebox.0.get().to_be_bytes());
        let sessions = Sessions { sendbox, receivebox: Some(self.receivebox) };
        seal(&mut out, Self::BODY, mac, Direction::ToSendbox, sessions);
        out
    }

    pub(super) fn open(
        message: &[u8; EPOCH_ACK_LEN],
        mac: &Mac,
        sendbox: Session,
    ) -> Result<Self, ReceiveError> {
        let receivebox = session(message, 28).ok_or(ReceiveError::Tag)?;
        let sessions = Sessions { sendbox, receivebox: Some(receivebox) };
        open(message, Self::BODY, mac, Direction::ToSendbox, sessions)?;
        Ok(Self {
            acked: be64(message, 4),
            epoch: epoch_size(message)?,
            counts: ReceiveboxCounts { packets: be64(message, 12), sent: be64(message, 20) },
            receivebox,
        })
    }
}

fn session<const N: usize>(message: &[u8; N], offset: usize) -> Option<Session> {
    NonZeroU64::new(be64(message, offset)).map(Session)
}
