use forebay_units::Nanos;

use crate::random::Random;

/// The streams of random numbers that beginnings are drawn from, apart from all others of a seed.
const STREAMS: u64 = 1 << 63;

/// When each flow of a traffic begins: not all at one instant, as programs do not, and not in every
/// seed alike, for flows that begin in lockstep may stay in it, and the run shows one rhythm of
/// many. Real programs have it from here too, so that a seed means the same in every engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stagger {
    /// The run's seed.
    pub seed: u64,
    /// The traffic's number.
    pub traffic: u32,
    /// By then all have begun.
    pub within: Nanos,
}

impl Stagger {
    /// How long after its traffic `flow` begins: uniform in what is allowed.
    pub fn of(&self, flow: u32) -> Nanos {
        let stream = STREAMS | u64::from(self.traffic) << 32 | u64::from(flow);
        Nanos(Random::new(self.seed, stream).below(self.within.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_begin_all_over_the_interval_and_differ_by_seed_and_traffic() {
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
