use alloc::collections::VecDeque;

use forebay_units::{Nanos, Rate};

use crate::event::{Event, ImpossibleClaim, MinRttReason, Phase};

/// Number of events kept until they are polled.
const CAPACITY: usize = 32;
/// A rate is reported again when it moved by one part in this many.
const RATE_STEP: u64 = 10;
/// A minimum RTT is reported again when it moved by one part in this many.
const MIN_RTT_STEP: u64 = 100;
/// The shortest time between reports of impossible feedback, and between reports of restarts, so
/// that a flood of them does not displace other events.
const REPEAT_INTERVAL: Nanos = Nanos::from_secs(1);

/// A bounded queue of events without repetitions. When it is full, the oldest event is dropped.
#[derive(Debug)]
pub(crate) struct EventLog {
    queue: VecDeque<Event>,
    lost: u64,
    rate: Option<Rate>,
    min_rtt: Option<Nanos>,
    impossible_at: Option<Nanos>,
    restarted_at: Option<Nanos>,
}

impl EventLog {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::with_capacity(CAPACITY),
            lost: 0,
            rate: None,
            min_rtt: None,
            impossible_at: None,
            restarted_at: None,
        }
    }

    /// Adds an event; the oldest one is lost if the log is full.
    pub(crate) fn push(&mut self, event: Event) {
        if self.queue.len() == CAPACITY {
            self.queue.pop_front();
            self.lost += 1;
        }
        self.queue.push_back(event);
    }

    /// Removes and returns the oldest event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.queue.pop_front()
    }

    /// Returns the number of events that were dropped.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Reports the rate if it has moved enough.
    pub(crate) fn rate(&mut self, to: Rate, phase: Phase) {
        let from = self.rate;
        if from.is_none_or(|f| moved(f.as_bps(), to.as_bps(), RATE_STEP)) {
            self.rate = Some(to);
            self.push(Event::RateSet { from, to, phase });
        }
    }

    /// Records that there is no limit, so that the next rate is reported.
    pub(crate) fn unlimited(&mut self) {
        self.rate = None;
    }

    /// Reports the minimum RTT if it has moved enough.
    pub(crate) fn min_rtt(&mut self, to: Nanos, reason: MinRttReason) {
        let from = self.min_rtt;
        if from.is_none_or(|f| moved(f.0, to.0, MIN_RTT_STEP)) {
            self.min_rtt = Some(to);
            self.push(Event::MinRttChanged { from, to, reason });
        }
    }

    /// Reports an impossible claim, at most once a second.
    pub(crate) fn impossible(&mut self, now: Nanos, claim: ImpossibleClaim) {
        if is_due(&mut self.impossible_at, now) {
            self.push(Event::ImpossibleFeedback { claim });
        }
    }

    /// Reports that the receivebox's counters began anew, at most once a second.
    pub(crate) fn restarted(&mut self, now: Nanos) {
        if is_due(&mut self.restarted_at, now) {
            self.push(Event::ReceiveboxRestarted);
        }
    }
}

/// Returns whether an event that was last reported at `last` may be reported again; if so, it is
/// reported now.
fn is_due(last: &mut Option<Nanos>, now: Nanos) -> bool {
    let due = last.is_none_or(|t| now.saturating_sub(t) >= REPEAT_INTERVAL);
    if due {
        *last = Some(now);
    }
    due
}

/// Returns whether `to` differs from `from` by more than one part in `step`.
fn moved(from: u64, to: u64, step: u64) -> bool {
    from.abs_diff(to) > from / step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_changes_are_not_reported() {
        let mut log = EventLog::new();
        for mbps in [100, 109, 91, 111] {
            log.rate(Rate::from_mbps(mbps), Phase::Hold);
        }
        let mbps = Rate::from_mbps;
        let set = |from, to| Some(Event::RateSet { from, to, phase: Phase::Hold });
        assert_eq!(log.pop(), set(None, mbps(100)));
        assert_eq!(log.pop(), set(Some(mbps(100)), mbps(111)));
        assert_eq!(log.pop(), None);
        log.unlimited();
        log.rate(mbps(111), Phase::Hold);
        assert_eq!(log.pop(), set(None, mbps(111)), "reported again after it was lifted");
    }

    #[test]
    fn the_oldest_events_are_dropped_and_counted() {
        let mut log = EventLog::new();
        for ms in 1..=40 {
            log.min_rtt(Nanos::from_millis(ms * 10), MinRttReason::Expired);
        }
        assert_eq!(log.lost(), 8);
        let first = log.pop().unwrap();
        assert!(
            matches!(first, Event::MinRttChanged { to, .. } if to == Nanos::from_millis(90)),
            "{first:?}"
        );
    }

    #[test]
    fn a_flood_of_impossible_feedback_is_reported_once_a_second() {
        let mut log = EventLog::new();
        for ms in 0..2500 {
            log.impossible(Nanos::from_millis(ms), ImpossibleClaim::TimeWentBack);
        }
        assert_eq!(core::iter::from_fn(|| log.pop()).count(), 3);
    }
}
