//! Decides whether a packet passes, is marked or is dropped, with coupled signals (RFC 9332 section
//! 2.4).
//!
//! Classic traffic gets signals with the square of the base probability, L4S traffic with a
//! multiple of the base probability.

mod coin;

pub use coin::Marking;

use self::coin::Coin;
use crate::{DropReason, Ecn};

/// The probabilities of a congestion signal for each kind of packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals {
    /// The probability of a mark for L4S senders, whose rate is inversely proportional to it.
    pub(crate) scalable: f64,
    /// The probability of a mark or drop for classic senders, whose rate is inversely proportional
    /// to its square root.
    pub(crate) classic: f64,
    /// The probability of a drop for all packets under overload (RFC 9332 section 2.5.1.1).
    pub(crate) overload: Option<f64>,
}

/// The decision about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The packet leaves unchanged.
    Pass,
    /// The packet leaves marked.
    Mark,
    /// The packet is dropped.
    Drop(DropReason),
}

/// The decisions of one queue, counted separately for L4S and classic signals.
///
/// RFC 9332's Figure 7 adds drops and marks to a single count, which gives too few of both if the
/// choice is deterministic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coins {
    scalable: Coin,
    classic: Coin,
}

impl Coins {
    pub(crate) fn new(marking: Marking, seed: u64) -> Self {
        // Any two different seeds give independent sequences.
        Self { scalable: Coin::new(marking, seed), classic: Coin::new(marking, !seed) }
    }

    /// Decides about a packet with this ECN field (RFC 9332 Figure 7, and section 2.5.1.1 for
    /// codepoints that a queue does not expect).
    pub(crate) fn judge(&mut self, ecn: Ecn, signals: &Signals) -> Verdict {
        if let Some(probability) = signals.overload {
            if self.classic.toss(probability) {
                let capable = ecn != Ecn::NotEct;
                return Verdict::Drop(if capable { DropReason::Overload } else { DropReason::Pi2 });
            }
            // The drops are the signal for classic traffic, so only L4S packets are marked.
            return self.mark_scalable(ecn == Ecn::Ect1, signals);
        }
        match ecn {
            Ecn::Ect1 => self.mark_scalable(true, signals),
            // Already marked, but the packet counts in the sum.
            Ecn::Ce => self.mark_scalable(false, signals),
            Ecn::Ect0 if self.classic.toss(signals.classic) => Verdict::Mark,
            Ecn::NotEct if self.classic.toss(signals.classic) => Verdict::Drop(DropReason::Pi2),
            Ecn::Ect0 | Ecn::NotEct => Verdict::Pass,
        }
    }

    fn mark_scalable(&mut self, markable: bool, signals: &Signals) -> Verdict {
        let due = self.scalable.toss(signals.scalable);
        if due && markable { Verdict::Mark } else { Verdict::Pass }
    }
}
