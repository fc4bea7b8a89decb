//! Random numbers for drawing cells: one stream for each cell of a map.

use forebay_lab::workload::Draw;

/// A stream of random numbers that depends on the map's seed and the cell's number alone, so that a
/// cell is the same however many others are drawn.
pub(crate) struct Random(Draw);

impl Random {
    /// The stream of cell `number` of the map with this `seed`.
    pub(crate) fn new(seed: u64, number: u32) -> Self {
        Self(Draw::new(seed, number, 0))
    }

    /// A number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.unit()
    }

    /// A number in [`low`, `high`), each the same.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// A number in [`low`, `high`) whose logarithm is uniform. Its last digits may differ where the
    /// mathematical library does; families round what they draw.
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

    /// A time with this mean, as between independent events.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        self.0.exponential((mean * 1e6) as u64) as f64 / 1e6
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
