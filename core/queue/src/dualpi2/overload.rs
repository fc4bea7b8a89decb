//! Records when the queues are overloaded and for how long (RFC 9332 section 2.5.2.3).

use forebay_units::Nanos;

/// An episode of overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Episode {
    /// The time at which the episode began.
    pub start: Nanos,
    /// The time for which marking was saturated, without the pauses in between.
    pub duration: Nanos,
}

/// The overload since the queues were created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    /// The current episode, or one that ended within the hold time and may continue.
    pub current: Option<Episode>,
    /// The last episode that is over.
    pub last: Option<Episode>,
    /// The number of episodes that began.
    pub episodes: u64,
}

/// The observer that divides saturation into episodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Monitor {
    /// The time without saturation that ends an episode.
    hold: Nanos,
    /// The time of the last observation, if marking was saturated then.
    saturated: Option<Nanos>,
    /// The end of the last saturated time.
    left: Nanos,
    report: Overload,
}

impl Monitor {
    pub(super) fn new(hold: Nanos) -> Self {
        let report = Overload { current: None, last: None, episodes: 0 };
        Self { hold, saturated: None, left: Nanos::ZERO, report }
    }

    pub(super) fn report(&self) -> Overload {
        self.report
    }

    /// Records whether marking is saturated from `at` on.
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
        let mut monitor = Monitor::new(Nanos(100));
        // Saturated in 10..30, 80..90 and 300..: the second continues the first episode.
        for (at, saturated) in
            [(0, false), (10, true), (20, true), (30, false), (80, true), (90, false), (189, false)]
        {
            monitor.observe(Nanos(at), saturated);
        }
        let first = Episode { start: Nanos(10), duration: Nanos(30) };
        assert_eq!(monitor.report(), Overload { current: Some(first), last: None, episodes: 1 });
        monitor.observe(Nanos(190), false);
        assert_eq!(monitor.report(), Overload { current: None, last: Some(first), episodes: 1 });
        monitor.observe(Nanos(300), true);
        monitor.observe(Nanos(310), true);
        let second = Episode { start: Nanos(300), duration: Nanos(10) };
        let report = Overload { current: Some(second), last: Some(first), episodes: 2 };
        assert_eq!(monitor.report(), report);
    }
}
