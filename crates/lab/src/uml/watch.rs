//! When a guest counts as hung: its clock stands still though it has had time enough to move it.

use std::time::Duration;

use crate::engine::{Phase, Progress};

/// Until the first beat: the kernel boots and mounts.
const BOOT: Duration = Duration::from_secs(60);
/// Between beats, which are a tenth of a virtual second apart: a thousand times what they take at
/// 96 Mbit/s, a dozen times what they take at 10 Gbit/s.
const BETWEEN: Duration = Duration::from_secs(20);
/// From the last beat to the end: records are read, put together and written, without a beat.
const COLLECT: Duration = Duration::from_secs(300);

/// Looks at a guest's beats, by the host's clock.
#[derive(Debug)]
pub(super) struct Watch {
    last: Option<Progress>,
    /// When the last beat was seen first, or the guest started.
    since: Duration,
}

impl Watch {
    /// Of a guest that starts at `now`.
    pub(super) fn new(now: Duration) -> Self {
        Self { last: None, since: now }
    }

    /// Takes the last beat, at `now`; whether it is a new one.
    pub(super) fn see(&mut self, now: Duration, beat: Option<Progress>) -> bool {
        let new = beat.is_some() && beat != self.last;
        if new {
            self.last = beat;
            self.since = now;
        }
        new
    }

    /// For how long it has made no progress at `now`, if that is too long.
    pub(super) fn stuck_for(&self, now: Duration) -> Option<Duration> {
        let patience = match self.last.map(|beat| beat.phase) {
            None => BOOT,
            Some(Phase::Collect) => COLLECT,
            Some(_) => BETWEEN,
        };
        let still = now.saturating_sub(self.since);
        (still > patience).then_some(still)
    }

    /// How far it was.
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

    #[test]
    fn a_beat_is_new_once_and_gives_time() {
        let s = Duration::from_secs;
        let mut watch = Watch::new(s(100));
        assert!(!watch.see(s(101), None));
        assert_eq!(watch.stuck_for(s(159)), None, "it boots");
        assert_eq!(watch.stuck_for(s(161)), Some(s(61)), "it does not");
        assert!(watch.see(s(159), at(5_000)));
        assert!(!watch.see(s(170), at(5_000)), "the same again");
        assert_eq!(watch.stuck_for(s(179)), None);
        assert_eq!(watch.stuck_for(s(180)), Some(s(21)), "since it was first seen");
        assert!(watch.see(s(181), at(5_100)));
        assert_eq!(watch.stuck_for(s(182)), None, "late is not never");
        assert_eq!(watch.last(), at(5_100));
    }

    #[test]
    fn collecting_takes_longer() {
        let s = Duration::from_secs;
        let mut watch = Watch::new(s(0));
        let beat = at(47_000).map(|beat| Progress { phase: Phase::Collect, ..beat });
        assert!(watch.see(s(10), beat));
        assert_eq!(watch.stuck_for(s(300)), None);
        assert!(watch.stuck_for(s(311)).is_some());
    }
}
