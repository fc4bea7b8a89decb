//! Properties of allocations, on random networks.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use forebay_plan::allocate::{Allocation, Binning, Method, Wba};
use forebay_plan::lp::Packing;
use forebay_plan::network::Network;
use forebay_plan::paths::PathCache;
use forebay_plan::problem::{Freedom, Grain, Problem};
use forebay_plan::synthetic::{Draw, SetUp, plane};
use proptest::prelude::*;

const K: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// A small ISP whose providers have different weights.
fn network(seed: u64, routers: usize, weights: &[f64]) -> Network {
    let mut draw = Draw::new(seed);
    let set_up = SetUp { providers: weights.len(), entries: 3, core: 0.3, ..SetUp::default() };
    let mut network = set_up.network(plane(routers, 1.4, &mut draw), &mut draw);
    for (provider, weight) in network.providers.iter_mut().zip(weights) {
        provider.weight = *weight;
    }
    network
}

fn problem(network: &Network, freedom: Freedom) -> Problem {
    Problem::new(network, &mut PathCache::new(K), freedom, Grain::Summed)
}

/// No link is overloaded, no flow gets more than its demand, and shares add up to rates.
fn feasible(problem: &Problem, allocation: &Allocation) -> Result<(), TestCaseError> {
    for (load, resource) in problem.load(&allocation.shares).iter().zip(&problem.resources) {
        prop_assert!(*load <= resource.capacity + 1e-5, "{load} on {resource:?}");
    }
    for (flow, rate) in problem.flows.iter().zip(&allocation.rates) {
        prop_assert!((-1e-9..=flow.demand + 1e-6).contains(rate));
    }
    Ok(())
}

fn weights() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(prop_oneof![Just(1.0), 0.25f64..4.0], 2..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Approximate max-min fairness: the rate of a flow cannot rise without reducing another flow
    /// that has less.
    ///
    /// Both rates are in multiples of the weights, and the comparison allows the factor of a step.
    /// Flows below the first bound count as having that bound.
    #[test]
    fn a_flow_can_gain_only_from_larger_ones(
        seed in any::<u64>(),
        routers in 4usize..9,
        weights in weights(),
        factor in prop_oneof![Just(2.0), Just(1.5), Just(4.0)],
        steps in 1u32..7,
    ) {
        let problem = problem(&network(seed, routers, &weights), Freedom::Joint);
        let wba = Wba { factor, steps };
        let got = Method::Wba(wba).allocate(&problem).unwrap();
        feasible(&problem, &got)?;
        let first = wba.first_bound(&problem) * factor;
        let mut packing = Packing::new(&problem).unwrap();
        for (at, flow) in problem.flows.iter().enumerate() {
            if got.rates[at] >= flow.demand - 1e-5 {
                continue;
            }
            let level = (factor * got.rates[at] / flow.weight).max(first);
            // Other flows keep what they have up to that level; what they have above it may be
            // taken.
            let mut bounds: Vec<_> = problem.flows.iter().zip(&got.rates)
                .map(|(f, rate)| {
                    let kept = (rate.min(level * f.weight) - 1e-6).max(0.0);
                    (kept, kept)
                })
                .collect();
            bounds[at] = (0.0, flow.demand);
            let most = problem.rates(&packing.most(&bounds).unwrap())[at];
            prop_assert!(most <= got.rates[at] + 1e-3, "{most} instead of {} of {}", got.rates[at], flow.demand);
        }
    }

    /// No capacity is left idle: if every flow keeps its rate, the multi-commodity flow finds no
    /// more.
    ///
    /// A frozen flow was at the most that its step allowed beside the others, which have only
    /// gained since.
    #[test]
    fn no_usable_capacity_is_left(
        seed in any::<u64>(),
        routers in 4usize..10,
        weights in weights(),
        factor in prop_oneof![Just(2.0), Just(1.1), Just(4.0)],
        steps in 1u32..12,
    ) {
        let problem = problem(&network(seed, routers, &weights), Freedom::Joint);
        let got = Method::Wba(Wba { factor, steps }).allocate(&problem).unwrap();
        // The solver's tolerance is allowed.
        let kept: Vec<_> = problem.flows.iter().zip(&got.rates)
            .map(|(f, rate)| ((rate - 1e-6).clamp(0.0, f.demand), f.demand))
            .collect();
        let filled: f64 = Packing::new(&problem).unwrap().most(&kept).unwrap().iter().sum();
        prop_assert!(filled <= got.total() + 1e-3, "{filled} after {}", got.total());
    }

    #[test]
    fn freedom_does_not_reduce_traffic_and_fairness_does_not_raise_it(seed in any::<u64>(), routers in 4usize..10, weights in weights()) {
        let network = network(seed, routers, &weights);
        let mut before = 0.0;
        for freedom in [Freedom::Present, Freedom::Intra, Freedom::Joint] {
            let problem = problem(&network, freedom);
            let most = Method::Most.allocate(&problem).unwrap();
            feasible(&problem, &most)?;
            let total = most.total() * problem.unit;
            prop_assert!(total >= before * (1.0 - 1e-6), "{freedom:?}: {total} after {before}");
            before = total;
            for method in [Method::Wba(Wba::default()), Method::Binning(Binning::default())] {
                let fair = method.allocate(&problem).unwrap();
                feasible(&problem, &fair)?;
                prop_assert!(fair.total() <= most.total() * (1.0 + 1e-6));
            }
        }
    }

    #[test]
    fn the_same_problem_has_the_same_answer(seed in any::<u64>(), weights in weights()) {
        let problem = problem(&network(seed, 8, &weights), Freedom::Joint);
        let all: Vec<_> = problem.flows.iter().map(|f| (0.0, f.demand)).collect();
        let mut packing = Packing::new(&problem).unwrap();
        let cold = packing.most(&all).unwrap();
        let half: Vec<_> = problem.flows.iter().map(|f| (0.0, f.demand / 2.0)).collect();
        packing.most(&half).unwrap();
        let warm = packing.most(&all).unwrap();
        let total = |shares: &[f64]| shares.iter().sum::<f64>();
        prop_assert!((total(&cold) - total(&warm)).abs() < 1e-6 * total(&cold));
        // Ties are broken in the same way too.
        let changed = |shares: &[f64]| {
            problem.choices.iter().zip(shares).map(|(c, s)| if c.present { 0.0 } else { *s }).sum::<f64>()
        };
        prop_assert!((changed(&cold) - changed(&warm)).abs() < 1e-2, "{} {}", changed(&cold), changed(&warm));
    }

    #[test]
    fn floors_are_kept(seed in any::<u64>(), weights in weights()) {
        let network = network(seed, 8, &weights);
        let present = problem(&network, Freedom::Intra);
        let before = Method::Wba(Wba::default()).allocate(&present).unwrap();
        let mut floored = present.clone();
        for (flow, rate) in floored.flows.iter_mut().zip(&before.rates) {
            flow.floor = if flow.provider % 2 == 0 { *rate } else { 0.0 };
        }
        for method in [Method::Most, Method::Wba(Wba::default()), Method::Binning(Binning::default())] {
            let after = method.allocate(&floored).unwrap();
            feasible(&floored, &after)?;
            for (flow, rate) in floored.flows.iter().zip(&after.rates) {
                prop_assert!(*rate >= flow.floor - 1e-6);
            }
        }
    }
}

#[test]
fn without_congestion_the_present_routing_stays() {
    let mut network = network(3, 12, &[1.0; 4]);
    network.topology.set_capacities(|_, _| None);
    for provider in &mut network.providers {
        for entry in &mut provider.entries {
            entry.capacity = None;
        }
    }
    let problem = problem(&network, Freedom::Joint);
    for method in [Method::Most, Method::Wba(Wba::default()), Method::Binning(Binning::default())] {
        let allocation = method.allocate(&problem).unwrap();
        assert!((allocation.total() - problem.demand()).abs() < 1e-6);
        for (choice, share) in problem.choices.iter().zip(&allocation.shares) {
            assert!(choice.present || *share == 0.0, "{method:?}");
        }
    }
}

#[test]
fn weights_divide_a_link_in_proportion() {
    use forebay_plan::network::{Demand, Entry, Provider};
    use forebay_plan::topology::{Link, Router, RouterId, Topology};
    use forebay_units::Rate;
    let routers = ["in", "out"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let link =
        Link { from: RouterId(0), to: RouterId(1), capacity: Some(Rate::from_mbps(40)), metric: 1 };
    let provider = |name: &str, weight| Provider {
        name: name.to_owned(),
        participates: true,
        weight,
        entries: vec![Entry { router: RouterId(0), capacity: None }],
    };
    let demand =
        |provider| Demand { provider, entry: 0, egress: RouterId(1), rate: Rate::from_mbps(100) };
    let network = Network {
        topology: Topology::new(String::new(), routers, vec![link], Vec::new()),
        providers: vec![provider("one", 1.0), provider("three", 3.0)],
        demands: vec![demand(0), demand(1)],
        avoided: BTreeSet::new(),
    };
    // With steps so small, WBA is nearly exact: a quarter and three quarters.
    let wba = Wba { factor: 1.1, steps: 64 };
    let allocation = Method::Wba(wba).allocate(&problem(&network, Freedom::Joint)).unwrap();
    let ratio = allocation.rates[1] / allocation.rates[0];
    assert!((3.0 / 1.11..3.0 * 1.11).contains(&ratio), "{ratio}");
}
