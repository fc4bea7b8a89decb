//! Detection of a fall of the queue below its usual minimum.

use forebay_units::Nanos;

/// The queue is compared with its minimum over one to two of these periods.
const HALF_WINDOW: Nanos = Nanos::from_secs(5);
/// The queue has fallen below this share of the minimum. The data that many flows together have in
/// flight varies by less.
const FALL: f64 = 0.85;

/// The recent minimum of the queueing delay. Competing flows make the queue rise and fall; when one
/// of them ends, its data in flight is missing at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueFall {
    /// The minimum of this half window and of the one before.
    least: [Option<Nanos>; 2],
    since: Nanos,
}

impl QueueFall {
    /// Starts at `now` without a past.
    pub(crate) fn begin(now: Nanos) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Takes in the queueing delay at a tick. Returns whether it is far below the recent minimum.
    pub(crate) fn on_tick(&mut self, now: Nanos, delay: Nanos) -> bool {
        let least = self.least.into_iter().flatten().min();
        let fell = least.is_some_and(|least| (delay.0 as f64) < FALL * least.0 as f64);
        if now.saturating_sub(self.since) >= HALF_WINDOW {
            self.least = [None, self.least[0]];
            self.since = now;
        }
        self.least[0] = Some(self.least[0].map_or(delay, |least| least.min(delay)));
        fell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns for each of these delays, in milliseconds and 10 ms apart, whether it is a fall.
    fn falls(delays: impl IntoIterator<Item = u64>) -> std::vec::Vec<bool> {
        let mut fall = QueueFall::begin(Nanos::ZERO);
        let tick = |(i, ms): (usize, u64)| {
            fall.on_tick(Nanos::from_millis(10 * i as u64), Nanos::from_millis(ms))
        };
        delays.into_iter().enumerate().map(tick).collect()
    }

    #[test]
    fn a_delay_below_the_recent_minimum_is_a_fall() {
        // A sawtooth of 70 to 100 ms and two seconds, and then 55.
        let sawtooth = (0..3_000).map(|i| 70 + i % 200 * 30 / 200);
        let fell = falls(sawtooth.chain([55, 55]));
        assert_eq!(fell.iter().position(|f| *f), Some(3_000));
        assert!(!fell[3_001], "once");
    }

    #[test]
    fn a_minimum_of_long_ago_does_not_count() {
        let fell = falls((0..50).map(|_| 10).chain((0..1_100).map(|_| 100)).chain([50]));
        assert_eq!(fell.iter().position(|f| *f), Some(1_150));
    }
}
