//! The periodic update of an AQM, on the clock that its callers pass in.
//!
//! The state of a qdisc does not change between two calls. An update that became due in between is
//! therefore made at the next call, with the same result, and no timer is needed.

use forebay_units::Nanos;

/// The schedule of a periodic update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticker {
    period: Nanos,
    /// When the next update is due; `None` before the first call, which starts the clock.
    next: Option<Nanos>,
}

/// The most overdue updates that one call makes; the others are skipped. With a period of 15 ms
/// they cover fifteen idle seconds, after which every controller of this crate is at rest.
const MAX_OVERDUE: u64 = 1024;

impl Ticker {
    /// Creates a schedule with a period above zero.
    pub(crate) fn new(period: Nanos) -> Self {
        Self { period, next: None }
    }

    /// Returns whether an update is due at `now`.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    /// Returns the time of the next update that is due by `now`. The caller makes that update.
    pub(crate) fn take(&mut self, now: Nanos) -> Option<Nanos> {
        let Some(due) = self.next else {
            self.next = Some(now.saturating_add(self.period));
            return None;
        };
        if now < due {
            return None;
        }
        let overdue = (now.0 - due.0) / self.period.0;
        let due = due.saturating_add(self.period * overdue.saturating_sub(MAX_OVERDUE - 1));
        self.next = Some(due.saturating_add(self.period));
        // At `Nanos::MAX` the next update would stay due forever.
        (due < Nanos::MAX).then_some(due)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn due(ticker: &mut Ticker, now: Nanos) -> Vec<u64> {
        core::iter::from_fn(|| ticker.take(now)).map(|at| at.0).collect()
    }

    #[test]
    fn updates_keep_their_times_whenever_the_caller_asks() {
        let mut ticker = Ticker::new(Nanos(10));
        assert!(due(&mut ticker, Nanos(5)).is_empty(), "the first call starts the clock");
        assert!(due(&mut ticker, Nanos(14)).is_empty());
        assert_eq!(due(&mut ticker, Nanos(15)), [15]);
        assert_eq!(due(&mut ticker, Nanos(48)), [25, 35, 45]);
    }

    #[test]
    fn a_long_silence_skips_updates_and_keeps_the_schedule() {
        let mut ticker = Ticker::new(Nanos(10));
        due(&mut ticker, Nanos::ZERO);
        let times = due(&mut ticker, Nanos(1_000_000_003));
        assert_eq!(times.len() as u64, MAX_OVERDUE);
        assert_eq!(times.last(), Some(&1_000_000_000));
        assert!(due(&mut ticker, Nanos::MAX).len() as u64 <= MAX_OVERDUE);
    }
}
