//! Properties that hold in every state that packets can bring the queues to.

use forebay_units::{Bytes, Nanos};
use proptest::prelude::*;

use super::super::{Base, Config, CurvyRed, DualPi2, Input};
use crate::{DropReason, Ecn, Marking, Packet, Qdisc};

#[derive(Debug)]
struct Frame(Ecn);

impl Packet for Frame {
    fn len(&self) -> Bytes {
        Bytes(1514)
    }

    fn flow_hash(&self) -> u32 {
        0
    }

    fn ecn(&self) -> Ecn {
        self.0
    }

    fn set_ce(&mut self) {
        self.0 = Ecn::Ce;
    }
}

/// A burst of packets that arrives after a wait, and the number of packets that leave then.
#[derive(Clone, Copy, Debug)]
struct Step {
    wait: Nanos,
    ecn: Ecn,
    arrivals: u8,
    departures: u8,
}

fn step() -> impl Strategy<Value = Step> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    // Up to two updates in between.
    (0..30_000_u64, ecn, 0..40_u8, 0..40_u8).prop_map(|(us, ecn, arrivals, departures)| Step {
        wait: Nanos::from_micros(us),
        ecn,
        arrivals,
        departures,
    })
}

fn config() -> impl Strategy<Value = Config> {
    let profile =
        prop_oneof![Just(Config::rfc9332()), Just(Config::paper()), Just(Config::linux())];
    (profile, 1.0..8.0_f64, any::<bool>(), any::<u64>()).prop_map(
        |(profile, coupling, random, seed)| {
            let marking = if random { Marking::Random } else { Marking::Deterministic };
            Config { coupling, marking, seed, ..profile }
        },
    )
}

/// Either base AQM, with any parameters that Curvy RED may have.
fn base() -> impl Strategy<Value = Option<CurvyRed>> {
    let red =
        (1e-3..=1.0_f64, 0..50_u64, 1..1000_u64).prop_map(|(weight, least, range)| CurvyRed {
            weight,
            min_threshold: Nanos::from_millis(least),
            range: Nanos::from_millis(range),
        });
    prop::option::of(red)
}

fn equal(a: f64, b: f64) -> bool {
    (-1e-12..=1e-12).contains(&(a - b))
}

/// Runs the steps and passes every state of the queue to `check`.
fn run(config: Config, steps: &[Step], mut check: impl FnMut(&DualPi2<Frame>, Nanos)) {
    let mut q = DualPi2::new(config).unwrap();
    let mut now = Nanos::from_secs(1);
    for step in steps {
        now += step.wait;
        for _ in 0..step.arrivals {
            q.enqueue(now, Frame(step.ecn), &mut |_, _: DropReason| {});
        }
        check(&q, now);
        for _ in 0..step.departures {
            let _ = q.dequeue(now, &mut |_, _: DropReason| {});
            check(&q, now);
        }
    }
}

proptest! {
    /// Checks RFC 9332 section 2.1: p_CL = k p', p_C = p'^2, and an L4S packet is marked with at
    /// least the coupled probability. It holds whatever the base AQM is.
    #[test]
    fn probabilities_are_coupled_in_every_state(
        config in config(),
        base in base(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let base = base.map_or(config.base, Base::CurvyRed);
        let (k, config) = (config.coupling, Config { base, ..config });
        run(config, &steps, |q, now| {
            let base = q.probability();
            assert!((0.0..=1.0).contains(&base));
            let classic = q.classic_signals(false);
            assert!(equal(classic.classic, base * base));
            assert!(equal(classic.scalable, (k * base).min(1.0)));
            // Drops begin where marks are saturated, with the classic probability.
            assert_eq!(classic.overload.is_some(), base * base >= 1.0 / (k * k));
            let saturated = classic.scalable >= 1.0 - 1e-9;
            assert!(classic.overload.is_none_or(|p| equal(p, base * base) && saturated));
            let own = q.low_latency_signals(now, false);
            assert!(own.scalable >= classic.scalable && own.scalable <= 1.0);
            assert!(equal(own.classic, (own.scalable / k) * (own.scalable / k)));
            assert_eq!(own.overload, classic.overload);
            let exempt = q.classic_signals(true);
            assert!(exempt.scalable == 0.0 && exempt.classic == 0.0 && exempt.overload.is_none());
        });
    }

    /// After an overload of any depth, once p' is back at zero and queue delays are short, no
    /// packet is marked or dropped.
    #[test]
    fn signals_end_with_the_overload(
        config in config(),
        burst in 100..4000_u32,
        ms in 10..500_u64,
    ) {
        let config = Config { input: Input::Greatest, ..config };
        let mut q = DualPi2::new(config).unwrap();
        let mut now = Nanos::from_secs(1);
        for _ in 0..burst {
            for ecn in [Ecn::Ect1, Ecn::NotEct] {
                q.enqueue(now, Frame(ecn), &mut |_, _: DropReason| {});
            }
        }
        for _ in 0..ms {
            now += Nanos::from_millis(1);
            let _ = q.dequeue(now, &mut |_, _: DropReason| {});
        }
        while q.dequeue(now, &mut |_, _: DropReason| {}).is_some() {}
        // Idle until the controller has come to rest.
        now += Nanos::from_secs(60);
        for _ in 0..200 {
            for ecn in [Ecn::Ect1, Ecn::Ect0, Ecn::NotEct] {
                q.enqueue(now, Frame(ecn), &mut |_, _: DropReason| panic!("refused"));
            }
            assert!(q.probability() == 0.0);
            for _ in 0..3 {
                let sent = q.dequeue(now, &mut |_, _: DropReason| panic!("dropped"));
                assert_ne!(sent.unwrap().0, Ecn::Ce);
            }
            now += Nanos::from_millis(20);
        }
    }

    /// The average of Curvy RED lies between the shortest and the longest delay that it has seen,
    /// so p' is never above what the longest one alone would give.
    #[test]
    fn curvy_red_stays_below_the_longest_delay(
        params in base().prop_filter_map("curvy red", |base| base),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let config = Config { base: Base::CurvyRed(params), ..Config::rfc9332() };
        let mut longest = Nanos::ZERO;
        let mut before = Nanos::ZERO;
        run(config, &steps, |q, now| {
            // The head that departs next, and the one that has just departed.
            longest = longest.max(before);
            before = q.delay(now);
            let above = longest.saturating_sub(params.min_threshold).as_secs_f64();
            let most = (above / params.range.as_secs_f64()).min(1.0);
            assert!(q.probability() <= most + 1e-12, "{} {most}", q.probability());
        });
    }
}
