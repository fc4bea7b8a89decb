//! The order in which flows get a turn: each at most once in the queue, first come, first served.

use std::collections::VecDeque;

/// A queue of flows by number, with at most one place for each.
#[derive(Debug, Default)]
pub(super) struct Turns {
    queue: VecDeque<u32>,
    waiting: Vec<bool>,
}

impl Turns {
    /// Makes an empty queue for the flows 0 to `flows` - 1.
    pub(super) fn new(flows: usize) -> Self {
        Self { queue: VecDeque::with_capacity(flows), waiting: vec![false; flows] }
    }

    /// Makes room for the flow `flow` and those before it.
    pub(super) fn admit(&mut self, flow: u32) {
        if self.waiting.len() <= flow as usize {
            self.waiting.resize(flow as usize + 1, false);
        }
    }

    /// Gives `flow` a place at the end, unless it has one. Unknown flows are passed over.
    pub(super) fn push(&mut self, flow: u32) {
        if let Some(waiting @ false) = self.waiting.get_mut(flow as usize) {
            *waiting = true;
            self.queue.push_back(flow);
        }
    }

    /// Takes the flow whose turn it is.
    pub(super) fn pop(&mut self) -> Option<u32> {
        let flow = self.queue.pop_front()?;
        self.waiting[flow as usize] = false;
        Some(flow)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_one_place_at_a_time() {
        let mut turns = Turns::new(2);
        for flow in [1, 0, 1, 7] {
            turns.push(flow);
        }
        assert_eq!([turns.pop(), turns.pop(), turns.pop()], [Some(1), Some(0), None]);
        turns.admit(7);
        turns.push(7);
        turns.push(1);
        assert_eq!([turns.pop(), turns.pop()], [Some(7), Some(1)]);
        assert!(turns.is_empty());
    }
}
