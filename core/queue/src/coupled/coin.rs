//! Decides with a given probability, at random or evenly spaced.

use crate::rng::Rng;

/// The way in which packets are chosen for congestion signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// Chooses each packet independently with the given probability.
    #[default]
    Random,
    /// Adds up the probabilities and chooses a packet each time the sum passes one (RFC 9332
    /// Figure 4). Signals are evenly spaced, so senders need not smooth out random noise.
    Deterministic,
}

/// The state of a sequence of decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coin {
    marking: Marking,
    rng: Rng,
    /// The sum of the probabilities that has not led to a signal, at most one.
    due: f64,
}

impl Coin {
    pub(crate) fn new(marking: Marking, seed: u64) -> Self {
        Self { marking, rng: Rng::new(seed), due: 0.0 }
    }

    /// Returns whether to signal, for one packet.
    #[inline]
    pub(crate) fn toss(&mut self, probability: f64) -> bool {
        match self.marking {
            Marking::Random => self.rng.chance(probability),
            Marking::Deterministic => {
                // A packet carries at most one signal. Adding more than one would cause marks long
                // after an overload.
                self.due += probability.min(1.0);
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

    fn signals(coin: &mut Coin, probability: f64, n: usize) -> Vec<usize> {
        (1..=n).filter(|_| coin.toss(probability)).collect()
    }

    #[test]
    fn deterministic_signals_are_evenly_spaced() {
        let mut coin = Coin::new(Marking::Deterministic, 0);
        // 0.25 adds up to exactly one at the fourth packet and passes it at the fifth.
        assert_eq!(signals(&mut coin, 0.25, 16), [5, 9, 13]);
        assert!(signals(&mut coin, 0.0, 9).is_empty());
    }

    #[test]
    fn an_overload_causes_no_later_signals() {
        let mut coin = Coin::new(Marking::Deterministic, 0);
        assert_eq!(signals(&mut coin, 2.0, 100).len(), 99);
        assert_eq!(signals(&mut coin, 0.1, 10).len(), 1, "one in ten packets right afterwards");
    }

    #[test]
    fn random_signals_have_the_same_mean() {
        let mut coin = Coin::new(Marking::Random, 3);
        // Five standard deviations of a binomial distribution with n = 100 000, p = 0.1.
        assert!((9_525..=10_475).contains(&signals(&mut coin, 0.1, 100_000).len()));
    }
}
