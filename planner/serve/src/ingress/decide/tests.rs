use std::time::Duration;

use super::*;
use crate::damping::Limits;
use crate::ingress::answer::Output;
use crate::ingress::change::Key;

const HOLD: u64 = 800;
const V4: &str = "192.0.2.0/24";
const V6: &str = "2001:db8:1::/48";

fn sid(text: &str) -> Option<Ipv6Addr> {
    Some(text.parse().unwrap())
}

fn config() -> Config {
    let segment = |number: u16| Segment {
        end: sid(&format!("fc00:{number}::1")),
        end_dt6: sid(&format!("fc00:{number}::6")),
        end_dt4: sid(&format!("fc00:{number}::4")),
    };
    let names = ["in", "left", "right", "out"];
    Config {
        hold: Duration::from_millis(HOLD),
        damping: Limits { half_life: 60_000, suppress: 3000.0, reuse: 1000.0 },
        segments: names.iter().zip(0..).map(|(n, at)| ((*n).to_owned(), segment(at))).collect(),
        ..Config::of_test("in")
    }
}

fn plan(round: u64, ways: &[(&str, f64)]) -> Paths {
    let way = |(via, rate): &(&str, f64)| Way {
        path: vec!["in".to_owned(), (*via).to_owned(), "out".to_owned()],
        via: Some(vec![(*via).to_owned()]),
        why: None,
        rate: *rate,
    };
    let flow = |entry: &str| Flow {
        entry: entry.to_owned(),
        router: "out".to_owned(),
        ways: ways.iter().map(way).collect(),
    };
    let prefixes = vec![V4.parse().unwrap(), V6.parse().unwrap()];
    let outputs = vec![Output { router: "out".to_owned(), prefixes }];
    Paths { version: round.to_string(), round, outputs, flows: vec![flow("elsewhere"), flow("in")] }
}

fn all(controller: &Controller) -> BTreeSet<Ipv6Addr> {
    controller.segments()
}

fn key(prefix: &str) -> Key {
    (prefix.parse().unwrap(), config().metric)
}

fn split(ways: &[(&[&str], u16)]) -> Split {
    let list = |l: &[&str]| l.iter().map(|s| s.parse().unwrap()).collect();
    ways.iter().map(|(l, share)| (list(l), *share)).collect()
}

fn started(plan: Paths) -> Controller {
    let mut controller = Controller::new(config(), 0);
    controller.take(plan, 0);
    controller
}

#[test]
fn a_flow_becomes_routes_of_both_families_with_their_reason() {
    let mut controller = started(plan(7, &[("left", 30e6), ("right", 10e6)]));
    let target = controller.target(&all(&controller), 1).unwrap();
    let v4 = split(&[(&["fc00:1::1", "fc00:3::4"], 75), (&["fc00:2::1", "fc00:3::4"], 25)]);
    let v6 = split(&[(&["fc00:1::1", "fc00:3::6"], 75), (&["fc00:2::1", "fc00:3::6"], 25)]);
    assert_eq!(target.routes.len(), 2);
    assert_eq!((&target.routes[&key(V4)].split, &target.routes[&key(V6)].split), (&v4, &v6));
    assert_eq!(
        target.routes[&key(V4)].reason,
        "round 7, to out: 75 % in - left - out, 25 % in - right - out"
    );
}

#[test]
fn nothing_is_decided_before_an_answer_and_nothing_stays_after_silence() {
    let mut controller = Controller::new(config(), 0);
    assert_eq!(controller.target(&BTreeSet::new(), HOLD - 1), None);
    // A crash may have left routes, which go now.
    let target = controller.target(&BTreeSet::new(), HOLD).unwrap();
    assert_eq!(target.routes.len(), 0);
    controller.take(plan(1, &[("left", 1e6)]), 1000);
    let reachable = all(&controller);
    assert_eq!(controller.target(&reachable, 1000 + HOLD - 1).unwrap().routes.len(), 2);
    let target = controller.target(&reachable, 1000 + HOLD).unwrap();
    assert_eq!(target.routes.len(), 0);
    assert_eq!(target.otherwise, "the service gave no answer for 800 ms");
    controller.confirm(2000);
    assert_eq!(controller.target(&reachable, 2001).unwrap().routes.len(), 2);
}

#[test]
fn a_lost_segment_returns_all_traffic_of_its_flow_at_once() {
    let mut controller = started(plan(1, &[("left", 30e6), ("right", 10e6)]));
    let mut reachable = all(&controller);
    assert_eq!(controller.target(&reachable, 0).unwrap().routes.len(), 2);
    reachable.remove(&sid("fc00:2::1").unwrap());
    let target = controller.target(&reachable, 1).unwrap();
    assert_eq!(target.routes.len(), 0);
    let prefix: IpNet = V4.parse().unwrap();
    assert_eq!(target.reasons[&prefix], "segment fc00:2::1 cannot be reached");
}

#[test]
fn a_router_that_flaps_is_damped_and_used_again_later() {
    let mut controller = started(plan(1, &[("left", 30e6)]));
    let there = all(&controller);
    let mut steered = Vec::new();
    for second in 0..10 {
        controller.confirm(second * 1000);
        let reachable = if second % 2 == 0 { there.clone() } else { BTreeSet::new() };
        steered.push(!controller.target(&reachable, second * 1000).unwrap().routes.is_empty());
    }
    assert_eq!(
        steered,
        [true, false, true, false, true, false, true, false, false, false],
        "the fourth change is beyond the threshold"
    );
    controller.confirm(10_000);
    let target = controller.target(&there, 10_000).unwrap();
    let prefix: IpNet = V4.parse().unwrap();
    assert_eq!(target.reasons[&prefix], "its paths to out changed too often, and are damped");
    controller.confirm(300_000);
    assert_eq!(controller.target(&there, 300_000).unwrap().routes.len(), 2);
}

#[test]
fn small_changes_of_shares_change_nothing() {
    let mut controller = started(plan(1, &[("left", 70e6), ("right", 30e6)]));
    let reachable = all(&controller);
    let first = controller.target(&reachable, 0).unwrap();
    controller.take(plan(2, &[("left", 73e6), ("right", 27e6)]), 1);
    assert_eq!(controller.target(&reachable, 1).unwrap().routes, first.routes);
    controller.take(plan(3, &[("left", 80e6), ("right", 20e6)]), 2);
    assert_ne!(controller.target(&reachable, 2).unwrap().routes, first.routes);
}

#[test]
fn a_flow_that_changes_too_often_keeps_its_paths() {
    let mut controller = started(plan(0, &[("left", 1.0)]));
    let reachable: BTreeSet<Ipv6Addr> =
        config().segments.values().flat_map(|s| [s.end, s.end_dt6, s.end_dt4]).flatten().collect();
    let mut seen = Vec::new();
    for round in 0..6 {
        let via = if round % 2 == 0 { "left" } else { "right" };
        controller.take(plan(round, &[(via, 1.0)]), round);
        let target = controller.target(&reachable, round).unwrap();
        seen.push(target.routes[&key(V4)].reason.contains("left"));
    }
    assert_eq!(seen, [true, false, true, false, false, false]);
}

#[test]
fn what_cannot_be_steered_says_why() {
    let reason = |plan: Paths, config: Config| {
        let mut controller = Controller::new(config, 0);
        controller.take(plan, 0);
        let target = controller.target(&all(&controller), 0).unwrap();
        (target.routes.len(), target.reasons.into_values().next().unwrap_or_default())
    };
    let mut obstacle = plan(1, &[("left", 1.0)]);
    let way = &mut obstacle.flows[1].ways[0];
    (way.via, way.why) = (None, Some("no".to_owned()));
    assert_eq!(
        reason(obstacle, config()),
        (0, "the path in - left - out has no segments: no".to_owned())
    );
    let mut without = config();
    without.segments.get_mut("left").unwrap().end = None;
    assert_eq!(
        reason(plan(1, &[("left", 1.0)]), without),
        (0, "left has no segment `end` here".to_owned())
    );
    // IPv6 is steered without a segment for IPv4.
    let mut v6 = config();
    v6.segments.get_mut("out").unwrap().end_dt4 = None;
    assert_eq!(
        reason(plan(1, &[("left", 1.0)]), v6),
        (1, "no segment decapsulates IPv4 at out".to_owned())
    );
    let mut covers = plan(1, &[("left", 1.0)]);
    covers.outputs[0].prefixes = vec!["fc00::/16".parse().unwrap()];
    let (routes, why) = reason(covers, config());
    assert_eq!(routes, 0);
    assert!(why.starts_with("it contains a segment"), "{why}");
    let mut empty = plan(1, &[("left", 0.0)]);
    empty.flows[1].ways[0].rate = 0.0;
    assert_eq!(reason(empty, config()), (0, "the plan has no traffic to out".to_owned()));
}

#[test]
fn a_flow_that_is_no_longer_planned_is_no_longer_steered() {
    let mut controller = started(plan(1, &[("left", 1.0)]));
    let reachable = all(&controller);
    assert_eq!(controller.target(&reachable, 0).unwrap().routes.len(), 2);
    controller.take(Paths { round: 2, ..Paths::default() }, 1);
    let target = controller.target(&reachable, 1).unwrap();
    assert_eq!((target.routes.len(), &target.otherwise[..]), (0, "round 2 does not plan it"));
}
