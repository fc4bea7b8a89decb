//! Forebay's own controller: the bottleneck's queue is held at a few packets of the bundle, by what a
//! box between two sites knows and an end host does not.
//!
//! It begins from the fixed point of Copa (Arun and Balakrishnan, NSDI 2018, section 2.1): the bundle
//! keeps the same small number of packets in the bottleneck's queue, whatever the rate, and every
//! other bundle there the same number, which is why bundles share it equally. Four packets of the
//! bundle instead of Copa's eight (at Bundler's delta of 0.125) are enough, since nothing here
//! oscillates around them.
//!
//! How it gets there differs. A box knows its own backlog, so it knows when a rate was its own doing
//! and when the traffic's; its receive rate is counted at the other end; but it sees a sample only
//! every few milliseconds to every few round trips, and it sets a rate, not a window.
//!
//! | Copa | here | why |
//! |---|---|---|
//! | the window moves by `v / (delta * cwnd)` per ACK, up or down by the sign of the error | while a queue stands, the window is `R * minRTT` and the packets to keep, R being the rate at which the bottleneck serves the bundle | R does not depend on the window while there is a queue, so this has no dead time and does not oscillate. FAST TCP (Wei et al., ToN 2006) reaches the same equilibrium by this law |
//! | the velocity doubles each round trip in one direction | only upward, and only while no queue shows; it may carry the window up by a quarter each round trip where 16 steps are less | downward there is nothing left to search for |
//! | rate = cwnd / RTT | the rate that brings what is in flight to the window within half a round trip | cwnd / RTT reacts a round trip late and rings; bytes in flight are known now (a Smith predictor) |
//! | a round trip of dead time | a *round*: the standing RTT and the time between samples | the budget for feedback spaces samples by more than a round trip on short, slow paths |
//! | its oscillation empties the queue within five round trips, which shows the minimum RTT (section 2.2) | a dip of a round or two when the minimum has not been seen for four seconds, or is new | the law above does not oscillate |
//! | | the delay target is longer by the noise of the delays themselves | a shaper's bursts would empty a queue of a few packets at high rates |
//! | | delay that stays when less is sent than the bottleneck served is none of a queue | milliseconds of jitter would be answered by ever lower rates: both laws rest where the packets to keep take as long as the jitter |
//! | | a rate counts only while the bundle sent all that it might, and waited | bursts of traffic that does not fill the path wait for a moment as well |
//! | | a window that the traffic does not fill neither grows nor shrinks | such a window is not validated, but what it was last found to be still stands (RFC 7661 section 4.3) |
//! | slow start ends when the target is exceeded | it ends when a queue has stood for a round; trains of packets give a first rate | bursts of small windows queue for a moment far below the path's rate |
//!
//! What was tried on the way here, and what each step was worth, is in decision record 0014.

mod delay_floor;
mod min_rtt_probe;
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
use tick_input::TickInput;
use velocity::Velocity;

/// A queue shows from this share of the target on: halfway, noise is as likely as a queue.
const SHOWS: f64 = 0.5;
/// From this multiple of the target on the queue is too high, whoever built it.
const HIGH: f64 = 2.0;
/// The estimate follows what is measured over this share of a round.
const FOLLOW: f64 = 0.5;
/// What is in flight is corrected over this share of the minimum RTT,
const CORRECT: f64 = 0.5;
/// but not faster than in two ticks' time: the rate holds for one.
const CORRECT_FLOOR: f64 = 0.020;
/// A correction takes away at most this share of the rate, so that flows keep moving,
const KEEP: f64 = 0.5;
/// and less while samples are overdue: that may be a dead receivebox rather than a long queue.
const KEEP_BLIND: f64 = 0.8;
/// The share of a window that must be used for it to grow (RFC 7661 section 4.3 asks for a half, to
/// be useful to an application that sends now and then; a bundle that is limited fills all of it).
const USED: f64 = 0.9;
/// In slow start the rate may be this multiple of what is used.
const HEADROOM: f64 = 2.0;
/// The first step of growth, in packets: Copa's at Bundler's delta of 0.125. It is a search, so it does
/// not depend on how short a queue is wanted.
const STEP: f64 = 8.0;
/// Growth in a round may reach this share of what fills the path, if the velocity's cap is less: on
/// long fast paths sixteen steps of eight packets would take minutes.
const GROWTH: f64 = 0.25;
/// From this loss on, the buffer is too short to show a queue, and the window does not grow.
const LOSS: f64 = 0.05;

/// The controller. It keeps one number, the rate at which the bottleneck serves the bundle; window
/// and rate follow from it.
#[derive(Debug)]
pub struct Forebay {
    config: ForebayConfig,
    min_rate: Rate,
    max_rate: Rate,
    /// What the bottleneck serves the bundle, in bytes per second.
    capacity: f64,
    phase: Phase,
    velocity: Velocity,
    min_rtt_probe: MinRttProbe,
    delay_floor: DelayFloor,
    /// Since when a queue has stood.
    queue_since: Option<Nanos>,
    /// Till when samples still show what was before a dip or a restart.
    settled_at: Nanos,
    last_tick: Nanos,
}

impl Forebay {
    /// A controller that sets rates between `min_rate` and `max_rate`.
    pub fn new(config: ForebayConfig, min_rate: Rate, max_rate: Rate) -> Self {
        Self {
            config,
            min_rate,
            max_rate,
            capacity: 0.0,
            phase: Phase::SlowStart,
            velocity: Velocity::new(),
            min_rtt_probe: MinRttProbe::new(config.drain_after),
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
        self.queue_since = None;
        self.last_tick = m.now;
    }

    /// Doubles every round until a queue has stood for a round.
    fn slow_start(&mut self, s: &TickInput) {
        let rate = s.train.max(s.receive);
        // Even at a rate where the packets to keep take long, an eighth of the path is a queue.
        let threshold = s.target_delay(rate).min(s.base / 8.0).max(2.0 * s.noise);
        let stands = self.queue_stands(s, s.queue > threshold) && s.informed;
        let stood = stands && s.elapsed_since(self.queue_since) >= s.round;
        // A train of packets that met a long queue has told the rate.
        let told = stands && s.train > 0.0 && s.queue > HIGH * s.target_delay(rate);
        // Where the traffic does not fill the rate, bursts of it may queue for a while; that is no end.
        if (stood && self.bound(s)) || told || s.loss > LOSS {
            self.capacity = self.capacity.min(rate);
            self.queue_since = Some(s.now);
            self.phase = Phase::Hold;
            return;
        }
        if s.backlogged && !stands && s.informed {
            self.capacity += self.capacity * s.dt / s.round;
        }
        self.capacity = self.capacity.max(HEADROOM * s.used / s.base).max(s.train);
    }

    fn steady(&mut self, s: &TickInput) {
        let target = s.target_delay(self.capacity);
        let shows = self.queue_stands(s, s.queue > SHOWS * target);
        let high = s.queue > HIGH * target;
        let bound = self.bound(s);
        // Traffic that does not fill the path still shows by its bursts what that serves at least. Where a
        // long queue stays, others use it too, and what bursts show is the path's rate and no share of it.
        if !(bound || high && self.has_stood(s)) {
            self.capacity = self.capacity.max(s.train);
        }
        if shows && (bound || high) {
            let served = self.served(s, bound, high);
            // Were the capacity overestimated, so would be the window, and the queue were longer than
            // its target. A shorter one may be no more than bursts, which are there at any rate.
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

    /// The rate at which the bottleneck serves the bundle, given that a queue stands.
    fn served(&self, s: &TickInput, bound: bool, high: bool) -> f64 {
        // While the queue is off its target the path may have changed: only the last round trip
        // counts then, two when all is quiet.
        let rate = if high { s.busy.min(s.receive) } else { s.busy };
        // Traffic that comes in bursts may have left the bottleneck idle in between, unless the
        // queue has stood all along.
        if bound || self.has_stood(s) { rate } else { rate.max(s.train) }
    }

    /// A queue has stood for so long that all which the samples tell of waited in it.
    fn has_stood(&self, s: &TickInput) -> bool {
        s.elapsed_since(self.queue_since) >= s.round + s.smoothed
    }

    /// All that the samples tell of was sent at the rate that was set.
    fn bound(&self, s: &TickInput) -> bool {
        s.limited_for >= s.rtt + s.round
    }

    fn may_grow(&self, s: &TickInput, target: f64) -> bool {
        let limited = s.backlogged && s.used >= USED * self.capacity * s.base;
        limited && s.fresh && s.latest < SHOWS * target && s.loss < LOSS
    }

    fn queue_stands(&mut self, s: &TickInput, shows: bool) -> bool {
        if shows {
            self.queue_since.get_or_insert(s.now);
        } else {
            self.queue_since = None;
        }
        shows
    }

    /// The rate that brings what is in flight to `window`.
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
