//! Forebay's own controller, which keeps a few packets of the bundle in the bottleneck's queue.
//!
//! Its equilibrium is that of Copa (Arun and Balakrishnan, NSDI 2018, section 2.1): the bundle
//! keeps the same small number of packets in the bottleneck's queue at any rate. Every other bundle
//! there keeps the same number, so the bundles share the rate equally. Four packets are enough
//! instead of Copa's eight (at Bundler's delta of 0.125), since the rate does not oscillate around
//! them.
//!
//! The way to this equilibrium differs, since a box has other information than an end host. It
//! knows its own backlog, so it knows whether its rate or the traffic was the limit, and it knows
//! the receive rate. But it gets a sample only every few milliseconds to every few round trips, and
//! it sets a rate instead of a window.
//!
//! The controller estimates the rate R at which the bottleneck serves the bundle. The window is
//! R times the minimum RTT plus the packets to keep in the queue, and the rate brings the bytes in
//! flight to this window.
//!
//! | Copa | here | why |
//! |---|---|---|
//! | the window moves by `v / (delta * cwnd)` per ACK, up or down by the sign of the error | while there is a queue, the window is `R * minRTT` plus the packets to keep, where R is the rate at which the bottleneck serves the bundle | while there is a queue R does not depend on the window, so there is no dead time and no oscillation. FAST TCP (Wei et al., ToN 2006) reaches the same equilibrium by this law |
//! | the velocity doubles each round trip in one direction | only upward, and only while there is no queue; the window may grow by a quarter each round trip where 16 steps are less | downward the right window is known |
//! | rate = cwnd / RTT | the rate that brings the bytes in flight to the window within half a round trip | cwnd / RTT reacts a round trip late and oscillates, while the bytes in flight are known now (a Smith predictor) |
//! | a round trip of dead time | a *round*: the standing RTT plus the time between samples | the feedback budget makes samples rarer than one per round trip on short, slow paths |
//! | the oscillation empties the queue within five round trips, which shows the minimum RTT (section 2.2) | a minimum RTT probe of a round or two when the minimum has not been seen for four seconds, or is new | this law does not oscillate |
//! | | the delay target is longer by the noise of the delays | the bursts of a shaper would empty a queue of a few packets at high rates |
//! | | delay that stays when less is sent than the bottleneck served is not a queue (`delay_floor`) | milliseconds of jitter would cause ever lower rates: both laws are in equilibrium where the packets to keep take as long as the jitter |
//! | | a rate counts only while the bundle used all of its rate and its packets waited | bursts of traffic that does not fill the path also wait for a moment |
//! | | a window that the traffic does not fill neither grows nor shrinks | such a window is not validated, but its last value still holds (RFC 7661 section 4.3) |
//! | slow start doubles the rate each round trip | it begins with what waits at the sendbox, grows by half a round trip, and pauses at the first sample that saw a queue | what is sent in the round trip before the first sign of a queue is the queue. Flows whose packets do not wait here are in a slow start of their own, and get twice what they use |
//! | slow start ends when the target is exceeded | it ends when a queue has stood for a round; trains of packets give a first rate | bursts of small windows make a queue for a moment at far below the path's rate |
//!
//! Decision record 0014 has the alternatives and the figures.

mod delay_floor;
mod min_rtt_probe;
mod start_drain;
#[cfg(test)]
mod tests;
mod tick_input;
mod velocity;

use forebay_units::{Bytes, Nanos, Rate};

use crate::config::ForebayConfig;
use crate::controller::{Measurement, RateController};
use crate::event::Phase;
use crate::pass_through::PassThroughPolicy;
use delay_floor::DelayFloor;
use min_rtt_probe::MinRttProbe;
use start_drain::StartDrain;
use tick_input::TickInput;
use velocity::Velocity;

/// A queue is present from this share of the target on. At half, noise is as likely as a queue.
const SHOWS: f64 = 0.5;
/// The queue is too long from this multiple of the target on.
const HIGH: f64 = 2.0;
/// The share of a round over which the estimate follows the measured rate.
const FOLLOW: f64 = 0.5;
/// The share of the minimum RTT within which the bytes in flight are corrected.
const CORRECT: f64 = 0.5;
/// The shortest time of a correction in seconds: two ticks, since a rate holds for one.
const CORRECT_FLOOR: f64 = 0.020;
/// The share of the estimated rate that a correction leaves, so that flows keep moving.
const KEEP: f64 = 0.5;
/// The same while samples are overdue. It is higher, since the cause may be a receivebox that
/// stopped rather than a long queue.
const KEEP_BLIND: f64 = 0.8;
/// The share of a window that must be used for it to grow. RFC 7661 section 4.3 asks for a half,
/// for applications that send from time to time, but a bundle that is limited fills all of it.
const USED: f64 = 0.9;
/// The rate of slow start, as a multiple of the rate that is used.
const HEADROOM: f64 = 2.0;
/// The bytes of slow start's first round: what a single new flow may send (RFC 6928 section 2).
const INITIAL_WINDOW: f64 = 10.0 * 1500.0;
/// The share of the bytes at the sendbox that may leave in a round of slow start.
const WAITING: f64 = 0.25;
/// The growth in slow start while packets wait: ln 1.5 a round.
const SLOW_START: f64 = 0.405;
/// The rate in slow start, as a multiple of what arrives, once the newest sample shows a queue.
const CAUTION: f64 = 1.1;
/// The first step of growth in packets: Copa's at Bundler's delta of 0.125. It is a search, so it
/// does not depend on the target of the queue.
const STEP: f64 = 8.0;
/// The largest growth in a round as a share of what fills the path, if the cap of the velocity is
/// less. On long fast paths sixteen steps of eight packets would take minutes.
const GROWTH: f64 = 0.25;
/// The loss from which on the window does not grow, since the buffer is too short for a queue.
const LOSS: f64 = 0.05;

/// Forebay's own controller.
#[derive(Debug)]
pub struct Forebay {
    config: ForebayConfig,
    min_rate: Rate,
    max_rate: Rate,
    /// The estimated rate at which the bottleneck serves the bundle, in bytes per second.
    capacity: f64,
    phase: Phase,
    velocity: Velocity,
    min_rtt_probe: MinRttProbe,
    start_drain: StartDrain,
    delay_floor: DelayFloor,
    /// Since when there has been a queue.
    queue_since: Option<Nanos>,
    /// Until when samples still show the time before a minimum RTT probe or a restart.
    settled_at: Nanos,
    last_tick: Nanos,
}

impl Forebay {
    /// Creates a controller that sets rates between `min_rate` and `max_rate`.
    pub fn new(config: ForebayConfig, min_rate: Rate, max_rate: Rate) -> Self {
        Self {
            config,
            min_rate,
            max_rate,
            capacity: 0.0,
            phase: Phase::SlowStart,
            velocity: Velocity::new(),
            min_rtt_probe: MinRttProbe::new(config.drain_after),
            start_drain: StartDrain::default(),
            delay_floor: DelayFloor::default(),
            queue_since: None,
            settled_at: Nanos::ZERO,
            last_tick: Nanos::ZERO,
        }
    }

    fn reset(&mut self, rate: Rate, m: &Measurement) {
        self.capacity = rate.as_bytes_per_sec_f64();
        self.velocity = Velocity::new();
        self.min_rtt_probe = MinRttProbe::new(self.config.drain_after);
        self.delay_floor = DelayFloor::default();
        self.start_drain.begin_again();
        self.queue_since = None;
        self.last_tick = m.now;
    }

    /// Returns the rate while a queue from before the start is drained.
    fn drained_start(&mut self, s: &TickInput) -> Option<f64> {
        if let Some(share) = self.start_drain.on_tick(s) {
            self.phase = Phase::Drain;
            return Some(share * self.capacity);
        }
        if self.phase == Phase::Drain && !self.min_rtt_probe.is_on() {
            // While the queue stood, all of the path's rate arrived.
            let found_queue = self.start_drain.found_queue();
            self.phase = if found_queue { Phase::Hold } else { Phase::SlowStart };
            self.settled_at = s.now.saturating_add(Nanos::from_secs_f64(s.round));
        }
        None
    }

    /// Raises the rate until there has been a queue for a round.
    ///
    /// Nothing is known of the path's rate yet, and a queue shows a round after it began. So the
    /// rate starts with what waits, which would be in the bottleneck's queue without a box, and
    /// grows slowly enough that a round too much is a short queue.
    fn slow_start(&mut self, s: &TickInput) {
        let rate = s.train.max(s.receive);
        // At a low rate the packets to keep take long, but an eighth of the path is a queue anyway.
        let threshold = s.target_delay(rate).min(s.base / 8.0).max(2.0 * s.noise);
        let stands = self.queue_stands(s, s.queue > threshold) && s.informed;
        let stood = stands && s.elapsed_since(self.queue_since) >= s.round;
        // A train of packets that waited in a long queue shows the rate.
        let told = stands && s.train > 0.0 && s.queue > HIGH * s.target_delay(rate);
        // Bursts of traffic that does not fill the rate may queue for a while without ending this.
        if (stood && self.bound(s)) || told || s.loss > LOSS {
            self.capacity = self.capacity.min(rate);
            self.queue_since = Some(s.now);
            self.phase = Phase::Hold;
            return;
        }
        if !s.backlogged {
            // The flows are in slow start themselves.
            self.capacity = self.capacity.max(HEADROOM * s.used / s.base);
        } else if s.informed && s.latest > SHOWS * threshold {
            self.capacity = self.capacity.min(CAUTION * rate).max(s.receive);
        } else if !stands {
            let first = INITIAL_WINDOW.max(WAITING * s.waiting);
            self.capacity = self.capacity.max(first / s.base);
            self.capacity += self.capacity * SLOW_START * s.dt / s.base;
        }
        self.capacity = self.capacity.max(s.train);
    }

    /// Updates the estimate and the phase after slow start.
    fn steady(&mut self, s: &TickInput) {
        let target = s.target_delay(self.capacity);
        let shows = self.queue_stands(s, s.queue > SHOWS * target);
        let high = s.queue > HIGH * target;
        let bound = self.bound(s);
        // Bursts of traffic that does not fill the path show a lower bound of its rate. Beside a
        // long queue there is other traffic too, and bursts show the path's rate instead of the
        // share.
        if !(bound || high && self.has_stood(s)) {
            self.capacity = self.capacity.max(s.train);
        }
        if shows && (bound || high) {
            let served = self.served(s, bound, high);
            // If the estimate were too high, so would be the window, and the queue would be longer
            // than its target. A shorter queue may be just bursts, which exist at any rate.
            if s.queue < target && served < self.capacity {
                self.velocity.pause(s, false);
            } else {
                self.velocity.rest(s);
                self.capacity += (served - self.capacity) * s.share_of(FOLLOW * s.round);
            }
            self.phase = Phase::Hold;
        } else if !shows && self.may_grow(s, target) {
            let step = STEP * s.packet + self.capacity * s.noise;
            let most = self.config.max_velocity.max(GROWTH * self.capacity * s.base / step);
            self.capacity += step * self.velocity.step(s, most) / s.round;
            self.phase = Phase::Probe;
        } else {
            self.velocity.pause(s, shows);
            self.phase = Phase::Unused;
        }
    }

    /// Returns the rate at which the bottleneck serves the bundle, given that there is a queue.
    fn served(&self, s: &TickInput, bound: bool, high: bool) -> f64 {
        // While the queue is off its target the path may have changed, so only the last round trip
        // counts, and otherwise the last two.
        let rate = if high { s.busy.min(s.receive) } else { s.busy };
        // Bursts may have left the bottleneck idle in between, unless the queue has stood all
        // along.
        if bound || self.has_stood(s) { rate } else { rate.max(s.train) }
    }

    /// Returns whether the queue has stood so long that the packets of all samples waited in it.
    fn has_stood(&self, s: &TickInput) -> bool {
        s.elapsed_since(self.queue_since) >= s.round + s.smoothed
    }

    /// Returns whether the packets of all samples were sent at the rate that was set.
    fn bound(&self, s: &TickInput) -> bool {
        s.limited_for >= s.rtt + s.round
    }

    /// Returns whether the window is used and the newest samples show neither queue nor loss.
    fn may_grow(&self, s: &TickInput, target: f64) -> bool {
        let limited = s.backlogged && s.used >= USED * self.capacity * s.base;
        limited && s.fresh && s.latest < SHOWS * target && s.loss < LOSS
    }

    /// Records whether there is a queue, and returns it.
    fn queue_stands(&mut self, s: &TickInput, shows: bool) -> bool {
        if shows {
            self.queue_since.get_or_insert(s.now);
        } else {
            self.queue_since = None;
        }
        shows
    }

    /// Returns the rate that brings the bytes in flight to `window`.
    fn rate(&self, s: &TickInput, window: f64) -> f64 {
        let time = (s.base * CORRECT).max(CORRECT_FLOOR);
        let correction = (window - s.in_flight(self.capacity)) / time;
        let keep = if s.overdue > 0.0 { KEEP_BLIND } else { KEEP };
        (self.capacity + correction).max(keep * self.capacity).min(window / s.base)
    }
}

impl RateController for Forebay {
    fn name(&self) -> &'static str {
        "forebay"
    }

    fn on_tick(&mut self, m: &Measurement) -> Rate {
        let s = TickInput::new(m, self.last_tick, self.delay_floor.delay(), &self.config);
        self.last_tick = m.now;
        let least = self.config.min_window * s.packet;
        if let Some(rate) = self.drained_start(&s) {
            // What is in flight waits in the queue, so the window is one of the present round trip.
            return self.bounded(rate.max(least / s.rtt));
        }
        if self.phase == Phase::SlowStart {
            self.slow_start(&s);
            return self.bounded(self.capacity.max(least / s.base));
        }
        let high = s.queue.min(s.latest) > HIGH * s.target_delay(self.capacity);
        if high {
            self.settled_at = m.now;
        }
        if !self.min_rtt_probe.is_on() && m.now >= self.settled_at {
            self.steady(&s);
            self.delay_floor.on_tick(&s, s.target_delay(self.capacity), self.bound(&s));
        }
        let may_start =
            self.phase == Phase::Hold && s.elapsed_since(self.queue_since) >= 2.0 * s.round;
        if self.min_rtt_probe.on_tick(&s, high, may_start) {
            self.settled_at = m.now.saturating_add(Nanos::from_secs_f64(1.5 * s.round));
        }
        let product = self.capacity * s.base;
        let window = if let Some(window) = self.min_rtt_probe.window(&s, product) {
            self.phase = Phase::Drain;
            window
        } else {
            if self.phase == Phase::Drain {
                self.phase = Phase::Hold;
            }
            (product + s.target(self.capacity)).max(least)
        };
        self.bounded(self.rate(&s, window))
    }

    fn start(&mut self, rate: Rate, m: &Measurement) {
        self.reset(rate, m);
        self.phase = Phase::SlowStart;
    }

    fn resume(&mut self, rate: Rate, m: &Measurement) {
        self.reset(rate, m);
        self.phase = Phase::Hold;
        let round = m.smoothed_rtt.saturating_add(m.sample_interval);
        self.settled_at = m.now.saturating_add(round);
    }

    fn take_longer_path(&mut self) -> Option<Nanos> {
        self.start_drain.take_longer_path()
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn target_delay(&self, rate: Rate, packet: Bytes) -> Nanos {
        let packets = Bytes((packet.as_f64() * self.config.queue_packets) as u64);
        rate.time_for(packets).saturating_add(self.config.noise)
    }

    fn pass_through_policy(&self) -> PassThroughPolicy {
        PassThroughPolicy::Unlimited
    }
}

impl Forebay {
    fn bounded(&self, rate: f64) -> Rate {
        Rate::from_bps_f64(rate * 8.0).clamp(self.min_rate, self.max_rate)
    }
}
