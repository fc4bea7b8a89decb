//! The fewest steps from the state of a device to a plan. Parts that are as planned stay, with the
//! packets that wait in them.

use std::collections::BTreeSet;

use crate::encode::same_settings;
use crate::found::FoundQdisc;
use crate::{Class, Found, Handle, Object, Plan, Qdisc, Root};

/// A change of a device's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create a missing part, or replace a filter.
    Make(Object),
    /// Change the settings of a part; packets that wait in it stay.
    Change(Object),
    /// Delete a qdisc, with all below it.
    DeleteQdisc {
        /// The name of the qdisc.
        handle: Handle,
        /// The parent of the qdisc.
        parent: Handle,
    },
    /// Delete a class, with all below it.
    DeleteClass(Handle),
}

/// Computes the steps from `found` to `plan`, in the order in which they can be taken.
pub fn steps(found: &Found, plan: &Plan) -> Vec<Step> {
    let mut steps = Vec::new();
    // The major numbers of found qdiscs that an earlier step deletes.
    let mut deleted = BTreeSet::new();
    // The classes that an earlier step deletes.
    let mut gone = BTreeSet::new();
    if let Root::Foreign { handle, .. } = found.root() {
        steps.push(Step::DeleteQdisc { handle, parent: Handle::ROOT });
    }
    let nothing = Found::default();
    let found = if found.root() == Root::Ours { found } else { &nothing };
    let mut wanted = BTreeSet::new();
    for object in &plan.objects {
        match object {
            Object::Qdisc(qdisc) => {
                let there = found.qdiscs.get(&qdisc.parent);
                let there = there.filter(|_| {
                    !deleted.contains(&qdisc.parent.major()) && !gone.contains(&qdisc.parent)
                });
                match there {
                    None => steps.push(Step::Make(object.clone())),
                    Some(there) if fits(there, qdisc) => {
                        if !same_settings(&qdisc.kind, &there.options) {
                            let handle = Some(there.handle);
                            steps.push(Step::Change(Object::Qdisc(Qdisc {
                                handle,
                                ..qdisc.clone()
                            })));
                        }
                    }
                    Some(there) => {
                        deleted.insert(there.handle.major());
                        let (handle, parent) = (there.handle, qdisc.parent);
                        steps.push(Step::DeleteQdisc { handle, parent });
                        steps.push(Step::Make(object.clone()));
                    }
                }
            }
            Object::Class(class) => {
                wanted.insert(class.id);
                let there = found.classes.contains_key(&class.id);
                if !there || deleted.contains(&class.id.major()) {
                    steps.push(Step::Make(object.clone()));
                } else if !is_in_place(found, class) {
                    // The kernel moves no class to another parent.
                    gone.insert(class.id);
                    if let Some(queue) = found.qdiscs.get(&class.id) {
                        deleted.insert(queue.handle.major());
                    }
                    steps.push(Step::DeleteClass(class.id));
                    steps.push(Step::Make(object.clone()));
                } else if !is_set(found, class) {
                    steps.push(Step::Change(object.clone()));
                }
            }
            // The programs of an earlier process are replaced.
            Object::Filter(_) => steps.push(Step::Make(object.clone())),
        }
    }
    // Deleting a class deletes what is below it.
    let unwanted = |id: &&Handle| !wanted.contains(id) && id.is_ours();
    for id in found.classes.keys().filter(unwanted) {
        let goes_with_another = match id.bundle() {
            Some(_) => false,
            None => deleted.contains(&id.major()) || bundle_is_gone(plan, *id),
        };
        if !goes_with_another {
            steps.push(Step::DeleteClass(*id));
        }
    }
    steps
}

/// Whether a qdisc can stay in place of the wanted one.
fn fits(there: &FoundQdisc, wanted: &Qdisc) -> bool {
    there.kind == wanted.kind.name() && wanted.handle.is_none_or(|handle| handle == there.handle)
}

/// Whether a class that is there is below its parent.
fn is_in_place(found: &Found, class: &Class) -> bool {
    // The kernel reports classes directly below an HTB as at the root.
    let parent = if class.parent.minor() == 0 { Handle::ROOT } else { class.parent };
    found.classes.get(&class.id).is_some_and(|there| there.parent == parent)
}

/// Whether a class has its settings. The rate of a bundle's class does not count.
fn is_set(found: &Found, class: &Class) -> bool {
    found.htb_class(class.id).is_some_and(|there| there.is(class))
}

/// Whether `id` belongs to the queue of a bundle that the plan no longer has.
fn bundle_is_gone(plan: &Plan, id: Handle) -> bool {
    id.queue().is_some_and(|number| !plan.bundles.contains_key(&number))
}

#[cfg(test)]
mod tests {
    use forebay_units::Rate;

    use super::*;
    use crate::found::FoundClass;
    use crate::netlink::{Attributes, Batch};
    use crate::{BundleQueues, Device, Discipline, Features, FifoLimit, Shape, Share, encode};

    fn plan(bundles: &[&[Discipline]]) -> Plan {
        let all: Vec<_> = bundles.iter().copied().enumerate().collect();
        numbered(&all)
    }

    fn numbered(bundles: &[(usize, &[Discipline])]) -> Plan {
        let bundle = |(number, classes): &(usize, &[Discipline])| BundleQueues {
            number: *number,
            name: "b".to_owned(),
            classes: classes.to_vec(),
            shares: Vec::new(),
            share: Share::default(),
        };
        let bundles: Vec<BundleQueues> = bundles.iter().map(bundle).collect();
        Plan::new(&bundles, &Features::of(&["htb", "pfifo", "fq_codel"])).unwrap()
    }

    const fn fifo(n: u32) -> Discipline {
        Discipline::Fifo { limit: FifoLimit::Packets(n) }
    }
    const CODEL: Discipline =
        Discipline::FqCodel { limit: 9, target: None, interval: None, ecn: true };
    const SFQ: Discipline = Discipline::Sfq { limit: 100, perturb: None };

    /// What the kernel reports after `plan` was installed and bundles got a rate.
    fn made(plan: &Plan) -> Found {
        let mut found = Found::default();
        let device = Device { name: String::new(), index: 0 };
        let options = |batch: Batch| {
            let bytes = batch.take();
            Attributes(&bytes[36..]).get(2).map(<[u8]>::to_vec).unwrap_or_default()
        };
        let mut unnamed = 0x8000;
        for object in &plan.objects {
            let mut batch = Batch::default();
            match object {
                Object::Qdisc(q) => {
                    unnamed += 1;
                    let handle = q.handle.unwrap_or(Handle::new(unnamed, 0));
                    encode::new_qdisc(&mut batch, &device, handle, q.parent, 0, "");
                    q.kind.encode(&mut batch);
                    let kind = q.kind.name().to_owned();
                    let qdisc = FoundQdisc { handle, kind, options: options(batch) };
                    found.qdiscs.insert(q.parent, qdisc);
                }
                Object::Class(c) => {
                    let rate = (c.shape == Shape::Bundle).then(|| Rate::from_mbps(7));
                    encode::class(&mut batch, &device, c, rate, 0);
                    let direct = c.parent.minor() == 0;
                    let parent = if direct { Handle::ROOT } else { c.parent };
                    let class = FoundClass { parent, options: options(batch) };
                    found.classes.insert(c.id, class);
                }
                Object::Filter(_) => {}
            }
        }
        found
    }

    /// The steps without those for filters, which are always set.
    fn changes(found: &Found, plan: &Plan) -> Vec<String> {
        let steps = steps(found, plan);
        let made = |s: &&Step| !matches!(s, Step::Make(Object::Filter(_)));
        steps.iter().filter(made).map(ToString::to_string).collect()
    }

    #[test]
    fn a_tree_that_is_as_wanted_is_left_alone() {
        for bundles in [&[&[fifo(7)][..]][..], &[&[SFQ], &[fifo(7), CODEL]], &[]] {
            let plan = plan(bundles);
            assert_eq!(changes(&made(&plan), &plan), [""; 0], "{bundles:?}");
        }
    }

    #[test]
    fn an_empty_device_gets_every_part() {
        let plan = plan(&[&[SFQ], &[fifo(7)]]);
        let all: Vec<Step> = plan.objects.iter().cloned().map(Step::Make).collect();
        assert_eq!(steps(&Found::default(), &plan), all);
    }

    #[test]
    fn a_foreign_root_is_deleted_first() {
        let mut found = Found::default();
        let handle = Handle::new(1, 0);
        let qdisc = FoundQdisc { handle, kind: "htb".to_owned(), options: vec![] };
        found.qdiscs.insert(Handle::ROOT, qdisc);
        let plan = plan(&[]);
        let expected = [
            Step::DeleteQdisc { handle, parent: Handle::ROOT },
            Step::Make(plan.objects[0].clone()),
        ];
        assert_eq!(steps(&found, &plan), expected);
    }

    #[test]
    fn only_what_differs_changes() {
        let found = made(&plan(&[&[fifo(7)], &[fifo(7)]]));
        let to = |bundles: &[&[Discipline]]| changes(&found, &plan(bundles));
        assert_eq!(
            to(&[&[fifo(7)], &[fifo(8)]]),
            ["change qdisc 1001: below fb0:2, pfifo limit 8 packets"]
        );
        assert_eq!(to(&[&[fifo(7)]]), ["delete class fb0:2"]);
        assert_eq!(
            to(&[&[CODEL], &[fifo(7)]]),
            [
                "delete qdisc 1000: below fb0:1",
                "make qdisc 1000: below fb0:1, fq_codel limit 9 packets ecn"
            ]
        );
        let grown = to(&[&[fifo(7)], &[fifo(7)], &[fifo(7)]]);
        assert_eq!(
            grown,
            ["make class fb0:3", "make qdisc 1002: below fb0:3, pfifo limit 7 packets"]
        );
    }

    #[test]
    fn bundles_keep_their_numbers_when_one_between_them_goes() {
        let three: [(usize, &[Discipline]); 3] = [(0, &[fifo(7)]), (1, &[SFQ]), (2, &[CODEL])];
        let found = made(&numbered(&three));
        assert_eq!(changes(&found, &numbered(&[three[0], three[2]])), ["delete class fb0:2"]);
        let two = made(&numbered(&[three[0], three[2]]));
        assert_eq!(
            changes(&two, &numbered(&[three[0], (1, &[fifo(9)]), three[2]])),
            ["make class fb0:2", "make qdisc 1001: below fb0:2, pfifo limit 9 packets"]
        );
    }

    #[test]
    fn deleting_a_class_deletes_what_is_below() {
        let found = made(&plan(&[&[fifo(7), CODEL], &[SFQ]]));
        assert_eq!(changes(&found, &plan(&[&[fifo(7), CODEL]])), ["delete class fb0:2"]);
        // A class less within the bundle.
        let fewer = changes(&found, &plan(&[&[CODEL, CODEL], &[SFQ]]));
        let replaced = [
            "delete qdisc 8003: below 1000:1",
            "make qdisc below 1000:1, fq_codel limit 9 packets ecn",
        ];
        assert_eq!(fewer, replaced);
        // From an HTB with leaves to one queue, and back: nothing of the old one is named again.
        let one = plan(&[&[fifo(7), CODEL], &[fifo(7)]]);
        let steps = changes(&found, &one);
        assert_eq!(
            steps,
            [
                "delete qdisc 1001: below fb0:2",
                "make qdisc 1001: below fb0:2, pfifo limit 7 packets"
            ]
        );
        let back = changes(&made(&one), &plan(&[&[fifo(7), CODEL], &[SFQ]]));
        // The HTB, and of 256 leaves a class and a queue.
        assert_eq!(back.len(), 2 + 2 * 256);
    }

    fn limited(mbps: Option<u64>, weights: &[u32]) -> Plan {
        limited_classes(mbps, weights, &[fifo(7)])
    }

    fn limited_classes(mbps: Option<u64>, weights: &[u32], classes: &[Discipline]) -> Plan {
        let bundle = |(number, weight): (usize, &u32)| BundleQueues {
            number,
            name: "b".to_owned(),
            classes: classes.to_vec(),
            shares: Vec::new(),
            share: Share { weight: *weight, rate: None, ceil: None },
        };
        let bundles: Vec<_> = weights.iter().enumerate().map(bundle).collect();
        let limit = mbps.map(Rate::from_mbps);
        Plan::limited(&bundles, limit, &Features::of(&["htb", "pfifo"])).unwrap()
    }

    #[test]
    fn other_weights_and_limits_change_classes_and_no_queue() {
        let plan = limited(Some(10), &[1, 1]);
        assert_eq!(changes(&made(&plan), &plan), [""; 0]);
        assert_eq!(
            changes(&made(&plan), &limited(Some(20), &[1, 1])),
            ["change class fb0:ffff", "change class fb0:1", "change class fb0:2"],
            "5 Mbit/s become 7, the ceiling of these bundles"
        );
        assert_eq!(
            changes(&made(&plan), &limited(Some(10), &[1, 3])),
            ["change class fb0:1", "change class fb0:2"]
        );
        let other = ["delete class fb0:2", "change class fb0:1"];
        let mut steps = changes(&made(&plan), &limited(Some(10), &[1]));
        steps.sort_by_key(|step| !step.starts_with("delete"));
        assert_eq!(steps, other);
    }

    #[test]
    fn a_first_limit_makes_the_bundles_classes_again() {
        let (without, with) = (limited(None, &[1]), limited(Some(10), &[1]));
        let again = ["delete class fb0:1", "make class fb0:1"];
        let queue = "make qdisc 1000: below fb0:1, pfifo limit 7 packets";
        assert_eq!(
            changes(&made(&without), &with),
            ["make class fb0:ffff", again[0], again[1], queue]
        );
        assert_eq!(
            changes(&made(&with), &without),
            [again[0], again[1], queue, "delete class fb0:ffff"]
        );
    }

    #[test]
    fn classes_below_a_class_that_is_made_again_are_made_again() {
        let [without, with] =
            [None, Some(10)].map(|limit| limited_classes(limit, &[1], &[fifo(7), fifo(8)]));
        let below = [
            "make class 1000:1",
            "make qdisc below 1000:1, pfifo limit 7 packets",
            "make class 1000:101",
            "make qdisc below 1000:101, pfifo limit 8 packets",
        ];
        for (from, to) in [(&without, &with), (&with, &without)] {
            let steps = changes(&made(from), to);
            let deleted = steps.iter().position(|step| step == "delete class fb0:1").unwrap();
            let after: Vec<_> =
                steps[deleted..].iter().filter(|step| step.contains("1000:")).collect();
            assert_eq!(after[after.len() - 4..], below, "{steps:?}");
        }
    }

    #[test]
    fn shares_of_classes_change_in_place() {
        let with = |shares: &[(u32, Option<u64>)]| {
            let share = |(weight, rate): &(u32, Option<u64>)| Share {
                weight: *weight,
                rate: rate.map(Rate::from_mbps),
                ceil: None,
            };
            let bundle = BundleQueues {
                number: 0,
                name: "b".to_owned(),
                classes: vec![fifo(7), fifo(8)],
                shares: shares.iter().map(share).collect(),
                share: Share::default(),
            };
            Plan::new(&[bundle], &Features::of(&["htb", "pfifo"])).unwrap()
        };
        let plan = with(&[(1, Some(4)), (2, None)]);
        assert_eq!(changes(&made(&plan), &plan), [""; 0]);
        let to = |shares| changes(&made(&plan), &with(shares));
        assert_eq!(to(&[(1, Some(4)), (3, None)]), ["change class 1000:101"]);
        // The part of the rate is set with the bundle's.
        assert_eq!(to(&[(1, Some(5)), (2, None)]), [""; 0]);
        // To strict priority and back, the kernel moves no class.
        let again = [
            "delete class 1000:1",
            "make class 1000:1",
            "make qdisc below 1000:1, pfifo limit 7 packets",
            "delete class 1000:101",
            "make class 1000:101",
            "make qdisc below 1000:101, pfifo limit 8 packets",
        ];
        let strict = numbered(&[(0, &[fifo(7), fifo(8)])]);
        let there = changes(&made(&plan), &strict);
        assert_eq!(there, [&again[..], &["delete class 1000:ffff"]].concat());
        let back = changes(&made(&strict), &plan);
        assert_eq!(back, [&["make class 1000:ffff"], &again[..]].concat());
    }

    #[test]
    fn a_class_that_was_changed_by_hand_is_repaired() {
        let plan = plan(&[&[SFQ]]);
        let mut found = made(&plan);
        let (id, limited) = (Handle::of_queue(0).leaf(0, 3), Handle::of_bundle(0));
        let options = found.classes[&limited].options.clone();
        found.classes.get_mut(&id).unwrap().options = options;
        assert_eq!(changes(&found, &plan), ["change class 1000:4"]);
    }
}
