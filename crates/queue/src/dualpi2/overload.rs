//! When the queues were overloaded, and for how long (RFC 9332 section 2.5.2.3).

use forebay_units::Nanos;

/// A spell of overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// When it began.
    pub start: Nanos,
    /// How long marking was saturated, without the pauses in between.
    pub duration: Nanos,
}

/// Overload so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    /// The episode that lasts, or ended so recently that it may go on.
    pub current: Option<Episode>,
    /// The last episode that is over.
    pub last: Option<Episode>,
    /// Episodes that began.
    pub episodes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// How long it must be over for the episode to be.
    hold: Nanos,
    /// When saturation was last seen, if it was at the observation before.
    saturated: Option<Nanos>,
    /// When saturation was last seen to be over.
    left: Nanos,
    report: Overload,
}

impl Watch {
    pub(super) fn new(hold: Nanos) -> Self {
        let report = Overload { current: None, last: None, episodes: 0 };
        Self { hold, saturated: None, left: Nanos::ZERO, report }
    }

    pub(super) fn report(&self) -> Overload {
        self.report
    }

    /// Notes whether marking is saturated from `at` on.
    pub(super) fn observe(&mut self, at: Nanos, saturated: bool) {
        if let (Some(since), Some(episode)) = (self.saturated, &mut self.report.current) {
            episode.duration += at.saturating_sub(since);
            self.left = at;
        }
        let over = self.saturated.is_none() && at.saturating_sub(self.left) >= self.hold;
        if let Some(episode) = self.report.current.filter(|_| over) {
            self.report.last = Some(episode);
            self.report.current = None;
        }
        if saturated && self.report.current.is_none() {
            self.report.current = Some(Episode { start: at, duration: Nanos::ZERO });
            self.report.episodes += 1;
        }
        self.saturated = saturated.then_some(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_shorter_than_the_hold_does_not_end_an_episode() {
        let mut watch = Watch::new(Nanos(100));
        // Saturated in 10..30, 80..90 and 300..: the second belongs to the first.
        for (at, saturated) in
            [(0, false), (10, true), (20, true), (30, false), (80, true), (90, false), (189, false)]
        {
            watch.observe(Nanos(at), saturated);
        }
        let first = Episode { start: Nanos(10), duration: Nanos(30) };
        assert_eq!(watch.report(), Overload { current: Some(first), last: None, episodes: 1 });
        watch.observe(Nanos(190), false);
        assert_eq!(watch.report(), Overload { current: None, last: Some(first), episodes: 1 });
        watch.observe(Nanos(300), true);
        watch.observe(Nanos(310), true);
        let second = Episode { start: Nanos(300), duration: Nanos(10) };
        let report = Overload { current: Some(second), last: Some(first), episodes: 2 };
        assert_eq!(watch.report(), report);
    }
}
