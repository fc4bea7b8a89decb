//! The log of events, of boxes and of the history itself.

use std::collections::BTreeMap;

use forebay_records::Value;
use serde::{Deserialize, Serialize};

use crate::Direction;

/// The version of the format of [`LogEvent`].
pub const EVENT_VERSION: u32 = 1;

/// An event of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogEvent {
    /// The version of the format: [`EVENT_VERSION`].
    pub version: u32,
    /// The time in milliseconds since 1970.
    pub at_ms: u64,
    /// The box: its role and outer interface.
    #[serde(rename = "box")]
    pub place: String,
    /// The name of the peer or bundle; empty if the event is about the box.
    pub peer: String,
    /// The direction; `None` if the event is about the box.
    pub direction: Option<Direction>,
    /// The number of the decision at its box; `None` if the history made the event.
    pub number: Option<u64>,
    /// The kind: that of a decision, as in the box's own event log, or one of [`kind`].
    pub kind: String,
    /// The values of the event. Times are in nanoseconds, rates in bits per second.
    pub values: BTreeMap<String, Value>,
    /// The whole event in words.
    pub text: String,
}

/// The kinds of events that the history makes.
pub mod kind {
    /// A box is seen for the first time since the history started.
    pub const BOX_SEEN: &str = "box_seen";
    /// A box ended.
    pub const BOX_GONE: &str = "box_gone";
    /// A box does not answer.
    pub const BOX_SILENT: &str = "box_silent";
    /// A box answers again.
    pub const BOX_ANSWERS: &str = "box_answers";
    /// Something is wrong between the two boxes of a bundle.
    pub const TROUBLE_BEGAN: &str = "trouble_began";
    /// The boxes of a bundle understand each other again.
    pub const TROUBLE_OVER: &str = "trouble_over";
    /// Decisions of a box are not in this log.
    pub const EVENTS_MISSED: &str = "events_missed";
    /// The history could not be written for a while.
    pub const HISTORY_LOST: &str = "history_lost";
    /// A file of a history that could not be read was put aside.
    pub const HISTORY_REPLACED: &str = "history_replaced";
}

impl LogEvent {
    /// Whether it is one of the many small ones, which have a bound of their own so that they never
    /// push out changes of modes.
    pub fn is_routine(&self) -> bool {
        ["min_rtt_changed", "epoch_changed", "guard_tested", "rate_set"].contains(&&self.kind[..])
    }
}
