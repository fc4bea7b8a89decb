//! An integer priority queue.

use core::ops::Range;

use super::Bitmap;
use super::lists::{End, Lists};
use crate::ConfigError;

/// An integer priority queue: the lowest rank first, first come first served within a rank.
///
/// Items and ranks are numbers below the bounds given at construction; an item is queued at most
/// once. Every operation takes constant time, one step for each factor of 64 in the number of
/// ranks. The queue allocates 8 bytes for each item and 8 bytes and a bit for each rank at
/// construction, and nothing later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PriorityQueue {
    lists: Lists,
    used: Bitmap,
    len: u32,
}

impl PriorityQueue {
    /// Creates an empty queue for the items below `items` and the ranks below `ranks`.
    ///
    /// # Errors
    /// Fails if either is zero, `ranks` is above [`Bitmap::MAX_BITS`] or `items` is above
    /// [`MAX_ITEMS`](super::MAX_ITEMS).
    pub fn new(ranks: u32, items: u32) -> Result<Self, ConfigError> {
        Ok(Self { used: Bitmap::new(ranks)?, lists: Lists::new(ranks, items)?, len: 0 })
    }

    /// Returns the number of queued items.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether no item is queued.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether `item` is queued.
    #[inline]
    pub fn contains(&self, item: u32) -> bool {
        self.lists.contains(item)
    }

    /// Queues `item` behind the others of `rank`. Returns `false` and changes nothing if the item
    /// is already queued.
    ///
    /// # Panics
    /// Panics if `rank` or `item` is out of range.
    #[inline]
    pub fn push(&mut self, item: u32, rank: u32) -> bool {
        self.insert(item, rank, End::Back)
    }

    /// Queues `item` before the others of `rank`, otherwise like [`PriorityQueue::push`].
    ///
    /// # Panics
    /// Panics if `rank` or `item` is out of range.
    #[inline]
    pub fn push_front(&mut self, item: u32, rank: u32) -> bool {
        self.insert(item, rank, End::Front)
    }

    fn insert(&mut self, item: u32, rank: u32, end: End) -> bool {
        if self.contains(item) {
            return false;
        }
        if self.lists.insert(rank, item, end) {
            self.used.set(rank);
        }
        self.len += 1;
        true
    }

    /// Returns the first item and its rank.
    #[inline]
    pub fn peek(&self) -> Option<(u32, u32)> {
        let rank = self.used.first()?;
        Some((self.lists.first(rank)?, rank))
    }

    /// Returns the first item whose rank is in `ranks`, and its rank.
    #[inline]
    pub fn peek_within(&self, ranks: Range<u32>) -> Option<(u32, u32)> {
        let rank = self.used.first_from(ranks.start).filter(|&rank| rank < ranks.end)?;
        Some((self.lists.first(rank)?, rank))
    }

    /// Removes and returns the first item and its rank.
    #[inline]
    pub fn pop(&mut self) -> Option<(u32, u32)> {
        let first = self.peek()?;
        self.remove(first.0);
        Some(first)
    }

    /// Removes `item`. Returns whether it was queued.
    ///
    /// # Panics
    /// Panics if `item` is out of range.
    #[inline]
    pub fn remove(&mut self, item: u32) -> bool {
        if !self.contains(item) {
            return false;
        }
        if let Some(rank) = self.lists.remove(item) {
            self.used.clear(rank);
        }
        self.len -= 1;
        true
    }

    /// Returns all items in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let ranks =
            core::iter::successors(self.used.first(), |&rank| self.used.first_from(rank + 1));
        ranks.flat_map(|rank| self.lists.iter(rank))
    }

    /// Removes all items, in time that grows with the bounds.
    pub fn clear(&mut self) {
        self.lists.clear();
        self.used.clear_all();
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Push { item: u32, rank: u32, front: bool },
        Pop,
        Remove(u32),
        Within(u32, u32),
    }

    const ITEMS: u32 = 12;
    const RANKS: u32 = 70;

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..ITEMS, 0..RANKS, any::<bool>())
                .prop_map(|(item, rank, front)| Op::Push { item, rank, front }),
            2 => Just(Op::Pop),
            1 => (0..ITEMS).prop_map(Op::Remove),
            1 => (0..RANKS, 0..RANKS).prop_map(|(a, b)| Op::Within(a, b)),
        ]
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_sorted_list(ops in prop::collection::vec(op(), 1..200)) {
            let mut queue = PriorityQueue::new(RANKS, ITEMS).unwrap();
            let mut truth: Vec<(u32, u32)> = Vec::new();
            for op in ops {
                match op {
                    Op::Push { item, rank, front } => {
                        let fresh = !truth.iter().any(|&(other, _)| other == item);
                        if fresh {
                            let before = |&(_, other): &(u32, u32)| {
                                if front { other < rank } else { other <= rank }
                            };
                            truth.insert(truth.partition_point(before), (item, rank));
                        }
                        let push = if front { PriorityQueue::push_front } else { PriorityQueue::push };
                        let pushed = push(&mut queue, item, rank);
                        prop_assert_eq!(pushed, fresh);
                    }
                    Op::Pop => {
                        let first = (!truth.is_empty()).then(|| truth.remove(0));
                        prop_assert_eq!(queue.pop(), first);
                    }
                    Op::Remove(item) => {
                        let found = truth.iter().position(|&(other, _)| other == item);
                        prop_assert_eq!(queue.remove(item), found.is_some());
                        found.map(|at| truth.remove(at));
                    }
                    Op::Within(start, end) => {
                        let first = truth.iter().find(|(_, rank)| (start..end).contains(rank));
                        prop_assert_eq!(queue.peek_within(start..end), first.copied());
                    }
                }
                let items: Vec<_> = truth.iter().map(|&(item, _)| item).collect();
                prop_assert_eq!(queue.iter().collect::<Vec<_>>(), items);
                prop_assert_eq!(queue.len() as usize, truth.len());
                prop_assert_eq!(queue.peek(), truth.first().copied());
            }
            queue.clear();
            prop_assert!(queue.is_empty() && queue.pop().is_none());
            prop_assert!((0..ITEMS).all(|item| !queue.contains(item)));
        }
    }

    #[test]
    fn bounds_out_of_range_are_refused() {
        assert!(PriorityQueue::new(0, 1).is_err());
        assert!(PriorityQueue::new(1, 0).is_err());
        assert!(PriorityQueue::new(Bitmap::MAX_BITS + 1, 1).is_err());
        assert!(PriorityQueue::new(1, super::super::MAX_ITEMS + 1).is_err());
    }
}
