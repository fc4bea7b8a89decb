//! Damping of neighbours that change their programs too often, as BGP damps routes that flap (RFC
//! 2439, section 2.2).
//!
//! Each change adds to a penalty, which decays exponentially. Above one threshold changes are
//! refused, until the penalty has fallen below another. The time is an argument, and the penalty is
//! kept across restarts.

use serde::{Deserialize, Serialize};

/// The penalty of a change.
pub const CHANGE: f64 = 1000.0;
/// The penalty of a program that is refused as invalid: it changes nothing, but has to be checked.
pub const MISTAKE: f64 = 500.0;

/// The thresholds of damping.
///
/// The default half-life is the interval of rounds. With one change per round the penalty stays
/// below twice that of a change; four changes at once are too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The time in which a penalty halves, in milliseconds.
    pub half_life: u64,
    /// The penalty above which changes are refused.
    pub suppress: f64,
    /// The penalty below which changes are accepted again.
    pub reuse: f64,
}

impl Limits {
    /// Returns the highest penalty: four half-lives above `reuse`. (RFC 2439, section 4.2, has the
    /// longest time that a route is suppressed.)
    fn ceiling(&self) -> f64 {
        (self.reuse * 16.0).max(self.suppress + CHANGE)
    }
}

/// The penalty of one neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Penalty {
    /// The penalty at the time `at`.
    pub value: f64,
    /// The time of the penalty, in milliseconds since 1970.
    pub at: u64,
    /// Whether changes are refused.
    pub suppressed: bool,
}

impl Penalty {
    /// Returns the penalty at `now`. If the clock was set back, no time passes.
    #[must_use]
    pub fn decayed(self, limits: &Limits, now: u64) -> Self {
        let halves = now.saturating_sub(self.at) as f64 / limits.half_life.max(1) as f64;
        let value = self.value * 0.5f64.powf(halves);
        Self { value, at: now.max(self.at), suppressed: self.suppressed && value > limits.reuse }
    }

    /// Returns the penalty after an event that adds `weight`.
    #[must_use]
    pub fn after(self, weight: f64, limits: &Limits, now: u64) -> Self {
        let decayed = self.decayed(limits, now);
        let value = (decayed.value + weight).min(limits.ceiling());
        Self { value, suppressed: decayed.suppressed || value > limits.suppress, ..decayed }
    }

    /// Returns the time until changes are accepted, in milliseconds; `None` if they are accepted
    /// now.
    pub fn refused_for(self, limits: &Limits, now: u64) -> Option<u64> {
        let decayed = self.decayed(limits, now);
        decayed.suppressed.then(|| {
            let halves = (decayed.value / limits.reuse).log2().max(0.0);
            // A penalty at the threshold is not below it.
            (halves * limits.half_life as f64).ceil() as u64 + 1
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits { half_life: 1000, suppress: 3000.0, reuse: 1000.0 };

    #[test]
    fn a_penalty_halves_with_time() {
        let penalty = Penalty { value: 800.0, at: 0, suppressed: false };
        assert_eq!(penalty.decayed(&LIMITS, 1000).value, 400.0);
        assert_eq!(penalty.decayed(&LIMITS, 3000).value, 100.0);
        // A clock that was set back.
        assert_eq!(Penalty { at: 5000, ..penalty }.decayed(&LIMITS, 0).value, 800.0);
    }

    #[test]
    fn four_changes_at_once_are_damped_and_one_a_round_is_not() {
        let mut quick = Penalty::default();
        for at in 0..4 {
            assert_eq!(quick.refused_for(&LIMITS, at), None, "{at}");
            quick = quick.after(CHANGE, &LIMITS, at);
        }
        let wait = quick.refused_for(&LIMITS, 4).unwrap();
        assert!((1990..2002).contains(&wait), "from just under 4000 to 1000: {wait}");
        assert_eq!(quick.refused_for(&LIMITS, 4 + wait), None);
        assert!(quick.refused_for(&LIMITS, 4 + wait - 20).is_some());
        let mut slow = Penalty::default();
        for round in 0..1000 {
            assert_eq!(slow.refused_for(&LIMITS, round * 1000), None);
            slow = slow.after(CHANGE, &LIMITS, round * 1000);
        }
        assert!(slow.value <= 2000.0);
    }

    proptest! {
        #[test]
        fn changes_are_accepted_after_the_announced_wait(
            steps in proptest::collection::vec((0u64..5000, prop_oneof![Just(CHANGE), Just(MISTAKE)]), 0..60),
        ) {
            let (mut now, mut penalty) = (0, Penalty::default());
            for (pause, weight) in steps {
                now += pause;
                penalty = penalty.after(weight, &LIMITS, now);
                prop_assert!(penalty.value <= LIMITS.ceiling());
                if let Some(wait) = penalty.refused_for(&LIMITS, now) {
                    prop_assert!(wait <= 4 * LIMITS.half_life + 1);
                    prop_assert_eq!(penalty.refused_for(&LIMITS, now + wait), None);
                }
            }
        }
    }
}
