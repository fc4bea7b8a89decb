//! A test of whether holding the bundle back helps, which does not trust the controller.
//!
//! A controller can be wrong about the path: it may take the wait for the next burst of service, or
//! the queue of others, for a queue of its own, and lower the rate without end. The guard asks the
//! path. While the bundle has more to send than it may, the guard now and then sends a little
//! faster for a moment and measures whether what arrives follows. If it does, holding back did not
//! help, and what arrived becomes a floor under the controller's rate. The controller runs on
//! unaltered.

mod loss;
mod samples;

use core::mem::offset_of;

use forebay_units::{Bytes, Nanos, Rate};

use crate::controller::Measurement;
use crate::cross::BoundarySample;
use crate::windowed_max::WindowedMax;
use loss::Loss;
use samples::{SAMPLES, Samples, StepRates};

/// The shortest window: the time for which the bundle must have been limited before a test.
const WINDOW: Nanos = Nanos::from_secs(1);
/// The shortest window in round trips of the empty path.
const WINDOW_RTTS: u64 = 8;
/// A bundle is limited where its rate held packets back for this share of the time, averaged over
/// half a window. A policy that keeps the bundle's queue short empties it now and then.
const LIMITED: f64 = 0.8;
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
const MAX_RAISE: f64 = 0.25;
/// A raise is this multiple of what the received rate varies by.
const RAISE_NOISE: f64 = 5.0;
/// The received rate followed a step if it rose by this share of the raise.
const FOLLOWED: f64 = 0.5;
/// The received rate followed a step well from this share on, so that the next one may be larger.
const FOLLOWED_WELL: f64 = 0.9;
/// After half of a step, a rise below this share of the raise ends the test: it will not follow.
const HARDLY_FOLLOWED: f64 = 0.2;
/// The next step after one that followed, as a multiple of the received rate.
const CLIMB: f64 = 1.25;
/// The next step after one that followed well.
const CLIMB_WELL: f64 = 1.5;
/// A test shows something if the bundle sent at least this share of the raise.
const TAKEN: f64 = 0.5;
/// The time after a failed test in which doubt alone starts no other; each failure quadruples it.
const DOUBT_WAIT: Nanos = Nanos::from_secs(4);
/// The limit of [`DOUBT_WAIT`] after failures.
const MAX_DOUBT_WAIT: Nanos = Nanos::from_secs(64);
/// The time after a failed test in which lost rate starts no other; each failure doubles it.
const LOST_WAIT: Nanos = Nanos::from_secs(1);
/// The limit of [`LOST_WAIT`] after failures.
const MAX_LOST_WAIT: Nanos = Nanos::from_secs(16);
/// A path that was seen empty within this many round trips gives a doubt about holding back.
const EMPTY_RTTS: u64 = 5;
/// A delay above this multiple of the controller's target is a queue that it does not want.
const UNWANTED: u64 = 3;
/// A queue that is at least this part of its length before a step still stands.
const STOOD: f64 = 0.75;
/// A bundle that keeps at least this share of its highest received rate needs no pass-through.
const KEPT: f64 = 0.6;
/// A bundle with less than this share of its highest received rate is starved.
const STARVING: f64 = 0.5;
/// The share of the floor that applies while the path is not seen empty.
const HOLD: f64 = 0.97;
/// The share of the floor that applies while an unwanted queue stands.
const HOLD_BESIDE_QUEUE: f64 = 0.9;
/// The floor goes once the controller has not wanted less for this long.
const UNUSED: Nanos = Nanos::from_secs(5);
/// Below this share of the fair rate a bundle tests as if it were alone.
const FAIR: f64 = 0.8;
/// A step did not help where other bundles lost more than this share of the gain. Where they lost
/// several times the gain, it was not this bundle's doing.
const TAKEN_FROM_OTHERS: (f64, f64) = (0.5, 3.0);
/// A bundle with at least this share of the fair rate gives up floor while a queue stands.
const ABOVE_FAIR: f64 = 0.9;
/// What is left of the floor after each window of that.
const DECAY: f64 = 0.95;
/// The largest loss that is made up for.
const MAX_LOSS: f64 = 0.2;
/// The floor falls to the received rate when less than this share of the sent rate arrives.
const STARVED: f64 = 0.95;

/// A test that is under way: the bundle sends at `rate`, or has done so.
#[derive(Clone, Copy, Debug)]
struct Test {
    /// The received rate before it, in bytes per second.
    before: f64,
    /// What other bundles received before it.
    others: f64,
    /// The rate of the step.
    rate: f64,
    /// The queueing delay before it.
    delay: Nanos,
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
    /// Whether it followed at the cost of others, who are no bundles: the queue at the bottleneck
    /// was as long afterwards.
    pub(super) contested: bool,
}

/// The guard of one bundle.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Guard {
    /// The rates over the last window by the newest sample.
    over_window: Option<StepRates>,
    loss: Loss,
    /// The highest received rate, in bytes per second.
    highest: WindowedMax,
    /// The highest rate that all bundles together received.
    highest_of_all: WindowedMax,
    /// The floor in bytes per second; zero for none.
    floor: f64,
    test: Option<Test>,
    /// No doubt is tested before.
    doubt_at: Nanos,
    doubt_wait: Nanos,
    /// No lost rate is tested before.
    lost_at: Nanos,
    lost_wait: Nanos,
    /// When the controller's rate last rose to the floor; `None` while it is lower.
    content_since: Option<Nanos>,
    /// Since when an unwanted queue stands.
    queue_since: Option<Nanos>,
    /// When the path was last seen empty, the controller's own drains apart.
    empty_at: Option<Nanos>,
    /// The share of the time for which packets were held back.
    held_back: f64,
    last_tick: Nanos,
    /// When the controller last emptied the queue on purpose.
    drained_at: Nanos,
    /// How much the received rate varies by itself, as a share.
    variation: f64,
    last_rate: f64,
    varied_at: Nanos,
    /// When the floor last decayed.
    decayed_at: Nanos,
    /// The fair rate by the newest sample, in bytes per second; zero without other bundles.
    fair: f64,
    /// The last field, since most ticks do not use it.
    samples: Samples,
}

impl Guard {
    /// Number of bytes at the start of a guard that a normal tick uses.
    pub(super) const NEEDED: usize = offset_of!(Self, samples);

    pub(super) fn new() -> Self {
        Self {
            over_window: None,
            fair: 0.0,
            samples: Samples::new(),
            loss: Loss::default(),
            highest: WindowedMax::default(),
            highest_of_all: WindowedMax::default(),
            decayed_at: Nanos::ZERO,
            floor: 0.0,
            test: None,
            doubt_at: Nanos::ZERO,
            doubt_wait: DOUBT_WAIT,
            lost_at: Nanos::ZERO,
            lost_wait: LOST_WAIT,
            content_since: None,
            queue_since: None,
            empty_at: None,
            held_back: 0.0,
            last_tick: Nanos::ZERO,
            drained_at: Nanos::ZERO,
            variation: 0.0,
            last_rate: 0.0,
            varied_at: Nanos::ZERO,
        }
    }

    /// Forgets the path: feedback stopped, or the counters began anew.
    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Forgets what the bundle had before pass-through, which ended at `now`. The samples stay.
    ///
    /// A drain probe may have ended it, so that no test begins too soon.
    pub(super) fn on_return(&mut self, now: Nanos) {
        self.drained_at = now;
        self.highest = WindowedMax::default();
        self.highest_of_all = WindowedMax::default();
        (self.floor, self.test, self.content_since) = (0.0, None, None);
        self.held_back = 0.0;
    }

    /// Takes in a sample of a path whose empty round trip is `min_rtt`.
    pub(super) fn on_sample(&mut self, sample: BoundarySample, min_rtt: Nanos) {
        // The samples kept span two windows.
        let window = window(min_rtt);
        self.samples.push(sample, window / (SAMPLES as u64 / 2));
        self.over_window = self.samples.latest(window);
        self.fair = sample.others.fair.as_bytes_per_sec_f64();
    }

    /// Averages the loss up to a sample that was sent `at` a time, by which `sent` packets had left
    /// and `received` arrived.
    pub(super) fn on_packets(&mut self, at: Nanos, sent: u32, received: u32) {
        self.loss.update(at, sent, received);
    }

    /// Returns the share of packets lost: what was lost over the last window, and no more than the
    /// average, since single samples may have overtaken packets.
    pub(super) fn loss(&self) -> f64 {
        let over_window = self.over_window.map_or(1.0, |rates| rates.lost);
        self.loss.average().min(over_window).clamp(0.0, 1.0)
    }

    /// Returns the share of bytes that arrive.
    ///
    /// Where others fill a short buffer, packets are lost at any rate, so that less arrives than is
    /// sent without a longer queue. The share is never below one minus [`MAX_LOSS`].
    fn delivered(&self) -> f64 {
        1.0 - self.loss().min(MAX_LOSS)
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
        let limited = self.held_back >= LIMITED && m.backlog > Bytes::ZERO;
        if let Some(StepRates { sent, received, others, .. }) = self.over_window {
            self.highest.update(m.now, MEMORY, received);
            self.highest_of_all.update(m.now, MEMORY, received + others);
            let full = received >= ABOVE_FAIR * self.fair && self.fair > 0.0;
            if full && self.queue_stands(m) && m.now.saturating_sub(self.decayed_at) >= window {
                self.decayed_at = m.now;
                self.floor *= DECAY;
            }
            if received < STARVED * sent * self.delivered() && self.floor > received {
                self.floor = received;
            }
        }
        if self.test.is_none() && limited && !draining {
            self.consider(m);
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
        let passed = m.now.saturating_sub(self.last_tick).min(window(m.min_rtt) / 2);
        self.last_tick = m.now;
        let held_back = f64::from(u8::from(m.limited_for > Nanos::ZERO));
        let weight = passed.as_secs_f64() / (window(m.min_rtt) / 2).as_secs_f64();
        self.held_back += (held_back - self.held_back) * weight;
        if draining {
            self.drained_at = m.now;
        }
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
            && let Some(StepRates { received: rate, .. }) = self.samples.latest(length)
        {
            self.varied_at = m.now;
            let change = (rate - self.last_rate).abs() / rate.max(self.last_rate).max(1.0);
            // The difference of two is larger than the deviation of one.
            self.variation += (change.min(0.5) / 1.4 - self.variation) / 8.0;
            self.last_rate = rate;
        }
    }

    /// Returns whether the bundle has lost rate that it should have: rate that other bundles did
    /// not gain, or that it needs for its fair share.
    fn lost(&self, rates: StepRates) -> bool {
        let short = rates.received < LOST * self.highest.get();
        short && (rates.received < FAIR * self.fair || self.lost_to_strangers(rates))
    }

    /// Returns whether other bundles gained less than half of what the bundle has lost.
    fn lost_to_strangers(&self, StepRates { received, others, .. }: StepRates) -> bool {
        // What all miss is what this bundle misses less what the others gained.
        let missed = self.highest.get() - received;
        self.highest_of_all.get() - (received + others) > missed / 2.0
    }

    /// Returns whether the bundle is limited to much less than it had, and no other bundle has the
    /// rest.
    pub(super) fn is_starved(&self) -> bool {
        let starved = |rates: StepRates| {
            rates.received < STARVING * self.highest.get() && self.lost_to_strangers(rates)
        };
        self.held_back >= LIMITED && self.over_window.is_some_and(starved)
    }

    /// Returns whether an unwanted queue has stood for a window.
    fn queue_stands(&self, m: &Measurement) -> bool {
        let stood = |since: Nanos| m.now.saturating_sub(since) >= window(m.min_rtt);
        self.queue_since.is_some_and(stood)
    }

    /// Returns how long a step lasts now.
    fn length(&self, m: &Measurement) -> Nanos {
        step(m.smoothed_rtt, m.rtt_spread, m.sample_interval)
    }

    /// Begins a test if there is a reason and it is time.
    fn consider(&mut self, m: &Measurement) {
        let length = self.length(m);
        let lost = self.over_window.is_some_and(|rates| self.lost(rates));
        let seen_empty =
            self.empty_at.is_some_and(|t| m.now.saturating_sub(t) <= m.smoothed_rtt * EMPTY_RTTS);
        let doubt = seen_empty || self.queue_stands(m);
        let due = (lost && m.now >= self.lost_at) || (doubt && m.now >= self.doubt_at);
        if !due {
            return;
        }
        let latest = self.samples.latest(length).filter(|rates| !rates.has_strangers());
        let Some(latest) = latest else { return };
        // A rate that rises after a drain only returns to what it was.
        if self.samples.newest().is_none_or(|newest| newest < self.drained_at + length) {
            return;
        }
        let mut before = latest.received;
        let mut raise = (RAISE_NOISE * self.variation).clamp(LEAST_RAISE, MAX_RAISE);
        if lost {
            let half = self.samples.latest(length / 2).map(|rates| rates.received);
            before = before.min(half.unwrap_or(before));
            raise = MAX_RAISE;
        }
        let rate = (before / self.delivered()).max(self.floor) * (1.0 + raise);
        let others = latest.others;
        let delay = m.queueing_delay();
        self.test = Some(Test { before, others, rate, delay, since: m.now, length, lost });
    }

    /// Judges `test` as soon as its feedback has come.
    fn judge(&mut self, m: &Measurement, test: Test) -> Option<Outcome> {
        let newest = self.samples.newest()?;
        let end = test.since + test.length;
        let latest = end + m.smoothed_rtt * 4 + m.sample_interval * 2;
        let may_wait = newest < end && m.now < latest;
        if may_wait && newest < test.since + test.length / 2 {
            return None;
        }
        let rates = self.samples.rates(test.since, end.min(newest));
        let rates = rates.filter(|rates| !rates.has_strangers());
        let Some(StepRates { sent, received, others, .. }) = rates else {
            self.test = None;
            return None;
        };
        let delivered = self.delivered();
        let (raise, risen) = (sent * delivered - test.before, received - test.before);
        if may_wait && risen >= HARDLY_FOLLOWED * raise {
            return None;
        }
        self.test = None;
        if raise < TAKEN * (test.rate * delivered - test.before) {
            // The traffic did not fill the step, so that nothing was shown.
            return None;
        }
        let taken = (test.others - others) / risen;
        let from_others = (TAKEN_FROM_OTHERS.0..TAKEN_FROM_OTHERS.1).contains(&taken);
        let may_take = received < FAIR * self.fair;
        let followed = risen >= FOLLOWED * raise && (!from_others || may_take);
        if followed {
            self.floor = (received / delivered).min(sent);
            (self.doubt_wait, self.lost_wait) = (DOUBT_WAIT, LOST_WAIT);
            let climb = if risen >= FOLLOWED_WELL * raise { CLIMB_WELL } else { CLIMB };
            self.test = Some(Test {
                before: received,
                others,
                delay: m.queueing_delay(),
                rate: received / delivered * climb,
                since: m.now,
                length: self.length(m),
                lost: test.lost,
            });
        } else {
            // What the step sent too much is a queue now, which the floor must let drain.
            self.empty_at = None;
            self.doubt_at = m.now + self.doubt_wait;
            self.doubt_wait = (self.doubt_wait * 4).min(MAX_DOUBT_WAIT);
            if test.lost {
                self.lost_at = m.now + self.lost_wait;
                self.lost_wait = (self.lost_wait * 2).min(MAX_LOST_WAIT);
            }
        }
        let rate = |bytes: f64| Rate::from_bps_f64(bytes * 8.0);
        Some(Outcome {
            before: rate(test.before),
            sent: rate(sent),
            received: rate(received),
            followed,
            contested: followed
                && !from_others
                && received < KEPT * self.highest.get()
                && m.queueing_delay().as_secs_f64() >= STOOD * test.delay.as_secs_f64(),
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
        } else if self.queue_stands(m) {
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
mod tests;
