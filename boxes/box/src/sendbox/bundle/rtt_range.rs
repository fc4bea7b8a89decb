//! The smallest and the largest round-trip time of the last whole second.

use forebay_units::Nanos;

/// The time over which the range is taken. A reader that asks as often sees every sample.
const SPAN: Nanos = Nanos::from_secs(1);

/// The range of the round-trip times of a bundle. A broad one is the sign of a bursty path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RttRange {
    /// The start of the present second.
    start: Nanos,
    /// The range of the present second.
    present: Option<(Nanos, Nanos)>,
    /// The range of the second before.
    before: Option<(Nanos, Nanos)>,
}

impl RttRange {
    /// Takes in a sample.
    pub(super) fn note(&mut self, now: Nanos, rtt: Nanos) {
        let age = now.saturating_sub(self.start);
        if age >= SPAN {
            self.before = self.present.take().filter(|_| age < SPAN * 2);
            self.start = now;
        }
        let (low, high) = self.present.unwrap_or((rtt, rtt));
        self.present = Some((low.min(rtt), high.max(rtt)));
    }

    /// Returns the range of the last whole second; `None` if there was no sample in it.
    pub(super) fn last(&self, now: Nanos) -> Option<(Nanos, Nanos)> {
        match now.saturating_sub(self.start) {
            age if age < SPAN => self.before,
            age if age < SPAN * 2 => self.present,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_shown_until_the_next_one_is_over() {
        let ms = Nanos::from_millis;
        let mut range = RttRange::default();
        for (at, rtt) in [(5_000, 40), (5_300, 90), (5_999, 50)] {
            range.note(ms(at), ms(rtt));
        }
        assert_eq!(range.last(ms(5_999)), None, "the second is not over");
        assert_eq!(range.last(ms(6_000)), Some((ms(40), ms(90))));
        range.note(ms(6_100), ms(60));
        assert_eq!(range.last(ms(6_200)), Some((ms(40), ms(90))));
        assert_eq!(range.last(ms(7_100)), Some((ms(60), ms(60))));
        assert_eq!(range.last(ms(8_100)), None, "nothing came for a second");
        range.note(ms(9_000), ms(70));
        assert_eq!(range.last(ms(9_100)), None, "what is older is not the second before");
    }
}
