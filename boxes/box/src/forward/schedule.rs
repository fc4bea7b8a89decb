//! The times at which queues may send, as a heap: idle queues cost nothing.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_units::Nanos;

/// The next due time of each queue.
#[derive(Debug)]
pub(super) struct Schedule {
    heap: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// The due time of each queue. Heap entries that differ are outdated.
    due: Vec<Option<Nanos>>,
}

impl Schedule {
    pub(super) fn new(queues: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(2 * queues), due: vec![None; queues] }
    }

    /// Makes room for `queues` queues.
    pub(super) fn grow(&mut self, queues: usize) {
        self.due.resize(queues.max(self.due.len()), None);
    }

    /// Sets the due time of `queue`; `None` if it has none.
    pub(super) fn set(&mut self, queue: usize, time: Option<Nanos>) {
        if self.due[queue] == time {
            return;
        }
        self.due[queue] = time;
        if let Some(time) = time {
            self.heap.push(Reverse((time, queue)));
        }
        // Outdated entries are removed when they reach the top; this bounds the others.
        if self.heap.len() > 4 * self.due.len() + 16 {
            let due = &self.due;
            self.heap.retain(|Reverse((t, q))| due[*q] == Some(*t));
        }
    }

    /// Returns the earliest due time.
    pub(super) fn next(&mut self) -> Option<Nanos> {
        while let Some(Reverse((time, queue))) = self.heap.peek() {
            if self.due[*queue] == Some(*time) {
                return Some(*time);
            }
            self.heap.pop();
        }
        None
    }

    /// Removes a queue that is due by `now`; returns its due time and its number.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, usize)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((time, queue)) = self.heap.pop()?;
        self.due[queue] = None;
        Some((time, queue))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_earliest_comes_first_and_once() {
        let mut s = Schedule::new(3);
        s.set(0, Some(Nanos(30)));
        s.set(1, Some(Nanos(10)));
        s.set(2, Some(Nanos(20)));
        s.set(1, Some(Nanos(40)));
        assert_eq!(s.next(), Some(Nanos(20)));
        assert_eq!(s.pop(Nanos(19)), None);
        assert_eq!(s.pop(Nanos(35)), Some((Nanos(20), 2)));
        assert_eq!(s.pop(Nanos(35)), Some((Nanos(30), 0)));
        assert_eq!(s.pop(Nanos(35)), None);
        s.set(1, None);
        assert_eq!(s.next(), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_table(
            ops in prop::collection::vec((0usize..8, prop::option::of(0u64..100), 0u64..100), 0..300)
        ) {
            let mut s = Schedule::new(8);
            let mut table = [None; 8];
            for (queue, time, now) in ops {
                s.set(queue, time.map(Nanos));
                table[queue] = time.map(Nanos);
                prop_assert_eq!(s.next(), table.iter().flatten().min().copied());
                if let Some((time, popped)) = s.pop(Nanos(now)) {
                    prop_assert_eq!(table[popped].take(), Some(time));
                    prop_assert!(time <= Nanos(now));
                    prop_assert!(table.iter().flatten().all(|t| *t >= time));
                }
                prop_assert!(s.heap.len() <= 4 * 8 + 16);
            }
        }
    }
}
