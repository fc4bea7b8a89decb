//! When a queue falls as it has not for long.

use forebay_units::Nanos;

/// It is compared with its least of one to two of these.
const HALF: Nanos = Nanos::from_secs(5);
/// and is far below that at this share of it: what many flows together have in flight varies by less.
const FAR: f64 = 0.85;

/// The least that a queue came to lately. Flows that compete make it rise and fall, and when one of
/// them goes away, what it had in flight is missing at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueFall {
    /// Of this half window and of the one before.
    least: [Option<Nanos>; 2],
    since: Nanos,
}

impl QueueFall {
    /// Begins anew.
    pub(crate) fn begin(now: Nanos) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// A tick, with the delay in the queue. Whether that is far below what it came to lately.
    pub(crate) fn on_tick(&mut self, now: Nanos, delay: Nanos) -> bool {
        let least = self.least.into_iter().flatten().min();
        let fell = least.is_some_and(|least| (delay.0 as f64) < FAR * least.0 as f64);
        if now.saturating_sub(self.since) >= HALF {
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

    /// Whether each of these delays, in milliseconds and 10 ms apart, is a fall.
    fn falls(delays: impl IntoIterator<Item = u64>) -> std::vec::Vec<bool> {
        let mut fall = QueueFall::begin(Nanos::ZERO);
        let tick = |(i, ms): (usize, u64)| {
            fall.on_tick(Nanos::from_millis(10 * i as u64), Nanos::from_millis(ms))
        };
        delays.into_iter().enumerate().map(tick).collect()
    }

    #[test]
    fn lower_than_for_long() {
        // A sawtooth of 70 to 100 ms and two seconds, and then 55.
        let sawtooth = (0..3_000).map(|i| 70 + i % 200 * 30 / 200);
        let fell = falls(sawtooth.chain([55, 55]));
        assert_eq!(fell.iter().position(|f| *f), Some(3_000));
        assert!(!fell[3_001], "once");
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let fell = falls((0..50).map(|_| 10).chain((0..1_100).map(|_| 100)).chain([50]));
        assert_eq!(fell.iter().position(|f| *f), Some(1_150));
    }
}
