//! The event queue: a priority queue over virtual time.
//!
//! Times are divided into digits of six bits. An event waits at the level of the highest digit in
//! which its time differs from the wheel's time, in the slot of that digit's value. Two
//! find-first-set instructions find the next event: the lowest level and its lowest slot. When the
//! wheel's time reaches a slot with several events, they move to the levels below.
//!
//! This is a timing wheel (Varghese and Lauck, "Hashed and hierarchical timing wheels", SOSP 1987,
//! scheme 7) that finds slots like Eiffel's integer queues (Saeed et al., NSDI 2019, section 3.1).
//! It is exact: no event is early, late or out of order.
//!
//! Events of one instant come in the order of their insertion. An event inserted earlier is never
//! at a lower level than a later one of the same time, and slots are emptied in order.
//!
//! The few events that come next and are soon replaced, such as the departures of a link, wait
//! beside the wheel in a short sorted list, from which a packet's events take no steps down the
//! levels. The wheel's time then stays behind, at its own latest event or a later slot's start.

use forebay_units::Nanos;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// The number of digits of a 64-bit time.
const LEVELS: usize = 11;
const NONE: u32 = u32::MAX;
/// The level whose slots are a quarter of a millisecond long.
const SOON: u32 = 3;
/// The largest number of events in the list beside the wheel.
const NEAR: usize = 8;

#[derive(Debug)]
struct Entry<T> {
    time: u64,
    /// The number of events that were inserted before it.
    order: u64,
    item: T,
    /// The next entry of the slot, or the next free entry.
    next: u32,
}

/// An event in the list beside the wheel.
#[derive(Clone, Copy, Debug)]
struct Near<T> {
    time: u64,
    order: u64,
    item: T,
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

/// A queue of events in the order of their times; events of one time are in the order of insertion.
///
/// Storage grows to the largest number of events that wait at once and is then reused. At most
/// 2^32 - 1 events can wait.
#[derive(Debug)]
pub struct EventQueue<T> {
    /// The time of the latest event.
    now: u64,
    /// The time to which levels refer, at most `now`.
    base: u64,
    /// A time before which no event of the wheel is due.
    bound: u64,
    /// The number of insertions so far.
    inserted: u64,
    /// The events beside the wheel, the next one last.
    near: Vec<Near<T>>,
    /// The levels that have events, as bits.
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
    /// Creates an empty queue at time zero.
    pub fn new() -> Self {
        let empty = || Level { occupied: 0, slots: [Slot { head: NONE, tail: NONE }; SLOTS] };
        Self {
            now: 0,
            base: 0,
            bound: u64::MAX,
            inserted: 0,
            near: Vec::with_capacity(NEAR),
            occupied: 0,
            levels: Box::new(std::array::from_fn(|_| empty())),
            entries: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// Returns the number of waiting events.
    pub fn len(&self) -> usize {
        self.len + self.near.len()
    }

    /// Returns whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts `item` for `time`. A time in the past means at once.
    pub fn push(&mut self, time: Nanos, item: T) {
        let time = time.0.max(self.now);
        let entry = Entry { time, order: self.inserted, item, next: NONE };
        self.inserted += 1;
        self.bound = self.bound.min(time);
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

    /// Inserts `item` for `time` like [`EventQueue::push`]. This is faster if few events that are
    /// inserted so wait at once, and most of them are the next event when their time has come.
    #[inline]
    pub fn push_near(&mut self, time: Nanos, item: T) {
        if self.near.len() == NEAR {
            return self.push(time, item);
        }
        let time = time.0.max(self.now);
        let mut index = self.near.len();
        self.near.push(Near { time, order: self.inserted, item });
        self.inserted += 1;
        while index > 0 && self.near[index - 1].time <= time {
            self.near.swap(index - 1, index);
            index -= 1;
        }
    }

    /// Removes and returns the next event, unless it is after `limit`.
    #[inline]
    pub fn pop(&mut self, limit: Nanos) -> Option<(Nanos, T)> {
        self.pop_hinting(limit, |_| {})
    }

    /// Removes and returns the next event as [`EventQueue::pop`], and calls `soon` with most events
    /// a quarter of a millisecond or less before their time, when many events follow each other.
    /// The caller can then prefetch the memory that they need.
    #[inline]
    pub fn pop_hinting(&mut self, limit: Nanos, soon: impl FnMut(&T)) -> Option<(Nanos, T)> {
        let Some(near) = self.near.last().copied() else {
            return self.pop_wheel(limit.0, u64::MAX, soon);
        };
        if near.time >= self.bound {
            let (until, order) =
                if near.time <= limit.0 { (near.time, near.order) } else { (limit.0, u64::MAX) };
            if let Some(event) = self.pop_wheel(until, order, soon) {
                return Some(event);
            }
        }
        if near.time > limit.0 {
            return None;
        }
        self.near.pop();
        self.now = near.time;
        Some((Nanos(near.time), near.item))
    }

    /// Removes and returns the wheel's next event, unless it is after `limit`, or at `limit` and
    /// not inserted before number `order`. Sets `bound` if there is none.
    fn pop_wheel(
        &mut self,
        limit: u64,
        order: u64,
        mut soon: impl FnMut(&T),
    ) -> Option<(Nanos, T)> {
        loop {
            if self.occupied == 0 {
                self.bound = u64::MAX;
                return None;
            }
            let level = self.occupied.trailing_zeros();
            let slot = self.levels[level as usize].occupied.trailing_zeros();
            let Slot { head, tail } = self.levels[level as usize].slots[slot as usize];
            // A slot of level zero holds a single instant, and a single event is the first.
            if level == 0 || head == tail {
                let entry = &mut self.entries[head as usize];
                if entry.time > limit || entry.time == limit && entry.order > order {
                    self.bound = entry.time;
                    return None;
                }
                let (time, item, next) = (entry.time, entry.item, entry.next);
                entry.next = self.free;
                self.free = head;
                (self.now, self.base, self.bound) = (time, time, time);
                self.len -= 1;
                if head == tail {
                    self.clear(level, slot);
                } else {
                    self.levels[0].slots[slot as usize].head = next;
                }
                return Some((Nanos(time), item));
            }
            let shift = level * BITS;
            // The digits above stay, this digit is that of the slot, and those below are zero.
            let above = self.base.checked_shr(shift + BITS).unwrap_or(0);
            let start = (above << BITS | u64::from(slot)) << shift;
            if start > limit {
                self.bound = start;
                return None;
            }
            self.base = start;
            self.clear(level, slot);
            let mut index = head;
            while index != NONE {
                let Entry { time, item, next, .. } = self.entries[index as usize];
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
        // The base itself is at the lowest level.
        let level = (63 - ((time ^ self.base) | 1).leading_zeros()) / BITS;
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
    fn events_of_one_instant_keep_their_order() {
        let mut events = EventQueue::new();
        events.push(Nanos(70_000), 0);
        events.push(Nanos(69_999), 10);
        events.push(Nanos(70_000), 1);
        assert_eq!(events.pop(Nanos(70_000)), Some((Nanos(69_999), 10)));
        // Inserted close to its time: at a lower level, and still after the others.
        events.push(Nanos(70_000), 2);
        assert_eq!(events.pop(Nanos(69_999)), None);
        let order: Vec<_> = std::iter::from_fn(|| events.pop(Nanos::MAX)).map(|e| e.1).collect();
        assert_eq!(order, [0, 1, 2]);
    }

    #[test]
    fn the_smallest_and_largest_times_work() {
        let mut events = EventQueue::new();
        events.push(Nanos::MAX, 2);
        events.push(Nanos::MAX, 3);
        events.push(Nanos::ZERO, 0);
        events.push(Nanos(1 << 63), 1);
        let order: Vec<_> = std::iter::from_fn(|| events.pop(Nanos::MAX)).collect();
        assert_eq!(order, [(Nanos(0), 0), (Nanos(1 << 63), 1), (Nanos::MAX, 2), (Nanos::MAX, 3)]);
        events.push(Nanos::ZERO, 4);
        assert_eq!(
            events.pop(Nanos::MAX),
            Some((Nanos::MAX, 4)),
            "an event in the past comes at once"
        );
    }

    #[test]
    fn events_are_announced_once_before_they_come() {
        let mut events = EventQueue::new();
        let start = 10 << 18;
        for n in 0..9 {
            events.push(Nanos(start + n * 1000), n);
        }
        let mut announced = Vec::new();
        let first = events.pop_hinting(Nanos::MAX, |n| announced.push(*n));
        assert_eq!((first, announced), (Some((Nanos(start), 0)), (0..9).collect()));
        assert_eq!(
            events.pop_hinting(Nanos::MAX, |_| panic!("a second time")).map(|e| e.1),
            Some(1)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn it_behaves_like_a_heap(
            steps in prop::collection::vec(
                (0u32..40, any::<u64>(), any::<bool>(), 0u8..4, 0u32..42), 1..400
            )
        ) {
            let (mut events, mut heap) = (EventQueue::new(), BinaryHeap::new());
            let (mut now, mut number) = (0u64, 0u32);
            for (bits, noise, near, pops, reach) in steps {
                // Distances of every magnitude, and many equal ones.
                let time = now + (noise & ((1 << bits) - 1));
                if near {
                    events.push_near(Nanos(time), number);
                } else {
                    events.push(Nanos(time), number);
                }
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
