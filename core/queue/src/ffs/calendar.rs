//! A circular queue over an advancing key.

use super::{Bitmap, Chunks, Position};
use crate::ConfigError;

/// A queue of items by a key that advances, such as a time or a virtual time: Eiffel's circular
/// integer priority queue (section 3.1.1), over buckets that [`Chunks`] holds.
///
/// Keys are divided into *ticks* of `2^shift`. A window of as many ticks as there are buckets moves
/// with the lowest key. An item whose tick lies behind the window goes to the last bucket of it,
/// and an item whose tick lies before it to the first. Items of one tick are first come, first
/// served.
///
/// Several calendars may share one [`Chunks`], each with buckets of its own, so that an item's
/// position is valid whichever holds it.
#[derive(Clone, Debug)]
pub struct Calendar {
    used: Bitmap,
    /// The first of this calendar's buckets.
    start: u32,
    mask: u32,
    shift: u32,
    /// The first tick of the window.
    base: u64,
    /// The tick of the first item, unless the calendar is empty.
    first: u64,
    len: u32,
}

impl Calendar {
    /// Creates an empty calendar of the `2^bits` buckets from `start` on.
    ///
    /// # Errors
    /// Fails if `bits` is above 24.
    pub fn new(start: u32, bits: u32, shift: u32) -> Result<Self, ConfigError> {
        crate::error::within("bits", u64::from(bits), 0, 24)?;
        crate::error::within("shift", u64::from(shift), 0, 63)?;
        let used = Bitmap::new(1 << bits)?;
        Ok(Self { used, start, mask: (1 << bits) - 1, shift, base: 0, first: 0, len: 0 })
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

    /// Returns the bytes of memory behind this structure, without that of the chunks.
    pub fn memory(&self) -> usize {
        self.used.memory()
    }

    /// Returns whether `bucket` is one of this calendar.
    #[inline]
    pub fn owns(&self, bucket: u32) -> bool {
        bucket.wrapping_sub(self.start) <= self.mask
    }

    /// Returns the tick of `key`.
    #[inline]
    pub fn tick(&self, key: u64) -> u64 {
        key >> self.shift
    }

    /// Returns the lowest key of `tick`.
    #[inline]
    pub fn key(&self, tick: u64) -> u64 {
        tick.saturating_mul(1 << self.shift)
    }

    /// Changes the size of a tick. The calendar must be empty.
    ///
    /// # Panics
    /// Panics if an item is queued or `shift` is above 63.
    pub fn set_shift(&mut self, shift: u32) {
        assert!(self.is_empty() && shift < u64::BITS, "a shift of {shift}, {} queued", self.len);
        self.shift = shift;
        self.base = 0;
    }

    /// Returns the tick whose bucket an item of `tick` goes to. Moves the window forward, to `low`
    /// or to the first item, if `tick` lies behind it.
    #[inline]
    fn placed(&mut self, low: u64, tick: u64) -> u64 {
        if self.is_empty() {
            self.base = self.tick(low);
        } else if tick.saturating_sub(self.base) > u64::from(self.mask) {
            self.base = self.base.max(self.first.min(self.tick(low)));
        }
        self.clamped(tick)
    }

    /// Returns the tick of the window that is next to `tick`.
    #[inline]
    fn clamped(&self, tick: u64) -> u64 {
        tick.clamp(self.base, self.base.saturating_add(u64::from(self.mask)))
    }

    /// Queues `item` at `tick`. No later item has a key below `low`.
    #[inline]
    pub fn push(&mut self, chunks: &mut Chunks, low: u64, tick: u64, item: u32) -> Position {
        let tick = self.placed(low, tick);
        let slot = tick as u32 & self.mask;
        let (position, was_empty) = chunks.push(self.start + slot, item);
        if was_empty {
            self.used.set(slot);
            self.first = if self.is_empty() { tick } else { self.first.min(tick) };
        }
        self.len += 1;
        position
    }

    /// Returns the bucket to which an item of `tick` goes, if the window does not move before.
    #[inline]
    pub fn bucket(&self, tick: u64) -> u32 {
        self.start + (self.clamped(tick) as u32 & self.mask)
    }

    /// Returns whether an item of `tick` that was found at tick `at` belongs to a later one that
    /// the window now contains. A window moves only if `low` does.
    #[inline]
    pub fn came_early(&mut self, low: u64, at: u64, tick: u64) -> bool {
        tick > at && self.placed(low, tick) > at
    }

    /// Returns the tick of the first item.
    #[inline]
    pub fn first_tick(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.first)
    }

    /// Finds the first item again, after that of the tick `first` has left.
    #[inline]
    fn find_first(&mut self) {
        let from = self.first as u32 & self.mask;
        if let Some(slot) = self.used.first_from(from).or_else(|| self.used.first()) {
            self.first += u64::from(slot.wrapping_sub(from) & self.mask);
        }
    }

    /// Removes and returns the first item.
    ///
    /// Passes items that come about a dozen later to `ahead`, so that the caller can prefetch what
    /// it stores about them. Some of those may have left already.
    #[inline]
    pub fn pop(&mut self, chunks: &mut Chunks, ahead: impl FnMut(u32)) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let slot = self.first as u32 & self.mask;
        let popped = chunks.pop(self.start + slot)?;
        self.len -= 1;
        if popped.begins {
            self.look_ahead(chunks, slot, popped.emptied, ahead);
        }
        if popped.emptied {
            self.used.clear(slot);
            self.find_first();
        }
        Some(popped.item)
    }

    /// Passes the items of the chunk after the first one of `slot` to `ahead`, and prefetches the
    /// chunk after that.
    #[inline]
    fn look_ahead(&self, chunks: &Chunks, slot: u32, emptied: bool, mut ahead: impl FnMut(u32)) {
        // Does not follow the buckets around their end, which would be of little use.
        let next = |slot: u32| {
            let slot = self.used.first_from(slot + 1)?;
            chunks.first_chunk(self.start + slot).map(|chunk| (slot, chunk))
        };
        let second = if emptied {
            None
        } else {
            chunks.first_chunk(self.start + slot).and_then(|chunk| chunks.next_chunk(chunk))
        };
        let Some((slot, chunk)) = second.map(|chunk| (slot, chunk)).or_else(|| next(slot)) else {
            return;
        };
        for &item in chunks.items_of(chunk) {
            ahead(item);
        }
        if let Some(third) = chunks.next_chunk(chunk).or_else(|| next(slot).map(|(_, c)| c)) {
            chunks.prefetch_chunk(third);
        }
    }

    /// Notes that [`Chunks::remove`] took an item of this calendar out of `bucket`.
    #[inline]
    pub fn removed(&mut self, bucket: u32, emptied: bool) {
        self.len -= 1;
        if emptied {
            let slot = bucket - self.start;
            self.used.clear(slot);
            if slot == self.first as u32 & self.mask {
                self.find_first();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const BITS: u32 = 3;
    const SHIFT: u32 = 2;
    const ITEMS: u32 = 20;

    #[test]
    fn the_window_moves_with_the_lowest_key() {
        let mut chunks = Chunks::new(8, 4).unwrap();
        let mut calendar = Calendar::new(0, BITS, SHIFT).unwrap();
        // Ticks of 4: the window has the keys 100..132.
        for (item, key) in [(0, 131), (1, 100), (2, 1000)] {
            let tick = calendar.tick(key);
            calendar.push(&mut chunks, 100, tick, item);
        }
        assert_eq!(calendar.first_tick(), Some(25));
        assert_eq!(calendar.pop(&mut chunks, |_| ()), Some(1));
        assert!(!calendar.came_early(100, 32, 250), "the window did not move");
        assert!(calendar.came_early(110, 32, 250), "item 2 can move to a later bucket");
        assert_eq!(calendar.pop(&mut chunks, |_| ()), Some(0));
        assert_eq!(calendar.pop(&mut chunks, |_| ()), Some(2));
        assert!(calendar.is_empty() && calendar.first_tick().is_none());
    }

    proptest! {
        /// Items whose keys lie in the window come in the order of their ticks, then of arrival.
        #[test]
        fn it_behaves_like_a_sorted_list(
            ops in prop::collection::vec((0..ITEMS, 0..28_u64, 0..5_u8), 1..300),
        ) {
            let mut chunks = Chunks::new(8 + 1, ITEMS).unwrap();
            // Bucket 0 belongs to somebody else.
            let mut calendar = Calendar::new(1, BITS, SHIFT).unwrap();
            let mut truth: Vec<(u64, u32)> = Vec::new();
            let mut positions = [None; ITEMS as usize];
            let mut low = 1000;
            for (item, ahead, op) in ops {
                let queued = positions[item as usize];
                match (op, queued) {
                    (0..3, None) => {
                        let tick = calendar.tick(low + ahead);
                        let position = calendar.push(&mut chunks, low, tick, item);
                        positions[item as usize] = Some(position);
                        truth.insert(truth.partition_point(|&(other, _)| other <= tick), (tick, item));
                    }
                    (3, Some(position)) => {
                        let removed = chunks.remove(position);
                        prop_assert!(calendar.owns(removed.bucket));
                        calendar.removed(removed.bucket, removed.emptied);
                        positions[item as usize] = None;
                        let at = truth.iter().position(|&(_, i)| i == item).unwrap();
                        let tick = truth[at].0;
                        // The last item of the tick takes the place of the removed one.
                        let last = truth.partition_point(|&(other, _)| other <= tick) - 1;
                        truth.swap(at, last);
                        truth.remove(last);
                        prop_assert_eq!(removed.moved, (at < last).then(|| truth[at].1));
                        if let Some(moved) = removed.moved {
                            positions[moved as usize] = Some(position);
                        }
                    }
                    _ => {
                        let first = calendar.first_tick();
                        prop_assert_eq!(first, truth.first().map(|&(tick, _)| tick));
                        if let Some(tick) = first {
                            let (_, item) = truth.remove(0);
                            prop_assert_eq!(calendar.pop(&mut chunks, |_| ()), Some(item));
                            positions[item as usize] = None;
                            low = low.max(calendar.key(tick));
                        }
                    }
                }
                prop_assert_eq!(calendar.len() as usize, truth.len());
            }
        }
    }
}
