//! Buckets of items, each item in at most one bucket: doubly linked lists through an array of
//! links, with 8 bytes for each item.
//!
//! The first and the last item of a list store the bucket's number in place of a neighbour, so an
//! item can be removed by its number alone.

use alloc::boxed::Box;
use alloc::vec;

use crate::ConfigError;
use crate::error::within;

/// The largest number of items of a queue. Links use the upper half of the numbers for ends.
pub const MAX_ITEMS: u32 = 1 << 30;
/// The largest number of buckets.
pub(crate) const MAX_BUCKETS: u32 = 1 << 25;

/// The flag of a link that contains the bucket's number instead of a neighbour.
const END: u32 = 1 << 31;
/// The value of both links of an item that is in no bucket, and of both ends of an empty bucket.
/// No bucket has this number.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Link {
    prev: u32,
    next: u32,
}

// The memory of a queue with very many items.
const _: () = assert!(size_of::<Link>() == 8);

const UNLINKED: Link = Link { prev: NONE, next: NONE };

/// The first and the last item of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    first: u32,
    last: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE };

/// One of the two ends of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

/// The links of all items, and the ends of all buckets.
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

    /// Returns whether `item` is in a bucket.
    #[inline]
    pub(crate) fn contains(&self, item: u32) -> bool {
        self.links[item as usize].next != NONE
    }

    #[inline]
    pub(crate) fn first(&self, bucket: u32) -> Option<u32> {
        let first = self.buckets[bucket as usize].first;
        (first != NONE).then_some(first)
    }

    /// Inserts `item`, which must be in no bucket, at an end of `bucket`. Returns whether the
    /// bucket was empty.
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

    /// Removes `item` from its bucket. Returns the bucket if it is now empty, and `None` otherwise
    /// or if the item was in no bucket.
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

    /// Returns the items of `bucket` in order.
    pub(crate) fn iter(&self, bucket: u32) -> impl Iterator<Item = u32> {
        let next = |&item: &u32| {
            let next = self.links[item as usize].next;
            (next & END == 0).then_some(next)
        };
        core::iter::successors(self.first(bucket), next)
    }

    /// Removes all items.
    pub(crate) fn clear(&mut self) {
        self.links.fill(UNLINKED);
        self.buckets.fill(EMPTY);
    }
}
