use core::num::NonZeroU64;
use core::ops::Deref;

use forebay_units::Nanos;

use super::mac::{Mac, Sessions};
use super::message::{
    EPOCH_ACK_LEN, EpochAck, EpochUpdate, FeedbackMessage, Kind, MAX_SEQUENCE, kind_of,
};
use super::{Arrival, BundleId, Feedback, Key, Others, ReceiveError, ReceiveboxCounts, Replay};
use super::{SendboxCounts, Session};
use crate::EpochSize;

/// The agreement between the receivebox and one session of the sendbox.
#[derive(Clone, Copy, Debug)]
struct Bound {
    sendbox: Session,
    receivebox: Session,
    /// The sequence number of the latest update applied.
    applied: u64,
    epoch: EpochSize,
    /// What the sendbox had counted by that update.
    counts: SendboxCounts,
    /// The sequence number of the latest feedback sent.
    sent: u64,
}

impl Bound {
    fn sessions(&self) -> Sessions {
        Sessions { sendbox: self.sendbox, receivebox: Some(self.receivebox) }
    }
}

/// The state of a receivebox's channel, with which another process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedReceivebox {
    /// The session that the next binding will use.
    pub offered: Session,
    /// The agreement with a session of the sendbox, if there is one.
    pub bound: Option<SavedBinding>,
}

/// The agreement between the receivebox and one session of the sendbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedBinding {
    /// The session of the sendbox.
    pub sendbox: Session,
    /// The session of the receivebox.
    pub receivebox: Session,
    /// The sequence number of the latest update applied.
    pub applied: u64,
    /// The epoch size by that update.
    pub epoch: EpochSize,
    /// The packets that the sendbox had sent by that update.
    pub packets: u64,
    /// The sequence number of the latest feedback sent.
    pub sent: u64,
}

/// The answer to an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The datagram to send.
    pub message: [u8; EPOCH_ACK_LEN],
    /// Whether the update was applied, so that nobody can have sent it before. The source of such
    /// an update is where the sendbox is. Anybody can repeat an update of an old session.
    pub is_fresh: bool,
}

impl Deref for Answer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.message
    }
}

/// The receivebox's end of a bundle's feedback channel.
#[derive(Clone, Debug)]
pub struct ReceiveboxChannel {
    bundle: BundleId,
    mac: Mac,
    /// The session that the next binding will use.
    offered: Session,
    bound: Option<Bound>,
    /// The session of the sendbox beside it.
    refused: Option<Session>,
}

impl ReceiveboxChannel {
    /// Creates a channel for `bundle`. `session` and the numbers after it, one for each restart of
    /// the sendbox, must never have been used before with `key`.
    pub fn new(bundle: BundleId, key: &Key, session: Session) -> Self {
        Self { bundle, mac: Mac::new(key), offered: session, bound: None, refused: None }
    }

    /// Goes on where the channel `saved` ended, which must not be used any more. Returns `None` if
    /// its numbers cannot be those of a channel.
    pub fn resumed(bundle: BundleId, key: &Key, saved: &SavedReceivebox) -> Option<Self> {
        let SavedReceivebox { offered, bound } = *saved;
        if bound.is_some_and(|bound| bound.sent > MAX_SEQUENCE || bound.receivebox == offered) {
            return None;
        }
        let bound = bound.map(|saved| Bound {
            sendbox: saved.sendbox,
            receivebox: saved.receivebox,
            applied: saved.applied,
            epoch: saved.epoch,
            counts: SendboxCounts { packets: saved.packets, unrecognized: 0 },
            sent: saved.sent,
        });
        Some(Self { bound, ..Self::new(bundle, key, offered) })
    }

    /// Returns the state with which [`Self::resumed`] goes on.
    pub fn save(&self) -> SavedReceivebox {
        let bound = self.bound.map(|bound| SavedBinding {
            sendbox: bound.sendbox,
            receivebox: bound.receivebox,
            applied: bound.applied,
            epoch: bound.epoch,
            packets: bound.counts.packets,
            sent: bound.sent,
        });
        SavedReceivebox { offered: self.offered, bound }
    }

    /// Refuses updates of this session: that of a sendbox beside this receivebox which has the same
    /// key.
    pub fn refuse(&mut self, own: Session) {
        self.refused = Some(own);
    }

    /// Returns the epoch size to use; `None` before a sendbox has asked for one.
    pub fn epoch(&self) -> Option<EpochSize> {
        self.bound.map(|b| b.epoch)
    }

    /// Returns what the sendbox had counted by its last update; `None` before one was applied.
    pub fn sendbox_counts(&self) -> Option<SendboxCounts> {
        self.bound.map(|b| b.counts)
    }

    /// Takes in a datagram from the sendbox and returns the datagram to answer with. Afterwards
    /// [`ReceiveboxChannel::epoch`] may have changed. `packets` returns the number of packets of
    /// the bundle that have arrived; it is called for an authentic message only.
    ///
    /// Send the answer to the source of the datagram: it is authentic, and the sendbox may have
    /// another address than before. A replayed update of an old session is answered too, which has
    /// no effect. The answer is shorter than the update, so it does not amplify an attack. Feedback
    /// goes to the source of the latest update whose answer [is fresh](Answer::is_fresh).
    ///
    /// # Errors
    /// Returns why the datagram is malformed, not authentic or a replay. It then has no effect.
    pub fn receive(
        &mut self,
        datagram: &[u8],
        packets: impl FnOnce() -> u64,
    ) -> Result<Answer, ReceiveError> {
        let (kind, bundle) = kind_of(datagram)?;
        if bundle != self.bundle {
            return Err(ReceiveError::Bundle(bundle));
        }
        let (Kind::EpochUpdate, Some(message)) = (kind, datagram.first_chunk()) else {
            return Err(ReceiveError::Type(kind as u8));
        };
        let update = EpochUpdate::open(message, &self.mac)?;
        if self.refused == Some(update.sessions.sendbox) {
            return Err(ReceiveError::Own);
        }
        let before = self.applied();
        let receivebox = self.apply(&update)?;
        let is_fresh = self.applied() != before;
        // Before the first binding there is no epoch size. The largest one is the best substitute.
        let epoch = self.epoch().unwrap_or(EpochSize::MAX);
        let counts = ReceiveboxCounts { packets: packets(), sent: update.counts.packets };
        let ack = EpochAck { acked: update.sequence, epoch, counts, receivebox };
        let message = ack.seal(self.bundle, &self.mac, update.sessions.sendbox);
        Ok(Answer { message, is_fresh })
    }

    /// Returns the session and the sequence number of the latest update that was applied.
    fn applied(&self) -> Option<(Session, u64)> {
        self.bound.map(|bound| (bound.receivebox, bound.applied))
    }

    /// Applies `update` if it is of this session or binds it. Returns the session in which it was
    /// applied, or the session that it should have carried.
    fn apply(&mut self, update: &EpochUpdate) -> Result<Session, ReceiveError> {
        if let Some(bound) = &mut self.bound
            && update.sessions.sendbox == bound.sendbox
        {
            if update.sequence <= bound.applied {
                return Err(Replay::Seen.into());
            }
            if update.sessions == bound.sessions() {
                bound.applied = update.sequence;
                bound.epoch = update.epoch;
                bound.counts = update.counts;
                return Ok(bound.receivebox);
            }
        }
        let receivebox = self.offered;
        if update.sessions.receivebox == Some(receivebox) {
            self.offered = Session(receivebox.0.checked_add(1).unwrap_or(NonZeroU64::MIN));
            self.bound = Some(Bound {
                sendbox: update.sessions.sendbox,
                receivebox,
                applied: update.sequence,
                epoch: update.epoch,
                counts: update.counts,
                sent: 0,
            });
        }
        Ok(receivebox)
    }

    /// Returns the feedback for a boundary packet, sent `held` after the packet arrived, with what
    /// the receivebox's other bundles have received by then. The result is `None` before a sendbox
    /// has bound this session, and after the session's last number.
    pub fn feedback(
        &mut self,
        arrival: Arrival,
        held: Nanos,
        others: Option<Others>,
    ) -> Option<FeedbackMessage> {
        let bound = self.bound.as_mut()?;
        if bound.sent == MAX_SEQUENCE {
            return None;
        }
        bound.sent += 1;
        let feedback = Feedback { sequence: bound.sent, epoch: bound.epoch, arrival, held, others };
        Some(feedback.seal(self.bundle, &self.mac, bound.sessions()))
    }
}
