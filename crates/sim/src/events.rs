//! What happens next: a priority queue over virtual time.
//!
//! Times are cut into digits of six bits. An event waits at the level of the highest digit in which
//! its time differs from the present, in the slot of that digit's value; what comes first is found
//! by two find-first-set instructions, the lowest level and its lowest slot. When the present
//! reaches a slot of several events, they are sorted into the levels below. This is a timing wheel
//! (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987, scheme 7) whose slots
//! are found as in Eiffel's integer queues (Saeed et al., NSDI 2019, section 3.1), and it is exact:
//! an event is never early, late or out of order.
//!
//! Events of one instant come in the order in which they were put in. An event put in earlier is
//! never at a lower level than a later one of the same time, and slots are emptied in order.

use forebay_units::Nanos;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// Enough digits for 64 bits.
const LEVELS: usize = 11;
const NONE: u32 = u32::MAX;
/// A slot of this level is a quarter of a millisecond long.
const SOON: u32 = 3;

#[derive(Debug)]
struct Entry<T> {
    time: u64,
    item: T,
    /// The next in the slot, or the next free entry.
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
}

#[derive(Debug)]
struct Level {
    occupied: u64,
    slots: [Slot; SLOTS],
}

/// Events in the order of their times, and within one time in the order of their insertion.
///
/// Storage grows to the most events that ever wait at once and is then reused. At most 2^32 - 1
/// events can wait.
#[derive(Debug)]
pub struct EventQueue<T> {
    now: u64,
    /// A bit for each level that has events.
    occupied: u32,
    levels: Box<[Level; LEVELS]>,
    entries: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

impl<T: Copy> Default for EventQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Copy> EventQueue<T> {
    /// No events; the present is time zero.
    pub fn new() -> Self {
        let empty = || Level { occupied: 0, slots: [Slot { head: NONE, tail: NONE }; SLOTS] };
        Self {
            now: 0,
            occupied: 0,
            levels: Box::new(std::array::from_fn(|_| empty())),
            entries: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts `item` in for `time`. A time that has passed means at once.
    pub fn push(&mut self, time: Nanos, item: T) {
        let time = time.0.max(self.now);
        let entry = Entry { time, item, next: NONE };
        let index = match self.entries.get_mut(self.free as usize) {
            Some(free) => {
                let index = self.free;
                self.free = free.next;
                *free = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.len += 1;
        self.place(index, time);
    }

    /// Takes out the next event, unless it comes after `limit`.
    #[inline]
    pub fn pop(&mut self, limit: Nanos) -> Option<(Nanos, T)> {
        self.pop_hinting(limit, |_| {})
    }

    /// As [`EventQueue::pop`]; where many events follow each other, tells `soon` of most of them once
    /// they are a quarter of a millisecond away or nearer. That is the time to ask for the memory that
    /// they need.
    #[inline]
    pub fn pop_hinting(&mut self, limit: Nanos, mut soon: impl FnMut(&T)) -> Option<(Nanos, T)> {
        loop {
            if self.occupied == 0 {
                return None;
            }
            let level = self.occupied.trailing_zeros();
            let slot = self.levels[level as usize].occupied.trailing_zeros();
            let Slot { head, tail } = self.levels[level as usize].slots[slot as usize];
            // A slot of level zero holds a single instant, and who is alone is first.
            if level == 0 || head == tail {
                let entry = &mut self.entries[head as usize];
                if entry.time > limit.0 {
                    return None;
                }
                let (time, item, next) = (entry.time, entry.item, entry.next);
                entry.next = self.free;
                self.free = head;
                self.now = time;
                self.len -= 1;
                if head == tail {
                    self.clear(level, slot);
                } else {
                    self.levels[0].slots[slot as usize].head = next;
                }
                return Some((Nanos(time), item));
            }
            let shift = level * BITS;
            // The digits above stay, this one is the slot's, those below are zero.
            let above = self.now.checked_shr(shift + BITS).unwrap_or(0);
            let start = (above << BITS | u64::from(slot)) << shift;
            if start > limit.0 {
                return None;
            }
            self.now = start;
            self.clear(level, slot);
            let mut index = head;
            while index != NONE {
                let Entry { time, item, next } = self.entries[index as usize];
                if level == SOON {
                    soon(&item);
                }
                let last = index == tail;
                self.place(index, time);
                index = if last { NONE } else { next };
            }
        }
    }

    fn clear(&mut self, level: u32, slot: u32) {
        let of = &mut self.levels[level as usize];
        of.occupied &= !(1 << slot);
        of.slots[slot as usize] = Slot { head: NONE, tail: NONE };
        if of.occupied == 0 {
            self.occupied &= !(1 << level);
        }
    }

    #[inline]
    fn place(&mut self, index: u32, time: u64) {
        // For the present itself the lowest level.
        let level = (63 - ((time ^ self.now) | 1).leading_zeros()) / BITS;
        let digit = (time >> (level * BITS)) as usize % SLOTS;
        let of = &mut self.levels[level as usize];
        let slot = &mut of.slots[digit];
        if slot.head == NONE {
            slot.head = index;
            of.occupied |= 1 << digit;
            self.occupied |= 1 << level;
        } else {
            self.entries[slot.tail as usize].next = index;
        }
        slot.tail = index;
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_instant_keeps_its_order() {
        let mut events = EventQueue::new();
        events.push(Nanos(70_000), 0);
        events.push(Nanos(69_999), 10);
        events.push(Nanos(70_000), 1);
        assert_eq!(events.pop(Nanos(70_000)), Some((Nanos(69_999), 10)));
        // Put in when the present is near: a lower level, and still after the others.
        events.push(Nanos(70_000), 2);
        assert_eq!(events.pop(Nanos(69_999)), None);
        let order: Vec<_> = std::iter::from_fn(|| events.pop(Nanos::MAX)).map(|e| e.1).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn the_ends_of_time() {
        let mut events = EventQueue::new();
        events.push(Nanos::MAX, 2);
        events.push(Nanos::MAX, 3);
        events.push(Nanos::ZERO, 0);
        events.push(Nanos(1 << 63), 1);
        let order: Vec<_> = std::iter::from_fn(|| events.pop(Nanos::MAX)).collect();
        assert_eq!(order, [(Nanos(0), 0), (Nanos(1 << 63), 1), (Nanos::MAX, 2), (Nanos::MAX, 3)]);
        events.push(Nanos::ZERO, 4);
        assert_eq!(events.pop(Nanos::MAX), Some((Nanos::MAX, 4)), "what is past comes at once");
    }

    #[test]
    fn what_comes_soon_is_told_before() {
        let mut events = EventQueue::new();
        let start = 10 << 18;
        for n in 0..9 {
            events.push(Nanos(start + n * 1000), n);
        }
        let mut told = Vec::new();
        let first = events.pop_hinting(Nanos::MAX, |n| told.push(*n));
        assert_eq!((first, told), (Some((Nanos(start), 0)), (0..9).collect()));
        assert_eq!(
            events.pop_hinting(Nanos::MAX, |_| panic!("a second time")).map(|e| e.1),
            Some(1)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn like_a_heap(
            steps in prop::collection::vec((0u32..40, any::<u64>(), 0u8..4, 0u32..42), 1..400)
        ) {
            let (mut events, mut heap) = (EventQueue::new(), BinaryHeap::new());
            let (mut now, mut number) = (0u64, 0u32);
            for (bits, noise, pops, reach) in steps {
                // Distances of every magnitude, and many equal ones.
                let time = now + (noise & ((1 << bits) - 1));
                events.push(Nanos(time), number);
                heap.push(Reverse((time, number)));
                number += 1;
                let limit = now.saturating_add(1 << reach);
                for _ in 0..pops {
                    let expected = heap.peek().filter(|Reverse((t, _))| *t <= limit).copied();
                    if let Some(Reverse((t, n))) = expected {
                        heap.pop();
                        now = t;
                        prop_assert_eq!(events.pop(Nanos(limit)), Some((Nanos(t), n)));
                    } else {
                        prop_assert_eq!(events.pop(Nanos(limit)), None);
                        now = limit;
                    }
                }
                prop_assert_eq!(events.len(), heap.len());
            }
        }
    }
}
