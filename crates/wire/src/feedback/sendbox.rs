use super::mac::{Mac, Sessions};
use super::message::{EPOCH_UPDATE_LEN, EpochAck, EpochUpdate, Kind, kind_of};
use super::{BundleId, Feedback, Key, ReceiveError, Replay, ReplayWindow, Session};
use crate::EpochSize;

/// What a sendbox was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A boundary packet arrived.
    Feedback(Feedback),
    /// The receivebox uses this epoch size.
    EpochSize(EpochSize),
    /// The receivebox has a new session: it has started again, or has only now heard of this
    /// sendbox. Send it an update at once; no feedback will come before.
    NewSession,
}

/// The sendbox's end of a bundle's feedback channel.
///
/// Send an update ([`SendboxChannel::update`]) when [`SendboxChannel::epoch_in_use`] is not the
/// epoch size wanted, when [`Received::NewSession`] comes, and from time to time while no feedback
/// comes, since then the receivebox may have started again.
#[derive(Clone, Debug)]
pub struct SendboxChannel {
    bundle: BundleId,
    mac: Mac,
    sessions: Sessions,
    /// The sequence of the latest update.
    sent: u64,
    /// Only acknowledgements of later updates than this count.
    acked: u64,
    window: ReplayWindow,
    epoch_in_use: Option<EpochSize>,
}

impl SendboxChannel {
    /// A channel for `bundle`. `session` must never have been used before with `key`.
    pub fn new(bundle: BundleId, key: &Key, session: Session) -> Self {
        Self {
            bundle,
            mac: Mac::new(key),
            sessions: Sessions { sendbox: session, receivebox: None },
            sent: 0,
            acked: 0,
            window: ReplayWindow::new(),
            epoch_in_use: None,
        }
    }

    /// The epoch size that the receivebox uses, by its last word; `None` if it has not said so in
    /// its present session.
    pub fn epoch_in_use(&self) -> Option<EpochSize> {
        self.epoch_in_use
    }

    /// The datagram that asks the receivebox to use `epoch`.
    pub fn update(&mut self, epoch: EpochSize) -> [u8; EPOCH_UPDATE_LEN] {
        self.sent += 1;
        let update = EpochUpdate { sequence: self.sent, epoch, sessions: self.sessions };
        update.seal(self.bundle, &self.mac)
    }

    /// Takes a datagram from the receivebox.
    ///
    /// # Errors
    /// If it is malformed, not authentic or a replay. Then it changed nothing.
    pub fn receive(&mut self, datagram: &[u8]) -> Result<Received, ReceiveError> {
        let (kind, bundle) = kind_of(datagram)?;
        if bundle != self.bundle {
            return Err(ReceiveError::Bundle(bundle));
        }
        match (kind, datagram.first_chunk(), datagram.first_chunk()) {
            (Kind::Feedback, Some(message), _) => {
                if self.sessions.receivebox.is_none() {
                    return Err(ReceiveError::NoSession);
                }
                let feedback = Feedback::open(message, &self.mac, self.sessions)?;
                self.window.accept(feedback.sequence)?;
                if feedback.sequence == self.window.highest() {
                    self.epoch_in_use = Some(feedback.epoch);
                }
                Ok(Received::Feedback(feedback))
            }
            (Kind::EpochAck, _, Some(message)) => {
                let ack = EpochAck::open(message, &self.mac, self.sessions.sendbox)?;
                self.acknowledged(ack)
            }
            _ => Err(ReceiveError::Type(kind as u8)),
        }
    }

    fn acknowledged(&mut self, ack: EpochAck) -> Result<Received, ReceiveError> {
        if ack.acked <= self.acked {
            return Err(Replay::Seen.into());
        }
        if self.sessions.receivebox != Some(ack.receivebox) {
            // The receivebox's former self may have acknowledged any update sent before it was
            // known to be gone, and the network may deliver that only now. It must not bring the
            // former session back: its feedback would be accepted a second time.
            self.acked = self.sent;
            self.sessions.receivebox = Some(ack.receivebox);
            self.window = ReplayWindow::new();
            self.epoch_in_use = None;
            return Ok(Received::NewSession);
        }
        self.acked = ack.acked;
        self.epoch_in_use = Some(ack.epoch);
        Ok(Received::EpochSize(ack.epoch))
    }
}
