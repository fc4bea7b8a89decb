//! The program that selects a bundle's leaf class. It is assembled here because it depends on the
//! plan, and so needs neither a compiler nor a loader.
//!
//! With hashing alone many flows would share a leaf: of 200 flows in 256 leaves more than half.
//! Therefore a table maps flows to leaves, set-associative as in CPU caches and in `sch_cake`. The
//! hash selects eight leaves. A flow keeps its leaf, or else takes the leaf that has been idle the
//! longest, if that is long enough for its queue to be empty. If no leaf is free, the flow shares
//! the one that its hash selects.
//!
//! HTB holds the lock of its device while it runs the program, so that nothing else accesses the
//! table.

use crate::plan::PRIORITIES;

use super::code::{
    EXIT, Instruction, R, add, add_short, add_to, and, and_with, call, copy, load, negate_short,
    set, set_long, set_map, shift_left, shift_right, shift_right_by, skip, skip_if, skip_if_same,
    skip_not_above, skip_up_to, store, xor,
};

/// Offsets in `struct __sk_buff`.
pub(super) const CB0: i16 = 48;
pub(super) const TC_CLASSID: i16 = 72;
/// The helper `bpf_map_lookup_elem`.
pub(super) const LOOK_UP: i32 = 1;
/// The helper `bpf_get_hash_recalc`: the kernel's hash of addresses, ports and protocol.
pub(super) const GET_HASH: i32 = 34;
/// The helper `bpf_ktime_get_coarse_ns` (Linux 5.11): as exact as the kernel's tick, and as cheap
/// as a read of memory.
pub(super) const COARSE_TIME: i32 = 160;
/// The classifier's answer which accepts the class that it has set.
const TC_ACT_OK: i32 = 0;

/// The number of leaves of which a flow may take one.
pub(super) const WAYS: i32 = 8;
/// The binary logarithm of the unit of times in the table, in nanoseconds: about a millisecond.
pub(super) const TIME_SHIFT: i32 = 20;
/// The idle time after which a leaf is free, 268 ms. A flow with waiting packets gets ACKs as they
/// leave, and sends again within a round-trip time.
pub(super) const IDLE: i32 = 256;
/// The classes of each bundle in the table.
pub(super) const CLASSES: usize = PRIORITIES;
/// Bytes of a leaf's entry in the table: the hash of its flow, and the time of the flow's last
/// packet.
pub(super) const ENTRY: usize = 8;

const PACKET: R = R(6);
const HASH: R = R(8);
const MASK: R = R(9);
const STACK: R = R(10);
/// Offsets on the stack: the number of the bundle's class, which is the key of the table; the time;
/// and the class as in the name of a leaf.
const KEY: i16 = -4;
const NOW: i16 = -8;
const CLASS: i16 = -12;

/// Assembles the program that sets the minor number of [`crate::Handle::leaf`]: `class << 8 |
/// flow`, plus one, where `flow` is within the class's byte of `masks`. A class past the last
/// counts as the last.
///
/// The packet's `cb[0]` has its class and, from the eighth bit on, its bundle.
pub(super) fn leaves(classes: u8, masks: u64, table: Option<i32>) -> Vec<Instruction> {
    let last = i32::from(classes.max(1) - 1);
    let (bundle, class, chosen) = (R(3), R(7), R(5));
    let mut code = vec![
        copy(PACKET, R(1)),
        call(GET_HASH),
        copy(HASH, R(0)),
        load(bundle, PACKET, CB0),
        copy(class, bundle),
        shift_right(bundle, 8),
        and(class, 0xff),
        skip_up_to(class, last, 1),
        set(class, last),
        // The key of the table.
        shift_left(bundle, CLASSES.ilog2() as i32),
        add_to(bundle, class),
        store(STACK, KEY, bundle),
        // The mask of the class.
        copy(R(1), class),
        shift_left(R(1), 3),
    ];
    code.extend(set_long(MASK, masks));
    code.extend([
        shift_right_by(MASK, R(1)),
        and(MASK, 0xff),
        shift_left(class, 8),
        store(STACK, CLASS, class),
    ]);
    code.extend(table.into_iter().flat_map(look_up));
    code.extend([copy(chosen, HASH), and_with(chosen, MASK)]);
    if table.is_some() {
        let most = masks.to_le_bytes().into_iter().max().unwrap_or(0);
        let choice = choose(i32::from(most));
        code.push(skip_if(R(0), 0, choice.len() as i16));
        code.extend(choice);
    }
    code.extend([
        load(R(0), STACK, CLASS),
        add_to(R(0), chosen),
        add(R(0), 1),
        store(PACKET, TC_CLASSID, R(0)),
        set(R(0), TC_ACT_OK),
        EXIT,
    ]);
    code
}

/// Assembles a look-up: r0 is the entries of the bundle's class, if any, and the time is stored.
fn look_up(table: i32) -> Vec<Instruction> {
    let mut code = vec![call(COARSE_TIME), shift_right(R(0), TIME_SHIFT), store(STACK, NOW, R(0))];
    code.extend(set_map(R(1), table));
    code.extend([copy(R(2), STACK), add(R(2), i32::from(KEY)), call(LOOK_UP)]);
    code
}

/// Assembles the choice of a leaf: r5 is the flow's leaf among the entries at r0; it stays if no
/// leaf is free. `most` is the greatest mask.
fn choose(most: i32) -> Vec<Instruction> {
    let (entries, leaf, entry, now, longest, chosen) = (R(0), R(1), R(2), R(3), R(4), R(5));
    let value = R(7);
    // The entry of `leaf`. The verifier sees by the number that the entry is within the table.
    let find =
        |leaf| [and(leaf, most), copy(entry, leaf), shift_left(entry, 3), add_to(entry, entries)];
    let mut take = find(chosen).to_vec();
    take.extend([store(entry, 0, HASH), store(entry, 4, now)]);
    let hit = copy(chosen, leaf);
    let ends = [skip_up_to(longest, IDLE - 1, take.len() as i16 + 2), skip(1), hit];

    // One of the ways, with so many instructions between it and `ends`.
    let way = |way: i32, between: usize| {
        let mut code = vec![copy(leaf, HASH), xor(leaf, way), and_with(leaf, MASK)];
        code.extend(find(leaf));
        let other = [
            load(value, entry, 4),
            negate_short(value),
            add_short(value, now),
            skip_not_above(value, longest, 2),
            copy(longest, value),
            copy(chosen, leaf),
        ];
        let to_hit = other.len() + between + ends.len() - 1;
        code.extend([load(value, entry, 0), skip_if_same(value, HASH, to_hit as i16)]);
        code.extend(other);
        code
    };
    let length = way(0, 0).len();
    let mut code = vec![load(now, STACK, NOW), set(longest, IDLE - 1)];
    for i in 0..WAYS {
        code.extend(way(i, (WAYS - 1 - i) as usize * length));
    }
    code.extend(ends);
    code.extend(take);
    code
}

#[cfg(test)]
mod tests;
