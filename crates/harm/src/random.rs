//! Random numbers for drawing cells: one stream for each cell of a map.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A stream of random numbers that depends on the map's seed and the cell's number alone, so that a
/// cell is the same however many others are drawn.
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// The stream of cell `number` of the map with this `seed`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..16].copy_from_slice(&number.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in [`low`, `high`), each the same.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A number in [`low`, `high`) whose logarithm is uniform: as many below 10 as above it in 1 to
    /// 100.
    pub(crate) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// A whole number from `low` to `high`, both included.
    pub(crate) fn whole(&mut self, low: u32, high: u32) -> u32 {
        low + (self.unit() * f64::from(high - low + 1)) as u32
    }

    /// Whether something of this probability happens.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// One of `items`, which are not empty.
    pub(crate) fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[(self.unit() * items.len() as f64) as usize]
    }

    /// A time with this mean, as between events that do not know of each other.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_in_their_ranges_and_repeat() {
        let mut random = Random::new(7, 3);
        let draws: Vec<f64> = (0..1000).map(|_| random.log_between(0.5, 2000.0)).collect();
        assert!(draws.iter().all(|d| (0.5..2000.0).contains(d)));
        let below = draws.iter().filter(|d| **d < 31.6).count();
        assert!((400..600).contains(&below), "the geometric mean is the median: {below}");
        assert!((0..1000).all(|_| (2..=5).contains(&random.whole(2, 5))));
        let mut again = Random::new(7, 3);
        assert_eq!(draws[0], again.log_between(0.5, 2000.0));
        assert_ne!(draws[0], Random::new(7, 4).log_between(0.5, 2000.0));
    }
}
