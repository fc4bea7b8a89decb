//! BasicDelay, the delay control of Nimbus (Goyal et al., SIGCOMM 2022, section 4; Bundler section
//! 7.4).
//!
//! Every tick the rate is
//!
//! ```text
//! rate = S + alpha (mu - z - S) - beta (mu / rtt) (rtt - (1 + target) minRTT)
//! z    = mu S / R - S
//! ```
//!
//! where mu is the bottleneck's rate and z that of the cross traffic. A busy bottleneck serves the
//! bundle in proportion to its send rate: R = mu S / (S + z). The first term keeps the last send
//! rate, the second uses the spare rate, and the third holds the queue at `target` minimum RTTs. In
//! equilibrium S = R and the queue is at its target for any mu, which only sets the strength of the
//! correction.
//!
//! | Nimbus and Bundler's prototype | here | why |
//! |---|---|---|
//! | mu is given, or the largest R since the start | the largest R of a second with a queue; without a queue, a smaller R does not count | rates of paths change, and thin traffic does not show them. At three times the true mu the loop oscillates: 3 beta is about half of pi |
//! | | mu is doubled when the sendbox has a backlog and the path had no queue for two rounds, until a queue appears | mu must be higher than estimated, and growth by an eighth of the error each round trip would take long |
//! | the first second is at 16 Mbit/s | slow start: twice the rate sent, until a queue appears | without mu there is no spare rate to compute |
//! | the minimum RTT since the start | it ages, so the queue is drained briefly when the minimum has not been seen for four seconds | with a queue of a quarter of the minimum RTT, the minimum is never seen again |
//! | the latest RTT | the standing RTT, the smallest of half a round trip | one late message is not a queue |
//! | no change at a tick after a report with lost packets | loss is ignored | there the loss was an artifact of counting bytes at different times; hosts respond to loss themselves |
//! | the threshold decays from the present RTT to 1.25 minRTT by 0.005 a report, one every 10 ms | the same, by half a minimum RTT a second | |
//! | pulses on top of the rate | none | they belong to the detector (`cross`) and not to this law |
//!
//! Where the bottleneck's buffer is shorter than the target, the third term always asks for more:
//! up to `beta target / alpha` = 16 % more than is served, and that much is lost.

mod config;
mod min_rtt_probe;
#[cfg(test)]
mod tests;

use forebay_units::{Bytes, Nanos, Rate};

pub use config::BasicDelayConfig;

use crate::controller::{Measurement, RateController};
use crate::event::Phase;
use crate::windowed_max::WindowedMax;
use min_rtt_probe::MinRttProbe;

/// Rounds without a queue in spite of a backlog after which mu is doubled. The first of them still
/// shows the rate before the last change.
const SPARE_ROUNDS: u64 = 2;
/// How fast the threshold decays to its target, in minimum RTTs a second.
const DECAY: f64 = 0.5;
/// A queue is present from this share of the target on.
const SHOWS: f64 = 0.5;
/// The rate of slow start, as a multiple of the rate that is sent.
const HEADROOM: f64 = 2.0;
/// The lowest rate of slow start, in packets per minimum RTT: an initial window (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;

/// The BasicDelay controller. Rates are in bits per second and times in seconds.
#[derive(Debug)]
pub struct BasicDelay {
    config: BasicDelayConfig,
    min_rate: Rate,
    max_rate: Rate,
    /// The bottleneck's rate mu.
    bottleneck: WindowedMax,
    /// The round-trip time to hold, in minimum RTTs.
    threshold: f64,
    /// The rate that slow start has reached.
    reached: f64,
    /// Since when there has been a backlog at the sendbox but no queue on the path.
    spare_since: Option<Nanos>,
    /// Whether mu was doubled and no queue has confirmed it yet.
    guessed: bool,
    min_rtt_probe: MinRttProbe,
    phase: Phase,
    min_rtt: Nanos,
    last_tick: Nanos,
}

impl BasicDelay {
    /// Creates a controller that sets rates between `min_rate` and `max_rate`.
    pub fn new(config: BasicDelayConfig, min_rate: Rate, max_rate: Rate) -> Self {
        Self {
            config,
            min_rate,
            max_rate,
            bottleneck: WindowedMax::default(),
            threshold: 1.0 + config.target,
            reached: 0.0,
            spare_since: None,
            guessed: false,
            min_rtt_probe: MinRttProbe::new(config.drain_after),
            phase: Phase::SlowStart,
            min_rtt: Nanos::ZERO,
            last_tick: Nanos::ZERO,
        }
    }

    fn reset(&mut self, rate: Rate, m: &Measurement) {
        let ratio = m.standing_rtt.0 as f64 / m.min_rtt.0.max(1) as f64;
        self.threshold = ratio.max(1.0 + self.config.target);
        self.bottleneck.reset(m.now, bps(rate));
        self.reached = bps(rate);
        self.spare_since = None;
        self.guessed = false;
        self.min_rtt_probe = MinRttProbe::new(self.config.drain_after);
        self.min_rtt = m.min_rtt;
        self.last_tick = m.now;
    }

    /// Returns the queueing delay to hold.
    fn target(&self) -> Nanos {
        Nanos::from_secs_f64(self.config.target * self.min_rtt.as_secs_f64())
    }

    /// Returns whether there is a queue at the bottleneck.
    fn shows(&self, m: &Measurement) -> bool {
        m.queueing_delay().as_secs_f64() > SHOWS * self.target().as_secs_f64()
    }

    /// Returns the rate of slow start, and leaves slow start when there is a queue.
    fn slow_start(&mut self, m: &Measurement) -> f64 {
        let train = m.train_rate.map_or(0.0, bps);
        if self.shows(m) {
            self.bottleneck.reset(m.now, served(m).max(train));
            self.phase = Phase::Hold;
            return self.rule(m);
        }
        let path = m.min_rtt.as_secs_f64().max(1e-4);
        let first = m.packet.as_f64() * FIRST_WINDOW * 8.0 / path;
        let used = m.peak_sent.as_f64() * 8.0 / path;
        let sent = bps(m.send_rate).max(used);
        self.reached = self.reached.max(HEADROOM * sent).max(train).max(first);
        self.reached
    }

    /// Updates mu. A receive rate below mu counts if a queue shows that the path serves no more. If
    /// there is a backlog here but no queue there, mu must be higher than estimated.
    fn learn(&mut self, m: &Measurement, limited: bool, shows: bool) {
        let received = bps(m.receive_rate);
        if shows {
            self.spare_since = None;
            if core::mem::take(&mut self.guessed) {
                self.bottleneck.reset(m.now, served(m));
            }
            self.bottleneck.update(m.now, self.config.rate_window, received);
            return;
        }
        self.bottleneck.raise(received);
        if !limited {
            self.spare_since = None;
            return;
        }
        let since = *self.spare_since.get_or_insert(m.now);
        let round = m.standing_rtt.saturating_add(m.sample_interval);
        if m.now.saturating_sub(since) >= round * SPARE_ROUNDS {
            self.bottleneck.raise(2.0 * self.bottleneck.get());
            self.spare_since = Some(m.now);
            self.guessed = true;
        }
    }

    /// Returns the rate by the formula above.
    fn rule(&self, m: &Measurement) -> f64 {
        let BasicDelayConfig { alpha, beta, floor, .. } = self.config;
        let mu = self.bottleneck.get();
        let (sent, received) = (bps(m.send_rate), bps(m.receive_rate));
        let cross = if received > 0.0 { mu * sent / received - sent } else { 0.0 };
        let rtt = m.standing_rtt.as_secs_f64().max(1e-4);
        let excess = rtt - self.threshold * m.min_rtt.as_secs_f64();
        let rate = sent + alpha * (mu - cross - sent) - beta * mu / rtt * excess;
        rate.max(floor * mu)
    }
}

impl RateController for BasicDelay {
    fn name(&self) -> &'static str {
        "basic_delay"
    }

    fn on_tick(&mut self, m: &Measurement) -> Rate {
        let elapsed = m.now.saturating_sub(self.last_tick).as_secs_f64();
        self.last_tick = m.now;
        self.min_rtt = m.min_rtt;
        self.threshold = (self.threshold - DECAY * elapsed).max(1.0 + self.config.target);
        let rate = if self.phase == Phase::SlowStart {
            self.slow_start(m)
        } else {
            let limited = m.limited_for >= m.rtt.saturating_add(m.smoothed_rtt);
            let shows = self.shows(m);
            match self.min_rtt_probe.on_tick(m, bps(m.receive_rate), shows) {
                Some(rate) => {
                    self.phase = Phase::Drain;
                    self.spare_since = None;
                    rate
                }
                None => {
                    self.learn(m, limited, shows);
                    self.phase = match (shows, limited) {
                        (true, _) => Phase::Hold,
                        (false, true) => Phase::Probe,
                        (false, false) => Phase::Unused,
                    };
                    self.rule(m)
                }
            }
        };
        Rate::from_bps_f64(rate).clamp(self.min_rate, self.max_rate)
    }

    fn start(&mut self, rate: Rate, m: &Measurement) {
        self.reset(rate, m);
        self.phase = Phase::SlowStart;
    }

    fn resume(&mut self, rate: Rate, m: &Measurement) {
        self.reset(rate, m);
        self.phase = Phase::Hold;
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn target_delay(&self, _rate: Rate, _packet: Bytes) -> Nanos {
        self.target()
    }

    /// Returns the target itself, since any larger delay cuts the rate at each tick.
    fn cut_threshold(&self, _rate: Rate, _packet: Bytes) -> Nanos {
        self.target()
    }
}

/// Returns the rate at which the bottleneck serves the bundle, given that there is a queue.
fn served(m: &Measurement) -> f64 {
    bps(m.busy_rate.map_or(m.receive_rate, |busy| busy.max(m.receive_rate)))
}

fn bps(rate: Rate) -> f64 {
    rate.as_bps() as f64
}
