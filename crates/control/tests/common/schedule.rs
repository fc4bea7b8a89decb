//! A queue of events ordered by time, and by insertion where times are equal.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use forebay_units::Nanos;

pub(crate) struct Schedule<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    planned: u64,
}

struct Entry<T> {
    at: (Nanos, u64),
    what: T,
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
        Self { heap: BinaryHeap::new(), planned: 0 }
    }

    pub(crate) fn at(&mut self, time: Nanos, what: T) {
        self.planned += 1;
        self.heap.push(Reverse(Entry { at: (time, self.planned), what }));
    }

    pub(crate) fn next(&mut self) -> Option<(Nanos, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at.0, entry.what))
    }
}
