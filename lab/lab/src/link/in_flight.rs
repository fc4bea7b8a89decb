use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use forebay_dataplane::Frame;
use forebay_units::Nanos;

/// Frames on their way over a wire, in the order in which they arrive. The pool bounds their
/// number.
#[derive(Default)]
pub(super) struct InFlight {
    heap: BinaryHeap<Reverse<Flight>>,
    next: u64,
}

struct Flight {
    due: Nanos,
    /// The order of frames that arrive at the same time.
    number: u64,
    frame: Frame,
}

impl InFlight {
    /// Adds a frame that arrives at `due`.
    pub(super) fn push(&mut self, due: Nanos, frame: Frame) {
        self.heap.push(Reverse(Flight { due, number: self.next, frame }));
        self.next += 1;
    }

    /// Returns the next frame that arrived by `now`.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<Frame> {
        if self.first()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(flight)| flight.frame)
    }

    /// Returns when the first frame arrives.
    pub(super) fn first(&self) -> Option<Nanos> {
        self.heap.peek().map(|Reverse(flight)| flight.due)
    }

    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }
}

impl Ord for Flight {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Flight {}
