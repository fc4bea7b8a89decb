//! A test of whether holding the bundle back helps, which does not trust the controller.
//!
//! A controller can be wrong about the path: it may take the wait for the next burst of service, or
//! the queue of others, for a queue of its own, and lower the rate without end. The guard asks the
//! path. While the bundle has more to send than it may, the guard now and then sends a little
//! faster for a moment and measures whether what arrives follows. If it does, holding back did not
//! help, and what arrived becomes a floor under the controller's rate. The controller runs on
//! unaltered.

use forebay_units::{Bytes, Nanos, Rate};

use crate::controller::Measurement;
use crate::windowed_max::WindowedMax;

/// The shortest time over which the bundle must have been limited, and over which rates are
/// compared.
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
/// The smallest raise of a step, as a share of the rate.
const LEAST_RAISE: f64 = 0.08;
/// The largest raise of a step, and the raise after lost rate.
const MOST_RAISE: f64 = 0.25;
/// A raise is this multiple of what the received rate varies by.
const RAISE_NOISE: f64 = 5.0;
/// The received rate followed a step if it rose by this share of the raise.
const FOLLOWED: f64 = 0.5;
/// It followed a step well from this share on: the next step may be larger.
const FOLLOWED_WELL: f64 = 0.9;
/// The next step after one that followed, as a multiple of the received rate.
const CLIMB: f64 = 1.25;
/// The next step after one that followed well.
const CLIMB_WELL: f64 = 1.5;
/// A bundle that the shaper gave less than this share of the raise did not take the step.
const TAKEN: f64 = 0.5;
/// The time from a test that failed to the next one on a doubt alone.
const DOUBT_WAIT: Nanos = Nanos::from_secs(4);
/// The longest such time: each failure makes it four times as long.
const LONGEST_DOUBT_WAIT: Nanos = Nanos::from_secs(64);
/// The time from a test that failed to the next one after lost rate.
const LOST_WAIT: Nanos = Nanos::from_secs(1);
/// The longest such time: each failure doubles it.
const LONGEST_LOST_WAIT: Nanos = Nanos::from_secs(16);
/// The path was seen empty lately within this many round trips.
const EMPTY_RTTS: u64 = 5;
/// A delay above this multiple of the controller's target is a queue that it does not want.
const UNWANTED: u64 = 3;
/// The share of the floor that applies while the path is not seen empty.
const HOLD: f64 = 0.97;
/// The share of the floor that applies while an unwanted queue stands.
const HOLD_BESIDE_QUEUE: f64 = 0.9;
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

    /// Takes in `point`, in place of the newest if that is less than `spacing` after the one
    /// before.
    fn push(&mut self, point: Point, spacing: Nanos) {
        let close =
            self.len >= 2 && self.back(0).sent_at.saturating_sub(self.back(1).sent_at) < spacing;
        if close {
            let newest = (self.next + POINTS - 1) % POINTS;
            self.ring[newest] = point;
            return;
        }
        self.ring[self.next] = point;
        self.next = (self.next + 1) % POINTS;
        self.len = (self.len + 1).min(POINTS);
    }

    /// Returns the point `n` before the newest; there must be so many.
    fn back(&self, n: usize) -> &Point {
        &self.ring[(self.next + POINTS - 1 - n) % POINTS]
    }

    /// Returns the newest point.
    fn newest(&self) -> Option<&Point> {
        (self.len > 0).then(|| self.back(0))
    }

    /// Returns the rates between the last point at or before `from` and the last one at or before
    /// `to`; `None` if the points do not reach back so far.
    fn rates(&self, from: Nanos, to: Nanos) -> Option<StepRates> {
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

/// What was sent over some time, and what of it was received, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StepRates {
    sent: f64,
    received: f64,
}

/// Returns the rates between two points; `None` unless both clocks moved on.
fn between(old: &Point, new: &Point) -> Option<StepRates> {
    let over = |bytes: Bytes, since: Nanos, until: Nanos| {
        let time = until.checked_sub(since).filter(|t| *t > Nanos::ZERO)?;
        Some(bytes.as_f64() / time.as_secs_f64())
    };
    Some(StepRates {
        sent: over(new.sent.saturating_sub(old.sent), old.sent_at, new.sent_at)?,
        received: over(
            new.received.saturating_sub(old.received),
            old.received_at,
            new.received_at,
        )?,
    })
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
            doubt_wait: DOUBT_WAIT,
            lost_at: Nanos::ZERO,
            lost_wait: LOST_WAIT,
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

    /// Takes in a sample of a path whose empty round trip is `min_rtt`.
    pub(super) fn on_point(&mut self, point: Point, min_rtt: Nanos) {
        // The points kept span two windows.
        self.points.push(point, window(min_rtt) / (POINTS as u64 / 2));
    }

    /// Returns the rate to send at where the controller wants `wanted`, and what a test showed, if
    /// one ended. `target` is the controller's target delay; `draining` is whether it empties the
    /// queue on purpose.
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
        if let Some(StepRates { sent, received }) = over_window {
            self.highest.update(m.now, MEMORY, received);
            if received < STARVED * sent && self.floor > received {
                self.floor = received;
            }
        }
        if self.test.is_none() && limited && !draining {
            self.consider(m, over_window.map(|rates| rates.received));
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
            && let Some(StepRates { received: rate, .. }) =
                self.points.rates(newest.sent_at.saturating_sub(length), newest.sent_at)
        {
            self.varied_at = m.now;
            let change = (rate - self.last_rate).abs() / rate.max(self.last_rate).max(1.0);
            // The difference of two is larger than the deviation of one.
            self.variation += (change.min(0.5) / 1.4 - self.variation) / 8.0;
            self.last_rate = rate;
        }
    }

    /// Returns how long a step lasts now.
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
        let due =
            (lost && m.now >= self.lost_at) || ((seen_empty || stands) && m.now >= self.doubt_at);
        if !due {
            return;
        }
        let Some(newest) = self.points.newest() else { return };
        let over = |length: Nanos| {
            self.points
                .rates(newest.sent_at.saturating_sub(length), newest.sent_at)
                .map(|r| r.received)
        };
        let Some(mut before) = over(length) else { return };
        if lost {
            before = before.min(over(length / 2).unwrap_or(before));
        }
        let raise = (RAISE_NOISE * self.variation).clamp(LEAST_RAISE, MOST_RAISE);
        let raise = if lost { MOST_RAISE } else { raise };
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
        let rates = self.points.rates(test.since, end.min(newest));
        let Some(StepRates { sent, received }) = rates else {
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
            (self.doubt_wait, self.lost_wait) = (DOUBT_WAIT, LOST_WAIT);
            let climb = if risen >= FOLLOWED_WELL * raise { CLIMB_WELL } else { CLIMB };
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
            self.lost_wait = (self.lost_wait * 2).min(LONGEST_LOST_WAIT);
        }
        if !followed {
            self.doubt_at = m.now + self.doubt_wait;
            self.doubt_wait = (self.doubt_wait * 4).min(LONGEST_DOUBT_WAIT);
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

    /// Returns the share of the floor that applies now.
    fn share(&self, m: &Measurement) -> f64 {
        let within =
            |t: Option<Nanos>, span: Nanos| t.is_some_and(|t| m.now.saturating_sub(t) <= span);
        if within(self.empty_at, m.smoothed_rtt * (2 * EMPTY_RTTS)) {
            1.0
        } else if self.queue_since.is_some_and(|t| m.now.saturating_sub(t) >= WINDOW) {
            HOLD_BESIDE_QUEUE
        } else {
            HOLD
        }
    }
}

/// Returns the time over which a bundle must have been limited, and over which rates are compared.
fn window(min_rtt: Nanos) -> Nanos {
    WINDOW.max(min_rtt * WINDOW_RTTS)
}

/// Returns the length of a step.
fn step(smoothed: Nanos, spread: Nanos, interval: Nanos) -> Nanos {
    STEP.max(smoothed * 2).max(spread * STEP_SPREADS).max(interval * STEP_SAMPLES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const TICK: Nanos = Nanos::from_millis(10);
    const RTT: Nanos = Nanos::from_millis(40);

    /// A bundle whose controller always wants the same rate, on a path that serves one rate and
    /// never shows a queue: the worst that a controller can do with it.
    struct Loop {
        guard: Guard,
        now: Nanos,
        served: Rate,
        wanted: Rate,
        /// Bytes sent and received by each tick.
        log: std::vec::Vec<(f64, f64)>,
        tests: std::vec::Vec<Outcome>,
        limited: bool,
    }

    impl Loop {
        fn new(wanted: u64, served: u64) -> Self {
            Self {
                guard: Guard::new(),
                now: Nanos::from_secs(1),
                served: Rate::from_mbps(served),
                wanted: Rate::from_mbps(wanted),
                log: std::vec![(0.0, 0.0)],
                tests: std::vec![],
                limited: true,
            }
        }

        /// Runs for `seconds`; the mean rate set in the last of them, in Mbit/s.
        fn run(&mut self, seconds: u64) -> f64 {
            let mut sum = 0.0;
            for tick in 0..seconds * 100 {
                let m = self.measurement();
                let target = Nanos::from_millis(1);
                let (rate, outcome) = self.guard.on_tick(&m, self.wanted, target, false);
                self.tests.extend(outcome);
                self.send(rate);
                if tick >= (seconds - 1) * 100 {
                    sum += rate.as_mbps_f64();
                }
            }
            sum / 100.0
        }

        fn measurement(&self) -> Measurement {
            let limited_for = if self.limited { self.now } else { Nanos::ZERO };
            Measurement {
                now: self.now,
                min_rtt: RTT,
                rtt: RTT,
                standing_rtt: RTT,
                smoothed_rtt: RTT,
                limited_for,
                ..quiet()
            }
        }

        fn send(&mut self, rate: Rate) {
            self.now += TICK;
            let (sent, received) = *self.log.last().unwrap();
            let share = TICK.as_secs_f64();
            let sent = sent + rate.as_bytes_per_sec_f64() * share;
            // What waits at the bottleneck comes later, and is not seen as delay.
            let received = sent.min(received + self.served.as_bytes_per_sec_f64() * share);
            self.log.push((sent, received));
            let ago = (RTT.0 / TICK.0) as usize;
            if let Some(index) = self.log.len().checked_sub(ago + 1) {
                let (sent, received) = self.log[index];
                let sent_at = self.now.saturating_sub(RTT);
                let point = Point {
                    sent_at,
                    sent: Bytes(sent as u64),
                    received_at: sent_at,
                    received: Bytes(received as u64),
                };
                self.guard.on_point(point, RTT);
            }
        }
    }

    #[test]
    fn a_controller_that_wants_too_little_is_overruled() {
        let mut path = Loop::new(5, 48);
        let rate = path.run(15);
        assert!((40.0..60.0).contains(&rate), "{rate} of 48 Mbit/s");
        assert!(path.tests.iter().any(|test| test.followed));
    }

    #[test]
    fn a_full_path_is_left_alone() {
        let mut path = Loop::new(48, 48);
        path.run(30);
        let followed = path.tests.iter().filter(|test| test.followed).count();
        assert_eq!((followed, path.tests.len() <= 4), (0, true), "{:?}", path.tests);
        let sent = path.log.last().unwrap().0 * 8.0 / 30.0 / 1e6;
        assert!(sent < 48.0 * 1.01, "{sent} Mbit/s on average");
    }

    #[test]
    fn a_bundle_with_nothing_to_send_is_not_tested() {
        let mut path = Loop::new(5, 48);
        path.limited = false;
        assert!((path.run(10) - 5.0).abs() < 1e-9);
        assert!(path.tests.is_empty());
    }

    #[test]
    fn the_floor_goes_once_the_controller_wants_as_much() {
        let mut path = Loop::new(5, 48);
        path.run(15);
        path.wanted = Rate::from_mbps(60);
        path.limited = false;
        path.run(6);
        path.wanted = Rate::from_mbps(5);
        let rate = path.run(1);
        assert!((rate - 5.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn points_span_two_windows_and_give_the_rates_of_any_part() {
        let mut guard = Guard::new();
        for ms in 0..3000 {
            let at = Nanos::from_millis(ms);
            let sent = Bytes(ms * 1000);
            let point =
                Point { sent_at: at, sent, received_at: at + RTT, received: Bytes(ms * 500) };
            guard.on_point(point, RTT);
        }
        let newest = guard.points.newest().unwrap().sent_at;
        let rates = guard.points.rates(newest.saturating_sub(Nanos::from_millis(1900)), newest);
        let StepRates { sent, received } = rates.unwrap();
        assert!((sent - 1e6).abs() < 1.0 && (received - 5e5).abs() < 1.0);
        let before = newest.saturating_sub(Nanos::from_millis(2500));
        assert_eq!(guard.points.rates(before, newest), None);
    }
}
