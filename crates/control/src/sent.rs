//! How many bytes had been sent at a moment in the recent past, which tells what is in flight now.

use alloc::boxed::Box;
use alloc::vec;

use forebay_units::{Bytes, Nanos};

use forebay_prefetch::prefetch;

/// Ticks kept: 1.28 s at 10 ms. For a longer round-trip time the oldest stands in, so that a little
/// too much seems to be in flight.
const CAPACITY: usize = 128;

/// The bundle's running count of bytes sent, noted at every tick.
#[derive(Debug)]
pub(crate) struct SentHistory {
    ring: Box<[(Nanos, Bytes)]>,
    newest: usize,
    len: usize,
    /// How many notes before the newest the answer was the last time: it is near there the next.
    back: usize,
}

impl SentHistory {
    pub(crate) fn new() -> Self {
        Self {
            ring: vec![(Nanos::ZERO, Bytes::ZERO); CAPACITY].into_boxed_slice(),
            newest: 0,
            len: 0,
            back: 0,
        }
    }

    /// Notes that `sent` bytes had been sent at `now`. `now` must rise; a repeated instant replaces
    /// what was noted for it.
    pub(crate) fn note(&mut self, now: Nanos, sent: Bytes) {
        if self.len == 0 || self.ring[self.newest].0 < now {
            self.newest = (self.newest + 1) % CAPACITY;
            self.len = (self.len + 1).min(CAPACITY);
        }
        self.ring[self.newest] = (now, sent);
    }

    /// The bytes sent by `time`, between notes by linear interpolation; before the oldest note the
    /// oldest, after the newest the newest.
    pub(crate) fn at(&mut self, time: Nanos) -> Bytes {
        // The first of the notes, oldest first, that is later than `time`.
        let mut low = self.len.saturating_sub(self.back);
        while low > 0 && self.get(low - 1).0 > time {
            low -= 1;
        }
        while low < self.len && self.get(low).0 <= time {
            low += 1;
        }
        self.back = self.len - low;
        if low == 0 {
            return if self.len == 0 { Bytes::ZERO } else { self.get(0).1 };
        }
        let (before, sent) = self.get(low - 1);
        if low == self.len {
            return sent;
        }
        let (after, then) = self.get(low);
        let share = (time - before).as_secs_f64() / (after - before).as_secs_f64();
        sent + Bytes((then.saturating_sub(sent).as_f64() * share) as u64)
    }

    /// Asks for the place of the next note, and for the two where [`SentHistory::at`] will look.
    pub(crate) fn prefetch(&self) {
        prefetch(&self.ring[(self.newest + 1) % CAPACITY]);
        for after in [1, 2] {
            prefetch(&self.ring[(self.newest + CAPACITY + after - self.back) % CAPACITY]);
        }
    }

    /// The note at `index`, the oldest being 0.
    fn get(&self, index: usize) -> (Nanos, Bytes) {
        self.ring[(self.newest + CAPACITY + 1 - self.len + index) % CAPACITY]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interpolates() {
        let mut history = SentHistory::new();
        assert_eq!(history.at(Nanos(5)), Bytes::ZERO);
        history.note(Nanos(100), Bytes(1000));
        history.note(Nanos(200), Bytes(3000));
        assert_eq!(history.at(Nanos(50)), Bytes(1000));
        assert_eq!(history.at(Nanos(100)), Bytes(1000));
        assert_eq!(history.at(Nanos(125)), Bytes(1500));
        assert_eq!(history.at(Nanos(200)), Bytes(3000));
        assert_eq!(history.at(Nanos(900)), Bytes(3000));
        history.note(Nanos(200), Bytes(4000));
        assert_eq!(history.at(Nanos(150)), Bytes(2500));
    }

    proptest! {
        #[test]
        fn like_a_list(steps in prop::collection::vec((1u64..100, 0u64..100_000), 1..400), back in 0u64..5000) {
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
