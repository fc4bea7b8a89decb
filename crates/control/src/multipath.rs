//! Notices that the bundle's packets take several ways of different length, over which one rate
//! makes no sense (Bundler section 5.2).

use forebay_units::Nanos;

/// Measurements remembered.
const WINDOW: u32 = 128;
/// So many, at least, tell a share.
const LEAST: u32 = 64;
/// Rate control stops from this share out of order on (Bundler section 5.2: a single way has at most
/// 0.4 %, several have 20 % and more),
const SEVERAL: f64 = 0.05;
/// and begins again below this.
const SINGLE: f64 = 0.02;
/// It begins again after so long,
const RETURN_AFTER: Nanos = Nanos::from_secs(10);
/// twice as long each time, up to this: ways that differ only while the bundle is controlled look
/// like one while it is open.
const RETURN_CEILING: Nanos = Nanos::from_secs(320);
/// A return that lasted so long was right.
const FORGIVEN: Nanos = Nanos::from_secs(60);

/// The share of measurements that come out of order.
#[derive(Debug)]
pub(crate) struct Multipath {
    /// A bit each, the newest lowest.
    out_of_order: u128,
    /// How many of them are set.
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

    /// A boundary packet was answered, by message `sequence`, that was sent after all that were
    /// answered before.
    pub(crate) fn on_in_order(&mut self, sequence: u64) {
        self.newest = sequence;
        self.remember(true);
    }

    /// A boundary packet was answered, by message `sequence`, that was sent before another that was
    /// answered already. It counts if the receivebox saw it later, too; otherwise it was the answer
    /// that was late, which says nothing about the ways of the bundle.
    pub(crate) fn on_late_mark(&mut self, sequence: u64) {
        if sequence > self.newest {
            self.remember(false);
        }
    }

    fn remember(&mut self, in_order: bool) {
        let forgotten = (self.out_of_order >> (WINDOW - 1)) as u32;
        self.out_of_order = self.out_of_order << 1 | u128::from(!in_order);
        self.late = self.late + u32::from(!in_order) - forgotten;
        self.seen = (self.seen + 1).min(WINDOW);
    }

    /// The share out of order of the last measurements, 0 to 1; `None` while there are too few.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.seen >= LEAST).then(|| f64::from(self.late) / f64::from(self.seen))
    }

    /// Whether there are several ways. Nothing is lost by looking on while the bundle is open: its
    /// packets still take them.
    pub(crate) fn on_tick(&mut self, now: Nanos) -> bool {
        let Some(share) = self.share() else {
            return self.several;
        };
        let lasted = now.saturating_sub(self.turned_at);
        if !self.several && share > SEVERAL {
            let doubled = (self.wait * 2).min(RETURN_CEILING);
            let first = self.turned_at == Nanos::ZERO || lasted > FORGIVEN;
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

    /// `n` answers of which every `nth` is out of order.
    fn answers(multipath: &mut Multipath, n: u32, nth: u32) {
        for i in 1..=n {
            let sequence = multipath.newest + 1;
            if i.is_multiple_of(nth) {
                multipath.on_late_mark(sequence);
            } else {
                multipath.on_in_order(sequence);
            }
        }
    }

    #[test]
    fn the_papers_bounds() {
        let mut multipath = Multipath::new();
        answers(&mut multipath, 63, 1);
        assert!(!multipath.on_tick(SECOND), "too few to tell");
        let mut multipath = Multipath::new();
        answers(&mut multipath, 10_000, 250);
        assert!(!multipath.on_tick(SECOND), "0.4 %");
        answers(&mut multipath, 128, 5);
        assert_eq!(multipath.share(), Some(25.0 / 128.0));
        assert!(multipath.on_tick(SECOND), "20 %");
    }

    #[test]
    fn late_messages_are_no_late_packets() {
        let mut multipath = Multipath::new();
        (10..138).for_each(|sequence| {
            multipath.on_in_order(sequence);
            multipath.on_late_mark(sequence - 5);
        });
        assert_eq!(multipath.share(), Some(0.0));
    }

    #[test]
    fn returns_later_each_time() {
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
        // A minute of peace makes it forget.
        now += SECOND * 61;
        answers(&mut multipath, 128, 4);
        assert!(multipath.on_tick(now));
        answers(&mut multipath, 128, 200);
        assert!(!multipath.on_tick(now + SECOND * 10));
    }
}
