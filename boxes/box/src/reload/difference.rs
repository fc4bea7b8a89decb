//! What differs between the bundles of a running box and those of its new file. It does no IO.
//!
//! The name of a bundle says which is which. A bundle that is in both keeps its number.

use std::collections::HashMap;

use forebay_discipline::Discipline;
use forebay_units::Rate;

use super::Refused;
use crate::config::{BundleConfig, PeerConfig, Policy, Share};

/// The parts of a bundle that differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The prefixes by which packets belong to it.
    pub(crate) prefixes: bool,
    /// The address of the other box.
    pub(crate) address: bool,
    /// The key or the id, so that there has to be another channel.
    pub(crate) key: bool,
    /// The policy of its queue.
    pub(crate) policy: bool,
    /// The shares of its policy's classes, and nothing else of the policy.
    pub(crate) classes: bool,
    /// The settings of its control loop.
    pub(crate) control: bool,
    /// Its part of the common limit, or its own limit.
    pub(crate) share: bool,
}

/// A step from the present bundles to the wanted ones.
#[derive(Debug)]
pub(crate) enum Step<C> {
    Add { number: usize, config: C },
    Change { number: usize, config: C, parts: Parts },
    Remove { number: usize },
}

impl<C> Step<C> {
    /// Returns the number of the bundle if it gets another key, or its first.
    pub(crate) fn with_another_key(&self) -> Option<usize> {
        match self {
            Self::Add { number, .. } => Some(*number),
            Self::Change { number, parts, .. } => parts.key.then_some(*number),
            Self::Remove { .. } => None,
        }
    }
}

/// All steps, and what they are in words.
#[derive(Debug)]
pub(crate) struct Difference<C> {
    pub(crate) steps: Vec<Step<C>>,
    /// The name of each bundle that differs, with what differs.
    pub(crate) words: Vec<(String, String)>,
}

impl<C> Default for Difference<C> {
    fn default() -> Self {
        Self { steps: Vec::new(), words: Vec::new() }
    }
}

/// The configuration of a bundle at one of its ends.
pub(crate) trait Comparable {
    fn name(&self) -> &str;

    /// Returns the parts in which `new` differs, and adds what differs to `words`.
    fn compare(&self, new: &Self, words: &mut Vec<String>) -> Parts;
}

/// Computes the steps from `present`, bundles with their numbers, to `wanted`. New bundles take
/// numbers of `free`, which are below `room`.
///
/// # Errors
/// If there is no room for a new bundle.
pub(crate) fn difference<'a, C: Comparable + 'a>(
    present: impl Iterator<Item = (usize, &'a C)>,
    wanted: Vec<C>,
    mut free: impl Iterator<Item = usize>,
    room: usize,
) -> Result<Difference<C>, Refused> {
    let mut present: HashMap<&str, (usize, &C)> =
        present.map(|(number, old)| (old.name(), (number, old))).collect();
    let mut all = Difference::default();
    let mut added = Vec::new();
    for config in wanted {
        let Some((number, old)) = present.remove(config.name()) else {
            all.words.push((config.name().to_owned(), ADDED.to_owned()));
            added.push(config);
            continue;
        };
        let mut words = Vec::new();
        let parts = old.compare(&config, &mut words);
        if parts != Parts::default() {
            all.words.push((config.name().to_owned(), words.join(", ")));
            all.steps.push(Step::Change { number, config, parts });
        }
    }
    let mut gone: Vec<(usize, &C)> = present.into_values().collect();
    gone.sort_unstable_by_key(|(number, _)| *number);
    for (number, old) in gone {
        all.words.push((old.name().to_owned(), REMOVED.to_owned()));
        all.steps.push(Step::Remove { number });
    }
    for config in added {
        let number = free.next().filter(|number| *number < room).ok_or_else(|| {
            Refused::restart(format!("the running process has room for {room} bundles"))
        })?;
        all.steps.push(Step::Add { number, config });
    }
    Ok(all)
}

/// What is said of a bundle that comes.
pub(super) const ADDED: &str = "added";
/// What is said of a bundle that goes.
pub(super) const REMOVED: &str = "removed";

/// Adds "`what` from to `to`" if they differ, and returns whether they do.
fn note<T: PartialEq>(
    words: &mut Vec<String>,
    what: &str,
    [old, new]: [&T; 2],
    show: impl Fn(&T) -> String,
) -> bool {
    let differs = old != new;
    if differs {
        words.push(format!("{what} {} to {}", show(old), show(new)));
    }
    differs
}

/// Describes a rate that need not be given.
fn rate(rate: &Option<Rate>) -> String {
    rate.map_or("none".to_owned(), |rate| rate.to_string())
}

/// Adds what differs between two shares, each with `of` before it, and returns whether they differ.
fn note_share(words: &mut Vec<String>, of: &str, [old, new]: [&Share; 2]) -> bool {
    [
        note(words, &format!("{of}weight"), [&old.weight, &new.weight], u32::to_string),
        note(words, &format!("{of}rate"), [&old.rate, &new.rate], rate),
        note(words, &format!("{of}ceil"), [&old.ceil, &new.ceil], rate),
    ]
    .contains(&true)
}

/// Adds "`what`" if `differs`, which it returns.
fn flag(words: &mut Vec<String>, what: &str, differs: bool) -> bool {
    if differs {
        words.push(what.to_owned());
    }
    differs
}

impl Comparable for BundleConfig {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, new: &Self, words: &mut Vec<String>) -> Parts {
        let debug = |detection: &forebay_control::Detection| match detection {
            forebay_control::Detection::Detect => "detect".to_owned(),
            forebay_control::Detection::Ignore => "ignore".to_owned(),
        };
        let another = self.policy != new.policy;
        let classes = another && self.policy.differs_in_shares(&new.policy);
        let policy = another && !classes;
        if policy {
            words.push(policy_words(&self.policy, &new.policy));
        }
        if classes {
            for (old, new) in self.policy.classes.iter().zip(&new.policy.classes) {
                note_share(words, &format!("class {} ", old.name), [&old.share, &new.share]);
            }
        }
        let prefixes = flag(words, "prefixes", !same_set(&self.prefixes, &new.prefixes));
        let addresses = [&self.receivebox, &new.receivebox];
        let address = note(words, "address", addresses, ToString::to_string);
        let another_key = self.key.fingerprint_key() != new.key.fingerprint_key();
        let another_id = !another_key && note(words, "id", [&self.id, &new.id], u16::to_string);
        let control = [
            note(words, "controller", [&self.controller, &new.controller], ToString::to_string),
            note(words, "cross_traffic", [&self.cross_traffic, &new.cross_traffic], debug),
            note(words, "multipath", [&self.multipath, &new.multipath], debug),
            note(words, "guard", [&self.guard, &new.guard], bool::to_string),
            note(words, "min_rate", [&self.min_rate, &new.min_rate], rate),
            note(words, "max_rate", [&self.max_rate, &new.max_rate], rate),
        ];
        let share = note_share(words, "", [&self.share, &new.share]);
        Parts {
            prefixes,
            address,
            share,
            key: flag(words, "another key", another_key) || another_id,
            policy,
            classes,
            control: control.contains(&true),
        }
    }
}

impl Comparable for PeerConfig {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, new: &Self, words: &mut Vec<String>) -> Parts {
        let prefixes = !same_set(&self.prefixes, &new.prefixes);
        let sources = !same_set(&self.sources, &new.sources);
        let addresses = [&self.sendbox, &new.sendbox];
        let another_key = self.key.fingerprint_key() != new.key.fingerprint_key();
        Parts {
            prefixes: flag(words, "prefixes", prefixes || sources),
            address: note(words, "address", addresses, ToString::to_string),
            key: flag(words, "another key", another_key)
                || (!another_key && note(words, "id", [&self.id, &new.id], u16::to_string)),
            ..Parts::default()
        }
    }
}

/// Whether two lists have the same entries in any order.
fn same_set<T: Ord + Clone>(a: &[T], b: &[T]) -> bool {
    let sorted = |list: &[T]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    a == b || sorted(a) == sorted(b)
}

fn policy_words(old: &Policy, new: &Policy) -> String {
    let name = |discipline: &Discipline| discipline.kind.name();
    let (from, to) = (name(&old.discipline), name(&new.discipline));
    if from == to {
        return format!("policy {to} with other settings");
    }
    format!("policy {from} to {to}")
}

#[cfg(test)]
mod tests {
    use forebay_discipline::Kind;
    use forebay_wire::feedback::Key;

    use super::*;
    use crate::config::{Class, Match, PeerAddress};
    use crate::slots::Slots;

    fn address(text: &str) -> PeerAddress {
        text.parse::<std::net::SocketAddr>().unwrap().into()
    }

    fn bundle(name: &str, kind: Kind) -> BundleConfig {
        BundleConfig {
            name: name.to_owned(),
            id: 1,
            prefixes: vec!["10.2.0.0/16".parse().unwrap(), "fd00::/16".parse().unwrap()],
            receivebox: address("192.0.2.1:28316"),
            key: Key::new([1; 32]),
            policy: Policy { discipline: kind.into(), classes: vec![], classifiers: vec![] },
            controller: forebay_control::ControllerKind::default(),
            cross_traffic: forebay_control::Detection::Ignore,
            multipath: forebay_control::Detection::Detect,
            guard: true,
            min_rate: None,
            max_rate: None,
            share: Share::default(),
        }
    }

    /// The steps as text, and the words, from three bundles of which the second has gone before.
    fn from_two(wanted: Vec<BundleConfig>, room: usize) -> Result<(Vec<String>, String), String> {
        let all = ["a", "gone", "b"].map(|name| bundle(name, Kind::Fifo));
        let mut slots = Slots::new(all);
        slots.remove(1);
        let free = slots.free();
        let found = difference(slots.iter(), wanted, free, room).map_err(|e| e.to_string())?;
        let steps = found.steps.iter().map(|step| match step {
            Step::Add { number, config } => format!("add {number} {}", config.name),
            Step::Change { number, config, .. } => format!("change {number} {}", config.name),
            Step::Remove { number } => format!("remove {number}"),
        });
        let words: Vec<_> =
            found.words.iter().map(|(name, what)| format!("{name}: {what}")).collect();
        Ok((steps.collect(), words.join("; ")))
    }

    fn two() -> Vec<BundleConfig> {
        vec![bundle("a", Kind::Fifo), bundle("b", Kind::Fifo)]
    }

    #[test]
    fn the_same_bundles_in_another_order_are_no_difference() {
        let mut wanted = two();
        wanted.reverse();
        wanted[0].prefixes.reverse();
        assert_eq!(from_two(wanted, 9), Ok((vec![], String::new())));
    }

    #[test]
    fn bundles_keep_their_numbers_and_new_ones_take_free_ones() {
        let wanted =
            vec![bundle("c", Kind::Fifo), bundle("b", Kind::FqCodel), bundle("d", Kind::Fifo)];
        let steps = ["change 2 b", "remove 0", "add 1 c", "add 3 d"].map(str::to_owned).to_vec();
        let words = "c: added; b: policy fifo to fq_codel; d: added; a: removed".to_owned();
        assert_eq!(from_two(wanted, 9), Ok((steps, words)));
        // The number of one that goes is not free yet.
        let replaced = vec![bundle("c", Kind::Fifo), bundle("d", Kind::Fifo)];
        let refused = from_two(replaced, 3).unwrap_err();
        assert!(refused.contains("room for 3 bundles") && refused.contains("restart"), "{refused}");
    }

    #[test]
    fn every_key_of_a_bundle_is_compared() {
        type Edit = fn(&mut BundleConfig);
        let cases: [(Edit, &str, Parts); 12] = [
            (|b| b.policy.discipline = Discipline::limited(Kind::Fifo, None), "", Parts::default()),
            (
                |b| {
                    let limit = Some(forebay_config::Limit::Packets(7));
                    b.policy.discipline = Discipline::limited(Kind::Fifo, limit);
                },
                "policy fifo with other settings",
                Parts { policy: true, ..Parts::default() },
            ),
            (|b| b.prefixes.truncate(1), "prefixes", Parts { prefixes: true, ..Parts::default() }),
            (
                |b| b.receivebox = address("192.0.2.1:9"),
                "address 192.0.2.1:28316 to 192.0.2.1:9",
                Parts { address: true, ..Parts::default() },
            ),
            (
                |b| (b.key, b.id) = (Key::new([2; 32]), 7),
                "another key",
                Parts { key: true, ..Parts::default() },
            ),
            (|b| b.id = 2, "id 1 to 2", Parts { key: true, ..Parts::default() }),
            (
                |b| b.controller = forebay_control::ControllerKind::Copa,
                "controller forebay to copa",
                Parts { control: true, ..Parts::default() },
            ),
            (
                |b| b.cross_traffic = forebay_control::Detection::Detect,
                "cross_traffic ignore to detect",
                Parts { control: true, ..Parts::default() },
            ),
            (
                |b| b.multipath = forebay_control::Detection::Ignore,
                "multipath detect to ignore",
                Parts { control: true, ..Parts::default() },
            ),
            (
                |b| {
                    let rate = Some(Rate::from_mbps(3));
                    b.share = Share { weight: 4, rate, ceil: None };
                },
                "weight 1 to 4, rate none to 3.000 Mbit/s",
                Parts { share: true, ..Parts::default() },
            ),
            (
                |b| b.guard = false,
                "guard true to false",
                Parts { control: true, ..Parts::default() },
            ),
            (
                |b| {
                    b.min_rate = Some(Rate::from_mbps(1));
                    b.max_rate = Some(Rate::from_mbps(2));
                },
                "min_rate none to 1.000 Mbit/s, max_rate none to 2.000 Mbit/s",
                Parts { control: true, ..Parts::default() },
            ),
        ];
        for (edit, expected, parts) in cases {
            let (old, mut new) = (bundle("a", Kind::Fifo), bundle("a", Kind::Fifo));
            edit(&mut new);
            let mut words = Vec::new();
            assert_eq!(old.compare(&new, &mut words), parts, "{expected}");
            assert_eq!(words.join(", "), expected);
        }
    }

    #[test]
    fn other_shares_of_classes_are_no_other_policy() {
        let with = |share: Share, port: u16| {
            let matches = Match { ports: vec![port], ..Match::default() };
            let policy = Kind::Fifo.into();
            let first = Class { name: "web".to_owned(), matches, policy, share };
            let rest = Class {
                name: "rest".to_owned(),
                matches: Match::default(),
                policy,
                share: Share::default(),
            };
            let mut bundle = bundle("a", Kind::Weighted);
            bundle.policy.classes = vec![first, rest];
            bundle
        };
        let old = with(Share::default(), 443);
        let compare = |new: &BundleConfig| {
            let mut words = Vec::new();
            (old.compare(new, &mut words), words.join(", "))
        };
        let share = Share { weight: 3, rate: None, ceil: Some(Rate::from_mbps(2)) };
        let classes = Parts { classes: true, ..Parts::default() };
        let words = "class web weight 1 to 3, class web ceil none to 2.000 Mbit/s".to_owned();
        assert_eq!(compare(&with(share, 443)), (classes, words));
        let policy = Parts { policy: true, ..Parts::default() };
        let words = "policy weighted with other settings".to_owned();
        assert_eq!(compare(&with(share, 80)), (policy, words));
        assert_eq!(compare(&with(Share::default(), 443)), (Parts::default(), String::new()));
    }

    #[test]
    fn the_receiving_end_compares_its_keys_too() {
        let peer = || PeerConfig {
            name: "a".to_owned(),
            id: 1,
            prefixes: vec!["10.1.0.0/16".parse().unwrap()],
            sources: vec!["10.2.0.0/16".parse().unwrap()],
            sendbox: address("192.0.2.1:28316"),
            key: Key::new([1; 32]),
        };
        type Edit = fn(&mut PeerConfig);
        let cases: [(Edit, &str); 6] = [
            (|_| (), ""),
            (|p| p.sources.clear(), "prefixes"),
            (|p| p.prefixes.clear(), "prefixes"),
            (|p| p.id = 3, "id 1 to 3"),
            (|p| p.key = Key::new([2; 32]), "another key"),
            (|p| p.sendbox = address("192.0.2.1:1"), "address 192.0.2.1:28316 to 192.0.2.1:1"),
        ];
        for (edit, expected) in cases {
            let mut new = peer();
            edit(&mut new);
            let mut words = Vec::new();
            let parts = peer().compare(&new, &mut words);
            assert_eq!(words.join(", "), expected);
            assert_eq!(parts == Parts::default(), expected.is_empty());
        }
    }
}
