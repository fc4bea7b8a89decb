//! Copa (Arun and Balakrishnan, NSDI 2018), as Bundler's evaluation applied it to a bundle.
//!
//! A window moves in small steps towards `1 / delta` packets in the bottleneck's queue. The rate is
//! the window over the standing round-trip time.
//!
//! | Copa (section 2.1) | here | why |
//! |---|---|---|
//! | a step of `v / (delta * cwnd)` packets per ACK | the same for each packet that arrived in a tick, computed as R times the tick | a box gets no ACKs |
//! | sends at `2 * cwnd / RTTstanding`, limited by the window | sends at `cwnd / RTTstanding` | a box sets a rate and has no window, so the mean rate is Copa's lambda. Bundler's fork divides by the minimum RTT, which integrates twice and oscillates more |
//! | the minimum RTT of ten seconds | the bundle's minimum RTT, which ages and follows route changes | all controllers share one estimate |
//! | | no step up while the bundle's own queue is empty | a window that is not used is not validated (RFC 7661 section 4.3) |
//! | competitive mode (section 2.2) | left out | beside buffer-filling traffic a bundle lets its flows compete themselves (Bundler section 5.1); its fork fixes delta too |
//!
//! [`crate::Forebay`] has the same equilibrium without the oscillation.

#[cfg(test)]
mod tests;
mod velocity;

use forebay_units::{Bytes, Nanos, Rate};

use crate::config::CopaConfig;
use crate::controller::{Measurement, RateController};
use crate::event::Phase;
use velocity::{Direction, Velocity};

/// The Copa controller.
#[derive(Debug)]
pub struct Copa {
    config: CopaConfig,
    min_rate: Rate,
    max_rate: Rate,
    /// The window in bytes, from which the rate follows.
    window: f64,
    velocity: Velocity,
    phase: Phase,
    last_tick: Nanos,
}

impl Copa {
    /// Creates a controller that sets rates between `min_rate` and `max_rate`.
    pub fn new(config: CopaConfig, min_rate: Rate, max_rate: Rate) -> Self {
        Self {
            config,
            min_rate,
            max_rate,
            window: 0.0,
            velocity: Velocity::new(config.max_velocity),
            phase: Phase::SlowStart,
            last_tick: Nanos::ZERO,
        }
    }

    /// Sets the window to what `rate` fills, and starts in `phase`.
    fn begin(&mut self, rate: Rate, m: &Measurement, phase: Phase) {
        self.window = rate.as_bytes_per_sec_f64() * m.standing_rtt.as_secs_f64();
        self.velocity = Velocity::new(self.config.max_velocity);
        self.phase = phase;
        self.last_tick = m.now;
    }

    /// Returns up while lambda, the present rate, is at most the target `1 / (delta * dq)`
    /// (equation 1).
    fn direction(&self, m: &Measurement) -> Direction {
        let packets = self.window / m.packet.as_f64();
        let lambda = packets / m.standing_rtt.as_secs_f64();
        let dq = m.queueing_delay().as_secs_f64();
        if lambda * self.config.delta * dq <= 1.0 { Direction::Up } else { Direction::Down }
    }

    /// Moves the window by one tick's steps. `arrived` is the bytes that arrived in the tick.
    fn step(&mut self, m: &Measurement, direction: Direction, arrived: f64) {
        let velocity = self.velocity.on_tick(m.now, m.standing_rtt, self.window);
        let step = velocity * arrived * m.packet.as_f64() / (self.config.delta * self.window);
        self.phase = match direction {
            Direction::Down => {
                self.window -= step;
                Phase::Hold
            }
            Direction::Up if m.backlog > Bytes::ZERO => {
                self.window += step;
                Phase::Probe
            }
            Direction::Up => Phase::Unused,
        };
    }
}

impl RateController for Copa {
    fn name(&self) -> &'static str {
        "copa"
    }

    fn on_tick(&mut self, m: &Measurement) -> Rate {
        let elapsed = m.now.saturating_sub(self.last_tick).as_secs_f64();
        self.last_tick = m.now;
        let rtt = m.standing_rtt.as_secs_f64();
        let least = self.min_rate.as_bytes_per_sec_f64() * rtt;
        self.window = self.window.max(least);
        let arrived = m.receive_rate.as_bytes_per_sec_f64() * elapsed;
        let direction = self.direction(m);
        if self.phase != Phase::SlowStart || direction == Direction::Down {
            self.step(m, direction, arrived);
        } else if m.backlog > Bytes::ZERO {
            // The window grows by the bytes that arrived, so it doubles each round trip.
            self.window += arrived;
        }
        self.window = self.window.max(least);
        Rate::from_bps_f64(self.window / rtt * 8.0).clamp(self.min_rate, self.max_rate)
    }

    fn start(&mut self, rate: Rate, m: &Measurement) {
        // The traffic did not fill the path, which may have twice the rate.
        self.begin(rate.scaled(2.0), m, Phase::SlowStart);
    }

    fn resume(&mut self, rate: Rate, m: &Measurement) {
        self.begin(rate, m, Phase::Hold);
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn target_delay(&self, rate: Rate, packet: Bytes) -> Nanos {
        rate.time_for(Bytes((packet.as_f64() / self.config.delta) as u64))
    }
}
