//! How many bytes had been sent at a moment in the recent past, which tells what is in flight now.

use alloc::boxed::Box;

use forebay_units::{Bytes, Nanos};

use forebay_prefetch::prefetch_start;

/// Ticks kept: 1.28 s at 10 ms. For a longer round-trip time the oldest stands in, so that a little
/// too much seems to be in flight.
const CAPACITY: usize = 128;

/// The bundle's running count of bytes sent, noted at every tick. Notes are numbered as they come.
#[derive(Debug)]
pub(crate) struct SentHistory {
    ring: Box<[(Nanos, Bytes); CAPACITY]>,
    /// The number of the next note.
    next: u64,
    /// How many notes before the next the answer was the last time: it is near there the next.
    back: u64,
}

impl SentHistory {
    pub(crate) fn new() -> Self {
        Self { ring: Box::new([(Nanos::ZERO, Bytes::ZERO); CAPACITY]), next: 0, back: 0 }
    }

    /// Notes that `sent` bytes had been sent at `now`, which is later than every time before.
    pub(crate) fn note(&mut self, now: Nanos, sent: Bytes) {
        self.ring[slot(self.next)] = (now, sent);
        self.next += 1;
    }

    /// The bytes sent by `time`, between notes by linear interpolation; before the oldest note the
    /// oldest, after the newest the newest.
    pub(crate) fn at(&mut self, time: Nanos) -> Bytes {
        let oldest = self.next.saturating_sub(CAPACITY as u64);
        // The first of the notes, oldest first, that is later than `time`.
        let mut later = self.next.saturating_sub(self.back).max(oldest);
        while later > oldest && self.get(later - 1).0 > time {
            later -= 1;
        }
        while later < self.next && self.get(later).0 <= time {
            later += 1;
        }
        self.back = self.next - later;
        if later == oldest {
            return if self.next == 0 { Bytes::ZERO } else { self.get(oldest).1 };
        }
        let (before, sent) = self.get(later - 1);
        if later == self.next {
            return sent;
        }
        let (after, then) = self.get(later);
        let share = (time - before).as_secs_f64() / (after - before).as_secs_f64();
        sent + Bytes((then.saturating_sub(sent).as_f64() * share) as u64)
    }

    /// Asks for the place of the next note, and for the two where [`SentHistory::at`] will look after it.
    pub(crate) fn prefetch(&self) {
        let later = (self.next + 1).wrapping_sub(self.back);
        for number in [self.next, later.wrapping_sub(1), later] {
            prefetch_start(&self.ring[slot(number)]);
        }
    }

    fn get(&self, number: u64) -> (Nanos, Bytes) {
        self.ring[slot(number)]
    }
}

/// Where the note of a number lies.
fn slot(number: u64) -> usize {
    number as usize % CAPACITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
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
