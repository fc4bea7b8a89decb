//! BBR version 1 (Cardwell et al., "BBR: congestion-based congestion control", ACM Queue 2016, and
//! draft-cardwell-iccrg-bbr-congestion-control-00) with Linux's constants.
//!
//! Left out: the detection of policers, and the allowance for aggregated acknowledgements, which
//! paths without aggregation do not use.

use forebay_units::{Bytes, Nanos, Rate};

use super::{Connection, Sample, Window};
use crate::tcp::MSS;

/// 2 / ln 2, the least gain that doubles the rate each round (in 256ths).
const HIGH: u64 = 739;
/// Its inverse empties in one round the queue that start-up made.
const DRAIN: u64 = 88;
const UNITY: u64 = 256;
const CYCLE: [u64; 8] = [320, 192, UNITY, UNITY, UNITY, UNITY, UNITY, UNITY];
/// The window in steady state, in bandwidth-delay products (256ths).
const WINDOW: u64 = 512;
/// A bandwidth is forgotten after so many rounds, a minimum round-trip time after so long.
const BANDWIDTH_ROUNDS: u64 = 10;
const MIN_RTT_AGE: u64 = 10_000_000_000;
const PROBE_RTT: u64 = 200_000_000;
const PROBE_WINDOW: u32 = 4;
/// Start-up ends after three rounds without a quarter more.
const FULL_ROUNDS: u32 = 3;
/// The pacing rate stays one per cent below the bandwidth, so that the queue does not build up.
const MARGIN: u64 = 99;
/// Bandwidths are segments per nanosecond, by this.
const SCALE: u32 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// The largest value of the last rounds: its three best, each later than the one before
/// (as in Linux's `lib/win_minmax`).
#[derive(Clone, Copy, Debug, Default)]
struct Filter([(u64, u64); 3]);

impl Filter {
    fn get(&self) -> u64 {
        self.0[0].1
    }

    fn update(&mut self, round: u64, value: u64) {
        let new = (round, value);
        let f = &mut self.0;
        if value >= f[0].1 || round - f[2].0 > BANDWIDTH_ROUNDS {
            *f = [new; 3];
            return;
        }
        if value >= f[1].1 {
            (f[1], f[2]) = (new, new);
        } else if value >= f[2].1 {
            f[2] = new;
        }
        let age = round - f[0].0;
        if age > BANDWIDTH_ROUNDS {
            *f = [f[1], f[2], new];
            if round - f[0].0 > BANDWIDTH_ROUNDS {
                *f = [f[1], f[2], new];
            }
        } else if f[1].0 == f[0].0 && age > BANDWIDTH_ROUNDS / 4 {
            (f[1], f[2]) = (new, new);
        } else if f[2].0 == f[1].0 && age > BANDWIDTH_ROUNDS / 2 {
            f[2] = new;
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    bandwidth: Filter,
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
    was_recovering: bool,
    idle_restart: bool,
    random: u64,
}

impl Bbr {
    pub(super) fn new(now: u64, random: u64) -> Self {
        Self {
            mode: Mode::Startup,
            bandwidth: Filter::default(),
            min_rtt: u64::MAX,
            min_rtt_stamp: now,
            probe_done: None,
            probe_round_done: false,
            rounds: 0,
            round_ends_at: 0,
            round_start: false,
            pacing: None,
            seen_rtt: false,
            pacing_gain: HIGH,
            window_gain: HIGH,
            cycle: 0,
            cycle_stamp: now,
            full_bandwidth: 0,
            full_rounds: 0,
            full: false,
            prior_window: 0,
            conserving: false,
            was_recovering: false,
            idle_restart: false,
            random,
        }
    }

    pub(crate) fn pacing(&self) -> Option<Rate> {
        self.pacing
    }

    pub(super) fn on_congestion(&mut self, window: &Window) -> u32 {
        self.save(window, self.was_recovering);
        window.threshold
    }

    pub(super) fn on_timeout(&mut self) {
        self.full_bandwidth = 0;
        self.round_start = true;
        self.was_recovering = true;
    }

    pub(super) fn on_restart(&mut self, app_limited: bool) {
        if app_limited {
            self.idle_restart = true;
            if self.mode == Mode::ProbeBandwidth {
                self.set_pacing(UNITY);
            }
        }
    }

    pub(super) fn on_ack(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        self.update_bandwidth(s);
        self.update_cycle(c, s);
        self.check_full(s);
        self.check_drain(window, c, s);
        self.update_min_rtt(window, c, s);
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH, HIGH),
            Mode::Drain => (DRAIN, HIGH),
            Mode::ProbeBandwidth => (CYCLE[self.cycle], WINDOW),
            Mode::ProbeRtt => (UNITY, UNITY),
        };
        if !self.seen_rtt && c.smoothed_rtt > 0 {
            self.seen_rtt = true;
            let bytes = u64::from(window.size) * MSS * HIGH / UNITY;
            self.pacing = Some(Rate::from_bytes_over(Bytes(bytes), Nanos(c.smoothed_rtt)));
        }
        self.set_pacing(self.pacing_gain);
        self.set_window(window, c, s);
    }

    fn update_bandwidth(&mut self, s: &Sample) {
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
        let next = match self.pacing_gain {
            g if g > UNITY => long && (s.losses > 0 || s.prior_in_flight >= self.in_flight(g)),
            g if g < UNITY => long || s.prior_in_flight <= self.in_flight(UNITY),
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
            window.threshold = self.in_flight(UNITY);
        }
        if self.mode == Mode::Drain && s.in_flight <= self.in_flight(UNITY) {
            self.probe_bandwidth(c.now);
        }
    }

    fn probe_bandwidth(&mut self, now: u64) {
        self.mode = Mode::ProbeBandwidth;
        // Any phase but the one that drains: flows that start together do not probe together.
        let random = crate::random::mix(self.random ^ now);
        self.cycle = (CYCLE.len() - (random % 7) as usize) % CYCLE.len();
        self.cycle_stamp = now;
    }

    fn update_min_rtt(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        let expired = c.now > self.min_rtt_stamp + MIN_RTT_AGE;
        if let Some(rtt) = s.rtt.filter(|r| *r < self.min_rtt || expired) {
            (self.min_rtt, self.min_rtt_stamp) = (rtt.max(1), c.now);
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save(window, self.was_recovering);
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

    fn save(&mut self, window: &Window, recovering: bool) {
        self.prior_window = if recovering || self.mode == Mode::ProbeRtt {
            self.prior_window.max(window.size)
        } else {
            window.size
        };
    }

    fn set_pacing(&mut self, gain: u64) {
        if self.bandwidth.get() == 0 {
            return;
        }
        let bits = u128::from(self.bandwidth.get())
            * u128::from((MSS + 66) * 8 * gain * MARGIN)
            * 1_000_000_000
            / u128::from(UNITY * 100);
        let rate = Rate::from_bps((bits >> SCALE) as u64);
        if self.full || self.pacing.is_none_or(|p| rate > p) {
            self.pacing = Some(rate);
        }
    }

    fn set_window(&mut self, window: &mut Window, c: &Connection, s: &Sample) {
        if s.newly > 0 {
            let mut size = window.size.saturating_sub(s.losses).max(1);
            if c.recovering && !self.was_recovering {
                // For a round, as much goes out as comes in.
                self.conserving = true;
                self.round_ends_at = s.delivered;
                size = s.in_flight + s.newly;
            } else if !c.recovering && self.was_recovering {
                size = size.max(self.prior_window);
                self.conserving = false;
            }
            self.was_recovering = c.recovering;
            if self.conserving {
                size = size.max(s.in_flight + s.newly);
            } else {
                let target = self.target(self.window_gain);
                if self.full {
                    size = (size + s.newly).min(target);
                } else if size < target || s.delivered < 10 {
                    size += s.newly;
                }
            }
            window.size = size.max(PROBE_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.size = window.size.min(PROBE_WINDOW);
        }
    }

    fn target(&self, gain: u64) -> u32 {
        if self.min_rtt == u64::MAX {
            return 10;
        }
        let bdp = u128::from(self.bandwidth.get()) * u128::from(self.min_rtt) * u128::from(gain);
        let bdp = (bdp / u128::from(UNITY)).div_ceil(1 << SCALE) as u32;
        // Room for the bursts at either end; even, for delayed acknowledgements; and one probe more.
        let target = (bdp + 3 * self.burst() + 1) & !1;
        if self.mode == Mode::ProbeBandwidth && self.cycle == 0 { target + 2 } else { target }
    }

    fn in_flight(&self, gain: u64) -> u32 {
        self.target(gain)
    }

    /// Segments that are sent in one go: a millisecond's worth.
    pub(crate) fn burst(&self) -> u32 {
        let Some(rate) = self.pacing else { return 2 };
        let bytes = rate.bytes_in(Nanos(1 << 20)).0.min(65_536);
        ((bytes / MSS) as u32).max(if rate < Rate::from_bps(1_200_000) { 1 } else { 2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_forgets() {
        let mut filter = Filter::default();
        filter.update(1, 100);
        for round in 2..=11 {
            filter.update(round, 50);
            assert_eq!(filter.get(), 100, "round {round}");
        }
        filter.update(12, 50);
        assert_eq!(filter.get(), 50);
        filter.update(13, 70);
        assert_eq!(filter.get(), 70);
    }
}
