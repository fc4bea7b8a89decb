//! A queue of events ordered by time, and by insertion where times are equal.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use forebay_units::Nanos;

/// Most events follow a fixed time after others of their kind, so that a few queues in the order of
/// insertion hold nearly all of them in the order of time. The heap has the rest.
pub(crate) struct Schedule<T> {
    in_order: [Ordered<T>; 8],
    heap: BinaryHeap<Reverse<Entry<T>>>,
    planned: u64,
}

/// Events in the order of time, and the times of both ends beside them, which are read most often.
struct Ordered<T> {
    entries: VecDeque<Entry<T>>,
    /// When the first event is due; the end of time if there is none.
    first: (Nanos, u64),
    last: Nanos,
}

const NEVER: (Nanos, u64) = (Nanos(u64::MAX), u64::MAX);

struct Entry<T> {
    at: (Nanos, u64),
    what: T,
}

impl<T> Ordered<T> {
    fn push(&mut self, entry: Entry<T>) {
        self.first = self.first.min(entry.at);
        self.last = entry.at.0;
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<Entry<T>> {
        let entry = self.entries.pop_front();
        self.first = self.entries.front().map_or(NEVER, |next| next.at);
        entry
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

impl<T> Schedule<T> {
    pub(crate) fn new() -> Self {
        let empty = |_| Ordered { entries: VecDeque::new(), first: NEVER, last: Nanos::ZERO };
        Self { in_order: std::array::from_fn(empty), heap: BinaryHeap::new(), planned: 0 }
    }

    pub(crate) fn at(&mut self, time: Nanos, what: T) {
        self.planned += 1;
        let entry = Entry { at: (time, self.planned), what };
        // The queue whose last event is the latest of those before this one.
        let fitting = self.in_order.iter_mut().filter(|queue| queue.last <= time);
        match fitting.max_by_key(|queue| queue.last) {
            Some(queue) => queue.push(entry),
            None => self.heap.push(Reverse(entry)),
        }
    }

    pub(crate) fn next(&mut self) -> Option<(Nanos, T)> {
        let in_heap = self.heap.peek().map_or(NEVER, |Reverse(entry)| entry.at);
        let queue = self.in_order.iter_mut().min_by_key(|queue| queue.first)?;
        let entry = if queue.first < in_heap { queue.pop()? } else { self.heap.pop()?.0 };
        Some((entry.at.0, entry.what))
    }
}
