//! Packet storage for many queues: one slab, and for each queue a chain of indices through it.
//!
//! The slab grows as packets arrive, up to the qdisc's limit. It reuses the entry that was freed
//! last, which is the one most likely still in the processor's cache.

use alloc::vec::Vec;

use forebay_prefetch::prefetch_at;

/// The index that means "none".
pub(crate) const NONE: u32 = u32::MAX;

/// One packet of a slab, aligned so that a small one does not straddle two cache lines.
#[derive(Clone, Debug, Hash)]
#[repr(align(32))]
struct Entry<T> {
    item: Option<T>,
    /// The entry before this one; undefined in a chain's first entry.
    prev: u32,
    /// The entry after this one, or the next free entry; undefined in a chain's last entry.
    next: u32,
}

/// The first and the last entry of a queue in a [`Slab`].
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
}

impl Chain {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE };

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NONE
    }
}

/// The entries of all chains, and a list of the free ones.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Slab<T> {
    entries: Vec<Entry<T>>,
    free: u32,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), free: NONE }
    }

    pub(crate) fn push_back(&mut self, chain: &mut Chain, item: T) {
        let new = self.insert(item, chain.tail);
        match self.entries.get_mut(chain.tail as usize) {
            Some(tail) => tail.next = new,
            None => chain.head = new,
        }
        chain.tail = new;
    }

    pub(crate) fn pop_front(&mut self, chain: &mut Chain) -> Option<T> {
        let index = chain.head;
        let entry = self.entries.get_mut(index as usize)?;
        if index == chain.tail {
            *chain = Chain::EMPTY;
        } else {
            chain.head = entry.next;
        }
        entry.next = self.free;
        self.free = index;
        entry.item.take()
    }

    pub(crate) fn pop_back(&mut self, chain: &mut Chain) -> Option<T> {
        let index = chain.tail;
        let entry = self.entries.get_mut(index as usize)?;
        if index == chain.head {
            *chain = Chain::EMPTY;
        } else {
            chain.tail = entry.prev;
        }
        entry.next = self.free;
        self.free = index;
        entry.item.take()
    }

    pub(crate) fn front(&self, chain: Chain) -> Option<&T> {
        self.entries.get(chain.head as usize)?.item.as_ref()
    }

    /// Prefetches the entry that `pop_front` will take.
    pub(crate) fn prefetch_head(&self, chain: Chain) {
        prefetch_at(&self.entries, chain.head);
    }

    /// Prefetches the entry that `push_back` will append to.
    pub(crate) fn prefetch_tail(&self, chain: Chain) {
        prefetch_at(&self.entries, chain.tail);
    }

    /// Moves all entries of `other` to the end of `chain`.
    pub(crate) fn append(&mut self, chain: &mut Chain, other: &mut Chain) {
        if chain.is_empty() {
            core::mem::swap(chain, other);
        } else if !other.is_empty() {
            self.entries[chain.tail as usize].next = other.head;
            self.entries[other.head as usize].prev = chain.tail;
            chain.tail = other.tail;
            *other = Chain::EMPTY;
        }
    }

    fn insert(&mut self, item: T, prev: u32) -> u32 {
        if let Some(entry) = self.entries.get_mut(self.free as usize) {
            let index = self.free;
            self.free = entry.next;
            entry.item = Some(item);
            entry.prev = prev;
            return index;
        }
        // The limit of a qdisc is far below the range of u32.
        let index = self.entries.len() as u32;
        self.entries.push(Entry { item: Some(item), prev, next: NONE });
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_share_a_slab_and_reuse_it() {
        let mut slab = Slab::new();
        let (mut a, mut b) = (Chain::EMPTY, Chain::EMPTY);
        for n in 0..4 {
            slab.push_back(&mut a, n);
            slab.push_back(&mut b, 10 + n);
        }
        assert_eq!(slab.pop_front(&mut a), Some(0));
        assert_eq!(slab.pop_back(&mut a), Some(3));
        slab.append(&mut a, &mut b);
        assert!(b.is_empty());
        slab.push_back(&mut a, 99);
        assert_eq!(slab.pop_front(&mut a), Some(1));
        let rest: Vec<_> = core::iter::from_fn(|| slab.pop_back(&mut a)).collect();
        assert_eq!(rest, [99, 13, 12, 11, 10, 2]);
        assert_eq!(slab.pop_back(&mut a), None);
        assert_eq!(slab.entries.len(), 8, "the ninth packet took a freed entry");
    }
}
