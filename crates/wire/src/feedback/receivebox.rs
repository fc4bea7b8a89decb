use core::num::NonZeroU64;

use forebay_units::Nanos;

use super::mac::{Mac, Sessions};
use super::message::{
    EPOCH_ACK_LEN, EpochAck, EpochUpdate, FEEDBACK_LEN, Kind, MAX_SEQUENCE, kind_of,
};
use super::{Arrival, BundleId, Feedback, Key, ReceiveError, Replay, Session};
use crate::EpochSize;

/// What the receivebox and one life of the sendbox agreed on.
#[derive(Clone, Copy, Debug)]
struct Bound {
    sendbox: Session,
    receivebox: Session,
    /// The sequence of the latest update applied.
    applied: u64,
    epoch: EpochSize,
    /// The sequence of the latest feedback sent.
    sent: u64,
}

impl Bound {
    fn sessions(&self) -> Sessions {
        Sessions { sendbox: self.sendbox, receivebox: Some(self.receivebox) }
    }
}

/// The receivebox's end of a bundle's feedback channel.
#[derive(Clone, Debug)]
pub struct ReceiveboxChannel {
    bundle: BundleId,
    mac: Mac,
    /// The session that the next binding will use up.
    offered: Session,
    bound: Option<Bound>,
}

impl ReceiveboxChannel {
    /// A channel for `bundle`. `session` and the numbers after it, one for each time that the
    /// sendbox starts, must never have been used before with `key`.
    pub fn new(bundle: BundleId, key: &Key, session: Session) -> Self {
        Self { bundle, mac: Mac::new(key), offered: session, bound: None }
    }

    /// The epoch size to use; `None` as long as no sendbox has asked for one.
    pub fn epoch(&self) -> Option<EpochSize> {
        self.bound.map(|b| b.epoch)
    }

    /// Takes a datagram from the sendbox and returns the one to answer with. Look at
    /// [`ReceiveboxChannel::epoch`] afterwards.
    ///
    /// A recorded update of a former session is answered too, in vain. The answer is shorter than
    /// the update, so nobody gains by it; send it to the configured sendbox, not to where the
    /// datagram seems to come from.
    ///
    /// # Errors
    /// If it is malformed, not authentic or a replay. Then it changed nothing.
    pub fn receive(&mut self, datagram: &[u8]) -> Result<[u8; EPOCH_ACK_LEN], ReceiveError> {
        let (kind, bundle) = kind_of(datagram)?;
        if bundle != self.bundle {
            return Err(ReceiveError::Bundle(bundle));
        }
        let (Kind::EpochUpdate, Some(message)) = (kind, datagram.first_chunk()) else {
            return Err(ReceiveError::Type(kind as u8));
        };
        let update = EpochUpdate::open(message, &self.mac)?;
        let receivebox = self.apply(&update)?;
        // Before the first binding there is no epoch; the largest is closest to none.
        let epoch = self.epoch().unwrap_or(EpochSize::MAX);
        let ack = EpochAck { acked: update.sequence, epoch, receivebox };
        Ok(ack.seal(self.bundle, &self.mac, update.sessions.sendbox))
    }

    /// Applies `update` if it is of this session or binds one. Returns the session in which it was
    /// applied, or the one that it would have had to name.
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
                sent: 0,
            });
        }
        Ok(receivebox)
    }

    /// The feedback for a boundary packet, sent `held` after it came; `None` before a sendbox has bound
    /// this session, and after the last that a session can number.
    pub fn feedback(&mut self, arrival: Arrival, held: Nanos) -> Option<[u8; FEEDBACK_LEN]> {
        let bound = self.bound.as_mut()?;
        if bound.sent == MAX_SEQUENCE {
            return None;
        }
        bound.sent += 1;
        let feedback = Feedback { sequence: bound.sent, epoch: bound.epoch, arrival, held };
        Some(feedback.seal(self.bundle, &self.mac, bound.sessions()))
    }
}
