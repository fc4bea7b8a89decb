use forebay_units::Nanos;

use crate::controller::Measurement;

/// Longer than a pulse, whose queue is gone once a period.
const HALF: Nanos = Nanos::from_millis(240);
/// A queue is not the controller's own from this multiple of its target on,
const HIGH: f64 = 1.5;
/// at least this, and besides what round-trip times vary by.
const HIGH_FLOOR: Nanos = Nanos::from_micros(2_500);
/// How long it must have stood: a controller that alone had caused it would be rid of it.
const RISE: Nanos = Nanos::from_millis(300);
/// and in so many round-trip times.
const RISE_RTTS: u64 = 6;
/// And how long it must be gone before the matter is closed.
const FALL: Nanos = Nanos::from_millis(1500);

/// A queue at the bottleneck that stays although the controller wants it gone: somebody else's. Only
/// then is it worth asking whose, since elastic traffic does not leave a queue empty; pulses cost up
/// to 8 ms of queue.
#[derive(Debug, Default)]
pub(super) struct StandingQueue {
    /// The least delay of this half window and of the one before.
    least: [Nanos; 2],
    since: Nanos,
    /// Since when the delay has been on the other side of the threshold.
    turned: Option<Nanos>,
    detected_at: Option<Nanos>,
    /// When there last was no such queue,
    low_at: Nanos,
    /// and when there last was one.
    high_at: Nanos,
}

impl StandingQueue {
    /// A tick. `target` is the queueing delay that the controller aims for.
    pub(super) fn on_tick(&mut self, m: &Measurement, target: Nanos) {
        let delay = m.rtt.saturating_sub(m.min_rtt);
        if m.now.saturating_sub(self.since) >= HALF {
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

    /// Since when there has been one.
    pub(super) fn detected_at(&self) -> Option<Nanos> {
        self.detected_at
    }

    /// For how long there has been such a queue without a break.
    pub(super) fn stood_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.low_at)
    }

    /// For how long there has been none.
    pub(super) fn absent_for(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.high_at)
    }

    /// Begins anew.
    pub(super) fn clear(&mut self, now: Nanos) {
        *self = Self { low_at: now, high_at: now, since: now, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const MS: Nanos = Nanos::from_millis(1);

    /// Ticks of 10 ms with the delay in milliseconds that `delay` gives; when it was raised.
    fn raised(ticks: u64, delay: impl Fn(u64) -> u64) -> Option<Nanos> {
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
    fn a_queue_that_stands() {
        let at = raised(200, |tick| if tick < 50 { 1 } else { 20 }).unwrap();
        // Seen after one to two half windows, and six round-trip times of 50 ms more.
        assert!(at >= MS * 1000 && at <= MS * 1400, "{at}");
    }

    #[test]
    fn pulses_are_none() {
        // 8 ms of queue for 100 of every 200 ms.
        assert_eq!(raised(1000, |tick| if tick % 20 < 10 { 9 } else { 1 }), None);
        assert_eq!(raised(1000, |_| 2), None, "as it should be");
    }

    #[test]
    fn is_dropped_when_the_queue_has_gone_for_a_while() {
        let path = |end| move |tick| if tick < end { 20 } else { 1 };
        assert!(raised(640, path(500)).is_some());
        assert_eq!(raised(700, path(500)), None);
    }
}
