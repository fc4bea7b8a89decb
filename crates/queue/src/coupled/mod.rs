//! From probabilities to the fate of a packet, where classic and L4S traffic get coupled signals
//! (RFC 9332 section 2.4): the square of the base probability for the one, a multiple of it for the
//! other.

mod coin;

pub use coin::Marking;

use self::coin::Coin;
use crate::{DropReason, Ecn};

/// How likely a packet of each kind is to be signalled to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals {
    /// Marks for senders whose rate falls with the probability: L4S.
    pub(crate) scalable: f64,
    /// Marks or drops for senders whose rate falls with its square root.
    pub(crate) classic: f64,
    /// Under overload, drops for all (RFC 9332 section 2.5.1.1).
    pub(crate) overload: Option<f64>,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes as it is.
    Pass,
    /// It goes, marked.
    Mark,
    /// It is dropped.
    Drop(DropReason),
}

/// The coins of one queue. Two, since a deterministic one counts what is due: RFC 9332's Figure 7
/// adds drops and marks to one count, which then gives too few of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coins {
    scalable: Coin,
    classic: Coin,
}

impl Coins {
    pub(crate) fn new(marking: Marking, seed: u64) -> Self {
        // Any two seeds do: the generator's mix tells them apart.
        Self { scalable: Coin::new(marking, seed), classic: Coin::new(marking, !seed) }
    }

    /// Decides on a packet with this ECN field (RFC 9332 Figure 7, and section 2.5.1.1 for the
    /// codepoints that are not expected in a queue).
    pub(crate) fn judge(&mut self, ecn: Ecn, signals: &Signals) -> Verdict {
        if let Some(probability) = signals.overload {
            if self.classic.toss(probability) {
                let capable = ecn != Ecn::NotEct;
                return Verdict::Drop(if capable { DropReason::Overload } else { DropReason::Pi2 });
            }
            // What is left of classic traffic has been signalled to by the drops.
            return self.mark_scalable(ecn == Ecn::Ect1, signals);
        }
        match ecn {
            Ecn::Ect1 => self.mark_scalable(true, signals),
            // Marked already, but it takes its turn in the count.
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
