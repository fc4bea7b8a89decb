//! Watches the exchange between the two boxes of a bundle, and says what is wrong with it.
//!
//! A [`Diagnosis`] gets what one end sees, and returns lines for its log: the first within two
//! seconds of the start or seven of a change, another when the reason is known or differs, one
//! every minute while the trouble lasts, and one when it is over. It does no IO.

use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::net::SocketAddr;

use forebay_units::Nanos;
use forebay_wire::feedback::{BundleId, ReceiveError};

/// The silence of the other box that is reported if it was never heard. Both boxes send more often
/// than every 300 ms while there is no feedback.
const FIRST_CONTACT_TIMEOUT: Nanos = Nanos::from_millis(1500);
/// The silence that is reported if there is a hint at the reason: two updates in a row may be lost,
/// which come every two seconds while all is well. Strangers can cause hints.
const HINTED_CONTACT_TIMEOUT: Nanos = Nanos::from_millis(4500);
/// The silence that is reported otherwise.
const CONTACT_TIMEOUT: Nanos = Nanos::from_secs(7);
/// The time that a stall must last.
const STALL: Nanos = Nanos::from_secs(1);
/// The time between two lines about the same trouble.
const REPEAT: Nanos = Nanos::from_secs(60);
/// The shortest time between lines about different troubles.
const CHANGE: Nanos = Nanos::from_secs(10);
/// Fewer packets than these may be lost in a row.
const ASTRAY: u64 = 20;
/// Fewer answers than these may be for packets that the sendbox has forgotten.
const UNRECOGNIZED: u64 = 5;

/// The end of a bundle that a diagnosis is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Sendbox,
    Receivebox,
}

/// A hint at the reason for silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    /// A message was refused.
    Refused { from: SocketAddr, why: ReceiveError },
    /// A message from the other box's address names another bundle, which does not exist here.
    OtherBundle(BundleId),
    /// The network reported that a message could not be delivered: an error number of the system.
    Undelivered(i32),
}

/// What makes two hints different reasons, wherever they came from.
type Reason = (Discriminant<Hint>, Option<Discriminant<ReceiveError>>);

impl Hint {
    fn reason(&self) -> Reason {
        let why = match self {
            Self::Refused { why, .. } => Some(discriminant(why)),
            Self::OtherBundle(_) | Self::Undelivered(_) => None,
        };
        (discriminant(self), why)
    }

    /// Returns the hint of a message that was refused; `None` if that is no sign of a mistake, as
    /// with a message that was repeated.
    pub(crate) fn refused(from: SocketAddr, why: ReceiveError) -> Option<Self> {
        match why {
            ReceiveError::Replay(_) | ReceiveError::NoSession => None,
            _ => Some(Self::Refused { from, why }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Silent,
    /// The receivebox counts none of the packets that left.
    Astray,
    /// The sendbox knows none of the packets that feedback is for.
    Unrecognized,
}

/// A line for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Says what is wrong, and what to check.
    Trouble(String),
    /// The trouble is over.
    Over,
}

impl Line {
    /// Logs the line about `bundle`.
    pub(crate) fn log(&self, bundle: &str) {
        match self {
            Self::Trouble(text) => tracing::warn!("bundle {bundle}: {text}"),
            Self::Over => tracing::info!("bundle {bundle}: the boxes understand each other again"),
        }
    }
}

/// What one end of a bundle knows about its exchange with the other.
pub(crate) struct Diagnosis {
    end: End,
    /// The address of the other box; `None` if it is not known.
    peer: Option<SocketAddr>,
    /// The time of the last authentic message, or of the start.
    heard_at: Nanos,
    was_heard: bool,
    hint: Option<(Nanos, Hint)>,
    counted: Option<Counted>,
    astray: Stall,
    unrecognized: Stall,
    said: Option<Said>,
}

/// The last line about a trouble.
#[derive(Clone, Copy)]
struct Said {
    trouble: Trouble,
    at: Nanos,
    /// The reason that the line gave for a silence.
    reason: Option<Reason>,
    /// The reason has changed since the trouble began.
    is_corrected: bool,
}

/// What the receivebox has counted, and what the sendbox had sent when that last changed.
#[derive(Clone, Copy)]
struct Counted {
    counted: u64,
    sent: u64,
}

/// Events that should be interrupted by others, and are not.
#[derive(Default)]
struct Stall {
    /// The number of events in a row.
    events: u64,
    grew_at: Nanos,
    /// The time since which there have been enough of them.
    since: Option<Nanos>,
}

impl Stall {
    fn set(&mut self, now: Nanos, events: u64, enough: u64) {
        if events > self.events {
            self.grew_at = now;
        }
        self.events = events;
        self.since = (events >= enough).then(|| self.since.unwrap_or(now));
    }

    fn lasts(&self, now: Nanos) -> bool {
        self.since.is_some_and(|since| now.saturating_sub(since) >= STALL)
    }
}

impl Diagnosis {
    pub(crate) fn new(end: End, peer: Option<SocketAddr>, now: Nanos) -> Self {
        Self {
            end,
            peer,
            heard_at: now,
            was_heard: false,
            hint: None,
            counted: None,
            astray: Stall::default(),
            unrecognized: Stall::default(),
            said: None,
        }
    }

    /// Notes an authentic message of the other box.
    pub(crate) fn on_heard(&mut self, now: Nanos) {
        self.heard_at = self.heard_at.max(now);
        self.was_heard = true;
        self.hint = None;
    }

    /// Notes that the other box has another address.
    pub(crate) fn on_moved(&mut self, to: SocketAddr) {
        self.peer = Some(to);
    }

    /// Returns the time since the last authentic message, or the start.
    pub(crate) fn silence(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.heard_at)
    }

    /// Notes a hint. One about the other box's own address is kept before those about others, which
    /// anybody can cause.
    pub(crate) fn on_hint(&mut self, now: Nanos, hint: Hint) {
        let is_peers =
            |hint: &Hint| !matches!(hint, Hint::Refused { from, .. } if Some(*from) != self.peer);
        let better = self.hint.filter(|(at, kept)| {
            is_peers(kept) && !is_peers(&hint) && now.saturating_sub(*at) < CONTACT_TIMEOUT
        });
        self.hint = better.or(Some((now, hint)));
    }

    /// Notes that the receivebox had counted `counted` packets after the sendbox had sent `sent`.
    pub(crate) fn on_counts(&mut self, now: Nanos, sent: u64, counted: u64) {
        let base = match self.counted {
            Some(last) if last.counted == counted && last.sent <= sent => last.sent,
            _ => sent,
        };
        self.counted = Some(Counted { counted, sent: base });
        self.astray.set(now, sent - base, ASTRAY);
    }

    /// Notes the number of feedback messages in a row that answered no packet that left.
    pub(crate) fn on_unrecognized(&mut self, now: Nanos, in_a_row: u64) {
        self.unrecognized.set(now, in_a_row, UNRECOGNIZED);
    }

    /// Returns the line to log at `now`.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Line> {
        let trouble = self.trouble(now);
        let Some(said) = self.said else {
            return Some(self.say(trouble?, now, false));
        };
        let Some(trouble) = trouble else {
            self.said = None;
            return Some(Line::Over);
        };
        let at = said.at;
        let is_fresh = match trouble {
            Trouble::Silent => true,
            Trouble::Astray => self.astray.grew_at > at,
            Trouble::Unrecognized => self.unrecognized.grew_at > at,
        };
        let is_same = trouble == said.trouble;
        let is_corrected = is_same && trouble == Trouble::Silent && self.reason() != said.reason;
        let pause = match (is_same, is_corrected) {
            // A box that starts first finds nobody there at first. What is wrong with the other
            // box shows when that has started.
            (_, true) if !said.is_corrected => Nanos::ZERO,
            (_, true) | (false, _) => CHANGE,
            (true, false) => REPEAT,
        };
        if !is_fresh || now.saturating_sub(at) < pause {
            return None;
        }
        Some(self.say(trouble, now, is_same && (said.is_corrected || is_corrected)))
    }

    fn say(&mut self, trouble: Trouble, now: Nanos, is_corrected: bool) -> Line {
        self.said = Some(Said { trouble, at: now, reason: self.reason(), is_corrected });
        Line::Trouble(self.text(trouble, now))
    }

    fn reason(&self) -> Option<Reason> {
        self.hint.map(|(_, hint)| hint.reason())
    }

    /// Returns the trouble that was said last, with its present figures; `None` if it is over.
    pub(crate) fn current(&self, now: Nanos) -> Option<String> {
        self.said.map(|said| self.text(said.trouble, now))
    }

    /// Returns the time of the last authentic message; `None` before the first.
    pub(crate) fn heard_at(&self) -> Option<Nanos> {
        self.was_heard.then_some(self.heard_at)
    }

    fn trouble(&self, now: Nanos) -> Option<Trouble> {
        let silence = now.saturating_sub(self.heard_at);
        let least = match (self.was_heard, self.hint) {
            (false, _) => FIRST_CONTACT_TIMEOUT,
            (true, Some(_)) => HINTED_CONTACT_TIMEOUT,
            (true, None) => CONTACT_TIMEOUT,
        };
        if silence >= least {
            Some(Trouble::Silent)
        } else if self.astray.lasts(now) {
            Some(Trouble::Astray)
        } else if self.unrecognized.lasts(now) {
            Some(Trouble::Unrecognized)
        } else {
            None
        }
    }

    fn text(&self, trouble: Trouble, now: Nanos) -> String {
        let Self { end, peer, .. } = self;
        let silence = Silence { diagnosis: self, now };
        let (packets, answers) = (self.astray.events, self.unrecognized.events);
        let rewritten = "do both boxes have the same `prefixes`, and do addresses, ports or IP IDs \
                         change between them (NAT, a proxy)?";
        let elsewhere = "do `prefixes`, `sources` and `interface` there fit, and do the packets \
                         take this way?";
        let at =
            peer.map_or_else(|| "(its address is not known yet)".to_owned(), |p| format!("at {p}"));
        match (trouble, end) {
            (Trouble::Silent, End::Sendbox) => {
                format!("no answer from the receivebox {at} {silence}")
            }
            (Trouble::Silent, End::Receivebox) => {
                format!("no message from the sendbox {at} {silence}")
            }
            (Trouble::Astray, End::Sendbox) => format!(
                "the receivebox counts none of the last {packets} packets that were sent: {elsewhere}"
            ),
            (Trouble::Astray, End::Receivebox) => format!(
                "none of the last {packets} packets that the sendbox sent is counted here: do \
                 `prefixes`, `sources` and `interface` fit, and do the packets come this way?"
            ),
            (Trouble::Unrecognized, End::Sendbox) => format!(
                "none of the last {answers} answers is for a packet that left here: {rewritten}"
            ),
            (Trouble::Unrecognized, End::Receivebox) => format!(
                "the sendbox knows none of the packets of the last {answers} answers: {rewritten}"
            ),
        }
    }
}

/// Describes a silence and its likely reason.
struct Silence<'a> {
    diagnosis: &'a Diagnosis,
    now: Nanos,
}

impl fmt::Display for Silence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnosis { end, heard_at, hint, .. } = self.diagnosis;
        let seconds = self.now.saturating_sub(*heard_at).0 as f64 / 1e9;
        write!(f, "for {seconds:.1} s")?;
        match (hint, end) {
            (Some((_, Hint::Refused { from, why })), _) => {
                write!(f, "; a message from {from} was refused: {why}")
            }
            (Some((_, Hint::OtherBundle(id))), _) => {
                write!(
                    f,
                    "; its messages are for bundle {}, which is not here: give both boxes the same \
                     key, and the same `id` if one is set",
                    id.0
                )
            }
            (Some((_, Hint::Undelivered(number))), _) => {
                let error = std::io::Error::from_raw_os_error(*number).to_string();
                // Without ` (os error 111)`.
                let error = error.split(" (").next().unwrap_or_default();
                write!(
                    f,
                    "; the network reports: {error}. Is that its address and port, and does it run?"
                )
            }
            (None, End::Sendbox) => f.write_str(
                ": does it run there, does UDP pass both ways, and does its log refuse messages?",
            ),
            (None, End::Receivebox) => f.write_str(
                ": does it run, does its file have this box's address and port, and does UDP pass?",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
