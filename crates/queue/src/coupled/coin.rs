//! Something that happens with a given likelihood: at random, or evenly spaced.

use crate::rng::Rng;

/// How packets are chosen for signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// Each packet by itself, with the probability.
    #[default]
    Random,
    /// Evenly: likelihoods are added up and a signal comes each time the sum passes one (RFC 9332
    /// Figure 4). Senders then need not smooth out the noise of chance.
    Deterministic,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Coin {
    marking: Marking,
    rng: Rng,
    /// Signals due and not given, at most one.
    due: f64,
}

impl Coin {
    pub(crate) fn new(marking: Marking, seed: u64) -> Self {
        Self { marking, rng: Rng::new(seed), due: 0.0 }
    }

    #[inline]
    pub(crate) fn toss(&mut self, likelihood: f64) -> bool {
        match self.marking {
            Marking::Random => self.rng.chance(likelihood),
            Marking::Deterministic => {
                // More than a signal a packet cannot be given, and must not be owed either, or
                // marks would go on long after an overload.
                self.due += likelihood.min(1.0);
                let signal = self.due > 1.0;
                if signal {
                    self.due -= 1.0;
                }
                signal
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn signals(coin: &mut Coin, likelihood: f64, n: usize) -> Vec<usize> {
        (1..=n).filter(|_| coin.toss(likelihood)).collect()
    }

    #[test]
    fn deterministic_signals_are_evenly_spaced() {
        let mut coin = Coin::new(Marking::Deterministic, 0);
        // 0.25 adds up to exactly one at the fourth packet, and passes it at the fifth.
        assert_eq!(signals(&mut coin, 0.25, 16), [5, 9, 13]);
        assert!(signals(&mut coin, 0.0, 9).is_empty());
    }

    #[test]
    fn an_overload_leaves_no_debt() {
        let mut coin = Coin::new(Marking::Deterministic, 0);
        assert_eq!(signals(&mut coin, 2.0, 100).len(), 99);
        assert_eq!(signals(&mut coin, 0.1, 10).len(), 1, "one a ten packets right afterwards");
    }

    #[test]
    fn random_signals_have_the_same_mean() {
        let mut coin = Coin::new(Marking::Random, 3);
        // Five standard deviations of a binomial with n = 100 000, p = 0.1.
        assert!((9_525..=10_475).contains(&signals(&mut coin, 0.1, 100_000).len()));
    }
}
