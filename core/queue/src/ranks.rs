//! Finds the flow with the longest queue in constant time.
//!
//! There is a list of flows for every rank (a length in packets, or a class of lengths in bytes),
//! and the highest rank in use. A change of rank moves the flow from one list to another. The
//! search for the next lower rank in use walks down at most as far as enqueues have raised it, so
//! its amortised cost is constant.
//!
//! Ranks 0 and 1 have no lists. With many flows nearly all have at most one packet waiting. Moving
//! those would cost two cache misses for each packet, for lists that are needed only if no flow has
//! two packets.

use alloc::boxed::Box;
use alloc::vec;

use crate::chain::NONE;
use forebay_prefetch::prefetch_at;

/// The highest rank without a list.
pub(crate) const UNLISTED: u32 = 1;

/// A flow's rank, and its neighbours in the list of that rank.
#[derive(Clone, Copy, Debug, Hash)]
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

/// A flow that contains its own [`Link`].
pub(crate) trait Ranked {
    fn link(&mut self) -> &mut Link;
}

/// The lists of flows by rank.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Ranks {
    heads: Box<[u32]>,
    /// The highest rank whose list may contain a flow; undefined at or below `UNLISTED`.
    top: u32,
}

impl Ranks {
    /// Creates empty lists for ranks up to `highest`.
    pub(crate) fn new(highest: u32) -> Self {
        Self { heads: vec![NONE; highest as usize + 1].into(), top: 0 }
    }

    /// Returns the flow of the highest rank that reached it last, or `None` if all flows are at
    /// `UNLISTED` or below.
    #[inline]
    pub(crate) fn highest(&self) -> Option<u32> {
        (self.top > UNLISTED).then(|| self.heads[self.top as usize])
    }

    /// Sets the rank of flow `index`.
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

    /// Prefetches the flows that a change of this flow's rank will access.
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
        fn highest_is_a_flow_of_the_maximum_rank(
            sets in prop::collection::vec((0..16_u32, 0..40_u32), 1..300),
        ) {
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
