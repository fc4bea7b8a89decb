use super::*;

/// `show isis interface detail` of FRR 8.4.4: a link with both levels, one that is down, a LAN with
/// two neighbours at level 1, and the loopback interface.
const INTERFACES: &str = include_str!("interfaces.txt");
/// The running configuration of the same router.
const RUNNING: &str = include_str!("running.conf");
/// The running configuration of a router with narrow metrics.
const NARROW: &str = include_str!("narrow.conf");

fn shown(name: &str, level: Instance, metric: u32, neighbours: usize) -> Shown {
    Shown { name: name.to_owned(), level, metric, neighbours }
}

#[test]
fn the_daemons_state_is_read() {
    use Instance::{Level1, Level2};
    let expected = [
        shown("fb-b", Level1, 76, 0),
        shown("fb-b", Level2, 77, 1),
        shown("fb-c", Level1, 15, 0),
        shown("fb-c", Level2, 15, 0),
        shown("fb-lan", Level1, 10, 2),
        shown("lo", Level1, 10, 0),
        shown("lo", Level2, 10, 0),
    ];
    assert_eq!(state(INTERFACES).unwrap(), expected);
}

#[test]
fn what_is_not_the_daemons_state_is_an_error() {
    for (text, expected) in [
        ("", "no area of IS-IS runs"),
        ("isisd is not running\n", "it has no area of IS-IS, but \"isisd is not running\""),
    ] {
        assert_eq!(state(text).unwrap_err(), expected);
    }
    for (old, new) in [
        ("Metric: 76", "Metric: many"),
        ("Metric: 76", "Metric: 99999999999"),
        ("Active neighbors: 2", "Active neighbors: -1"),
    ] {
        let error = state(&INTERFACES.replace(old, new)).unwrap_err();
        assert!(error.contains(new) && error.ends_with("is no metric"), "{error}");
    }
    // Lines that another version adds or leaves out change nothing.
    let other = INTERFACES.replace("      Hello", "      Metric style: wide\n      Hello");
    assert_eq!(state(&other).unwrap(), state(INTERFACES).unwrap());
    let without: String =
        INTERFACES.lines().filter(|l| !l.contains("interval")).map(|l| format!("{l}\n")).collect();
    assert_eq!(state(&without).unwrap(), state(INTERFACES).unwrap());
}

#[test]
fn the_configuration_is_read() {
    use Instance::{Level1, Level2};
    let found = Configured::of(RUNNING);
    let metric = |name: &str, level, metric: u32| ((name.to_owned(), level), metric);
    let expected = [
        metric("fb-b", Level1, 76),
        metric("fb-b", Level2, 77),
        metric("fb-c", Level1, 15),
        metric("fb-c", Level2, 15),
    ];
    assert_eq!(found.metrics, expected.into());
    assert_eq!((found.range("fb-b"), found.range("fb-none")), (Range::WIDE, Range::WIDE));

    let found = Configured::of(NARROW);
    assert_eq!(found.metrics, [metric("fb-c", Level1, 63), metric("fb-c", Level2, 63)].into());
    assert_eq!((found.range("fb-c"), found.range("fb-none")), (Range::NARROW, Range::WIDE));
    let transition = NARROW.replace("metric-style narrow", "metric-style transition");
    assert_eq!(Configured::of(&transition).range("fb-c"), Range::TRANSITION);
    let other = NARROW.replace("router isis core\n is-type", "router isis other\n is-type");
    assert_eq!(Configured::of(&other).range("fb-c"), Range::WIDE, "it is of another area");
}
