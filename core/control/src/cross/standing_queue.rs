use forebay_units::Nanos;

use crate::controller::Measurement;

/// Half of the window over which the least delay is taken. It is longer than a pulse, whose queue
/// is gone once a period.
const HALF_WINDOW: Nanos = Nanos::from_millis(240);
/// From this multiple of the controller's target on, a queue counts as too high.
const HIGH: f64 = 1.5;
/// The least threshold. The spread of round-trip times comes on top.
const HIGH_FLOOR: Nanos = Nanos::from_micros(2_500);
/// How long the queue must have been too high. A controller that is alone would have drained it.
const RISE: Nanos = Nanos::from_millis(300);
/// The same in round-trip times.
const RISE_RTTS: u64 = 6;
/// How long the queue must be low again before detection ends.
const FALL: Nanos = Nanos::from_millis(1500);

/// Detects a queue at the bottleneck that stands above the controller's target.
///
/// Such a queue comes from cross traffic, and only then is it worth testing for elastic traffic:
/// elastic traffic does not leave the queue empty, and pulses cost up to 8 ms of queue.
#[derive(Debug, Default)]
pub(super) struct StandingQueue {
    /// The least delay of this half window and of the one before.
    least: [Nanos; 2],
    since: Nanos,
    /// Since when the delay has been on the other side of the threshold.
    turned: Option<Nanos>,
    /// When the present queue was detected.
    detected_at: Option<Nanos>,
    /// When the queue was last low.
    low_at: Nanos,
    /// When the queue was last too high.
    high_at: Nanos,
}

impl StandingQueue {
    /// Evaluates a tick. `target` is the queueing delay that the controller aims for.
    pub(super) fn on_tick(&mut self, m: &Measurement, target: Nanos) {
        let delay = m.rtt.saturating_sub(m.min_rtt);
        if m.now.saturating_sub(self.since) >= HALF_WINDOW {
            self.least = [delay, self.least[0]];
            self.since = m.now;
        }
        self.least[0] = self.least[0].min(delay);
        let standing = self.least[0].min(self.least[1]);
        let high = Nanos((target.0 as f64 * HIGH) as u64).max(HIGH_FLOOR) + m.rtt_spread;
        if standing <= high {
            self.low_at = m.now;
        } else {
            self.high_at = m.now;
        }
        let (other_side, wait) = match self.detected_at {
            None => (standing > high, RISE.max(m.smoothed_rtt * RISE_RTTS)),
            Some(_) => (standing <= high / 2, FALL),
        };
        if !other_side {
            self.turned = None;
            return;
        }
        let turned = *self.turned.get_or_insert(m.now);
        if m.now.saturating_sub(turned) >= wait {
            self.detected_at = self.detected_at.is_none().then_some(m.now);
            self.turned = None;
        }
    }

    /// Returns when the present standing queue was detected, `None` if there is none.
    pub(super) fn detected_at(&self) -> Option<Nanos> {
        self.detected_at
    }

    /// Returns for how long the queue has been too high without a break.
    pub(super) fn stood_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.low_at)
    }

    /// Returns for how long the queue has not been too high.
    pub(super) fn absent_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.high_at)
    }

    /// Starts anew at `now`.
    pub(super) fn clear(&mut self, now: Nanos) {
        *self = Self { low_at: now, high_at: now, since: now, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const MS: Nanos = Nanos::from_millis(1);

    /// Runs ticks of 10 ms with the queueing delay in milliseconds that `delay` returns. Returns
    /// when a standing queue was detected.
    fn detected_at(ticks: u64, delay: impl Fn(u64) -> u64) -> Option<Nanos> {
        let mut standing_queue = StandingQueue::default();
        for tick in 1..=ticks {
            let m = Measurement {
                now: MS * (tick * 10),
                rtt: quiet().min_rtt + MS * delay(tick),
                ..quiet()
            };
            standing_queue.on_tick(&m, MS);
        }
        standing_queue.detected_at()
    }

    #[test]
    fn a_queue_that_stands_is_detected() {
        let at = detected_at(200, |tick| if tick < 50 { 1 } else { 20 }).unwrap();
        // One to two half windows and six round-trip times of 50 ms later.
        assert!(at >= MS * 1000 && at <= MS * 1400, "{at}");
    }

    #[test]
    fn the_queue_of_pulses_is_not_detected() {
        // 8 ms of queue for 100 of every 200 ms.
        assert_eq!(detected_at(1000, |tick| if tick % 20 < 10 { 9 } else { 1 }), None);
        assert_eq!(detected_at(1000, |_| 2), None, "below the threshold");
    }

    #[test]
    fn detection_ends_when_the_queue_has_been_low_for_a_while() {
        let path = |end| move |tick| if tick < end { 20 } else { 1 };
        assert!(detected_at(640, path(500)).is_some());
        assert_eq!(detected_at(700, path(500)), None);
    }
}
