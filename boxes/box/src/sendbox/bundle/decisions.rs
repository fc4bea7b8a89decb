//! The last decisions of a bundle, for `forebay status`.

use std::collections::VecDeque;

use forebay_control as control;
use forebay_records::{Decision, Event};
use forebay_units::Nanos;

use crate::status::seconds;

/// The number of decisions that are kept however old they are.
const FEWEST: usize = 10;
/// The time for which more are kept, so that a reader that asks every second misses none.
const RECENT: Nanos = Nanos::from_secs(10);
/// The most decisions that are kept.
const MAX_DECISIONS: usize = 64;

/// The last decisions of a bundle, with their numbers.
pub(super) struct Decisions {
    /// The decisions and their times, the latest last. They are written out once, since readers ask
    /// for them more often than they are made.
    list: VecDeque<(Nanos, Decision)>,
    /// The number of decisions since the start.
    count: u64,
}

impl Decisions {
    pub(super) fn new() -> Self {
        Self { list: VecDeque::with_capacity(FEWEST), count: 0 }
    }

    /// Keeps a decision.
    pub(super) fn note(&mut self, now: Nanos, event: &control::Event) {
        self.keep(now, Event::new(now, "", event));
    }

    /// Keeps an event of any kind.
    pub(super) fn keep(&mut self, now: Nanos, event: Event) {
        while self.list.len() >= FEWEST
            && self.list.front().is_some_and(|(at, _)| {
                self.list.len() >= MAX_DECISIONS || now.saturating_sub(*at) > RECENT
            })
        {
            self.list.pop_front();
        }
        self.count += 1;
        let Event { kind, values, text, .. } = event;
        let number = self.count;
        self.list.push_back((now, Decision { number, ago_s: 0.0, kind, values, text }));
    }

    /// Returns the number of decisions since the start.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the decisions that are kept, the latest first.
    pub(super) fn told(&self, now: Nanos) -> Vec<Decision> {
        let told = self.list.iter().rev();
        told.map(|(at, decision)| Decision { ago_s: seconds(now, *at), ..decision.clone() })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_ten_seconds_are_told_and_ten_for_ever() {
        let mut decisions = Decisions::new();
        let event = control::Event::ReceiveboxRestarted;
        let numbers = |decisions: &Decisions, now: Nanos| -> Vec<u64> {
            decisions.told(now).iter().map(|decision| decision.number).collect()
        };
        // Four a second for ten seconds: none is dropped.
        for quarter in 0..40 {
            decisions.note(Nanos::from_millis(250) * quarter, &event);
        }
        let told = decisions.told(Nanos::from_secs(10));
        assert_eq!((told.len(), told[0].number, told[39].number), (40, 40, 1));
        assert_eq!((told[0].ago_s, told[0].kind.as_str()), (0.25, "receivebox_restarted"));
        // After an hour the latest nine are left beside the new one.
        decisions.note(Nanos::from_secs(3_600), &event);
        let expected: Vec<u64> = (32..=41).rev().collect();
        assert_eq!(numbers(&decisions, Nanos::from_secs(3_600)), expected);
        // A flood has a bound, and the numbers show the gap.
        for _ in 0..1_000 {
            decisions.note(Nanos::from_secs(3_601), &event);
        }
        let told = numbers(&decisions, Nanos::from_secs(3_601));
        assert_eq!((told.len(), told[0], told[63]), (64, 1_041, 978));
        assert_eq!(decisions.count(), 1_041);
    }
}
