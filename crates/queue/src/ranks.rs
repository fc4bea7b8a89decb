//! Which flow has the most waiting, in constant time.
//!
//! A list of flows for every rank (a length in packets, or a class of lengths in bytes), and the
//! highest rank in use. A change of rank moves the flow from one list to another. Finding the next
//! lower rank in use walks down, at most as far as flows have climbed before, so its cost is paid
//! for by the enqueues.
//!
//! Ranks 0 and 1 are not kept in lists. Where there are many flows nearly all have at most one
//! packet waiting, and moving those would cost two cache misses a packet to maintain a list that
//! is looked at only if no flow has more.

use alloc::boxed::Box;
use alloc::vec;

use crate::chain::NONE;
use forebay_prefetch::prefetch_at;

/// The highest rank that is not listed.
pub(crate) const UNLISTED: u32 = 1;

/// A flow's rank, and its place among those of the same rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    prev: u32,
    next: u32,
    rank: u32,
}

impl Link {
    pub(crate) const ZERO: Self = Self { prev: NONE, next: NONE, rank: 0 };

    #[inline]
    pub(crate) fn rank(self) -> u32 {
        self.rank
    }
}

/// A flow that holds its own [`Link`].
pub(crate) trait Ranked {
    fn link(&mut self) -> &mut Link;
}

#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    heads: Box<[u32]>,
    /// No list above this one has a flow; meaningless at or below `UNLISTED`.
    top: u32,
}

impl Ranks {
    /// For ranks up to `highest`.
    pub(crate) fn new(highest: u32) -> Self {
        Self { heads: vec![NONE; highest as usize + 1].into(), top: 0 }
    }

    /// A flow of the highest rank, the latest to reach it; `None` if all are at `UNLISTED` or below.
    #[inline]
    pub(crate) fn highest(&self) -> Option<u32> {
        (self.top > UNLISTED).then(|| self.heads[self.top as usize])
    }

    /// Gives flow `index` a new rank.
    pub(crate) fn set<F: Ranked>(&mut self, flows: &mut [F], index: u32, rank: u32) {
        let old = core::mem::replace(&mut flows[index as usize].link().rank, rank);
        if old == rank {
            return;
        }
        if old > UNLISTED {
            self.unlink(flows, index, old);
        }
        if rank > UNLISTED {
            let head = core::mem::replace(&mut self.heads[rank as usize], index);
            let link = flows[index as usize].link();
            (link.prev, link.next) = (NONE, head);
            if let Some(next) = flows.get_mut(head as usize) {
                next.link().prev = index;
            }
            self.top = self.top.max(rank);
        } else {
            let link = flows[index as usize].link();
            (link.prev, link.next) = (NONE, NONE);
        }
        while self.top > UNLISTED && self.heads[self.top as usize] == NONE {
            self.top -= 1;
        }
    }

    /// Asks for the flows that a change of this flow's rank will touch.
    pub(crate) fn prefetch<F>(flows: &[F], link: Link) {
        prefetch_at(flows, link.prev);
        prefetch_at(flows, link.next);
    }

    fn unlink<F: Ranked>(&mut self, flows: &mut [F], index: u32, rank: u32) {
        let Link { prev, next, .. } = *flows[index as usize].link();
        match flows.get_mut(prev as usize) {
            Some(prev) => prev.link().next = next,
            None => self.heads[rank as usize] = next,
        }
        if let Some(next) = flows.get_mut(next as usize) {
            next.link().prev = prev;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone)]
    struct Flow(Link);

    impl Ranked for Flow {
        fn link(&mut self) -> &mut Link {
            &mut self.0
        }
    }

    proptest! {
        #[test]
        fn the_highest_is_the_maximum(sets in prop::collection::vec((0..16_u32, 0..40_u32), 1..300)) {
            let mut flows = vec![Flow(Link::ZERO); 16];
            let mut ranks = Ranks::new(40);
            let mut truth = [0; 16];
            for (flow, rank) in sets {
                ranks.set(&mut flows, flow, rank);
                truth[flow as usize] = rank;
                let kept: Vec<_> = flows.iter().map(|f| f.0.rank()).collect();
                prop_assert_eq!(&kept[..], &truth[..]);
                let max = truth.iter().copied().max().filter(|&rank| rank > UNLISTED);
                prop_assert_eq!(ranks.highest().map(|flow| truth[flow as usize]), max);
            }
        }
    }
}
