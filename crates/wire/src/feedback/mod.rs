//! The feedback protocol: how a receivebox tells its sendbox what arrived, and how the sendbox sets
//! the epoch size. Messages go over UDP, one to a datagram.
//!
//! All fields are unsigned and big-endian. The tag is the last 16 bytes of every message.
//!
//! | message | type | from | bytes | fields after the header |
//! |---|---|---|---|---|
//! | [`Feedback`] | 1 | receivebox | 52 | fingerprint 4, time held in us 2, sequence 6, receive time in ns 8, bytes received 8, packets received 4, tag 16 |
//! | epoch update | 2 | sendbox | 44 | sequence 8, sendbox session 8, receivebox session 8, tag 16 |
//! | epoch acknowledgement | 3 | receivebox | 36 | acknowledged sequence 8, receivebox session 8, tag 16 |
//!
//! The header: version (2) in the upper and type in the lower half of a byte, the binary logarithm
//! of the epoch size 1, bundle 2. The epoch size of an update is the one the sendbox asks for, that
//! of the other messages the one the receivebox uses. A feedback with its Ethernet, IPv4 and UDP
//! headers is 94 bytes, under 0.1 % of an epoch of 64 full frames.
//!
//! # Authentication
//!
//! The tag is HMAC-SHA-256 under the bundle's key, cut to 128 bits (RFC 2104 section 5), over
//!
//! - the direction, `S>R` or `R>S`, so that no message can be sent back to where it came from
//! - the sendbox's session and the receivebox's, 8 bytes each, zero where unknown; also where the
//!   message does not carry them
//! - the header and the fields, but for the sessions and the tag.
//!
//! # Sessions: what is new and what is a replay
//!
//! A replay is easy to tell while one remembers what one has seen. A box that restarts remembers
//! nothing, and clocks at two sites need not agree. So each end draws a number, its *session*,
//! which the other end must know for its messages to count:
//!
//! - A sendbox has one session for its whole life. Updates carry it.
//! - A receivebox offers a session. An update that does not name the session on offer is not
//!   applied but answered with an acknowledgement that names it; the sendbox then repeats the
//!   update with it. An update that names it *binds* the two sessions, and the receivebox will
//!   offer another one from then on. So nothing recorded earlier can bind again.
//! - Feedback is sent only when bound, and its tag covers both sessions. A sendbox that restarts
//!   cannot be told anything that was meant for its former self, nor can a receivebox that
//!   restarts be impersonated with feedback of its former self.
//! - Within a session, updates must come in rising sequence; so must the sequences that are
//!   acknowledged. An acknowledgement that names a new session leaves only updates sent after it
//!   to be acknowledged. Feedback may come late, which tells of multiple paths and must be seen:
//!   it passes a [`ReplayWindow`].
//!
//! Either box may restart at any time; two round trips after the sendbox's next update feedback is
//! accepted again. A session must be a number never used before with the same key: 64 random bits,
//! or nanoseconds since 1970 if the clock is never set back.
//!
//! Feedback sequences count up by one from 1, so a gap in them tells how many feedback messages
//! were lost, or are still to come. A session ends its feedback with the largest of them: at a million a
//! second that takes nine years.

mod error;
mod key;
mod mac;
mod message;
mod receivebox;
mod replay;
mod sendbox;

pub use error::ReceiveError;
pub use key::{Key, KeyError, KeyText};
pub use message::{Arrival, BundleId, Feedback, MAX_HELD, bundle_of};
pub use message::{EPOCH_ACK_LEN, EPOCH_UPDATE_LEN, FEEDBACK_LEN};
pub use receivebox::ReceiveboxChannel;
pub use replay::{Replay, ReplayWindow};
pub use sendbox::{Received, SendboxChannel};

/// The number by which one end of a channel knows the other again, see the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub core::num::NonZeroU64);
