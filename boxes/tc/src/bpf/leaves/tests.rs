use proptest::prelude::*;

use super::*;
use crate::Handle;

#[path = "machine.rs"]
mod machine;
use machine::Machine;

/// A millisecond, and a time longer than the idle time of a leaf.
const MS: u64 = 1_000_000;
const LONG: u64 = 300 * MS;

fn machine(flows: usize, bundles: usize) -> Machine {
    let table = vec![vec![0; flows * ENTRY]; bundles * CLASSES];
    Machine { hash: 0, cb0: 0, now: 1 << 40, table }
}

/// Returns the minor number of a class's leaf.
fn leaf(class: usize, flow: u16) -> u32 {
    u32::from(Handle::of_queue(3).leaf(class, flow).minor())
}

#[test]
fn without_a_table_the_hash_selects_the_leaf() {
    let choose = |classes, masks, hash, cb0| {
        let mut machine = Machine { hash, cb0, ..machine(1, 0) };
        machine.run(&leaves(classes, masks, None))
    };
    assert_eq!(choose(1, 255, 0x1234_5678, 9), leaf(0, 0x78), "one class reads no class");
    assert_eq!(choose(1, 15, 0x1234_5678, 0), leaf(0, 8));
    let masks = 0xff_00_3f;
    assert_eq!(choose(3, masks, 0xffff_ffff, 0), leaf(0, 0x3f));
    assert_eq!(choose(3, masks, 0xffff_ffff, 0x701), leaf(1, 0));
    assert_eq!(choose(3, masks, 0xffff_ff42, 2), leaf(2, 0x42));
    assert_eq!(choose(3, masks, 0xffff_ff42, 0xdead), leaf(2, 0x42), "past the last");
    assert_eq!(choose(8, u64::MAX, 0xffff_ffff, 7), leaf(7, 255));
}

#[test]
fn flows_that_hash_to_one_leaf_get_leaves_of_their_own() {
    let (code, mut machine) = (leaves(1, 255, Some(3)), machine(256, 1));
    let mut choose = |hash, now| {
        (machine.hash, machine.now) = (hash, (1 << 40) + now);
        machine.run(&code)
    };
    let flows: Vec<u32> = (1..=8).map(|i| i << 8 | 0x42).collect();
    let first: Vec<u32> = flows.iter().map(|hash| choose(*hash, 0)).collect();
    assert_eq!(first[..3], [leaf(0, 0x42), leaf(0, 0x43), leaf(0, 0x40)], "its hash's, and others");
    let mut sorted = first.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0x40..0x48).map(|flow| leaf(0, flow)).collect::<Vec<_>>());
    assert_eq!(choose(0x942, MS), leaf(0, 0x42), "the ninth shares and takes no leaf");
    for (hash, at) in flows.iter().zip(&first) {
        assert_eq!(choose(*hash, 2 * MS), *at, "a flow keeps its leaf");
    }
    for (i, hash) in flows.iter().enumerate().filter(|(i, _)| *i != 5) {
        assert_eq!(choose(*hash, LONG - i as u64 * MS), first[i]);
    }
    assert_eq!(choose(0x942, LONG), first[5], "the idle leaf");
    assert_eq!(choose(flows[5], LONG), leaf(0, 0x42), "its former flow shares now");
}

#[test]
fn the_leaf_that_was_idle_the_longest_is_taken() {
    let (code, mut machine) = (leaves(1, 7, Some(3)), machine(8, 1));
    let mut choose = |hash, now| {
        (machine.hash, machine.now) = (hash, (1 << 40) + now);
        machine.run(&code)
    };
    let order = [3, 1, 4, 0, 5, 2, 6, 7];
    for (i, flow) in order.into_iter().enumerate() {
        assert_eq!(choose(8 + flow, 2 * i as u64 * MS), leaf(0, flow as u16));
    }
    for (i, flow) in order.into_iter().enumerate() {
        assert_eq!(choose(0x100 + i as u32, LONG + MS * i as u64), leaf(0, flow as u16));
    }
}

#[test]
fn bundles_and_classes_are_independent() {
    let (code, mut machine) = (leaves(2, 0x0f0f, Some(3)), machine(16, 2));
    for cb0 in [0, 1, 0x100, 0x101] {
        (machine.hash, machine.cb0) = (0x25, cb0);
        assert_eq!(machine.run(&code), leaf(cb0 as usize & 1, 5));
        machine.hash = 0x35;
        assert_eq!(machine.run(&code), leaf(cb0 as usize & 1, 4));
    }
    (machine.hash, machine.cb0) = (0x45, 0x200);
    assert_eq!(machine.run(&code), leaf(0, 5), "a bundle that the table does not have");
    let seen = machine.table.iter().filter(|value| value.iter().any(|byte| *byte != 0)).count();
    assert_eq!(seen, 4);
}

/// A plain model of the rule in the module's documentation.
#[derive(Default)]
struct Model {
    entries: Vec<(u32, u32)>,
}

impl Model {
    fn choose(&mut self, hash: u32, now: u32, mask: u32) -> u32 {
        let ways: Vec<u32> = (0..WAYS as u32).map(|way| (hash ^ way) & mask).collect();
        let entry = |leaf: &u32| self.entries[*leaf as usize];
        let idle = |leaf: &u32| now.wrapping_sub(entry(leaf).1);
        let has = ways.iter().find(|leaf| entry(leaf).0 == hash);
        // Of several that were idle equally long, the first.
        let longest = ways.iter().rev().max_by_key(|leaf| idle(leaf));
        let free = longest.filter(|leaf| idle(leaf) >= IDLE as u32);
        let Some(leaf) = has.or(free).copied() else { return hash & mask };
        self.entries[leaf as usize] = (hash, now);
        leaf
    }
}

proptest! {
    #[test]
    fn the_program_agrees_with_the_model(
        bits in 0u32..9,
        packets in prop::collection::vec((0u32..40, 0u64..40 * MS), 1..300),
    ) {
        let flows = 1 << bits;
        let mask = flows as u32 - 1;
        let code = leaves(1, u64::from(mask), Some(3));
        let mut machine = machine(flows, 1);
        let mut model = Model { entries: vec![(0, 0); flows] };
        // The times in the table wrap after 52 days.
        machine.now = (u64::from(u32::MAX) << TIME_SHIFT) - 400 * MS;
        for (flow, pause) in packets {
            machine.now += pause;
            machine.hash = flow.wrapping_mul(0x9e37_79b1);
            let now = (machine.now >> TIME_SHIFT) as u32;
            let expected = model.choose(machine.hash, now, mask);
            prop_assert_eq!(machine.run(&code), expected + 1);
        }
    }
}
