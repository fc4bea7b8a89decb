//! The start times of a traffic's flows.

use forebay_units::Nanos;

use crate::random::Random;

/// The first random stream of start times, separate from all other streams of a seed.
const STREAMS: u64 = 1 << 63;

/// The start times of a traffic's flows.
///
/// Flows start at different times, which depend on the seed. Flows that start together may stay
/// synchronised, and the run would then show only one of many possible patterns. Real programs use
/// the same times, so that a seed means the same in every engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stagger {
    /// The seed of the run.
    pub seed: u64,
    /// The number of the traffic.
    pub traffic: u32,
    /// The time within which all flows start.
    pub within: Nanos,
}

impl Stagger {
    /// Returns the start of `flow` after the start of its traffic, distributed uniformly.
    pub fn of(&self, flow: u32) -> Nanos {
        let stream = STREAMS | u64::from(self.traffic) << 32 | u64::from(flow);
        Nanos(Random::new(self.seed, stream).below(self.within.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_are_uniform_and_differ_by_seed_and_traffic() {
        let of = |seed, traffic| {
            let stagger = Stagger { seed, traffic, within: Nanos::from_millis(100) };
            (0..1_000).map(|flow| stagger.of(flow).0).collect::<Vec<_>>()
        };
        let offsets = of(1, 0);
        assert_eq!(offsets, of(1, 0));
        assert!(offsets != of(2, 0) && offsets != of(1, 1));
        for tenth in 0..10 {
            let within = |t: &&u64| **t / 10_000_000 == tenth;
            let hits = offsets.iter().filter(within).count();
            assert!((60..140).contains(&hits), "100 expected, sigma 9.5, not {hits}");
        }
        let none = Stagger { seed: 1, traffic: 0, within: Nanos::ZERO };
        assert_eq!(none.of(7), Nanos::ZERO);
    }
}
