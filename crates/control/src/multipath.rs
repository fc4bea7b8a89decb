//! Detection that the bundle's packets take several paths of different length. One rate for several
//! paths makes no sense (Bundler section 5.2).

use forebay_units::Nanos;

/// Number of measurements kept.
const WINDOW: u32 = 128;
/// Measurements needed to compute the share out of order.
const LEAST: u32 = 64;
/// The share out of order above which rate control stops. In Bundler section 5.2 a single path has
/// at most 0.4 %, and several paths have 20 % and more.
const SEVERAL: f64 = 0.05;
/// The share below which rate control resumes.
const SINGLE: f64 = 0.02;
/// The shortest time until rate control resumes.
const RETURN_AFTER: Nanos = Nanos::from_secs(10);
/// The longest time until rate control resumes. The time doubles with each return, since paths that
/// differ only while the bundle is limited look like one path while it is open.
const RETURN_CEILING: Nanos = Nanos::from_secs(320);
/// A return that lasts this long was right, and the time starts at the shortest again.
const RETURN_CONFIRMED: Nanos = Nanos::from_secs(60);

/// The share of measurements out of order, and the decision by it.
#[derive(Debug)]
pub(crate) struct Multipath {
    /// One bit for each measurement, the newest in the lowest bit.
    out_of_order: u128,
    /// Number of bits set.
    late: u32,
    seen: u32,
    /// The number of the message that answered the newest mark.
    newest: u64,
    several: bool,
    turned_at: Nanos,
    wait: Nanos,
}

impl Multipath {
    pub(crate) fn new() -> Self {
        Self {
            out_of_order: 0,
            late: 0,
            seen: 0,
            newest: 0,
            several: false,
            turned_at: Nanos::ZERO,
            wait: RETURN_AFTER,
        }
    }

    /// Records that message `sequence` answered a boundary packet newer than all answered before.
    /// `counts` is whether it is a measurement.
    pub(crate) fn on_in_order(&mut self, sequence: u64, counts: bool) {
        self.newest = sequence;
        if counts {
            self.remember(true);
        }
    }

    /// Records that message `sequence` answered a boundary packet older than one answered before.
    ///
    /// It counts if the receivebox also saw the packet later, by the number of the message.
    /// Otherwise only the message was late, which says nothing about the bundle's paths.
    pub(crate) fn on_late_mark(&mut self, sequence: u64) {
        if sequence > self.newest {
            self.remember(false);
        }
    }

    /// Adds a measurement and removes the oldest.
    fn remember(&mut self, in_order: bool) {
        let forgotten = (self.out_of_order >> (WINDOW - 1)) as u32;
        self.out_of_order = self.out_of_order << 1 | u128::from(!in_order);
        self.late = self.late + u32::from(!in_order) - forgotten;
        self.seen = (self.seen + 1).min(WINDOW);
    }

    /// Returns the share of measurements out of order, 0 to 1; `None` if there are too few.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.seen >= LEAST).then(|| f64::from(self.late) / f64::from(self.seen))
    }

    /// Returns whether there are several paths. This also works while the bundle is open, since its
    /// packets still take these paths.
    pub(crate) fn on_tick(&mut self, now: Nanos) -> bool {
        let Some(share) = self.share() else {
            return self.several;
        };
        let lasted = now.saturating_sub(self.turned_at);
        if !self.several && share > SEVERAL {
            let doubled = (self.wait * 2).min(RETURN_CEILING);
            let first = self.turned_at == Nanos::ZERO || lasted > RETURN_CONFIRMED;
            self.wait = if first { RETURN_AFTER } else { doubled };
            (self.several, self.turned_at) = (true, now);
        } else if self.several && share < SINGLE && lasted >= self.wait {
            (self.several, self.turned_at) = (false, now);
        }
        self.several
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_secs(1);

    /// Adds `n` measurements, of which every `nth` is out of order.
    fn answers(multipath: &mut Multipath, n: u32, nth: u32) {
        for i in 1..=n {
            let sequence = multipath.newest + 1;
            if i.is_multiple_of(nth) {
                multipath.on_late_mark(sequence);
            } else {
                multipath.on_in_order(sequence, true);
            }
        }
    }

    #[test]
    fn a_late_message_is_no_late_packet_where_few_messages_count() {
        let mut multipath = Multipath::new();
        for n in 1..=400_u64 {
            // One message of four counts; its predecessor comes late and would count.
            multipath.on_in_order(8 * n, n.is_multiple_of(4));
            multipath.on_late_mark(8 * n - 1);
        }
        assert_eq!(multipath.share(), Some(0.0));
    }

    #[test]
    fn the_thresholds_separate_the_shares_of_the_paper() {
        let mut multipath = Multipath::new();
        answers(&mut multipath, 63, 1);
        assert!(!multipath.on_tick(SECOND), "too few measurements");
        let mut multipath = Multipath::new();
        answers(&mut multipath, 10_000, 250);
        assert!(!multipath.on_tick(SECOND), "0.4 %");
        answers(&mut multipath, 128, 5);
        assert_eq!(multipath.share(), Some(25.0 / 128.0));
        assert!(multipath.on_tick(SECOND), "20 %");
    }

    #[test]
    fn late_messages_do_not_count_as_late_packets() {
        let mut multipath = Multipath::new();
        (10..138).for_each(|sequence| {
            multipath.on_in_order(sequence, true);
            multipath.on_late_mark(sequence - 5);
        });
        assert_eq!(multipath.share(), Some(0.0));
    }

    #[test]
    fn each_return_comes_later() {
        let mut multipath = Multipath::new();
        let mut now = SECOND;
        for wait in [10, 20, 40, 80, 160, 320, 320] {
            answers(&mut multipath, 128, 4);
            assert!(multipath.on_tick(now));
            answers(&mut multipath, 128, 200);
            assert!(multipath.on_tick(now + SECOND * wait - Nanos(1)));
            now += SECOND * wait;
            assert!(!multipath.on_tick(now));
        }
        // A return that lasted a minute resets the time.
        now += SECOND * 61;
        answers(&mut multipath, 128, 4);
        assert!(multipath.on_tick(now));
        answers(&mut multipath, 128, 200);
        assert!(!multipath.on_tick(now + SECOND * 10));
    }
}
