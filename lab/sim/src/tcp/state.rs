//! The congestion state of a sender.

/// The congestion state of a sender, with the states and the order of Linux (`tcp_ca_state`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// The normal state.
    Open,
    /// Segments arrived out of order, and none is known to be lost.
    Disorder,
    /// The window is reduced because of marks, or of a loss that a tail-loss probe repaired.
    Reducing,
    /// Losses are repaired.
    Recovery,
    /// The retransmission timer expired.
    Loss,
}
