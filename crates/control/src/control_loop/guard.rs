//! A test of whether holding the bundle back helps, which does not trust the controller.
//!
//! A controller can be wrong about the path: it may take the wait for the next burst of service, or
//! the queue of others, for a queue of its own, and lower the rate without end. The guard asks the
//! path. While the bundle has more to send than it may, the guard now and then sends a little
//! faster for a moment and measures whether what arrives follows. If it does, holding back did not
//! help, and what arrived becomes a floor under the controller's rate. The controller runs on
//! unaltered.

use core::mem::offset_of;

use forebay_units::{Bytes, Nanos, Rate};

use crate::controller::Measurement;
use crate::cross::BoundarySample;
use crate::windowed_max::WindowedMax;

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
const MOST_RAISE: f64 = 0.25;
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
const LONGEST_DOUBT_WAIT: Nanos = Nanos::from_secs(64);
/// The time after a failed test in which lost rate starts no other; each failure doubles it.
const LOST_WAIT: Nanos = Nanos::from_secs(1);
/// The limit of [`LOST_WAIT`] after failures.
const LONGEST_LOST_WAIT: Nanos = Nanos::from_secs(16);
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
/// The floor falls to the received rate when less than this share of the sent rate arrives.
const STARVED: f64 = 0.95;

/// Where this share more arrives than is sent, somebody else sends to the bundle's prefixes.
const STRANGERS: f64 = 0.1;
/// The largest loss that is made up for.
const MOST_LOSS: f64 = 0.2;
/// Number of samples kept for the rates of steps and windows.
const SAMPLES: usize = 64;
/// Loss is averaged over at most this many packets.
const LOSS_AVERAGE: f64 = 1000.0;
/// Loss is averaged over at least this many packets. Over fewer, packets that were overtaken by a
/// boundary packet would look lost.
const LOSS_AVERAGE_LEAST: f64 = 100.0;
/// Between these bounds loss is averaged over this time.
const LOSS_TIME: Nanos = Nanos::from_secs(2);

/// The latest samples, thinned so that they span at least two windows.
#[derive(Debug)]
struct Samples {
    ring: [BoundarySample; SAMPLES],
    next: usize,
    len: usize,
}

impl Samples {
    fn new() -> Self {
        Self { ring: [BoundarySample::default(); SAMPLES], next: 0, len: 0 }
    }

    /// Adds `sample`. It replaces the newest one if that is less than `spacing` after the one
    /// before.
    fn push(&mut self, sample: BoundarySample, spacing: Nanos) {
        let close =
            self.len >= 2 && self.back(0).sent_at.saturating_sub(self.back(1).sent_at) < spacing;
        if close {
            let newest = (self.next + SAMPLES - 1) % SAMPLES;
            self.ring[newest] = sample;
            return;
        }
        self.ring[self.next] = sample;
        self.next = (self.next + 1) % SAMPLES;
        self.len = (self.len + 1).min(SAMPLES);
    }

    /// Returns the sample `n` before the newest; `n` must be below the number of samples.
    fn back(&self, n: usize) -> &BoundarySample {
        &self.ring[(self.next + SAMPLES - 1 - n) % SAMPLES]
    }

    /// Returns when the packet of the newest sample left.
    fn newest(&self) -> Option<Nanos> {
        (self.len > 0).then(|| self.back(0).sent_at)
    }

    /// Returns the rates over the last `span`; `None` if the samples do not reach back so far.
    fn latest(&self, span: Nanos) -> Option<StepRates> {
        let newest = self.newest()?;
        self.rates(newest.saturating_sub(span), newest)
    }

    /// Returns the rates between the last sample at or before `from` and the last one at or before
    /// `to`; `None` if the samples do not reach back so far.
    fn rates(&self, from: Nanos, to: Nanos) -> Option<StepRates> {
        let mut end = None;
        for n in 0..self.len {
            let sample = self.back(n);
            if end.is_none() && sample.sent_at <= to {
                end = Some(sample);
            }
            if sample.sent_at <= from {
                return between(sample, end?);
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
    /// What other bundles received meanwhile.
    others: f64,
    /// The share of the bytes sent that was not received; negative where more arrived.
    lost: f64,
}

impl StepRates {
    /// Returns whether much more arrived than was sent. What the bundle sends then seems to arrive
    /// in any case, so that nothing follows from it.
    fn has_strangers(&self) -> bool {
        self.lost < -STRANGERS
    }
}

/// Returns the rates between two samples; `None` unless both clocks moved on.
fn between(old: &BoundarySample, new: &BoundarySample) -> Option<StepRates> {
    let over = |bytes: Bytes, since: Nanos, until: Nanos| {
        let time = until.checked_sub(since).filter(|t| *t > Nanos::ZERO)?;
        Some(bytes.as_f64() / time.as_secs_f64())
    };
    let (sent, received) = (new.sent.saturating_sub(old.sent), new.own_since(old));
    Some(StepRates {
        lost: 1.0 - new.received.saturating_sub(old.received).as_f64() / sent.as_f64().max(1.0),
        sent: over(sent, old.sent_at, new.sent_at)?,
        received: over(received, old.received_at, new.received_at)?,
        others: over(
            new.others.bytes.saturating_sub(old.others.bytes),
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

/// Packets sent and received since the start, as counters that wrap.
#[derive(Clone, Copy, Debug)]
struct PacketTotals {
    /// When the packet of the sample left.
    at: Nanos,
    sent: u32,
    received: u32,
}

/// The guard of one bundle.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Guard {
    /// The rates over the last window by the newest sample.
    over_window: Option<StepRates>,
    /// The totals of packets sent and received by the newest sample.
    packets: Option<PacketTotals>,
    /// The averaged share of packets lost. It is negative while overtaken packets come in.
    loss: f64,
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
            packets: None,
            loss: 0.0,
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
        if let Some(last) = self.packets.replace(PacketTotals { at, sent, received }) {
            let sent = f64::from(sent.wrapping_sub(last.sent));
            let received = f64::from(received.wrapping_sub(last.received));
            let share = at.saturating_sub(last.at).as_secs_f64() / LOSS_TIME.as_secs_f64();
            let weight = share.clamp(sent / LOSS_AVERAGE, sent / LOSS_AVERAGE_LEAST).min(1.0);
            self.loss += ((sent - received) / sent.max(1.0) - self.loss) * weight;
        }
    }

    /// Returns the share of packets lost: what was lost over the last window, and no more than the
    /// average over [`LOSS_TIME`], since single samples may have overtaken packets.
    pub(super) fn loss(&self) -> f64 {
        let over_window = self.over_window.map_or(1.0, |rates| rates.lost);
        self.loss.min(over_window).clamp(0.0, 1.0)
    }

    /// Returns the share of bytes that arrive.
    ///
    /// Where others fill a short buffer, packets are lost at any rate, so that less arrives than is
    /// sent without a longer queue. Loss above [`MOST_LOSS`] is not made up for.
    fn delivered(&self) -> f64 {
        1.0 - self.loss().min(MOST_LOSS)
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
        let mut raise = (RAISE_NOISE * self.variation).clamp(LEAST_RAISE, MOST_RAISE);
        if lost {
            let half = self.samples.latest(length / 2).map(|rates| rates.received);
            before = before.min(half.unwrap_or(before));
            raise = MOST_RAISE;
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
            self.doubt_wait = (self.doubt_wait * 4).min(LONGEST_DOUBT_WAIT);
            if test.lost {
                self.lost_at = m.now + self.lost_wait;
                self.lost_wait = (self.lost_wait * 2).min(LONGEST_LOST_WAIT);
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
mod tests {
    use super::*;
    use crate::controller::quiet;
    use crate::shares::Others;

    const TICK: Nanos = Nanos::from_millis(10);
    const RTT: Nanos = Nanos::from_millis(40);

    /// A bundle whose controller always wants the same rate, on a path that serves one rate and
    /// never shows a queue: the worst that a controller can do with it.
    struct Loop {
        guard: Guard,
        now: Nanos,
        served: Rate,
        /// What the receivebox says is fair; zero without other bundles.
        fair: Rate,
        /// What somebody else sends to the bundle's prefixes.
        stranger: Rate,
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
                fair: Rate::ZERO,
                stranger: Rate::ZERO,
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
                // Other bundles, if there are any, take the rest of the path.
                let all = self.now.as_secs_f64() * self.served.as_bytes_per_sec_f64();
                let others = if self.fair == Rate::ZERO { 0.0 } else { all - received };
                let stranger = self.now.as_secs_f64() * self.stranger.as_bytes_per_sec_f64();
                let sample = BoundarySample {
                    others: Others { bytes: Bytes(others as u64), fair: self.fair },
                    sent_at,
                    sent: Bytes(sent as u64),
                    received_at: sent_at,
                    received: Bytes((received + stranger) as u64),
                    queued: false,
                };
                self.guard.on_sample(sample, RTT);
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
    fn loss_at_any_rate_does_not_lower_the_floor() {
        let mut guard = Guard::new();
        guard.floor = 5e6;
        let mut m = Measurement { now: Nanos::from_secs(1), min_rtt: RTT, ..quiet() };
        for n in 0..400 {
            m.now = Nanos::from_secs(1) + TICK * n;
            // A tenth of 500 packets of 100 bytes is lost each time.
            let (sent, received) = (500 * n as u32, 450 * n as u32);
            guard.on_packets(m.now, sent, received);
            let bytes = |packets: u32| Bytes(u64::from(packets) * 100);
            let sample = BoundarySample {
                sent_at: m.now,
                sent: bytes(sent),
                received_at: m.now,
                received: bytes(received),
                others: Others::default(),
                queued: false,
            };
            guard.on_sample(sample, RTT);
            guard.on_tick(&m, Rate::from_mbps(5), Nanos::from_millis(1), false);
        }
        assert_eq!(guard.floor, 5e6, "4.5 MB/s arrive of 5 MB/s, as 10 % of packets are lost");
    }

    #[test]
    fn a_bundle_takes_nothing_from_other_bundles_but_its_fair_share() {
        for (fair, taken) in [(5, false), (24, true)] {
            let mut path = Loop::new(5, 48);
            path.fair = Rate::from_mbps(fair);
            let rate = path.run(15);
            assert_eq!(path.tests.iter().any(|test| test.followed), taken, "fair {fair}");
            assert!(path.tests.iter().all(|test| !test.contested), "fair {fair}");
            assert_eq!(rate > 15.0, taken, "{rate} of a fair {fair} Mbit/s");
            assert!(rate < 30.0, "{rate} of a fair {fair} Mbit/s");
        }
    }

    #[test]
    fn rate_that_other_bundles_gained_is_not_lost() {
        let mut guard = Guard::new();
        guard.highest.update(TICK, MEMORY, 6e6);
        guard.highest_of_all.update(TICK, MEMORY, 6e6);
        let lost = |received, others| {
            guard.lost(StepRates { sent: received, received, others, lost: 0.0 })
        };
        assert!(!lost(3e6, 3e6), "the others have it");
        assert!(!lost(3e6, 2e6), "they have most of it");
        assert!(lost(3e6, 1e6), "they have a third of it");
        assert!(!lost(5.5e6, 0.0), "hardly anything is missing");
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
    fn the_return_from_a_drain_is_not_taken_for_a_test_that_followed() {
        let mut path = Loop::new(48, 48);
        path.run(5);
        (path.guard.test, path.guard.doubt_at) = (None, Nanos::ZERO);
        for tick in 0..28 {
            let draining = tick < 20;
            let wanted = Rate::from_mbps(if draining { 30 } else { 48 });
            let m = path.measurement();
            let (rate, _) = path.guard.on_tick(&m, wanted, Nanos::from_millis(1), draining);
            path.send(rate);
            assert!(path.guard.test.is_none(), "tick {tick}");
        }
        assert!(!path.tests.iter().any(|test| test.followed), "{:?}", path.tests);
    }

    #[test]
    fn nothing_follows_from_what_a_stranger_sends() {
        let mut path = Loop::new(5, 48);
        path.stranger = Rate::from_mbps(24);
        let rate = path.run(15);
        assert!((rate - 5.0).abs() < 1e-9 && path.tests.is_empty(), "{rate}: {:?}", path.tests);
    }

    #[test]
    fn the_floor_does_not_hold_the_queue_of_a_test_that_failed() {
        let mut path = Loop::new(48, 48);
        let failed = (0..3_000).any(|_| {
            let m = path.measurement();
            let (rate, outcome) = path.guard.on_tick(&m, path.wanted, Nanos::from_millis(1), false);
            path.send(rate);
            outcome.is_some_and(|outcome| !outcome.followed)
        });
        let m = path.measurement();
        assert_eq!((failed, path.guard.share(&m)), (true, HOLD));
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
            let received = Bytes(ms * 500);
            let sample = BoundarySample {
                sent_at: at,
                sent,
                received_at: at + RTT,
                received,
                others: Others::default(),
                queued: false,
            };
            guard.on_sample(sample, RTT);
        }
        let rates = guard.samples.latest(Nanos::from_millis(1900));
        let StepRates { sent, received, .. } = rates.unwrap();
        assert!((sent - 1e6).abs() < 1.0 && (received - 5e5).abs() < 1.0);
        assert_eq!(guard.samples.latest(Nanos::from_millis(2500)), None);
    }

    #[test]
    fn loss_is_averaged_and_forgotten_with_the_path() {
        let mut guard = Guard::new();
        let at = |n: u32| TICK * u64::from(n);
        guard.on_packets(at(0), 0, 0);
        // One packet of ten is overtaken by the boundary packet and counted with the next sample.
        for n in 1..1000_u32 {
            guard.on_packets(at(n), 10 * n, 10 * n - n % 2);
            assert!(guard.loss() < 0.002, "{}", guard.loss());
        }
        // Every second packet is lost.
        for n in 1..500_u32 {
            guard.on_packets(at(999 + n), 9_990 + 10 * n, 9_989 + 5 * n);
        }
        assert!((guard.loss() - 0.5).abs() < 0.01, "{}", guard.loss());
        // After a silence in which all was lost nothing of it counts.
        guard.clear();
        guard.on_packets(at(2_000), 40_000, 20_000);
        assert_eq!(guard.loss(), 0.0);
    }

    #[test]
    fn a_slow_bundle_forgets_loss_as_fast_as_another() {
        let mut guard = Guard::new();
        let mut received = 0;
        for n in 0..100_u32 {
            // Ten packets in 200 ms: half of them are lost for ten seconds, and none afterwards.
            received += if n < 50 { 5 } else { 10 };
            guard.on_packets(Nanos::from_millis(200) * u64::from(n), 10 * n, received);
            if n == 49 {
                assert!((guard.loss() - 0.5).abs() < 0.01, "{}", guard.loss());
            }
        }
        assert!(guard.loss() < 0.01, "{}", guard.loss());
    }
}
