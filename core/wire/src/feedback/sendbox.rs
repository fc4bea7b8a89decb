use super::mac::{Mac, Sessions};
use super::message::{EPOCH_UPDATE_LEN, EpochAck, EpochUpdate, Kind, MAX_SEQUENCE, kind_of};
use super::{BundleId, Feedback, Key, ReceiveError, ReceiveboxCounts, Replay, ReplayWindow};
use super::{SendboxCounts, Session};
use crate::EpochSize;

/// A message that a sendbox received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Feedback: a boundary packet arrived.
    Feedback(Feedback),
    /// An acknowledgement: the receivebox uses this epoch size.
    EpochSize(EpochSize),
    /// The receivebox has a new session: it has restarted, or had not heard from this sendbox
    /// before. Send it an update at once, since no feedback comes before.
    NewSession,
}

/// The state of a sendbox's channel, with which another process goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedSendbox {
    /// The session of the sendbox.
    pub session: Session,
    /// The session of the receivebox, if it is known.
    pub receivebox: Option<Session>,
    /// The sequence number of the latest update.
    pub sent: u64,
    /// The latest update whose acknowledgement was accepted.
    pub acked: u64,
    /// The highest sequence number of feedback.
    pub highest: u64,
    /// The bits of the replay window.
    pub seen: [u64; ReplayWindow::WORDS],
}

/// The sendbox's end of a bundle's feedback channel.
///
/// Send an update ([`SendboxChannel::update`]) in three cases: if [`SendboxChannel::epoch_in_use`]
/// is not the wanted epoch size, when [`Received::NewSession`] comes, and from time to time while
/// no feedback comes, since the receivebox may have restarted.
#[derive(Clone, Debug)]
pub struct SendboxChannel {
    bundle: BundleId,
    mac: Mac,
    sessions: Sessions,
    /// The sequence number of the latest update.
    sent: u64,
    /// Only acknowledgements of updates later than this one count.
    acked: u64,
    window: ReplayWindow,
    epoch_in_use: Option<EpochSize>,
    theirs: Option<ReceiveboxCounts>,
}

impl SendboxChannel {
    /// Creates a channel for `bundle`. `session` must never have been used before with `key`.
    pub fn new(bundle: BundleId, key: &Key, session: Session) -> Self {
        Self {
            bundle,
            mac: Mac::new(key),
            sessions: Sessions { sendbox: session, receivebox: None },
            sent: 0,
            acked: 0,
            window: ReplayWindow::new(),
            epoch_in_use: None,
            theirs: None,
        }
    }

    /// Goes on where the channel `saved` ended, which must not be used any more. Returns `None` if
    /// its numbers cannot be those of a channel.
    pub fn resumed(bundle: BundleId, key: &Key, saved: &SavedSendbox) -> Option<Self> {
        let SavedSendbox { session, receivebox, sent, acked, highest, seen } = *saved;
        if acked > sent || sent > MAX_SEQUENCE || highest > MAX_SEQUENCE {
            return None;
        }
        let sessions = Sessions { sendbox: session, receivebox };
        let window = ReplayWindow::resumed(highest, seen);
        Some(Self { sessions, sent, acked, window, ..Self::new(bundle, key, session) })
    }

    /// Returns the state with which [`Self::resumed`] goes on.
    pub fn save(&self) -> SavedSendbox {
        SavedSendbox {
            session: self.sessions.sendbox,
            receivebox: self.sessions.receivebox,
            sent: self.sent,
            acked: self.acked,
            highest: self.window.highest(),
            seen: *self.window.seen(),
        }
    }

    /// Returns what the receivebox had counted by its last acknowledgement; `None` before the
    /// second one of its present session.
    pub fn receivebox_counts(&self) -> Option<ReceiveboxCounts> {
        self.theirs
    }

    /// Returns the session of this end.
    pub fn session(&self) -> Session {
        self.sessions.sendbox
    }

    /// Returns the epoch size that the receivebox uses by its last message; `None` before the first
    /// message of its present session.
    pub fn epoch_in_use(&self) -> Option<EpochSize> {
        self.epoch_in_use
    }

    /// Returns the datagram that asks the receivebox to use `epoch`, and tells it `counts`.
    pub fn update(&mut self, epoch: EpochSize, counts: SendboxCounts) -> [u8; EPOCH_UPDATE_LEN] {
        self.sent += 1;
        let update = EpochUpdate { sequence: self.sent, epoch, counts, sessions: self.sessions };
        update.seal(self.bundle, &self.mac)
    }

    /// Takes in a datagram from the receivebox.
    ///
    /// # Errors
    /// Returns why the datagram is malformed, not authentic or a replay. It then has no effect.
    pub fn receive(&mut self, datagram: &[u8]) -> Result<Received, ReceiveError> {
        let (kind, bundle) = kind_of(datagram)?;
        if bundle != self.bundle {
            return Err(ReceiveError::Bundle(bundle));
        }
        let unexpected = ReceiveError::Type(kind as u8);
        match kind {
            Kind::Feedback | Kind::FeedbackBeside if self.sessions.receivebox.is_none() => {
                Err(ReceiveError::NoSession)
            }
            Kind::Feedback => {
                let message = datagram.first_chunk().ok_or(unexpected)?;
                self.accepted(Feedback::open(message, &self.mac, self.sessions)?)
            }
            Kind::FeedbackBeside => {
                let message = datagram.first_chunk().ok_or(unexpected)?;
                self.accepted(Feedback::open_beside(message, &self.mac, self.sessions)?)
            }
            Kind::EpochAck => {
                let message = datagram.first_chunk().ok_or(unexpected)?;
                let ack = EpochAck::open(message, &self.mac, self.sessions.sendbox)?;
                self.acknowledged(ack)
            }
            Kind::EpochUpdate => Err(unexpected),
        }
    }

    /// Whether `received`, which [`SendboxChannel::receive`] has just returned, is the latest
    /// message of its kind. Its source is where the receivebox is. Feedback that was overtaken may
    /// come from a former address.
    pub fn is_fresh(&self, received: &Received) -> bool {
        match received {
            Received::Feedback(feedback) => feedback.sequence == self.window.highest(),
            Received::EpochSize(_) | Received::NewSession => true,
        }
    }

    /// Takes in feedback that is authentic, unless it was received before.
    fn accepted(&mut self, feedback: Feedback) -> Result<Received, ReceiveError> {
        self.window.accept(feedback.sequence)?;
        if feedback.sequence == self.window.highest() {
            self.epoch_in_use = Some(feedback.epoch);
        }
        Ok(Received::Feedback(feedback))
    }

    fn acknowledged(&mut self, ack: EpochAck) -> Result<Received, ReceiveError> {
        if ack.acked <= self.acked {
            return Err(Replay::Seen.into());
        }
        if self.sessions.receivebox != Some(ack.receivebox) {
            // Before its restart the receivebox may have acknowledged any update that was sent
            // until the restart was known, and the network may deliver that only now. It must not
            // bring the old session back, since that session's feedback would be accepted a second
            // time.
            self.acked = self.sent;
            self.sessions.receivebox = Some(ack.receivebox);
            self.window = ReplayWindow::new();
            self.epoch_in_use = None;
            self.theirs = None;
            return Ok(Received::NewSession);
        }
        self.acked = ack.acked;
        self.epoch_in_use = Some(ack.epoch);
        self.theirs = Some(ack.counts);
        Ok(Received::EpochSize(ack.epoch))
    }
}
