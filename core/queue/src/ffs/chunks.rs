//! Buckets of items in chunks of one cache line.
//!
//! [`Lists`](super::lists::Lists) links the items themselves, so the second item of a bucket is
//! known only after the memory of the first has arrived. With a million items that is a wait for
//! main memory each. Here a chunk names thirteen items in order, so a caller can prefetch what it
//! stores about each of them at the same time. An insertion only writes, and waits for nothing.

use alloc::boxed::Box;
use alloc::vec;

use forebay_prefetch::prefetch_at;

use crate::ConfigError;
use crate::error::within;

/// Items of a chunk. With three links they fill a cache line.
const ROOM: u32 = 13;
/// Bits of a position that select an item of a chunk.
const SLOT_BITS: u32 = 4;
const NONE: u32 = u32::MAX;
/// The largest number of items, so that a position fits into 32 bits.
const MAX_ITEMS: u32 = 1 << 26;
/// The largest number of buckets.
const MAX_BUCKETS: u32 = 1 << 24;

/// Up to thirteen items of a bucket in order.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Chunk {
    items: [u32; ROOM as usize],
    prev: u32,
    /// The next chunk of the bucket, or of the free chunks.
    next: u32,
    bucket: u32,
}

const _: () = assert!(size_of::<Chunk>() == 64);

/// The part of a bucket's chunks that is in use, in 8 bytes.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The position of the first item, or `NONE`.
    first: u32,
    /// The position one past the last item, whose slot is 1 to 13.
    end: u32,
}

const EMPTY: Bucket = Bucket { first: NONE, end: NONE };
const SLOT: u32 = (1 << SLOT_BITS) - 1;

impl Bucket {
    #[inline]
    fn first_chunk(self) -> u32 {
        self.first >> SLOT_BITS
    }

    #[inline]
    fn last_chunk(self) -> u32 {
        self.end >> SLOT_BITS
    }
}

/// An item that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Popped {
    /// The item that was first.
    pub item: u32,
    /// Whether the bucket is now empty.
    pub emptied: bool,
    /// Whether the item was the first of its chunk.
    pub begins: bool,
}

/// The place of an item, which finds it again in constant time.
///
/// It is valid until the item is taken or moved; [`Chunks::remove`] reports the item that it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position(u32);

impl Position {
    /// Returns the position as a number below `u32::MAX`.
    pub(crate) fn to_bits(self) -> u32 {
        self.0
    }

    pub(crate) fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// The result of removing an item from the middle of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The bucket that held the item.
    pub bucket: u32,
    /// Whether the bucket is now empty.
    pub emptied: bool,
    /// The item that took the place of the removed one: the last of the bucket. It is now at the
    /// removed item's position.
    pub moved: Option<u32>,
}

/// Buckets of items, first come first served, whose items can be read ahead.
#[derive(Clone, Debug)]
pub struct Chunks {
    chunks: Box<[Chunk]>,
    buckets: Box<[Bucket]>,
    free: u32,
    /// Chunks from here on were never used. The memory behind them is not touched before.
    fresh: u32,
}

impl Chunks {
    /// Creates `buckets` empty buckets for at most `items` items together.
    ///
    /// # Errors
    /// Fails if either is zero, `buckets` is above 2^24 or `items` is above 2^26.
    pub fn new(buckets: u32, items: u32) -> Result<Self, ConfigError> {
        within("items", u64::from(items), 1, u64::from(MAX_ITEMS))?;
        within("buckets", u64::from(buckets), 1, u64::from(MAX_BUCKETS))?;
        // All chunks of a bucket are full but the first and the last one.
        let chunks = items / ROOM + 2 * buckets.min(items);
        let chunk = Chunk { items: [0; ROOM as usize], prev: 0, next: 0, bucket: 0 };
        Ok(Self {
            chunks: vec![chunk; chunks as usize].into(),
            buckets: vec![EMPTY; buckets as usize].into(),
            free: NONE,
            fresh: 0,
        })
    }

    /// Returns the bytes of memory behind this structure.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.chunks) + size_of_val(&*self.buckets)
    }

    /// Returns whether `bucket` is empty.
    ///
    /// # Panics
    /// Panics if `bucket` is out of range.
    #[inline]
    pub fn is_empty(&self, bucket: u32) -> bool {
        self.buckets[bucket as usize].first == NONE
    }

    /// Prefetches what [`Chunks::push`] reads first.
    #[inline]
    pub fn prefetch_bucket(&self, bucket: u32) {
        prefetch_at(&self.buckets, bucket);
    }

    /// Prefetches what [`Chunks::push`] writes, where the bucket itself has been prefetched.
    #[inline]
    pub fn prefetch_end(&self, bucket: u32) {
        prefetch_at(&self.chunks, self.buckets[bucket as usize].last_chunk());
    }

    /// Returns the number of a bucket's first chunk.
    #[inline]
    pub(super) fn first_chunk(&self, bucket: u32) -> Option<u32> {
        let at = self.buckets[bucket as usize];
        (at.first != NONE).then(|| at.first_chunk())
    }

    /// Returns the chunk after `chunk` in its bucket.
    #[inline]
    pub(super) fn next_chunk(&self, chunk: u32) -> Option<u32> {
        let next = self.chunks[chunk as usize].next;
        (next != NONE).then_some(next)
    }

    /// Prefetches a chunk.
    #[inline]
    pub(super) fn prefetch_chunk(&self, chunk: u32) {
        prefetch_at(&self.chunks, chunk);
    }

    /// Returns the items of a chunk that is in use.
    #[inline]
    pub(super) fn items_of(&self, chunk: u32) -> &[u32] {
        let Chunk { items, bucket, .. } = &self.chunks[chunk as usize];
        let at = self.buckets[*bucket as usize];
        let start = if chunk == at.first_chunk() { at.first & SLOT } else { 0 };
        let end = if chunk == at.last_chunk() { at.end & SLOT } else { ROOM };
        &items[start as usize..end as usize]
    }

    #[inline]
    fn take_free(&mut self) -> u32 {
        if self.free == NONE {
            self.fresh += 1;
            return self.fresh - 1;
        }
        let chunk = self.free;
        self.free = self.chunks[chunk as usize].next;
        chunk
    }

    #[inline]
    fn give_free(&mut self, chunk: u32) {
        self.chunks[chunk as usize].next = self.free;
        self.free = chunk;
    }

    /// Inserts `item` at the end of `bucket` and returns its position, and whether the bucket was
    /// empty.
    ///
    /// # Panics
    /// Panics if `bucket` is out of range, or if more items are inserted than announced.
    #[inline]
    pub fn push(&mut self, bucket: u32, item: u32) -> (Position, bool) {
        let at = self.buckets[bucket as usize];
        let was_empty = at.first == NONE;
        if was_empty || at.end & SLOT == ROOM {
            return (self.push_chunk(bucket, item), was_empty);
        }
        self.buckets[bucket as usize].end = at.end + 1;
        self.chunks[at.last_chunk() as usize].items[(at.end & SLOT) as usize] = item;
        (Position(at.end), false)
    }

    /// Inserts `item` into a new chunk at the end of `bucket`.
    fn push_chunk(&mut self, bucket: u32, item: u32) -> Position {
        let chunk = self.take_free();
        let position = chunk << SLOT_BITS;
        let at = &mut self.buckets[bucket as usize];
        let before = core::mem::replace(&mut at.end, position + 1);
        let mut prev = NONE;
        if at.first == NONE {
            at.first = position;
        } else {
            prev = before >> SLOT_BITS;
            self.chunks[prev as usize].next = chunk;
        }
        let fresh = &mut self.chunks[chunk as usize];
        (fresh.prev, fresh.next, fresh.bucket) = (prev, NONE, bucket);
        fresh.items[0] = item;
        Position(position)
    }

    /// Removes and returns the first item of `bucket`.
    ///
    /// # Panics
    /// Panics if `bucket` is out of range.
    #[inline]
    pub fn pop(&mut self, bucket: u32) -> Option<Popped> {
        let at = self.buckets[bucket as usize];
        if at.first == NONE {
            return None;
        }
        let (chunk, slot) = (at.first_chunk(), at.first & SLOT);
        let item = self.chunks[chunk as usize].items[slot as usize];
        let emptied = at.first + 1 == at.end;
        if emptied {
            self.buckets[bucket as usize] = EMPTY;
            self.give_free(chunk);
        } else if slot + 1 == ROOM {
            let next = self.chunks[chunk as usize].next;
            self.buckets[bucket as usize].first = next << SLOT_BITS;
            self.chunks[next as usize].prev = NONE;
            self.give_free(chunk);
        } else {
            self.buckets[bucket as usize].first = at.first + 1;
        }
        Some(Popped { item, emptied, begins: slot == 0 })
    }

    /// Returns the bucket of the item at `position`, which must be valid.
    #[inline]
    pub fn bucket(&self, position: Position) -> u32 {
        self.chunks[(position.0 >> SLOT_BITS) as usize].bucket
    }

    /// Removes the item at `position`, which must be valid, and moves the last item of its bucket
    /// there. No item thus comes later than before.
    #[inline]
    pub fn remove(&mut self, position: Position) -> Removed {
        let (chunk, slot) = (position.0 >> SLOT_BITS, position.0 & SLOT);
        let bucket = self.chunks[chunk as usize].bucket;
        let at = &mut self.buckets[bucket as usize];
        let end = at.end - 1;
        let last = end >> SLOT_BITS;
        let moved = self.chunks[last as usize].items[(end & SLOT) as usize];
        self.chunks[chunk as usize].items[slot as usize] = moved;
        at.end = end;
        let moved = (end != position.0).then_some(moved);
        let emptied = at.first == end;
        if emptied {
            *at = EMPTY;
            self.give_free(last);
        } else if end & SLOT == 0 {
            // Not the first chunk, which would be empty now.
            let prev = self.chunks[last as usize].prev;
            at.end = (prev << SLOT_BITS) + ROOM;
            self.chunks[prev as usize].next = NONE;
            self.give_free(last);
        }
        Removed { bucket, emptied, moved }
    }

    /// Returns the items of `bucket` in order.
    ///
    /// # Panics
    /// Panics if `bucket` is out of range.
    pub fn iter(&self, bucket: u32) -> impl Iterator<Item = u32> {
        let at = self.buckets[bucket as usize];
        let mut next = (at.first != NONE).then_some(at.first);
        core::iter::from_fn(move || {
            let position = next?;
            let chunk = &self.chunks[(position >> SLOT_BITS) as usize];
            let behind = position + 1;
            next = if behind == at.end {
                None
            } else if behind & SLOT == ROOM {
                Some(chunk.next << SLOT_BITS)
            } else {
                Some(behind)
            };
            Some(chunk.items[(position & SLOT) as usize])
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
