//! A history of the bytes sent, from which the bytes in flight follow.

use alloc::boxed::Box;

use forebay_units::{Bytes, Nanos};

use forebay_prefetch::prefetch_start;

/// Number of ticks kept: 1.28 s at 10 ms. With a longer round-trip time the oldest entry is used,
/// which makes the bytes in flight seem a little more than they are.
const CAPACITY: usize = 128;

/// The running count of bytes sent at each tick. Entries are numbered in order.
#[derive(Debug)]
pub(crate) struct SentHistory {
    ring: Box<[Entry; CAPACITY]>,
    /// The number of the next entry.
    next: u64,
    /// Distance of the last result from the next entry. The next result will be near the same
    /// place.
    back: u64,
}

/// The count of bytes sent at a tick.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    time: Nanos,
    sent: Bytes,
}

impl SentHistory {
    pub(crate) fn new() -> Self {
        Self { ring: Box::new([Entry::default(); CAPACITY]), next: 0, back: 0 }
    }

    /// Adds an entry: `sent` bytes had been sent at `now`, which is later than every time before.
    pub(crate) fn note(&mut self, now: Nanos, sent: Bytes) {
        self.ring[slot(self.next)] = Entry { time: now, sent };
        self.next += 1;
    }

    /// Returns the bytes sent by `time`, with linear interpolation between entries. Before the
    /// oldest entry the result is that of the oldest, after the newest that of the newest.
    pub(crate) fn at(&mut self, time: Nanos) -> Bytes {
        let oldest = self.next.saturating_sub(CAPACITY as u64);
        // The first entry later than `time`, in order from the oldest.
        let mut later = self.next.saturating_sub(self.back).max(oldest);
        while later > oldest && self.get(later - 1).time > time {
            later -= 1;
        }
        while later < self.next && self.get(later).time <= time {
            later += 1;
        }
        self.back = self.next - later;
        if later == oldest {
            return if self.next == 0 { Bytes::ZERO } else { self.get(oldest).sent };
        }
        let Entry { time: before, sent } = self.get(later - 1);
        if later == self.next {
            return sent;
        }
        let Entry { time: after, sent: then } = self.get(later);
        let share = (time - before).as_secs_f64() / (after - before).as_secs_f64();
        sent + Bytes((then.saturating_sub(sent).as_f64() * share) as u64)
    }

    /// Prefetches the place of the next entry, and the two where [`SentHistory::at`] will search
    /// after it.
    pub(crate) fn prefetch(&self) {
        let later = (self.next + 1).wrapping_sub(self.back);
        for number in [self.next, later.wrapping_sub(1), later] {
            prefetch_start(&self.ring[slot(number)]);
        }
    }

    fn get(&self, number: u64) -> Entry {
        self.ring[slot(number)]
    }
}

/// Returns the index of an entry in the ring.
fn slot(number: u64) -> usize {
    number as usize % CAPACITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use proptest::prelude::*;

    #[test]
    fn counts_between_entries_are_interpolated() {
        let mut history = SentHistory::new();
        assert_eq!(history.at(Nanos(5)), Bytes::ZERO);
        history.note(Nanos(100), Bytes(1000));
        history.note(Nanos(200), Bytes(3000));
        assert_eq!(history.at(Nanos(50)), Bytes(1000));
        assert_eq!(history.at(Nanos(100)), Bytes(1000));
        assert_eq!(history.at(Nanos(125)), Bytes(1500));
        assert_eq!(history.at(Nanos(200)), Bytes(3000));
        assert_eq!(history.at(Nanos(900)), Bytes(3000));
    }

    proptest! {
        #[test]
        fn results_match_a_linear_search(steps in prop::collection::vec((1u64..100, 0u64..100_000), 1..400), back in 0u64..5000) {
            let mut history = SentHistory::new();
            let (mut t, mut b) = (0, 0);
            let mut list = vec![];
            for (dt, db) in steps {
                t += dt;
                b += db;
                history.note(Nanos(t), Bytes(b));
                list.push((t, b));
            }
            let kept = &list[list.len().saturating_sub(CAPACITY)..];
            let time = t.saturating_sub(back);
            let naive = match kept.iter().position(|&(at, _)| at > time) {
                None => b,
                Some(0) => kept[0].1,
                Some(i) => {
                    let ((t0, b0), (t1, b1)) = (kept[i - 1], kept[i]);
                    b0 + (b1 - b0) * (time - t0) / (t1 - t0)
                }
            };
            let got = history.at(Nanos(time)).0;
            prop_assert!(got.abs_diff(naive) <= 1, "{got} {naive}");
        }
    }
}
