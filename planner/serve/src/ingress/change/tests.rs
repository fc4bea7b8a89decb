use proptest::prelude::*;

use super::*;

const FIRST: u32 = 100;

fn key(number: u8) -> Key {
    let prefix = match number % 2 {
        0 => format!("10.{number}.0.0/16"),
        _ => format!("2001:db8:{number}::/48"),
    };
    (prefix.parse().unwrap(), 10)
}

fn segments(number: u16) -> Segments {
    vec![
        Ipv6Addr::new(0xfc00, number, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xfc00, 0xff, 0, 0, 0, 0, 0, 6),
    ]
}

fn target(routes: &[(u8, &[(u16, u16)])]) -> Target {
    let wanted = |(number, paths): &(u8, &[(u16, u16)])| {
        let split = paths.iter().map(|(path, weight)| (segments(*path), *weight)).collect();
        (key(*number), Wanted { split, reason: format!("plan {number}") })
    };
    Target {
        routes: routes.iter().map(wanted).collect(),
        reasons: BTreeMap::new(),
        otherwise: "it is no longer planned".to_owned(),
    }
}

fn after(state: &State, changes: &[Change]) -> State {
    let mut state = state.clone();
    changes.iter().for_each(|change| state.apply(&change.action));
    state
}

fn reach(state: &State, target: &Target) -> State {
    after(state, &changes(state, target, FIRST))
}

#[test]
fn a_move_makes_the_new_path_before_it_breaks_the_old_one() {
    let old = reach(&State::default(), &target(&[(0, &[(1, 100)])]));
    let list = changes(&old, &target(&[(0, &[(2, 75), (3, 25)])]), FIRST);
    let words: Vec<String> = list.iter().map(ToString::to_string).collect();
    assert_eq!(
        words,
        [
            "add path 102 through fc00:2::1, fc00:ff::6 (plan 0)",
            "add path 103 through fc00:3::1, fc00:ff::6 (plan 0)",
            "add group 104: 75 of path 102, 25 of path 103 (plan 0)",
            "move 10.0.0.0/16 to group 104 (plan 0)",
            "remove group 101 (it is no longer used)",
            "remove path 100 (it is no longer used)",
        ]
    );
}

#[test]
fn a_route_that_could_not_be_moved_keeps_its_group() {
    let old = reach(&State::default(), &target(&[(0, &[(1, 100)])]));
    let new = target(&[(0, &[(2, 100)])]);
    let (list, _) = makes(&old, &new, FIRST);
    let failed = |c: &&Change| !matches!(c.action, Action::MoveRoute(..));
    let made: Vec<Change> = list.iter().filter(failed).cloned().collect();
    let state = after(&old, &made);
    assert_eq!(state.split(&key(0)), old.split(&key(0)));
    let state = after(&state, &breaks(&state, &new));
    assert_eq!(state.split(&key(0)), old.split(&key(0)));
    // The next attempt moves it.
    assert_eq!(reach(&state, &new).split(&key(0)).unwrap(), new.routes[&key(0)].split);
}

#[test]
fn a_reason_is_that_of_its_prefix() {
    let state = reach(&State::default(), &target(&[(0, &[(1, 100)]), (1, &[(1, 100)])]));
    let mut none = target(&[]);
    none.reasons.insert(key(0).0, "fc00:1::1 cannot be reached".to_owned());
    let words: Vec<String> =
        changes(&state, &none, FIRST).iter().map(ToString::to_string).collect();
    assert_eq!(
        words[..2],
        [
            "no longer steer 10.0.0.0/16 (fc00:1::1 cannot be reached)",
            "no longer steer 2001:db8:1::/48 (it is no longer planned)",
        ]
    );
}

#[test]
fn numbers_that_are_in_use_are_not_taken_and_the_last_one_is_a_bound() {
    let mut full = State::default();
    for id in FIRST..FIRST + MAX_OBJECTS - 1 {
        full.paths.insert(id, Vec::new());
    }
    let new = target(&[(0, &[(1, 100)]), (2, &[(2, 100)])]);
    let (_, left_out) = makes(&full, &new, FIRST);
    assert_eq!(left_out, [key(0), key(2)]);
    // Objects of others are never touched.
    let others = State { others: (FIRST..FIRST + 5).collect(), ..State::default() };
    let made = reach(&others, &new);
    assert_eq!((made.paths.keys().min(), &made.others), (Some(&(FIRST + 5)), &others.others));
    // What is not of this program's kind is removed, and then there is room.
    let state = after(&full, &breaks(&full, &new));
    assert_eq!(state.paths.len(), 0);
    assert_eq!(reach(&state, &new).routes.len(), 2);
}

fn any_target() -> impl Strategy<Value = Target> {
    let split = proptest::collection::btree_map(0u16..5, 1u16..4, 1..4);
    proptest::collection::btree_map(0u8..8, split, 0..8).prop_map(|routes| {
        let routes: Vec<(u8, Vec<(u16, u16)>)> =
            routes.into_iter().map(|(key, split)| (key, split.into_iter().collect())).collect();
        let borrowed: Vec<(u8, &[(u16, u16)])> =
            routes.iter().map(|(key, split)| (*key, &split[..])).collect();
        target(&borrowed)
    })
}

proptest! {
    /// At every moment each route has either its old paths or its new ones, whole. A crash at any
    /// moment, and a start with another plan, lead to that plan, and a second run changes nothing.
    #[test]
    fn no_moment_is_without_a_path_and_a_crash_converges(
        targets in proptest::collection::vec((any_target(), any::<prop::sample::Index>()), 1..6),
    ) {
        let mut state = State::default();
        for (target, crash) in targets {
            let list = changes(&state, &target, FIRST);
            let old = state.clone();
            let mut now = state.clone();
            for change in &list {
                now.apply(&change.action);
                for key in old.routes.keys().chain(target.routes.keys()) {
                    let (split, before) = (now.split(key), old.split(key));
                    let wanted = target.routes.get(key).map(|w| &w.split);
                    prop_assert!(
                        split == before || split.as_ref() == wanted,
                        "{change}: {split:?}"
                    );
                    // What is planned before and after is never off.
                    prop_assert!(split.is_some() || before.is_none() || wanted.is_none());
                }
            }
            let routes: BTreeMap<Key, Split> =
                now.routes.keys().map(|key| (*key, now.split(key).unwrap())).collect();
            let wanted: BTreeMap<Key, Split> =
                target.routes.iter().map(|(key, w)| (*key, w.split.clone())).collect();
            prop_assert_eq!(routes, wanted);
            prop_assert_eq!(changes(&now, &target, FIRST), vec![]);
            let in_use: BTreeSet<&Split> = target.routes.values().map(|w| &w.split).collect();
            prop_assert_eq!(now.groups.len(), in_use.len());
            // The next plan starts where a crash ended this one.
            state = after(&old, &list[..crash.index(list.len() + 1)]);
        }
        let end = reach(&state, &target(&[]));
        prop_assert_eq!(end, State::default());
    }
}
