//! A timing wheel.

use forebay_units::Nanos;

use super::Bitmap;
use super::lists::{End, Lists, MAX_BUCKETS};
use crate::ConfigError;
use crate::error::within;

/// A queue of items by time: a circular integer priority queue of two windows.
///
/// Time is divided into buckets of a granularity, and two windows of equally many buckets follow
/// each other. When the first window is empty and its time is over, it becomes the second. The
/// wheel's range thus advances with time and extends one to two windows ahead.
///
/// An item whose time lies further ahead goes to the last bucket and is returned *early*. A caller
/// that queues such items checks their time and inserts them again. All other items are returned at
/// their time or at most one granularity later.
///
/// The wheel takes 8 bytes for each item and 16.25 bytes for each bucket of a window.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimingWheel {
    granularity: u64,
    /// The number of buckets of a window.
    width: u32,
    /// The buckets of one window, then those of the other.
    lists: Lists,
    used: [Bitmap; 2],
    /// The index of the earlier window.
    first: usize,
    /// The time of the earlier window's first bucket, in units of the granularity.
    base: u64,
    len: u32,
}

impl TimingWheel {
    /// Creates an empty wheel for the items below `items`, with windows of `buckets` buckets of
    /// `granularity`.
    ///
    /// # Errors
    /// Fails if any is zero, `buckets` is above [`Bitmap::MAX_BITS`] or `items` is above
    /// [`MAX_ITEMS`](super::MAX_ITEMS).
    pub fn new(granularity: Nanos, buckets: u32, items: u32) -> Result<Self, ConfigError> {
        within("granularity", granularity.0, 1, u64::MAX)?;
        within("buckets", u64::from(buckets), 1, u64::from(MAX_BUCKETS / 2))?;
        let window = Bitmap::new(buckets)?;
        Ok(Self {
            granularity: granularity.0,
            width: buckets,
            lists: Lists::new(2 * buckets, items)?,
            used: [window.clone(), window],
            first: 0,
            base: 0,
            len: 0,
        })
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

    /// Returns how far ahead of `now` an item's time may lie so that it is never returned early,
    /// provided that due items are taken.
    pub fn horizon(&self) -> Nanos {
        // One bucket less than a window, since times are rounded up.
        Nanos(self.granularity.saturating_mul(u64::from(self.width - 1)))
    }

    /// Queues `item` for `at`; a time in the past means at once. Returns `false` and changes
    /// nothing if the item is already queued.
    ///
    /// # Panics
    /// Panics if `item` is out of range.
    pub fn insert(&mut self, now: Nanos, item: u32, at: Nanos) -> bool {
        if self.contains(item) {
            return false;
        }
        self.advance(now);
        if self.len == 0 {
            self.base = now.0 / self.granularity;
        }
        let width = u64::from(self.width);
        let ahead = at.0.div_ceil(self.granularity).saturating_sub(self.base).min(2 * width - 1);
        let (window, bucket) = match ahead.checked_sub(width) {
            None => (self.first, ahead as u32),
            Some(ahead) => (1 - self.first, ahead as u32),
        };
        if self.lists.insert(window as u32 * self.width + bucket, item, End::Back) {
            self.used[window].set(bucket);
        }
        self.len += 1;
        true
    }

    /// Removes and returns the earliest item if it is due.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<u32> {
        self.advance(now);
        let bucket = self.used[self.first].first()?;
        if self.base + u64::from(bucket) > now.0 / self.granularity {
            return None;
        }
        self.pop_bucket(self.first, bucket)
    }

    /// Removes and returns the earliest item, due or not.
    pub fn pop(&mut self) -> Option<u32> {
        let (window, bucket, _) = self.earliest()?;
        self.pop_bucket(window, bucket)
    }

    /// Returns when the earliest item is due; the time may be in the past.
    #[inline]
    pub fn next_due(&self) -> Option<Nanos> {
        self.earliest().map(|(_, _, tick)| Nanos(tick.saturating_mul(self.granularity)))
    }

    /// Removes `item`. Returns whether it was queued.
    ///
    /// # Panics
    /// Panics if `item` is out of range.
    pub fn remove(&mut self, item: u32) -> bool {
        if !self.contains(item) {
            return false;
        }
        if let Some(bucket) = self.lists.remove(item) {
            self.used[(bucket / self.width) as usize].clear(bucket % self.width);
        }
        self.len -= 1;
        true
    }

    /// Removes all items, in time that grows with the bounds.
    pub fn clear(&mut self) {
        self.lists.clear();
        self.used.iter_mut().for_each(Bitmap::clear_all);
        self.len = 0;
    }

    /// Returns the window, the bucket and the tick (time in granularities) of the earliest items.
    fn earliest(&self) -> Option<(usize, u32, u64)> {
        let in_window = |window: usize, base: u64| {
            self.used[window].first().map(|bucket| (window, bucket, base + u64::from(bucket)))
        };
        in_window(self.first, self.base)
            .or_else(|| in_window(1 - self.first, self.base + u64::from(self.width)))
    }

    fn pop_bucket(&mut self, window: usize, bucket: u32) -> Option<u32> {
        let item = self.lists.first(window as u32 * self.width + bucket)?;
        if self.lists.remove(item).is_some() {
            self.used[window].clear(bucket);
        }
        self.len -= 1;
        Some(item)
    }

    /// Moves the earlier window behind the later one if it is empty and its time is over.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        let (tick, width) = (now.0 / self.granularity, u64::from(self.width));
        while self.used[self.first].is_empty() && tick >= self.base + width {
            self.first = 1 - self.first;
            self.base += width;
            if self.used[self.first].is_empty() {
                self.base = tick;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const G: u64 = 10;

    fn wheel() -> TimingWheel {
        TimingWheel::new(Nanos(G), 4, 8).unwrap()
    }

    #[test]
    fn items_come_in_order_of_time_and_not_early() {
        let mut wheel = wheel();
        // Windows [0, 40) and [40, 80).
        for (item, at) in [(0, 55), (1, 25), (2, 0), (3, 30), (4, 41)] {
            assert!(wheel.insert(Nanos(0), item, Nanos(at)));
        }
        assert!(!wheel.insert(Nanos(0), 4, Nanos(0)), "queued already");
        assert_eq!(wheel.next_due(), Some(Nanos(0)));
        assert_eq!(wheel.pop_due(Nanos(0)), Some(2));
        assert_eq!(wheel.next_due(), Some(Nanos(30)));
        assert_eq!(wheel.pop_due(Nanos(29)), None);
        assert_eq!(wheel.pop_due(Nanos(30)), Some(1));
        assert_eq!(wheel.pop_due(Nanos(30)), Some(3));
        assert_eq!(wheel.pop_due(Nanos(49)), None);
        assert_eq!(wheel.next_due(), Some(Nanos(50)));
        assert_eq!(wheel.pop_due(Nanos(50)), Some(4));
        assert!(wheel.remove(0) && !wheel.remove(0));
        assert!(wheel.is_empty() && wheel.next_due().is_none());
    }

    #[test]
    fn an_item_past_the_horizon_comes_early() {
        let mut wheel = wheel();
        wheel.insert(Nanos(0), 0, Nanos(1_000_000));
        assert_eq!(wheel.next_due(), Some(Nanos(70)), "the last of eight buckets");
        assert_eq!(wheel.horizon(), Nanos(30));
        // Much later, an empty wheel starts at the current time.
        assert_eq!(wheel.pop_due(Nanos(5000)), Some(0));
        wheel.insert(Nanos(5000), 1, Nanos(5033));
        assert_eq!(wheel.next_due(), Some(Nanos(5040)));
        assert_eq!(wheel.pop(), Some(1));
    }

    #[test]
    fn the_largest_time_does_not_overflow() {
        let mut wheel = wheel();
        wheel.insert(Nanos::MAX, 0, Nanos::MAX);
        assert!(wheel.next_due().is_some());
        assert_eq!(wheel.pop(), Some(0));
    }

    proptest! {
        /// With times within the horizon each item comes at its time, rounded up, and in order.
        #[test]
        fn it_behaves_like_a_sorted_list(
            ops in prop::collection::vec((0..8_u32, 0..=30_u64, 0..60_u64, any::<bool>()), 1..200),
        ) {
            let mut wheel = wheel();
            let mut truth: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (item, ahead, pause, remove) in ops {
                now += pause;
                // Takes due items first, which the horizon requires.
                while let Some(item) = wheel.pop_due(Nanos(now)) {
                    let (tick, first) = truth.remove(0);
                    prop_assert_eq!(item, first);
                    prop_assert!(tick * G <= now);
                }
                prop_assert!(truth.first().is_none_or(|&(tick, _)| tick > now / G));
                let tick = (now + ahead).div_ceil(G);
                let queued = truth.iter().position(|&(_, other)| other == item);
                if remove {
                    prop_assert_eq!(wheel.remove(item), queued.is_some());
                    queued.map(|at| truth.remove(at));
                } else {
                    prop_assert_eq!(
                        wheel.insert(Nanos(now), item, Nanos(now + ahead)),
                        queued.is_none()
                    );
                    if queued.is_none() {
                        let at = truth.partition_point(|&(other, _)| other <= tick);
                        truth.insert(at, (tick, item));
                    }
                }
                prop_assert_eq!(wheel.len() as usize, truth.len());
                let due = truth.first().map(|&(tick, _)| Nanos(tick * G));
                prop_assert_eq!(wheel.next_due(), due);
            }
        }
    }
}
