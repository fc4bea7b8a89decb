//! BBR version 1 (Cardwell et al., "BBR: congestion-based congestion control", ACM Queue 2016, and
//! draft-cardwell-iccrg-bbr-congestion-control-00) with Linux's constants.

mod aggregation;
mod filter;
mod policer;
#[cfg(test)]
mod tests;

use forebay_units::Rate;

use super::{Connection, Sample, Window};
use crate::tcp::MSS;
use crate::tcp::state::State;
use aggregation::Aggregation;
use filter::Filter;
use policer::Policer;

/// The gain of start-up in 256ths: 2 / ln 2, the smallest gain that doubles the rate each round.
const HIGH: u64 = 739;
/// The inverse of [`HIGH`] in 256ths, which drains the queue of start-up in one round.
const DRAIN: u64 = 88;
/// A gain of one, in 256ths.
const UNITY: u64 = 256;
/// The pacing gains of the bandwidth probing cycle, in 256ths.
const CYCLE: [u64; 8] = [320, 192, UNITY, UNITY, UNITY, UNITY, UNITY, UNITY];
/// The window in steady state in 256ths of the bandwidth-delay product.
const WINDOW: u64 = 512;
/// The age in nanoseconds at which a minimum round-trip time expires.
const MIN_RTT_AGE: u64 = 10_000_000_000;
/// The duration of a probe of the round-trip time in nanoseconds.
const PROBE_RTT: u64 = 200_000_000;
/// The window in segments during a probe of the round-trip time.
const PROBE_WINDOW: u32 = 4;
/// The rounds without growth by a quarter that end start-up.
const FULL_ROUNDS: u32 = 3;
/// The pacing rate in per cent of the bandwidth; the margin keeps the queue from building up.
const MARGIN: u64 = 99;
/// Bandwidths are in segments per nanosecond, multiplied by 2 to the power of this.
const SCALE: u32 = 40;

/// The mode of BBR's state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// The state of BBR.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    bandwidth: Filter,
    aggregation: Aggregation,
    policer: Policer,
    min_rtt: u64,
    min_rtt_stamp: u64,
    probe_done: Option<u64>,
    probe_round_done: bool,
    rounds: u64,
    round_ends_at: u64,
    round_start: bool,
    pacing: Option<Rate>,
    seen_rtt: bool,
    pacing_gain: u64,
    window_gain: u64,
    cycle: usize,
    cycle_stamp: u64,
    full_bandwidth: u64,
    full_rounds: u32,
    full: bool,
    prior_window: u32,
    conserving: bool,
    last_state: State,
    idle_restart: bool,
    random: u64,
}

impl Bbr {
    /// Creates the initial state. `rtt` is that of the handshake, if known.
    pub(super) fn new(now: u64, random: u64, rtt: Option<u64>) -> Self {
        // Without a round-trip time, a millisecond is assumed.
        let pacing = first_pacing(10, rtt.unwrap_or(1_000_000));
        Self {
            mode: Mode::Startup,
            bandwidth: Filter::default(),
            aggregation: Aggregation::default(),
            policer: Policer::default(),
            // With it the first probe of the round-trip time comes ten seconds after the start of
            // each flow, and not of all flows at once.
            min_rtt: rtt.unwrap_or(u64::MAX).max(1),
            min_rtt_stamp: now,
            probe_done: None,
            probe_round_done: false,
            rounds: 0,
            round_ends_at: 0,
            round_start: false,
            pacing: Some(pacing),
            seen_rtt: rtt.is_some(),
            pacing_gain: HIGH,
            window_gain: HIGH,
            cycle: 0,
            cycle_stamp: now,
            full_bandwidth: 0,
            full_rounds: 0,
            full: false,
            prior_window: 0,
            conserving: false,
            last_state: State::Open,
            idle_restart: false,
            random,
        }
    }

    pub(crate) fn pacing(&self) -> Option<Rate> {
        self.pacing
    }

    pub(super) fn probes_rtt(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    pub(super) fn on_congestion(&mut self, window: &Window) -> u32 {
        self.save(window);
        window.threshold
    }

    pub(super) fn on_timeout(&mut self) {
        self.last_state = State::Loss;
        self.full_bandwidth = 0;
        self.round_start = true;
        self.policer.on_timeout(self.round_start);
    }

    pub(super) fn on_undone(&mut self) {
        (self.full_bandwidth, self.full_rounds) = (0, 0);
        self.policer.reset();
    }

    pub(super) fn on_restart(&mut self, now: u64, app_limited: bool) {
        if app_limited {
            self.idle_restart = true;
            self.aggregation.begin(now);
            if self.mode == Mode::ProbeBandwidth {
                self.set_pacing(UNITY);
            }
        }
    }

    pub(super) fn on_ack(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        self.update_bandwidth(c, s);
        self.aggregation.update(self.rate(), self.round_start, window.size, c, s);
        self.update_cycle(c, s);
        self.check_full(s);
        self.check_drain(window, c, s);
        self.update_min_rtt(window, c, s);
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH, HIGH),
            Mode::Drain => (DRAIN, HIGH),
            Mode::ProbeBandwidth if self.policer.rate().is_some() => (UNITY, WINDOW),
            Mode::ProbeBandwidth => (CYCLE[self.cycle], WINDOW),
            Mode::ProbeRtt => (UNITY, UNITY),
        };
        if !self.seen_rtt && c.smoothed_rtt > 0 {
            self.seen_rtt = true;
            self.pacing = Some(first_pacing(window.size, c.smoothed_rtt));
        }
        self.set_pacing(self.pacing_gain);
        self.set_window(window, c, s);
    }

    /// Returns the bandwidth of the path.
    fn rate(&self) -> u64 {
        self.policer.rate().unwrap_or_else(|| self.bandwidth.get())
    }

    fn update_bandwidth(&mut self, c: &Connection, s: &Sample) {
        self.round_start = false;
        if s.interval == 0 {
            return;
        }
        if s.prior_delivered >= self.round_ends_at {
            self.round_ends_at = s.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conserving = false;
        }
        let steady = self.mode == Mode::ProbeBandwidth;
        if self.policer.update(c.now, self.round_start, steady, s) {
            self.probe_bandwidth(c.now);
        }
        let bandwidth = ((u128::from(s.segments) << SCALE) / u128::from(s.interval)) as u64;
        if !s.app_limited || bandwidth >= self.bandwidth.get() {
            self.bandwidth.update(self.rounds, bandwidth);
        }
    }

    fn update_cycle(&mut self, c: &Connection, s: &Sample) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let long = c.now - self.cycle_stamp > self.min_rtt;
        let inside = self.inside(c, s.prior_in_flight);
        let next = match self.pacing_gain {
            g if g > UNITY => long && (s.losses > 0 || inside >= self.in_flight(self.rate(), g)),
            g if g < UNITY => long || inside <= self.in_flight(self.bandwidth.get(), UNITY),
            _ => long,
        };
        if next {
            self.cycle = (self.cycle + 1) % CYCLE.len();
            self.cycle_stamp = c.now;
        }
    }

    fn check_full(&mut self, s: &Sample) {
        if self.full || !self.round_start || s.app_limited {
            return;
        }
        if self.bandwidth.get() >= self.full_bandwidth * 5 / 4 {
            (self.full_bandwidth, self.full_rounds) = (self.bandwidth.get(), 0);
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            window.threshold = self.in_flight(self.bandwidth.get(), UNITY);
        }
        let pipe = self.in_flight(self.bandwidth.get(), UNITY);
        if self.mode == Mode::Drain && self.inside(c, s.in_flight) <= pipe {
            self.probe_bandwidth(c.now);
        }
    }

    fn probe_bandwidth(&mut self, now: u64) {
        self.mode = Mode::ProbeBandwidth;
        // Starts in a random phase except the draining one, so that flows do not probe together.
        let random = crate::random::mix(self.random ^ now);
        self.cycle = (CYCLE.len() - (random % 7) as usize) % CYCLE.len();
        self.cycle_stamp = now;
    }

    fn update_min_rtt(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        let expired = c.now > self.min_rtt_stamp + MIN_RTT_AGE;
        if let Some(rtt) = s.rtt.filter(|r| *r < self.min_rtt || (expired && !s.delayed)) {
            (self.min_rtt, self.min_rtt_stamp) = (rtt.max(1), c.now);
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save(window);
            self.probe_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            match self.probe_done {
                None if s.in_flight <= PROBE_WINDOW => {
                    self.probe_done = Some(c.now + PROBE_RTT);
                    self.probe_round_done = false;
                    self.round_ends_at = s.delivered;
                }
                Some(done) => {
                    self.probe_round_done |= self.round_start;
                    if self.probe_round_done && c.now > done {
                        self.min_rtt_stamp = c.now;
                        window.size = window.size.max(self.prior_window);
                        if self.full {
                            self.probe_bandwidth(c.now);
                        } else {
                            self.mode = Mode::Startup;
                        }
                    }
                }
                None => {}
            }
        }
        if s.segments > 0 {
            self.idle_restart = false;
        }
    }

    fn save(&mut self, window: &Window) {
        let cut = self.last_state >= State::Recovery || self.mode == Mode::ProbeRtt;
        self.prior_window = if cut { self.prior_window.max(window.size) } else { window.size };
    }

    fn set_pacing(&mut self, gain: u64) {
        if self.rate() == 0 {
            return;
        }
        let bits = u128::from(self.rate()) * u128::from(MSS * 8 * gain * MARGIN) * 1_000_000_000
            / u128::from(UNITY * 100);
        let rate = Rate::from_bps((bits >> SCALE) as u64);
        if self.full || self.pacing.is_none_or(|p| rate > p) {
            self.pacing = Some(rate);
        }
    }

    fn set_window(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        if s.newly > 0 {
            let before = std::mem::replace(&mut self.last_state, c.state);
            let mut size = window.size.saturating_sub(s.losses).max(1);
            if c.state == State::Recovery && before != State::Recovery {
                // Packet conservation: for a round, as many segments are sent as are delivered.
                self.conserving = true;
                self.round_ends_at = s.delivered;
                size = s.in_flight + s.newly;
            } else if c.state < State::Recovery && before >= State::Recovery {
                size = size.max(self.prior_window);
                self.conserving = false;
            }
            window.size = if self.conserving {
                size.max(s.in_flight + s.newly)
            } else {
                let target = self.target(self.rate(), self.window_gain);
                if self.full {
                    size = (size + s.newly).min(target);
                } else if size < target || s.delivered < 10 {
                    size += s.newly;
                }
                size.max(PROBE_WINDOW)
            };
        }
        if self.mode == Mode::ProbeRtt {
            window.size = window.size.min(PROBE_WINDOW);
        }
    }

    /// Returns the window for a gain, with room for aggregated acknowledgements.
    fn target(&self, bandwidth: u64, gain: u64) -> u32 {
        let extra = if self.full { self.aggregation.window(self.rate()) } else { 0 };
        self.budget(self.pipe(bandwidth, gain) + extra)
    }

    /// Returns the segments in flight that fill the path with a gain.
    fn in_flight(&self, bandwidth: u64, gain: u64) -> u32 {
        self.budget(self.pipe(bandwidth, gain))
    }

    fn pipe(&self, bandwidth: u64, gain: u64) -> u32 {
        if self.min_rtt == u64::MAX {
            return 10;
        }
        let bdp = u128::from(bandwidth) * u128::from(self.min_rtt) * u128::from(gain);
        (bdp / u128::from(UNITY)).div_ceil(1 << SCALE) as u32
    }

    fn budget(&self, window: u32) -> u32 {
        // Adds room for the bursts at both ends, rounds up to an even number for delayed
        // acknowledgements, and adds two segments in the probing phase.
        let window = (window + 3 * self.burst() + 1) & !1;
        if self.mode == Mode::ProbeBandwidth && self.cycle == 0 { window + 2 } else { window }
    }

    /// Returns how many of the segments in flight are in the network when pacing sends the next
    /// one.
    fn inside(&self, c: &Connection, in_flight: u32) -> u32 {
        let more = if self.pacing_gain > UNITY { self.burst() } else { 0 };
        let gone = (u128::from(self.rate()) * u128::from(c.backlog)) >> SCALE;
        (in_flight + more).saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX))
    }

    /// Returns the segments of a burst: those that the pacing rate sends in 2^-10 s.
    pub(crate) fn burst(&self) -> u32 {
        let Some(rate) = self.pacing else { return 2 };
        let bytes = ((rate.as_bps() / 8) >> 10).min(65_536);
        ((bytes / MSS) as u32).max(if rate < Rate::from_bps(1_200_000) { 1 } else { 2 })
    }
}

/// Returns the pacing rate of a window of `segments` per round trip with the gain of start-up.
fn first_pacing(segments: u32, rtt: u64) -> Rate {
    let gained = f64::from(segments) * HIGH as f64 / UNITY as f64;
    let margin = MARGIN as f64 / 100.0;
    super::pace(gained * margin, MSS, rtt)
}
