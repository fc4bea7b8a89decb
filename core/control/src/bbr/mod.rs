//! BBR (Cardwell et al., ACM Queue 2016) for the aggregate behind a shaper.
//!
//! BBR estimates the path's bandwidth BtlBw as the highest recent receive rate, and sends at this
//! rate. It works in cycles of eight minimum RTTs: the first phase is a quarter faster, to test
//! whether the path serves more; the second is a quarter slower, to drain the excess; six are at
//! BtlBw. The rate is limited to what a window of two bandwidth-delay products gives at the present
//! RTT (Bundler section 6.1). When the minimum RTT has not been seen for long, BBR sends almost
//! nothing for a moment.
//!
//! | BBR, and Bundler's prototype of it | here | why |
//! |---|---|---|
//! | BtlBw: the highest delivery rate of ten round trips; in the prototype, since the start | of ten round trips | a path may become slower |
//! | the delivery rate is the lower of send and ACK rate, here min(S, R) | the same | |
//! | rates of an application-limited flow count only if they are higher | the same; a bundle is limited by the application unless its queue was not empty during the whole time of the samples | |
//! | startup at 2/ln 2 until BtlBw stops growing, drain at its inverse; the prototype has neither | both | without them, a path eight times as fast as the estimate takes 75 round trips to fill |
//! | phases last a minimum RTT | and at least two ticks | the rate is set once a tick |
//! | a cycle begins with a random phase | with the first phase at BtlBw | after a probe of the RTT the queue is empty, and its samples have not arrived yet |
//! | ten seconds to a probe of the RTT | eight | the window of the bundle's minimum RTT is ten |
//! | the probe of the RTT ends 200 ms after four packets are in flight | 200 ms and a round trip after it began | it takes a round trip until four are in flight, and four packets have too few boundary packets to tell |
//! | rates during that probe do not count | nor until a round trip later | |
//!
//! BBR builds a queue of up to a minimum RTT by design, so it moves less of the queue to the
//! sendbox than the other controllers. Bundler found it worse than no boxes (section 7.4).

mod config;
mod full_pipe;
#[cfg(test)]
mod tests;

use core::f64::consts::LN_2;

use forebay_units::{Bytes, Nanos, Rate};

pub use config::BbrConfig;

use crate::controller::{Measurement, RateController};
use crate::event::Phase;
use crate::windowed_max::WindowedMax;
use full_pipe::FullPipe;

/// The gain of startup, the smallest that lets BtlBw double each round trip.
const STARTUP_GAIN: f64 = 2.0 / LN_2;
/// Number of phases in a cycle.
const CYCLE: u64 = 8;
/// The shortest phase: two ticks.
const PHASE_FLOOR: Nanos = Nanos::from_millis(20);
/// Packets in flight during a probe of the RTT.
const PROBE_RTT_WINDOW: f64 = 4.0;
/// Round trips until the next probe of the RTT after one that did not see the minimum, besides a
/// second. A queue of cross traffic may hide the minimum.
const PROBE_AGAIN_ROUNDS: u64 = 8;

/// The BBR controller. Rates are in bits per second.
#[derive(Debug)]
pub struct Bbr {
    config: BbrConfig,
    min_rate: Rate,
    max_rate: Rate,
    bandwidth: WindowedMax,
    state: State,
    /// When the state, or the phase of the cycle, began.
    since: Nanos,
    full_pipe: FullPipe,
    /// Until when samples still show a probe of the RTT or a restart.
    unsettled_until: Nanos,
    /// The earliest time of the next probe of the RTT.
    probe_rtt_at: Nanos,
    min_rtt: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Startup,
    Drain,
    /// The cycle, in the phase of this number.
    ProbeBandwidth(u64),
    ProbeRtt,
}

impl Bbr {
    /// Creates a controller that sets rates between `min_rate` and `max_rate`.
    pub fn new(config: BbrConfig, min_rate: Rate, max_rate: Rate) -> Self {
        Self {
            config,
            min_rate,
            max_rate,
            bandwidth: WindowedMax::default(),
            state: State::Startup,
            since: Nanos::ZERO,
            full_pipe: FullPipe::default(),
            unsettled_until: Nanos::ZERO,
            probe_rtt_at: Nanos::ZERO,
            min_rtt: Nanos::ZERO,
        }
    }

    fn reset(&mut self, rate: Rate, m: &Measurement, state: State) {
        self.bandwidth.reset(m.now, bps(rate));
        self.full_pipe = FullPipe::new(m.now);
        self.unsettled_until = m.now;
        self.probe_rtt_at = m.now;
        self.min_rtt = m.min_rtt;
        self.enter(state, m.now);
    }

    fn enter(&mut self, state: State, now: Nanos) {
        self.state = state;
        self.since = now;
    }

    /// Updates BtlBw from the measurement.
    fn learn(&mut self, m: &Measurement) {
        let rate = bps(m.send_rate.min(m.receive_rate));
        let limited = m.limited_for >= m.rtt.saturating_add(m.smoothed_rtt);
        if limited && self.state != State::ProbeRtt && m.now >= self.unsettled_until {
            let window = m.smoothed_rtt.max(PHASE_FLOOR) * u64::from(self.config.bandwidth_rounds);
            self.bandwidth.update(m.now, window, rate);
        } else {
            self.bandwidth.raise(rate);
        }
    }

    /// Changes the state when its time has come.
    fn advance(&mut self, m: &Measurement) {
        let lasted = m.now.saturating_sub(self.since);
        let phase = m.min_rtt.max(PHASE_FLOOR);
        let round = m.smoothed_rtt.saturating_add(m.sample_interval);
        if self.state != State::ProbeRtt
            && m.min_rtt_age > self.config.probe_rtt_after
            && m.now >= self.probe_rtt_at
        {
            return self.enter(State::ProbeRtt, m.now);
        }
        match self.state {
            State::Startup if self.full_pipe.on_tick(m, round, self.bandwidth.get()) => {
                self.enter(State::Drain, m.now);
            }
            // A drain takes at most a cycle. If the path became longer, there would always be more
            // than a bandwidth-delay product in flight.
            State::Drain if self.is_drained(m) || lasted >= phase * CYCLE => {
                self.enter(State::ProbeBandwidth(2), m.now);
            }
            State::ProbeBandwidth(n) if lasted >= phase => {
                self.enter(State::ProbeBandwidth((n + 1) % CYCLE), m.now);
            }
            State::ProbeRtt if lasted >= self.config.probe_rtt_for.saturating_add(m.min_rtt) => {
                self.unsettled_until = m.now.saturating_add(round).saturating_add(m.smoothed_rtt);
                let again = (m.smoothed_rtt * PROBE_AGAIN_ROUNDS).max(Nanos::from_secs(1));
                self.probe_rtt_at = m.now.saturating_add(again);
                self.enter(State::ProbeBandwidth(2), m.now);
            }
            _ => {}
        }
    }

    /// Returns whether at most a bandwidth-delay product is in flight: the bytes sent after the
    /// newest sample's packet less what was served since.
    fn is_drained(&self, m: &Measurement) -> bool {
        let bandwidth = self.bandwidth.get();
        let served = bandwidth * m.sample_age.as_secs_f64();
        let in_flight = m.unacknowledged.as_f64() * 8.0 - served;
        in_flight <= bandwidth * m.min_rtt.as_secs_f64()
    }

    /// Returns the rate of the present state.
    fn paced(&self, m: &Measurement) -> f64 {
        let (bandwidth, config) = (self.bandwidth.get(), &self.config);
        let gain = match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain => 1.0 / STARTUP_GAIN,
            State::ProbeBandwidth(0) => 1.0 + config.probe,
            State::ProbeBandwidth(1) => 1.0 - config.probe,
            State::ProbeBandwidth(_) => 1.0,
            State::ProbeRtt => {
                let window = m.packet.as_f64() * PROBE_RTT_WINDOW * 8.0;
                return window / m.rtt.as_secs_f64().max(1e-4);
            }
        };
        let window = config.window.max(gain) * m.min_rtt.0 as f64 / m.rtt.0.max(1) as f64;
        gain.min(window) * bandwidth
    }
}

impl RateController for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn on_tick(&mut self, m: &Measurement) -> Rate {
        self.min_rtt = m.min_rtt;
        self.learn(m);
        self.advance(m);
        Rate::from_bps_f64(self.paced(m)).clamp(self.min_rate, self.max_rate)
    }

    fn start(&mut self, rate: Rate, m: &Measurement) {
        self.reset(rate, m, State::Startup);
    }

    fn resume(&mut self, rate: Rate, m: &Measurement) {
        self.reset(rate, m, State::ProbeBandwidth(2));
        // The samples still show a rate that this controller did not set.
        self.unsettled_until = m.now.saturating_add(m.smoothed_rtt);
    }

    fn phase(&self) -> Phase {
        match self.state {
            State::Startup => Phase::SlowStart,
            State::Drain | State::ProbeBandwidth(1) => Phase::Lower,
            State::ProbeBandwidth(0) => Phase::Raise,
            State::ProbeBandwidth(_) => Phase::Cruise,
            State::ProbeRtt => Phase::Drain,
        }
    }

    /// Returns the queue that the probing phase builds: its surplus during a minimum RTT.
    fn target_delay(&self, _rate: Rate, _packet: Bytes) -> Nanos {
        Nanos::from_secs_f64(self.config.probe * self.min_rtt.as_secs_f64())
    }
}

fn bps(rate: Rate) -> f64 {
    rate.as_bps() as f64
}
