//! BasicDelay, the delay control of Nimbus (Goyal et al., SIGCOMM 2022, section 4; Bundler uses it in
//! section 7.4).
//!
//! Every tick the rate is
//!
//! ```text
//! rate = S + alpha (mu - z - S) - beta (mu / rtt) (rtt - (1 + target) minRTT)
//! z    = mu S / R - S
//! ```
//!
//! where mu is the bottleneck's rate and z that of the cross traffic: of a bottleneck that is busy
//! the bundle gets the share that it sends, R = mu S / (S + z). The first term sends what was sent
//! before, the second takes what is spare, the third holds the queue at `target` minimum RTTs. At
//! rest S = R and the queue is at its target, whatever mu is; mu only says how hard to correct.
//!
//! | Nimbus and Bundler's prototype | here | why |
//! |---|---|---|
//! | mu is given, or the largest R ever | the largest R of a second in which a queue showed; without one, a smaller R does not count | rates of paths change, and thin traffic says nothing of them. At three times the true mu the loop rings: 3 beta is about half of pi |
//! | | mu is doubled when no queue has shown for two rounds though more waits here, until one shows | it must be more than was thought, and an eighth of too little each round trip would take long |
//! | the first second is at 16 Mbit/s | slow start: twice what was sent, until a queue shows | without mu there is nothing to take a share of |
//! | the minimum RTT is that of all time | it ages, so the queue is drained for a moment when it has not been seen for four seconds | a queue of a quarter of the minimum never shows the minimum again |
//! | the latest RTT | the standing one, the smallest of half a round trip | one late message is no queue |
//! | nothing happens at a tick that follows a report with lost packets | loss does not count | there it came of bytes counted at different moments; hosts answer to loss themselves |
//! | the threshold decays from the present RTT to 1.25 minRTT by 0.005 a report, of 10 ms | the same, by half a minimum RTT a second | |
//! | pulses on top of the rate | none | they are the detector's, which is not part of this law |
//!
//! Where the bottleneck's buffer is shorter than the target, the third term asks for more all the
//! time: up to `beta target / alpha` = 16 % more than is served, which is lost.

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

/// So many rounds in which no queue showed though the traffic filled the rate, and mu is doubled: the
/// first shows what the rate of the one before did.
const SPARE_ROUNDS: u64 = 2;
/// How fast the threshold comes down to its target, in minimum RTTs a second.
const DECAY: f64 = 0.5;
/// A queue shows from this share of the target on.
const SHOWS: f64 = 0.5;
/// In slow start the rate is this multiple of what is sent.
const HEADROOM: f64 = 2.0;
/// The least that slow start lets out in a minimum RTT, in packets: a first window (RFC 6928).
const FIRST_WINDOW: f64 = 10.0;

/// The controller. Rates are in bits per second, times in seconds.
#[derive(Debug)]
pub struct BasicDelay {
    config: BasicDelayConfig,
    min_rate: Rate,
    max_rate: Rate,
    /// mu.
    bottleneck: WindowedMax,
    /// The round-trip time to hold, in minimum RTTs.
    threshold: f64,
    /// What slow start has come to.
    reached: f64,
    /// Since when no queue has shown though the traffic fills the rate; and whether mu was raised for
    /// that.
    spare_since: Option<Nanos>,
    guessed: bool,
    min_rtt_probe: MinRttProbe,
    phase: Phase,
    min_rtt: Nanos,
    last_tick: Nanos,
}

impl BasicDelay {
    /// A controller that sets rates between `min_rate` and `max_rate`.
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

    /// The queueing delay to hold.
    fn target(&self) -> Nanos {
        Nanos::from_secs_f64(self.config.target * self.min_rtt.as_secs_f64())
    }

    fn shows(&self, m: &Measurement) -> bool {
        m.queueing_delay().as_secs_f64() > SHOWS * self.target().as_secs_f64()
    }

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

    /// Keeps mu. A receive rate below it counts where a queue shows that the path serves no more;
    /// where none shows though more waits here, mu must be more than was thought.
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

    /// What exceeds the target by ever so little cuts the rate again and again.
    fn cut_threshold(&self, _rate: Rate, _packet: Bytes) -> Nanos {
        self.target()
    }
}

/// The rate at which the bundle is served, given that a queue shows.
fn served(m: &Measurement) -> f64 {
    bps(m.busy_rate.map_or(m.receive_rate, |busy| busy.max(m.receive_rate)))
}

fn bps(rate: Rate) -> f64 {
    rate.as_bps() as f64
}
