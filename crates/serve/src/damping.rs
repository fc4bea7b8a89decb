//! Damping of neighbours that change their programs too often, as BGP dampens routes that flap (RFC 2439, section 2.2):
//! each change adds to a penalty, which halves with time; above one threshold changes are refused, until it has fallen
//! below another.
//!
//! The clock is passed in, and the penalty is kept across restarts.

use serde::{Deserialize, Serialize};

/// What a change adds.
pub const CHANGE: f64 = 1000.0;
/// What a program that is refused for what it says adds: nothing changed, but somebody had to look at it.
pub const MISTAKE: f64 = 500.0;

/// How much is too often.
///
/// The half-life is a round's interval unless something else is said. With one change a round the penalty then stays
/// below twice that of a change, for ever; four at once are too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The time in which a penalty halves, in milliseconds.
    pub half_life: u64,
    /// Above this, changes are refused.
    pub suppress: f64,
    /// Below this they are taken again.
    pub reuse: f64,
}

impl Limits {
    /// The most that a penalty comes to: four half-lives above `reuse` (RFC 2439, section 4.2, has the longest time that a
    /// route is suppressed).
    fn ceiling(&self) -> f64 {
        (self.reuse * 16.0).max(self.suppress + CHANGE)
    }
}

/// The penalty of one neighbour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Penalty {
    /// What it was.
    pub value: f64,
    /// When that was, in milliseconds since 1970.
    pub at: u64,
    /// Whether changes are refused.
    pub suppressed: bool,
}

impl Penalty {
    /// What it is at `now`. A clock that was set back lets no time pass.
    #[must_use]
    pub fn decayed(self, limits: &Limits, now: u64) -> Self {
        let halves = now.saturating_sub(self.at) as f64 / limits.half_life.max(1) as f64;
        let value = self.value * 0.5f64.powf(halves);
        Self { value, at: now.max(self.at), suppressed: self.suppressed && value > limits.reuse }
    }

    /// The same after something that adds `weight` to it.
    #[must_use]
    pub fn after(self, weight: f64, limits: &Limits, now: u64) -> Self {
        let decayed = self.decayed(limits, now);
        let value = (decayed.value + weight).min(limits.ceiling());
        Self { value, suppressed: decayed.suppressed || value > limits.suppress, ..decayed }
    }

    /// How long changes are still refused, in milliseconds; `None` if they are taken.
    pub fn refused_for(self, limits: &Limits, now: u64) -> Option<u64> {
        let decayed = self.decayed(limits, now);
        decayed.suppressed.then(|| {
            let halves = (decayed.value / limits.reuse).log2().max(0.0);
            // What is at the threshold is not below it yet.
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
    fn it_halves() {
        let penalty = Penalty { value: 800.0, at: 0, suppressed: false };
        assert_eq!(penalty.decayed(&LIMITS, 1000).value, 400.0);
        assert_eq!(penalty.decayed(&LIMITS, 3000).value, 100.0);
        // A clock that goes back.
        assert_eq!(Penalty { at: 5000, ..penalty }.decayed(&LIMITS, 0).value, 800.0);
    }

    #[test]
    fn four_changes_at_once_are_too_many_and_one_a_round_never_is() {
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
        fn whoever_waits_as_told_is_heard(
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
