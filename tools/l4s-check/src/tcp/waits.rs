//! The queues that a direction's packets met.

use forebay_units::Nanos;

use super::delay;

/// How long a packet waited beyond the least delay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// The time when it passed the place of the capture.
    pub(super) passed: Nanos,
    /// The delay beyond the least one.
    pub(super) excess: Nanos,
    /// Whether a queue marked it.
    pub(super) is_marked: bool,
}

/// The delays of a direction's packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// The packets after the connection has settled, in the order in which they passed.
    settled: Vec<Wait>,
    /// The delays of those that were marked.
    pub(super) marked: Vec<Nanos>,
    /// The delays of packets that were marked before.
    pub(super) early_marked: Vec<Nanos>,
}

/// What packets waited that passed just before lost ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtLosses {
    /// The number of losses; several within a round trip are one.
    pub(super) count: usize,
    /// The median of the delays.
    pub(super) median: Nanos,
    /// The parts of all packets that waited for longer than each of them, added.
    longer: f64,
}

impl AtLosses {
    /// Returns an upper bound of the probability that losses which do not depend on the queue come
    /// after delays as long as these: that the sum of `count` uniform random numbers is so small
    /// (Irwin-Hall distribution).
    pub(super) fn chance(&self) -> f64 {
        (1..=self.count).map(|n| self.longer / n as f64).product()
    }
}

impl Waits {
    /// Sorts `waits` by whether they were marked, and passed after the time `from`.
    pub(super) fn of(from: Nanos, waits: impl Iterator<Item = Wait>) -> Self {
        let mut all = Self::default();
        for wait in waits {
            let is_settled = wait.passed >= from;
            if is_settled {
                all.settled.push(wait);
            }
            if wait.is_marked {
                let to = if is_settled { &mut all.marked } else { &mut all.early_marked };
                to.push(wait.excess);
            }
        }
        all.settled.sort_by_key(|wait| wait.passed);
        all
    }

    /// Returns the quantile `q` of the delays; `None` if there are none.
    pub(super) fn quantile(&self, q: f64) -> Option<Nanos> {
        let mut delays: Vec<_> = self.settled.iter().map(|wait| wait.excess).collect();
        delay::quantile(&mut delays, q)
    }

    /// Returns what packets waited that passed before the ones lost at the times `losses`, in
    /// ascending order, within a `round_trip`; `None` if there are none. Those that passed after a
    /// loss have no round trip until it is repaired.
    pub(super) fn at_losses(&self, losses: &[Nanos], round_trip: Nanos) -> Option<AtLosses> {
        let mut sorted: Vec<_> = self.settled.iter().map(|wait| wait.excess).collect();
        sorted.sort_unstable();
        let (mut delays, mut longer, mut last) = (Vec::new(), 0.0, None);
        for &loss in losses {
            if last.is_some_and(|last| loss < round_trip.saturating_add(last)) {
                continue;
            }
            let next = self.settled.partition_point(|wait| wait.passed < loss);
            let Some(wait) = next.checked_sub(1).and_then(|before| self.settled.get(before)) else {
                continue;
            };
            if loss < wait.passed.saturating_add(round_trip) {
                last = Some(loss);
                delays.push(wait.excess);
                let above = sorted.len() - sorted.partition_point(|delay| *delay <= wait.excess);
                longer += above as f64 / sorted.len() as f64;
            }
        }
        let count = delays.len();
        let median = delay::quantile(&mut delays, 0.5)?;
        Some(AtLosses { count, median, longer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet each millisecond, whose delay grows from 0 to 9 ms and begins again.
    fn sawtooth() -> Waits {
        let wait = |n: u64| Wait {
            passed: Nanos::from_millis(n),
            excess: Nanos::from_millis(n % 10),
            is_marked: n % 10 == 9,
        };
        Waits::of(Nanos::from_millis(100), (0..1_000).map(wait))
    }

    #[test]
    fn losses_at_the_longest_delays_are_told_from_those_at_any() {
        let waits = sawtooth();
        assert_eq!((waits.marked.len(), waits.early_marked.len()), (90, 10));
        assert_eq!(waits.quantile(1.0), Some(Nanos::from_millis(9)));
        let times = |step: u64, first: u64| -> Vec<_> {
            (0..9).map(|n| Nanos::from_millis(first + n * step)).collect()
        };
        let round_trip = Nanos::from_millis(5);
        let full = waits.at_losses(&times(100, 110), round_trip).unwrap();
        assert_eq!((full.count, full.median, full.chance()), (9, Nanos::from_millis(9), 0.0));
        let any = waits.at_losses(&times(101, 111), round_trip).unwrap();
        assert_eq!((any.count, any.median), (9, Nanos::from_millis(4)));
        assert!((any.longer - 4.5).abs() < 1e-9 && any.chance() > 1.0, "{any:?}");
        let two = AtLosses { count: 2, median: Nanos::ZERO, longer: 0.1 };
        assert!((two.chance() - 0.005).abs() < 1e-9);
        // Of losses within a round trip the first counts, and those before or after it do not.
        let near = waits.at_losses(&times(1, 200), round_trip).unwrap();
        assert_eq!(near.count, 2);
        assert!(waits.at_losses(&times(1, 10), round_trip).is_none());
        assert!(waits.at_losses(&times(1, 2_000), round_trip).is_none());
    }
}
