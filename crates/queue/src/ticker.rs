//! The periodic update of an AQM, on the clock that its callers pass in.
//!
//! Nothing happens in a qdisc between two calls, so an update that was due in between sees what it
//! would have seen at its time, and can be made up for at the next call: no timer is needed.

use forebay_units::Nanos;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticker {
    period: Nanos,
    /// When the next update is due; none before the first call, which starts the clock.
    next: Option<Nanos>,
}

/// The most updates that one call makes up for; what is due beyond them is left out. At 15 ms these
/// are fifteen seconds without a packet in or out, after which every controller here has come to
/// rest.
const MAX_OVERDUE: u64 = 1024;

impl Ticker {
    /// `period` is above zero.
    pub(crate) fn new(period: Nanos) -> Self {
        Self { period, next: None }
    }

    /// Whether an update is due at `now`. Only then is there anything to catch up on.
    #[inline]
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    /// The time of the next update that is due by `now`, which the caller then makes.
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
        // At the far end of time an update would stay due for ever.
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
    fn updates_come_at_their_times_whenever_it_is_asked() {
        let mut ticker = Ticker::new(Nanos(10));
        assert!(due(&mut ticker, Nanos(5)).is_empty(), "the first call starts the clock");
        assert!(due(&mut ticker, Nanos(14)).is_empty());
        assert_eq!(due(&mut ticker, Nanos(15)), [15]);
        assert_eq!(due(&mut ticker, Nanos(48)), [25, 35, 45]);
    }

    #[test]
    fn a_long_silence_is_cut_short_on_the_same_grid() {
        let mut ticker = Ticker::new(Nanos(10));
        due(&mut ticker, Nanos::ZERO);
        let times = due(&mut ticker, Nanos(1_000_000_003));
        assert_eq!(times.len() as u64, MAX_OVERDUE);
        assert_eq!(times.last(), Some(&1_000_000_000));
        assert!(due(&mut ticker, Nanos::MAX).len() as u64 <= MAX_OVERDUE);
    }
}
