//! Buckets of items, each item in at most one of them: doubly linked lists through an array of
//! links, 8 bytes an item.
//!
//! The ends of a list say in place of a neighbour which bucket they end, so that an item can be
//! taken out by its number alone.

use alloc::boxed::Box;
use alloc::vec;

use crate::ConfigError;
use crate::error::within;

/// The most items of a queue: the upper half of the numbers mark ends.
pub const MAX_ITEMS: u32 = 1 << 30;
/// The most buckets.
pub(crate) const MAX_BUCKETS: u32 = 1 << 25;

/// Set in a link that names no neighbour but the bucket.
const END: u32 = 1 << 31;
/// In both links of an item that is in no bucket, and in both ends of an empty bucket. No bucket has
/// this number.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Link {
    prev: u32,
    next: u32,
}

/// What a queue of very many items costs for each.
const _: () = assert!(size_of::<Link>() == 8);

const UNLINKED: Link = Link { prev: NONE, next: NONE };

/// The items that a bucket begins and ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

/// Which end of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lists {
    links: Box<[Link]>,
    buckets: Box<[Ends]>,
}

impl Lists {
    pub(crate) fn new(buckets: u32, items: u32) -> Result<Self, ConfigError> {
        within("items", u64::from(items), 1, u64::from(MAX_ITEMS))?;
        within("buckets", u64::from(buckets), 1, u64::from(MAX_BUCKETS))?;
        let links = vec![UNLINKED; items as usize].into();
        Ok(Self { links, buckets: vec![EMPTY; buckets as usize].into() })
    }

    /// Whether `item` is in a bucket.
    #[inline]
    pub(crate) fn contains(&self, item: u32) -> bool {
        self.links[item as usize].next != NONE
    }

    #[inline]
    pub(crate) fn first(&self, bucket: u32) -> Option<u32> {
        let first = self.buckets[bucket as usize].first;
        (first != NONE).then_some(first)
    }

    /// Puts `item`, which must be in none, at an end of `bucket`. Whether the bucket was empty.
    #[inline]
    pub(crate) fn insert(&mut self, bucket: u32, item: u32, end: End) -> bool {
        debug_assert!(!self.contains(item), "an item is in one bucket at a time");
        let ends = &mut self.buckets[bucket as usize];
        let edge = END | bucket;
        if ends.first == NONE {
            *ends = Ends { first: item, last: item };
            self.links[item as usize] = Link { prev: edge, next: edge };
            return true;
        }
        match end {
            End::Back => {
                let last = core::mem::replace(&mut ends.last, item);
                self.links[last as usize].next = item;
                self.links[item as usize] = Link { prev: last, next: edge };
            }
            End::Front => {
                let first = core::mem::replace(&mut ends.first, item);
                self.links[first as usize].prev = item;
                self.links[item as usize] = Link { prev: edge, next: first };
            }
        }
        false
    }

    /// Takes `item` out of its bucket. The bucket, if that is now empty; `None` too if the item was
    /// in none.
    #[inline]
    pub(crate) fn remove(&mut self, item: u32) -> Option<u32> {
        let Link { prev, next } = core::mem::replace(&mut self.links[item as usize], UNLINKED);
        if next == NONE {
            return None;
        }
        match (prev & END != 0, next & END != 0) {
            (true, true) => {
                let bucket = next & !END;
                self.buckets[bucket as usize] = EMPTY;
                return Some(bucket);
            }
            (true, false) => {
                self.buckets[(prev & !END) as usize].first = next;
                self.links[next as usize].prev = prev;
            }
            (false, true) => {
                self.buckets[(next & !END) as usize].last = prev;
                self.links[prev as usize].next = next;
            }
            (false, false) => {
                self.links[prev as usize].next = next;
                self.links[next as usize].prev = prev;
            }
        }
        None
    }

    /// The items of `bucket`, the first first.
    pub(crate) fn iter(&self, bucket: u32) -> impl Iterator<Item = u32> {
        let next = |&item: &u32| {
            let next = self.links[item as usize].next;
            (next & END == 0).then_some(next)
        };
        core::iter::successors(self.first(bucket), next)
    }

    /// Takes all items out.
    pub(crate) fn clear(&mut self) {
        self.links.fill(UNLINKED);
        self.buckets.fill(EMPTY);
    }
}
