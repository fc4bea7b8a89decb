use forebay_units::Nanos;

use super::tick_input::TickInput;

/// The longest probe in rounds, unless it keeps finding a lower minimum.
const MAX_PROBE_ROUNDS: f64 = 3.0;
/// Rounds until a probe that is needed outside the schedule.
const SOON: f64 = 4.0;
/// The window of a probe that verifies a new minimum, as a share of what fills the empty path. The
/// queue may contain other traffic as well. A routine probe only removes the bundle's own packets,
/// and never more than that.
const DEEP: f64 = 0.75;

/// Empties the bottleneck's queue briefly, so that the minimum RTT is measured again. Without it
/// the minimum would leave its window and rise by the standing queue each time.
///
/// A probe continues while the minimum falls. So a bundle finds the empty path within one probe,
/// even if its first samples came from a full path, or if the path became shorter while its queue
/// was full.
#[derive(Debug)]
pub(super) struct MinRttProbe {
    interval: Nanos,
    running: Option<Running>,
    next: Option<Nanos>,
    /// The minimum at the end of the last probe.
    verified: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    since: Nanos,
    floor: f64,
    deep: bool,
}

impl MinRttProbe {
    pub(super) fn new(interval: Nanos) -> Self {
        Self { interval, running: None, next: None, verified: None }
    }

    pub(super) fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the window of a probe, where `product` bytes fill the empty path.
    pub(super) fn window(&self, s: &TickInput, product: f64) -> Option<f64> {
        let running = self.running?;
        let shallow = (product - s.packets).max(DEEP * product);
        Some(if running.deep { DEEP * product } else { shallow })
    }

    /// Begins or ends a probe. A queue that is `high` ends it at once, since the controller must
    /// then react to the queue. Returns whether a probe was completed.
    pub(super) fn on_tick(&mut self, s: &TickInput, high: bool, may_start: bool) -> bool {
        match &mut self.running {
            Some(running) => {
                if s.base < running.floor - s.noise {
                    *running = Running { since: s.now, floor: s.base, ..*running };
                }
                let lasted = s.elapsed_since(Some(running.since));
                let seen = lasted > s.round && s.min_rtt_age < s.round / 2.0;
                if high {
                    self.end(s.after_rounds(SOON), None);
                } else if seen || lasted > MAX_PROBE_ROUNDS * s.round {
                    self.end(s.now.saturating_add(self.interval), Some(s.base));
                    return true;
                }
            }
            None if may_start => self.consider(s, high),
            None => {}
        }
        false
    }

    fn end(&mut self, next: Nanos, verified: Option<f64>) {
        self.running = None;
        self.next = Some(next);
        self.verified = verified;
    }

    /// Begins a probe if the minimum is new or old.
    fn consider(&mut self, s: &TickInput, high: bool) {
        let is_new = self.verified.is_none_or(|v| s.base < v - s.noise);
        let next = self.next.get_or_insert(s.now.saturating_add(self.interval));
        if is_new {
            *next = s.after_rounds(SOON).min(*next);
        }
        let is_old = s.min_rtt_age > self.interval.as_secs_f64();
        if s.now >= *next && !high && (is_new || is_old) {
            self.running = Some(Running { since: s.now, floor: s.base, deep: is_new });
        }
    }
}
