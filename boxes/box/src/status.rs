//! What a box tells of its state to `forebay status`.

use forebay_records::{NotUnderstood, ReceiveStatus, SendStatus};
use forebay_units::Nanos;

/// The state of a box that changes.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) not_understood: NotUnderstood,
    pub(crate) hand_over_drops: Option<u64>,
    pub(crate) sends: Vec<SendStatus>,
    pub(crate) receives: Vec<ReceiveStatus>,
}

/// Returns the seconds from `then` to `now`.
pub(crate) fn seconds(now: Nanos, then: Nanos) -> f64 {
    now.saturating_sub(then).0 as f64 / 1e9
}
