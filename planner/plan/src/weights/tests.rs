use proptest::prelude::*;

use super::search::tests::is_consistent;
use super::*;
use crate::allocate::{Method, Wba};
use crate::network::{Entry, Provider};
use crate::synthetic::{Draw, SetUp, plane};
use crate::topology::{Router, RouterId};

fn config() -> plan::Config {
    plan::Config {
        method: Method::Wba(Wba::default()),
        scope: Scope::All,
        sub_flows: None,
        paths: NonZeroUsize::new(4).unwrap(),
    }
}

/// Users at C and D send 100 Mbit/s each from A. All links have 100 Mbit/s. The shortest paths to
/// both lead through B; D is also reached by the longer A, E, F, D.
pub(super) fn fork() -> Network {
    let names = ["A", "B", "C", "D", "E", "F"];
    let routers = names.map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
    let link = |from: u32, to: u32| Link {
        from: RouterId(from),
        to: RouterId(to),
        capacity: Some(Rate::from_mbps(100)),
        metric: 1,
    };
    let links = [(0, 1), (1, 2), (1, 3), (0, 4), (4, 5), (5, 3)].map(|(a, b)| link(a, b)).to_vec();
    let demand = |egress: u32| Demand {
        provider: 0,
        entry: 0,
        egress: RouterId(egress),
        rate: Rate::from_mbps(100),
    };
    Network {
        topology: Topology::new("fork".to_owned(), routers, links, Vec::new()),
        providers: vec![Provider {
            name: "x".to_owned(),
            participates: true,
            weight: 1.0,
            entries: vec![Entry { router: RouterId(0), capacity: None }],
        }],
        demands: vec![demand(2), demand(3)],
        avoided: Default::default(),
    }
}

#[test]
fn metrics_carry_all_where_they_can() {
    let report = search(&fork(), &config(), &Search::default()).unwrap();
    let mbps = |bps: f64| (bps / 1e6).round() as u64;
    assert_eq!((mbps(report.present), mbps(report.hints)), (100, 100));
    assert_eq!((mbps(report.metrics), mbps(report.joint)), (200, 200));
    assert!((report.share() - 1.0).abs() < 1e-6 && (report.share_of_hints() - 0.5).abs() < 1e-6);
    assert_eq!(report.ties, 0);
    let csv = report.csv();
    assert!(csv.starts_with("from,to,present,metric\n\"A\",\"B\",1,"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + report.links.len());
    let text = report.to_string();
    assert!(text.starts_with("carried of 200.000 Mbit/s:\n  present routing "), "{text}");
    assert!(text.contains(" 50.0 % of the joint plan\n"), "{text}");
    let metric = |from: &str, to: &str| {
        report.links.iter().find(|l| l.from == from && l.to == to).unwrap().metric
    };
    let long = metric("A", "E") + metric("E", "F") + metric("F", "D");
    assert!(long < metric("A", "B") + metric("B", "D"), "{:?}", report.links);
    assert!(report.links.iter().all(|l| (1..=Range::OSPF.metric).contains(&l.metric)));
}

#[test]
fn few_changes_keep_the_other_metrics() {
    let few = Search { few: true, ..Search::default() };
    let report = search(&fork(), &config(), &few).unwrap();
    assert!((report.share() - 1.0).abs() < 1e-6, "{report:?}");
    let changed: Vec<_> = report.links.iter().filter(|l| l.metric != l.present).collect();
    assert_eq!(changed.len(), 1, "one change is enough: {changed:?}");
}

#[test]
fn equal_paths_are_counted() {
    let mut network = fork();
    assert_eq!(search::ties(&network.topology, &network), 0);
    // A, B, D becomes as long as A, E, F, D.
    network.topology.set_metric(LinkId(2), 2);
    assert_eq!(search::ties(&network.topology, &network), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// What is kept of the loads equals what is computed anew, whatever is set and undone.
    #[test]
    fn loads_are_kept_right(
        seed in any::<u64>(),
        routers in 3usize..12,
        moves in prop::collection::vec((any::<usize>(), 1u32..9, any::<bool>()), 0..40),
    ) {
        let mut draw = Draw::new(seed);
        let network = SetUp::default().network(plane(routers, 1.5, &mut draw), &mut draw);
        prop_assert!(is_consistent(&network.topology, &network, &moves));
    }

    /// Metrics that are in the range of a protocol stay in it.
    #[test]
    fn metrics_stay_in_the_range(
        seed in any::<u64>(),
        few in any::<bool>(),
        most in prop::sample::select(vec![1, 2, 17, 63, 65_535, 16_777_214]),
    ) {
        let mut draw = Draw::new(seed);
        let mut network = SetUp::default().network(plane(6, 1.6, &mut draw), &mut draw);
        for link in 0..network.topology.links().len() as u32 {
            network.topology.set_metric(LinkId(link), 1 + draw.below(most as usize) as u32);
        }
        let range = Range { metric: most, path: u64::MAX };
        let search_in = Search { moves: 100, passes: 1, seed, few, range };
        let report = search(&network, &config(), &search_in).unwrap();
        prop_assert!(report.links.iter().all(|l| (1..=most).contains(&l.metric)), "{report:?}");
    }

    /// Metrics never carry less than the present ones, and never more than the best paths.
    #[test]
    fn metrics_are_between_the_present_and_the_joint_plan(seed in any::<u64>()) {
        let mut draw = Draw::new(seed);
        let set_up = SetUp { providers: 4, ..SetUp::default() };
        let network = set_up.network(plane(8, 1.6, &mut draw), &mut draw);
        let most = plan::Config { method: Method::Most, paths: NonZeroUsize::new(200).unwrap(), ..config() };
        let quick = Search { moves: 200, passes: 2, seed, ..Search::default() };
        let report = search(&network, &most, &quick).unwrap();
        prop_assert!(report.hints <= report.metrics);
        prop_assert!(report.metrics <= report.joint * (1.0 + 1e-6), "{report:?}");
        prop_assert_eq!(search(&network, &most, &quick).unwrap(), report.clone(), "it is repeatable");
        // With few changes none of them is in vain, and each is undone by an order to the present.
        let few = search(&network, &most, &Search { few: true, ..quick }).unwrap();
        prop_assert!(few.hints <= few.metrics * (1.0 + 1e-6), "{few:?}");
        prop_assert!(few.metrics <= few.joint * (1.0 + 1e-6), "{few:?}");
        let links = few.links.iter().zip(0..).map(|(l, id)| (LinkId(id), l.metric));
        let wanted: Vec<_> = links.collect();
        let changes = few.links.iter().filter(|l| l.metric != l.present).count();
        let steps = order(&network, &wanted).steps;
        prop_assert_eq!(steps.len(), changes);
        let mut links: Vec<_> = steps.iter().map(|s| s.link.0).collect();
        links.sort_unstable();
        links.dedup();
        prop_assert_eq!(links.len(), changes, "each changes once");
    }
}
