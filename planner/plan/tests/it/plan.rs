//! Plans: scopes, unsplit aggregates, and reports.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use forebay_plan::allocate::{Method, Wba, single_ways};
use forebay_plan::lp::exact;
use forebay_plan::network::{Demand, Entry, Network, Provider};
use forebay_plan::paths::PathCache;
use forebay_plan::plan::{Config, Report, Routing, Scope, plan};
use forebay_plan::problem::{Freedom, Grain, Problem};
use forebay_plan::synthetic::{Draw, SetUp, plane};
use forebay_plan::topology::{Link, Router, RouterId, Topology};
use forebay_units::Rate;
use proptest::prelude::*;

const K: NonZeroUsize = NonZeroUsize::new(4).unwrap();

fn network(seed: u64, routers: usize, participating: usize) -> Network {
    let mut draw = Draw::new(seed);
    let set_up = SetUp { providers: 6, participating, ..SetUp::default() };
    set_up.network(plane(routers, 1.4, &mut draw), &mut draw)
}

fn planned(network: &Network, scope: Scope, sub_flows: Option<u16>) -> Report {
    let config = Config { method: Method::Wba(Wba::default()), scope, sub_flows, paths: K };
    plan(network, &mut PathCache::new(K), &config).unwrap()
}

/// No link is overloaded, and each provider gets what its aggregates get.
fn consistent(report: &Report) -> Result<(), TestCaseError> {
    for link in &report.links {
        prop_assert!(link.after <= link.capacity * (1.0 + 1e-5) + 1e3, "{link:?}");
    }
    for provider in &report.providers {
        let rates = report.routing.iter().filter(|a| a.provider == provider.name).map(|a| a.rate);
        let sum: f64 = rates.sum();
        prop_assert!(
            (sum - provider.after).abs() <= 1e-4 * provider.after + 1e5,
            "{sum} {provider:?}"
        );
        prop_assert!(provider.after <= provider.demand * (1.0 + 1e-6));
    }
    let sum: f64 = report.providers.iter().map(|p| p.after).sum();
    prop_assert!((sum - report.after.total).abs() <= 1e-6 * sum);
    Ok(())
}

/// A routing that is kept for its own demands carries the same. For small demands it carries all of
/// them, except where a flow got even less before.
fn kept(seed: u64, participating: usize) -> Result<(), TestCaseError> {
    let network = network(seed, 9, participating);
    let mut paths = PathCache::new(K);
    let method = Method::Most;
    let config = Config { method, scope: Scope::All, sub_flows: None, paths: K };
    let present = Routing::present(&network, &mut paths, &method).unwrap();
    let routing = Routing::proposed(&network, &mut paths, &config, &present).unwrap();
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-4 * b;
    prop_assert!(near(routing.reserved(&network), routing.total()));
    let kept = routing.kept(&network, &method).unwrap().total();
    prop_assert!(kept >= routing.total() * (1.0 - 1e-4), "{kept} {}", routing.total());
    let mut less = network.clone();
    less.demands.iter_mut().for_each(|d| d.rate = d.rate.scaled(0.01));
    let asked: f64 = less.demands.iter().map(|d| d.rate.as_bps() as f64).sum();
    let flows = routing.problem.flows.iter().zip(&routing.allocation.rates);
    let least = flows.map(|(flow, &got)| {
        let (asks, is_residue) = (flow.demand * 0.01, got <= flow.demand * 1e-9);
        if is_residue { asks } else { asks.min(got) }
    });
    let least = least.sum::<f64>() * routing.problem.unit;
    let kept = routing.kept(&less, &method).unwrap().total();
    prop_assert!(kept >= least * (1.0 - 1e-4) && kept <= asked * (1.0 + 1e-4), "{kept} {least}");
    prop_assert!(routing.reserved(&less) <= asked * (1.0 + 1e-9));
    Ok(())
}

/// Here the solver gives a flow 2e-16 of its demand, at an entry without capacity.
#[test]
fn a_flow_that_got_a_residue_keeps_its_present_path() {
    kept(17_343_999_280_789_240_382, 6).unwrap();
}

/// Here a flow has 0.99 % of its demand before, on a path without room for 1 %.
#[test]
fn a_flow_that_got_less_than_it_asks_for_gets_as_much_again() {
    kept(12_435_373_037_336_957_947, 4).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn non_participants_lose_nothing(seed in any::<u64>(), participating in 0usize..7) {
        let network = network(seed, 9, participating);
        let all = planned(&network, Scope::All, None);
        consistent(&all)?;
        for provider in all.providers.iter().filter(|p| !p.participates) {
            prop_assert!(provider.after >= provider.before * (1.0 - 1e-6), "{provider:?}");
        }
        for aggregate in &all.routing {
            let own = all.providers.iter().find(|p| p.name == aggregate.provider).unwrap();
            let stays = |entry: &String| aggregate.present_entries.contains(entry);
            prop_assert!(own.participates || aggregate.ways.iter().all(|w| stays(&w.entry)));
        }
        let partial = planned(&network, Scope::Partial, None);
        consistent(&partial)?;
        for provider in partial.providers.iter().filter(|p| !p.participates) {
            prop_assert!((provider.after - provider.before).abs() <= 1e-6 * provider.before + 1.0);
        }
    }

    #[test]
    fn a_kept_routing_carries_the_same_traffic(seed in any::<u64>(), participating in 0usize..7) {
        kept(seed, participating)?;
    }

    #[test]
    fn unsplit_aggregates_have_one_path_each(seed in any::<u64>(), parts in 1u16..4) {
        let network = network(seed, 8, 6);
        let report = planned(&network, Scope::All, Some(parts));
        consistent(&report)?;
        for aggregate in &report.routing {
            let most = usize::from(parts) * aggregate.present_entries.len();
            prop_assert!(aggregate.ways.len() <= most, "{aggregate:?}");
        }
    }
}

/// Two entries with a path each; all traffic comes in at the first.
fn two_paths() -> Network {
    let routers =
        ["in1", "in2", "out"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let link = |from| Link {
        from: RouterId(from),
        to: RouterId(2),
        capacity: Some(Rate::from_mbps(100)),
        metric: 1,
    };
    let entry = |router| Entry { router: RouterId(router), capacity: None };
    let provider = |name: &str, participates| Provider {
        name: name.to_owned(),
        participates,
        weight: 1.0,
        entries: vec![entry(0), entry(1)],
    };
    let demand =
        |provider| Demand { provider, entry: 0, egress: RouterId(2), rate: Rate::from_mbps(80) };
    Network {
        topology: Topology::new("two".to_owned(), routers, vec![link(0), link(1)], Vec::new()),
        providers: vec![provider("joins", true), provider("stays", false)],
        demands: vec![demand(0), demand(1)],
        avoided: BTreeSet::new(),
    }
}

#[test]
fn a_provider_that_moves_makes_room_for_others() {
    let report = planned(&two_paths(), Scope::All, Some(1));
    assert!((report.before.total - 100e6).abs() < 1e3 && (report.after.total - 160e6).abs() < 1e3);
    assert!((report.gain() - 0.6).abs() < 1e-4);
    let moved = &report.routing[0].ways[0];
    assert_eq!((moved.path.join(" "), moved.present), ("in2 out".to_owned(), false));
    let stayed = &report.routing[1].ways[0];
    assert_eq!((stayed.path.join(" "), stayed.present), ("in1 out".to_owned(), true));
    // Under OptPartial only the provider that moves gains.
    let partial = planned(&two_paths(), Scope::Partial, None);
    let after: Vec<_> = partial.providers.iter().map(|p| (p.after / 1e6).round()).collect();
    assert_eq!(after, [80.0, 40.0]);
    // Routing inside the network does not help.
    assert!(planned(&two_paths(), Scope::Intra, None).gain().abs() < 1e-6);
}

#[test]
fn the_text_has_the_main_figures() {
    let text = planned(&two_paths(), Scope::All, None).to_string();
    for line in [
        "two: 160 Mbit/s demand; 60.0 % more is carried",
        "unfairness (WFI)      0.1250      0.0000",
        "stays (no hints)  80.0 Mbit/s  40.0 Mbit/s  80.0 Mbit/s            50.0 %  100.0 %",
        "in1 > out      100 Mbit/s  100.0 %  100.0 %",
        "1 of 2 aggregates move: 60.0 Mbit/s of their traffic takes other paths",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn rounding_is_near_the_exact_program() {
    for seed in 1..4 {
        let mut draw = Draw::new(seed);
        let set_up = SetUp { providers: 4, entries: 2, ..SetUp::default() };
        let network = set_up.network(plane(6, 1.5, &mut draw), &mut draw);
        let problem = Problem::new(
            &network,
            &mut PathCache::new(NonZeroUsize::new(2).unwrap()),
            Freedom::Joint,
            Grain::Aggregates(1),
        );
        let split = Method::Most.allocate(&problem).unwrap();
        let ways = single_ways(&problem, &split);
        let single = problem.restricted(|flow, choice| ways[flow] == Some(choice));
        let rounded = Method::Most.allocate(&single).unwrap().total();
        let best: f64 = exact(&problem).unwrap().iter().sum();
        assert!(best <= split.total() + 1e-5, "the bound is one");
        assert!(rounded <= best * 1.005 + 1e-5, "{rounded} above {best}");
        assert!(rounded >= best * 0.95, "{rounded} of {best}");
    }
}
