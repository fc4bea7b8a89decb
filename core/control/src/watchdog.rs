//! Detection that feedback has stopped while traffic flows.

use forebay_units::Nanos;

/// Time without feedback after which the bundle opens.
///
/// Traffic must be unlimited within one second of a failure of the receivebox. Its last feedback
/// arrives half a round trip later, the first boundary packet after it may take a while on a slow
/// path, and the next tick acts. 0.7 s leave 0.3 s for that.
const TIMEOUT: Nanos = Nanos::from_millis(700);
/// The same in minimum round-trip times, which applies on long paths.
const TIMEOUT_RTTS: u64 = 8;
/// Boundary packets that must be unanswered. A thin bundle sends few, and one may be lost.
const MIN_UNANSWERED: u32 = 3;

/// The time since which boundary packets have gone unanswered. An idle bundle sends none, so it
/// never times out.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    since: Option<Nanos>,
    unanswered: u32,
    /// Messages since the last valid one of which nothing could be computed.
    useless: u32,
    /// Whether the last valid message was the first of counters that began anew.
    restarted: bool,
}

/// Feedback has stopped: for how long, and after how many boundary packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Silence {
    pub(crate) lasted: Nanos,
    pub(crate) unanswered: u32,
    /// The number of useless messages that came meanwhile.
    pub(crate) useless: u32,
}

impl Watchdog {
    /// Records that a boundary packet was sent, marked or not.
    pub(crate) fn on_boundary(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// Records valid feedback. `awaited` marks are newer than the one it answers.
    pub(crate) fn on_feedback(&mut self, now: Nanos, awaited: u32) {
        self.since = (awaited > 0).then_some(now);
        self.unanswered = awaited;
        self.useless = 0;
        self.restarted = false;
    }

    /// Records the first valid feedback of counters that began anew. It counts as valid only if the
    /// counters did not begin anew with the message before too.
    pub(crate) fn on_restart(&mut self, now: Nanos, awaited: u32) {
        if self.restarted {
            self.on_useless();
            return;
        }
        self.on_feedback(now, awaited);
        self.restarted = true;
    }

    /// Records feedback of which nothing can be computed.
    pub(crate) fn on_useless(&mut self) {
        self.useless = self.useless.saturating_add(1);
    }

    /// Returns the silence if feedback has stopped by `now`.
    pub(crate) fn check(&self, now: Nanos, min_rtt: Option<Nanos>) -> Option<Silence> {
        let since = self.since?;
        let lasted = now.saturating_sub(since);
        let rtts = min_rtt.map_or(Nanos::ZERO, |r| Nanos(r.0.saturating_mul(TIMEOUT_RTTS)));
        let timeout = TIMEOUT.max(rtts);
        (lasted >= timeout && self.unanswered >= MIN_UNANSWERED).then_some(Silence {
            lasted,
            unanswered: self.unanswered,
            useless: self.useless,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn silence_begins_with_the_first_unanswered_boundary_packet() {
        let mut dog = Watchdog::default();
        for ms in [1000, 1100, 1200] {
            dog.on_boundary(MS * ms);
        }
        assert_eq!(dog.check(MS * 1699, Some(MS * 50)), None);
        let silence = Some(Silence { lasted: MS * 700, unanswered: 3, useless: 0 });
        assert_eq!(dog.check(MS * 1700, Some(MS * 50)), silence);
        assert_eq!(dog.check(MS * 1700, None), silence);
        // Eight RTTs of 100 ms are longer than 0.7 s.
        assert_eq!(dog.check(MS * 1799, Some(MS * 100)), None);
        assert!(dog.check(MS * 1800, Some(MS * 100)).is_some());
    }

    #[test]
    fn idle_bundles_are_not_silent() {
        let mut dog = Watchdog::default();
        assert_eq!(dog.check(MS * 99_000, None), None);
        dog.on_boundary(MS * 1000);
        dog.on_feedback(MS * 1050, 0);
        assert_eq!(dog.check(MS * 99_000, None), None);
    }

    #[test]
    fn one_or_two_lost_feedback_messages_are_not_a_silence() {
        let mut dog = Watchdog::default();
        dog.on_boundary(MS * 1000);
        dog.on_boundary(MS * 2000);
        assert_eq!(dog.check(MS * 3000, None), None);
        dog.on_boundary(MS * 3000);
        assert!(dog.check(MS * 3000, None).is_some());
    }

    #[test]
    fn feedback_restarts_the_time_of_the_marks_still_awaited() {
        let mut dog = Watchdog::default();
        for ms in [1000, 1010, 1020, 1030] {
            dog.on_boundary(MS * ms);
        }
        dog.on_feedback(MS * 1050, 3);
        assert_eq!(dog.check(MS * 1749, None), None);
        let silence = Silence { lasted: MS * 700, unanswered: 3, useless: 0 };
        assert_eq!(dog.check(MS * 1750, None), Some(silence));
    }

    #[test]
    fn useless_feedback_is_a_silence() {
        let mut dog = Watchdog::default();
        for ms in [1000, 1010, 1020, 1030] {
            dog.on_boundary(MS * ms);
        }
        // The receivebox may restart, but not with every message.
        dog.on_restart(MS * 1050, 3);
        dog.on_restart(MS * 1060, 2);
        dog.on_useless();
        let silence = Silence { lasted: MS * 700, unanswered: 3, useless: 2 };
        assert_eq!(dog.check(MS * 1750, None), Some(silence));
        dog.on_feedback(MS * 1800, 0);
        dog.on_restart(MS * 1900, 0);
        assert_eq!(dog.check(MS * 9000, None), None);
    }
}
