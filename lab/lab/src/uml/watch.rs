//! Detection of a hung guest: its clock stands still although it had enough time to advance it.

use std::time::Duration;

use crate::engine::{Phase, Progress};

/// The time until the first beat, in which the kernel boots and mounts.
const BOOT: Duration = Duration::from_secs(60);
/// The time between beats, which are 0.1 s of virtual time apart: a thousand times what they take
/// at 96 Mbit/s, and twelve times what they take at 10 Gbit/s.
const BETWEEN: Duration = Duration::from_secs(20);
/// The time from the last beat to the end: records are read, combined and written without a beat.
const COLLECT: Duration = Duration::from_secs(300);

/// The processor time after which a late guest counts as hung. On a busy machine it may get none.
const SPENT: Duration = Duration::from_secs(10);
/// A guest that uses no processor time counts as hung after this multiple of the time.
const ASLEEP: u32 = 15;

/// Watches a guest's beats by the host's clock.
#[derive(Debug)]
pub(super) struct Watch {
    last: Option<Progress>,
    /// The time at which the last beat was first seen, or the guest started.
    since: Duration,
    /// The processor time that the guest had used when it became late.
    late: Option<Duration>,
}

impl Watch {
    /// Watches a guest that starts at `now`.
    pub(super) fn new(now: Duration) -> Self {
        Self { last: None, since: now, late: None }
    }

    /// Takes the last beat at `now`, and returns whether it is new.
    pub(super) fn see(&mut self, now: Duration, beat: Option<Progress>) -> bool {
        let new = beat.is_some() && beat != self.last;
        if new {
            self.last = beat;
            self.since = now;
            self.late = None;
        }
        new
    }

    /// Returns the time without progress at `now`, if the guest counts as hung. `spent` returns the
    /// processor time that it has used.
    pub(super) fn stuck_for(
        &mut self,
        now: Duration,
        spent: impl FnOnce() -> Duration,
    ) -> Option<Duration> {
        let patience = match self.last.map(|beat| beat.phase) {
            None => BOOT,
            Some(Phase::Collect) => COLLECT,
            Some(_) => BETWEEN,
        };
        let still = now.saturating_sub(self.since);
        if still <= patience {
            return None;
        }
        let spent = spent();
        let late = *self.late.get_or_insert(spent);
        let stuck = spent.saturating_sub(late) >= SPENT || still > patience * ASLEEP;
        stuck.then_some(still)
    }

    /// Returns the last progress that the guest reported.
    pub(super) fn last(&self) -> Option<Progress> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::Nanos;

    use super::*;

    fn at(ms: u64) -> Option<Progress> {
        let (elapsed, length) = (Nanos::from_millis(ms), Nanos::from_secs(47));
        Some(Progress { phase: Phase::Measure, elapsed, length })
    }

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn a_beat_is_new_once_and_gives_time() {
        let mut watch = Watch::new(S(100));
        let busy = |now: u64| move || S(now);
        assert!(!watch.see(S(101), None));
        assert_eq!(watch.stuck_for(S(160), busy(160)), None, "it boots");
        assert_eq!(watch.stuck_for(S(161), busy(161)), None, "late");
        assert_eq!(watch.stuck_for(S(171), busy(171)), Some(S(71)), "it does not");
        assert!(watch.see(S(172), at(5_000)));
        assert!(!watch.see(S(180), at(5_000)), "the same again");
        assert_eq!(watch.stuck_for(S(192), busy(192)), None);
        assert_eq!(watch.stuck_for(S(193), busy(193)), None, "late since it was first seen");
        assert_eq!(watch.stuck_for(S(203), busy(203)), Some(S(31)));
        assert!(watch.see(S(204), at(5_100)));
        assert_eq!(watch.stuck_for(S(205), busy(205)), None, "late is not never");
        assert_eq!(watch.last(), at(5_100));
    }

    #[test]
    fn a_guest_without_processor_time_is_not_hung() {
        let mut watch = Watch::new(S(0));
        assert!(watch.see(S(1), at(5_000)));
        for now in 2..300 {
            // A tenth of a processor after it is late.
            let spent = || Duration::from_millis(now * 10);
            assert_eq!(watch.stuck_for(S(now), spent), None, "after {now} s");
        }
        assert!(watch.stuck_for(S(302), || S(3)).is_some(), "nothing wakes it up");
    }

    #[test]
    fn collecting_takes_longer() {
        let mut watch = Watch::new(S(0));
        let beat = at(47_000).map(|beat| Progress { phase: Phase::Collect, ..beat });
        assert!(watch.see(S(10), beat));
        assert_eq!(watch.stuck_for(S(310), || S(310)), None);
        assert_eq!(watch.stuck_for(S(311), || S(311)), None);
        assert!(watch.stuck_for(S(321), || S(321)).is_some());
    }
}
