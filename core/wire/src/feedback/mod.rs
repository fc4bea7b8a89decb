//! The feedback protocol: the receivebox reports arrivals, and the sendbox sets the epoch size.
//!
//! Messages are UDP datagrams, one message each.
//!
//! All fields are unsigned and big-endian. The tag is the last 16 bytes of every message.
//!
//! | message | type | from | bytes | fields after the header |
//! |---|---|---|---|---|
//! | [`Feedback`] | 1 | receivebox | 52 | fingerprint 4, time held in us 2, sequence 6, receive time in ns 8, bytes received 8, packets received 4, tag 16 |
//! | [`Feedback`] beside other bundles | 4 | receivebox | 64 | as above to packets received 4, then bytes of the other bundles 8, fair rate in kbit/s 4, tag 16 |
//! | epoch update | 2 | sendbox | 60 | sequence 8, packets sent 8, feedback messages in a row that answer no packet 8, sendbox session 8, receivebox session 8, tag 16 |
//! | epoch acknowledgement | 3 | receivebox | 52 | acknowledged sequence 8, packets received 8, packets sent by the acknowledged update 8, receivebox session 8, tag 16 |
//!
//! The header has the version (6) in the upper and the type in the lower half of a byte, the binary
//! logarithm of the epoch size in 1 byte and the bundle in 2 bytes. In an update the epoch size is
//! the one that the sendbox asks for, in the other messages the one that the receivebox uses. A
//! feedback message with its Ethernet, IPv4 and UDP headers has 94 bytes, less than 0.1 % of an
//! epoch of 64 full-size frames. A receivebox with several bundles sends the longer form, which has
//! 106 bytes; decision record 0038 says what the sendbox needs it for.
//!
//! # Authentication
//!
//! The tag is HMAC-SHA-256 with the bundle's key, truncated to 128 bits (RFC 2104 section 5). It
//! covers
//!
//! - the direction, `S>R` or `R>S`, so that no message can be sent back to its source
//! - the sessions of the sendbox and the receivebox, 8 bytes each and zero if unknown, even if the
//!   message does not carry them
//! - the header and the fields, without the sessions and the tag.
//!
//! # Counts
//!
//! Each end tells the other what it has counted, so that both can say that packets go astray
//! between them, or that feedback answers packets that the sendbox does not know. An
//! acknowledgement repeats the number of packets of its update: on a path in order, packets that
//! were sent before the update have arrived before it.
//!
//! # Sessions and replays
//!
//! A box that restarts does not know which messages it has already received, and the clocks of two
//! sites need not agree. Therefore each end chooses a number, its *session*, which the other end
//! must know for its messages to count:
//!
//! - A sendbox has one session until it restarts. Updates carry it.
//! - A receivebox offers a session. It does not apply an update that does not carry the offered
//!   session, but answers with an acknowledgement that carries it; the sendbox then repeats the
//!   update with it. An update that carries the offered session *binds* the two sessions, and the
//!   receivebox offers another one from then on. So no recorded message can bind again.
//! - The receivebox sends feedback only when bound, and the tag of feedback covers both sessions. A
//!   sendbox that restarts accepts no feedback for its old session, and old feedback of a
//!   receivebox that restarted is not accepted either.
//! - Within a session, updates must have rising sequence numbers, and so must the numbers that are
//!   acknowledged. After an acknowledgement with a new session, only acknowledgements of later
//!   updates count. Feedback may be late, since that shows several paths; it passes a
//!   [`ReplayWindow`].
//!
//! If both boxes of a machine share a key with those of another, somebody on the path could return
//! a sendbox's messages to the receivebox beside it. A receivebox refuses the sessions that it was
//! told to ([`ReceiveboxChannel::refuse`]).
//!
//! Either box may restart at any time. Two round trips after the next update of the sendbox
//! feedback is accepted again. A session must be a number that was never used before with the same
//! key: 64 random bits, or nanoseconds since 1970 if the clock is never set back.
//!
//! # Changed addresses
//!
//! Authentic messages tell where the other end is, whatever its address was before: as in
//! WireGuard, answers go to the source of the latest fresh message. For a receivebox that is an
//! update which it applied ([`Answer::is_fresh`]), for a sendbox an acknowledgement that it
//! accepted or feedback with the highest number so far ([`SendboxChannel::is_fresh`]). Repeated and
//! late messages tell nothing.
//!
//! # Numbers
//!
//! The sequence numbers of feedback rise by one from 1, so a gap shows how many messages were lost
//! or are late. A session ends its feedback with the largest number, after nine years at a million
//! messages a second.

mod error;
mod key;
mod mac;
mod message;
mod receivebox;
mod replay;
mod sendbox;

pub use error::ReceiveError;
pub use key::{Key, KeyError, KeyFingerprint, KeyText};
pub use message::{Arrival, BundleId, Feedback, FeedbackMessage, MAX_HELD, Others};
pub use message::{EPOCH_ACK_LEN, EPOCH_UPDATE_LEN, FEEDBACK_BESIDE_LEN, FEEDBACK_LEN};
pub use message::{ReceiveboxCounts, SendboxCounts};
pub use message::{bundle_of, is_for_receivebox};
pub use receivebox::{Answer, ReceiveboxChannel, SavedBinding, SavedReceivebox};
pub use replay::{Replay, ReplayWindow};
pub use sendbox::{Received, SavedSendbox, SendboxChannel};

/// The number by which one end of a channel recognizes the other; see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub core::num::NonZeroU64);
