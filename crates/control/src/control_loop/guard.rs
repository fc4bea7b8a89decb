//! A test of whether holding the bundle back helps, which does not trust the controller.
//!
//! A controller can be wrong about the path: it may take the wait for the next burst of service, or
//! the queue of others, for a queue of its own, and lower the rate without end. The guard asks the
//! path. While the bundle has more to send than it may, the guard now and then sends a little faster
//! for a moment and measures whether what arrives follows. If it does, holding back did not help, and
//! what arrived becomes a floor under the controller's rate. The controller runs on unaltered.

use forebay_units::{Bytes, Nanos, Rate};

use crate::controller::Measurement;
use crate::windowed_max::WindowedMax;

/// The shortest time over which the bundle must have been limited, and over which rates are compared.
const WINDOW: Nanos = Nanos::from_secs(1);
/// The same in round trips of the empty path.
const WINDOW_RTTS: u64 = 8;
/// The highest received rate is remembered for this long.
const MEMORY: Nanos = Nanos::from_secs(15);
/// Below this share of the highest received rate the bundle has lost rate.
const LOST: f64 = 0.9;
/// The shortest step, to span several samples and ticks.
const STEP: Nanos = Nanos::from_millis(50);
/// A step lasts this many spreads of the round trip, so that bursts of service average out.
const STEP_SPREADS: u64 = 16;
/// A step lasts this many intervals between samples.
const STEP_SAMPLES: u64 = 4;
/// The smallest and the largest raise of a step, as shares of the rate.
const RAISE: (f64, f64) = (0.08, 0.25);
/// A raise is this multiple of what the received rate varies by.
const RAISE_NOISE: f64 = 5.0;
/// The received rate followed a step if it rose by this share of the raise.
const FOLLOWED: f64 = 0.5;
/// It followed a step well from this share on: the next step may be larger.
const FOLLOWED_WELL: f64 = 0.9;
/// The next step after one that followed, and after one that followed well.
const CLIMB: (f64, f64) = (1.25, 1.5);
/// A bundle that the shaper gave less than this share of the raise did not take the step.
const TAKEN: f64 = 0.5;
/// The time between tests on a doubt alone, and the longest after failures.
const DOUBT: (Nanos, Nanos) = (Nanos::from_secs(4), Nanos::from_secs(64));
/// The time between tests after lost rate, and the longest after failures.
const LOSS: (Nanos, Nanos) = (Nanos::from_secs(1), Nanos::from_secs(16));
/// The path was seen empty lately within this many round trips.
const EMPTY_RTTS: u64 = 5;
/// A delay above this multiple of the controller's target is a queue that it does not want.
const UNWANTED: u64 = 3;
/// The share of the floor that applies while the path is seen empty, while it is not, and while an
/// unwanted queue stands.
const HOLD: (f64, f64, f64) = (1.0, 0.97, 0.9);
/// The floor goes once the controller has not wanted less for this long.
const UNUSED: Nanos = Nanos::from_secs(5);
/// Less arrives than is sent from this share on: the floor is too high.
const STARVED: f64 = 0.95;

/// One boundary packet, as it was sent and received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    /// When the packet left.
    pub(super) sent_at: Nanos,
    /// Bytes that had left by then.
    pub(super) sent: Bytes,
    /// When the packet arrived, on the clock of the receivebox.
    pub(super) received_at: Nanos,
    /// Bytes that had arrived by then.
    pub(super) received: Bytes,
}

/// Points kept for the rates of steps and windows.
const POINTS: usize = 64;

/// The latest points, thinned so that they span at least two windows.
#[derive(Debug)]
struct Points {
    ring: [Point; POINTS],
    next: usize,
    len: usize,
}

impl Points {
    const fn new() -> Self {
        let empty = Point {
            sent_at: Nanos::ZERO,
            sent: Bytes::ZERO,
            received_at: Nanos::ZERO,
            received: Bytes::ZERO,
        };
        Self { ring: [empty; POINTS], next: 0, len: 0 }
    }

    /// Takes in `point`, in place of the newest if that is less than `spacing` after the one before.
    fn push(&mut self, point: Point, spacing: Nanos) {
        let close = self.len >= 2
            && self.back(0).sent_at.saturating_sub(self.back(1).sent_at) < spacing;
        if close {
            let newest = (self.next + POINTS - 1) % POINTS;
            self.ring[newest] = point;
            return;
        }
        self.ring[self.next] = point;
        self.next = (self.next + 1) % POINTS;
        self.len = (self.len + 1).min(POINTS);
    }

    /// The point `n` before the newest; there must be so many.
    fn back(&self, n: usize) -> &Point {
        &self.ring[(self.next + POINTS - 1 - n) % POINTS]
    }

    fn newest(&self) -> Option<&Point> {
        (self.len > 0).then(|| self.back(0))
    }

    /// The rates sent and received between the last point at or before `from` and the last one at or
    /// before `to`, in bytes per second. `None` if the points do not reach back so far.
    fn rates(&self, from: Nanos, to: Nanos) -> Option<(f64, f64)> {
        let mut end = None;
        for n in 0..self.len {
            let point = self.back(n);
            if end.is_none() && point.sent_at <= to {
                end = Some(point);
            }
            if point.sent_at <= from {
                return between(point, end?);
            }
        }
        None
    }
}

fn between(old: &Point, new: &Point) -> Option<(f64, f64)> {
    let over = |bytes: Bytes, since: Nanos, until: Nanos| {
        let time = until.checked_sub(since).filter(|t| *t > Nanos::ZERO)?;
        Some(bytes.as_f64() / time.as_secs_f64())
    };
    Some((
        over(new.sent.saturating_sub(old.sent), old.sent_at, new.sent_at)?,
        over(new.received.saturating_sub(old.received), old.received_at, new.received_at)?,
    ))
}

/// A test that is under way: the bundle sends at `rate`, or has done so.
#[derive(Clone, Copy, Debug)]
struct Test {
    /// The received rate before it, in bytes per second.
    before: f64,
    /// The rate of the step.
    rate: f64,
    since: Nanos,
    length: Nanos,
    /// Rate was lost before it; otherwise there was a doubt only.
    lost: bool,
}

/// What a test showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The received rate before.
    pub(super) before: Rate,
    /// What was sent in the step.
    pub(super) sent: Rate,
    /// What of it was received.
    pub(super) received: Rate,
    /// Whether what arrived followed.
    pub(super) followed: bool,
}

/// The guard of one bundle.
#[derive(Debug)]
pub(super) struct Guard {
    points: Points,
    /// The highest received rate, in bytes per second.
    highest: WindowedMax,
    /// The floor in bytes per second; zero for none.
    floor: f64,
    test: Option<Test>,
    /// No doubt is tested before.
    doubt_at: Nanos,
    doubt_wait: Nanos,
    /// No lost rate is tested before.
    lost_at: Nanos,
    lost_wait: Nanos,
    /// Since when the controller wants no less than the floor.
    content_since: Option<Nanos>,
    /// Since when an unwanted queue stands.
    queue_since: Option<Nanos>,
    /// When the path was last seen empty, the controller's own drains apart.
    empty_at: Option<Nanos>,
    /// How much the received rate varies by itself, as a share.
    variation: f64,
    last_rate: f64,
    varied_at: Nanos,
}

impl Guard {
    pub(super) fn new() -> Self {
        Self {
            points: Points::new(),
            highest: WindowedMax::default(),
            floor: 0.0,
            test: None,
            doubt_at: Nanos::ZERO,
            doubt_wait: DOUBT.0,
            lost_at: Nanos::ZERO,
            lost_wait: LOSS.0,
            content_since: None,
            queue_since: None,
            empty_at: None,
            variation: 0.0,
            last_rate: 0.0,
            varied_at: Nanos::ZERO,
        }
    }

    /// Forgets the path: feedback stopped, or the counters began anew.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Takes in a sample. `m` is the measurement of the tick before, if there was one.
    pub(super) fn on_point(&mut self, point: Point, min_rtt: Nanos, smoothed: Nanos) {
        let spacing = (window(min_rtt) / 24).min(step(smoothed, Nanos::ZERO, Nanos::ZERO) / 6);
        // Coarse enough for two windows; a step on a short path still has some points.
        let spacing = spacing.max(window(min_rtt) / 32);
        self.points.push(point, spacing);
    }

    /// The rate to send at where the controller wants `wanted`, and what a test showed, if one ended.
    /// `target` is the controller's target delay; `draining` is whether it empties the queue on
    /// purpose.
    pub(super) fn on_tick(
        &mut self,
        m: &Measurement,
        wanted: Rate,
        target: Nanos,
        draining: bool,
    ) -> (Rate, Option<Outcome>) {
        let wanted_rate = wanted.as_bytes_per_sec_f64();
        self.observe(m, target, draining);
        let outcome = self.test.and_then(|test| self.judge(m, test));
        let window = window(m.min_rtt);
        let limited = m.limited_for >= window && m.backlog.0 >= 2 * m.packet.0;
        let newest = self.points.newest().map_or(Nanos::ZERO, |p| p.sent_at);
        let over_window = self.points.rates(newest.saturating_sub(window), newest);
        if let Some((sent, received)) = over_window {
            self.highest.update(m.now, MEMORY, received);
            if received < STARVED * sent && self.floor > received {
                self.floor = received;
            }
        }
        if self.test.is_none() && limited && !draining {
            self.consider(m, over_window.map(|r| r.1));
        }
        self.expire(m.now, wanted_rate);
        let floor = self.floor * self.share(m);
        let step = self.test.filter(|t| m.now.saturating_sub(t.since) < t.length);
        let rate = wanted_rate.max(floor).max(step.map_or(0.0, |t| t.rate));
        (Rate::from_bps_f64(rate * 8.0), outcome)
    }

    /// Notes whether the path is empty, whether an unwanted queue stands, and how rates vary.
    fn observe(&mut self, m: &Measurement, target: Nanos, draining: bool) {
        let delay = m.queueing_delay();
        if !draining && m.min_rtt_age <= m.smoothed_rtt {
            self.empty_at = Some(m.now);
        }
        if delay > target * UNWANTED {
            self.queue_since.get_or_insert(m.now);
        } else {
            self.queue_since = None;
        }
        let length = self.length(m);
        if m.now.saturating_sub(self.varied_at) >= length
            && let Some(newest) = self.points.newest()
            && let Some((_, rate)) =
                self.points.rates(newest.sent_at.saturating_sub(length), newest.sent_at)
        {
            self.varied_at = m.now;
            let change = (rate - self.last_rate).abs() / rate.max(self.last_rate).max(1.0);
            // The difference of two is larger than the deviation of one.
            self.variation += (change.min(0.5) / 1.4 - self.variation) / 8.0;
            self.last_rate = rate;
        }
    }

    fn length(&self, m: &Measurement) -> Nanos {
        step(m.smoothed_rtt, m.rtt_spread, m.sample_interval)
    }

    /// Begins a test if there is a reason and it is time.
    fn consider(&mut self, m: &Measurement, received: Option<f64>) {
        let length = self.length(m);
        let lost = received.is_some_and(|r| r < LOST * self.highest.get());
        let window = window(m.min_rtt);
        let seen_empty =
            self.empty_at.is_some_and(|t| m.now.saturating_sub(t) <= m.smoothed_rtt * EMPTY_RTTS);
        let stands = self.queue_since.is_some_and(|t| m.now.saturating_sub(t) >= window);
        let due = (lost && m.now >= self.lost_at)
            || ((seen_empty || stands) && m.now >= self.doubt_at);
        if !due {
            return;
        }
        let Some(newest) = self.points.newest() else { return };
        let over = |length: Nanos| {
            self.points.rates(newest.sent_at.saturating_sub(length), newest.sent_at).map(|r| r.1)
        };
        let Some(mut before) = over(length) else { return };
        if lost {
            before = before.min(over(length / 2).unwrap_or(before));
        }
        let raise = (RAISE_NOISE * self.variation).clamp(RAISE.0, RAISE.1);
        let raise = if lost { RAISE.1 } else { raise };
        let rate = before.max(self.floor) * (1.0 + raise);
        self.test = Some(Test { before, rate, since: m.now, length, lost });
    }

    /// Judges `test` as soon as its feedback has come.
    fn judge(&mut self, m: &Measurement, test: Test) -> Option<Outcome> {
        let newest = self.points.newest()?.sent_at;
        let late = test.length + m.smoothed_rtt * 4 + m.sample_interval * 2;
        let whole = newest >= test.since + test.length;
        let half = newest >= test.since + test.length / 2;
        if !half && m.now.saturating_sub(test.since) < late {
            return None;
        }
        let end = test.since + test.length;
        let Some((sent, received)) = self.points.rates(test.since, end.min(newest)) else {
            self.test = None;
            return None;
        };
        let (raise, risen) = (sent - test.before, received - test.before);
        if !whole && m.now.saturating_sub(test.since) < late {
            // What hardly follows after half of the step will not follow.
            if risen >= 0.2 * raise {
                return None;
            }
        }
        self.test = None;
        if raise < TAKEN * (test.rate - test.before) {
            // The traffic did not fill the step, so that nothing was shown.
            return None;
        }
        let followed = risen >= FOLLOWED * raise;
        if followed {
            self.floor = received;
            (self.doubt_wait, self.lost_wait) = (DOUBT.0, LOSS.0);
            let climb = if risen >= FOLLOWED_WELL * raise { CLIMB.1 } else { CLIMB.0 };
            let length = self.length(m);
            self.test = Some(Test {
                before: received,
                rate: received * climb,
                since: m.now,
                length,
                lost: test.lost,
            });
        } else if test.lost {
            self.lost_at = m.now + self.lost_wait;
            self.lost_wait = (self.lost_wait * 2).min(LOSS.1);
        }
        if !followed {
            self.doubt_at = m.now + self.doubt_wait;
            self.doubt_wait = (self.doubt_wait * 4).min(DOUBT.1);
        }
        let rate = |bytes: f64| Rate::from_bps_f64(bytes * 8.0);
        Some(Outcome {
            before: rate(test.before),
            sent: rate(sent),
            received: rate(received),
            followed,
        })
    }

    /// Gives the floor up once the controller does not need it.
    fn expire(&mut self, now: Nanos, wanted: f64) {
        if self.floor == 0.0 {
            return;
        }
        if wanted < self.floor {
            self.content_since = None;
        } else if now.saturating_sub(*self.content_since.get_or_insert(now)) >= UNUSED {
            (self.floor, self.content_since) = (0.0, None);
        }
    }

    /// The share of the floor that applies now.
    fn share(&self, m: &Measurement) -> f64 {
        let within = |t: Option<Nanos>, span: Nanos| {
            t.is_some_and(|t| m.now.saturating_sub(t) <= span)
        };
        if within(self.empty_at, m.smoothed_rtt * (2 * EMPTY_RTTS)) {
            HOLD.0
        } else if self.queue_since.is_some_and(|t| m.now.saturating_sub(t) >= WINDOW) {
            HOLD.2
        } else {
            HOLD.1
        }
    }
}

fn window(min_rtt: Nanos) -> Nanos {
    WINDOW.max(min_rtt * WINDOW_RTTS)
}

fn step(smoothed: Nanos, spread: Nanos, interval: Nanos) -> Nanos {
    STEP.max(smoothed * 2).max(spread * STEP_SPREADS).max(interval * STEP_SAMPLES)
}
