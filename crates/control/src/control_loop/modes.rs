//! Which mode the bundle is in, and the rate that follows.

use forebay_units::{Nanos, Rate};

use super::ControlLoop;
use crate::config::Detection;
use crate::controller::Measurement;
use crate::cross::CrossTraffic;
use crate::event::{Event, MinRttReason, Mode, ModeReason, Phase};
use crate::longer_path::LongerPath;
use crate::pass_through::{PassThrough, PassThroughInput};
use crate::watchdog::Silence;

/// Samples that give a first rate.
const FIRST_SAMPLES: u32 = 2;
/// Samples that must match before a bundle that lost its feedback is controlled again.
const RETURN_SAMPLES: u32 = 3;
/// Flows need not compete for themselves once the bottleneck has been without a queue for this long,
const EMPTIED: Nanos = Nanos::from_secs(1);
/// and for so many round-trip times: elastic traffic would have filled it.
const EMPTIED_RTTS: u64 = 6;
/// Nor once this many looks in a row saw that nobody takes what the bundle leaves: as a rule, and after
/// a return that was wrong,
const DRAIN_PROBES: (u32, u32) = (1, 2);
/// which for so long says something of the traffic that there is.
const DOUBTED: Nanos = Nanos::from_secs(25);
/// A return that lasted so long was right.
const FORGIVEN: Nanos = Nanos::from_secs(30);
/// A pulse's trough leaves this share of the bottleneck's rate (as Nimbus), so that marks go on.
const TROUGH: f64 = 0.05;

/// What there is to know about passing through, now or the next time.
#[derive(Debug, Default)]
pub(super) struct PassThroughState {
    /// While the bundle passes through.
    pi: Option<PassThrough>,
    turned_at: Nanos,
    /// It has passed through before, and
    before: bool,
    /// the return from that was wrong.
    relapsed: bool,
    /// The amplitude of the pulses, for status.
    amplitude: Rate,
}

impl PassThroughState {
    /// How many looks in a row must agree, for a bundle that has passed through for so long.
    fn drain_probes_needed(&self, lasted: Nanos) -> u32 {
        if self.relapsed && lasted < DOUBTED { DRAIN_PROBES.1 } else { DRAIN_PROBES.0 }
    }
}

impl ControlLoop {
    pub(super) fn on_silence(&mut self, silence: Silence) {
        self.samples = 0;
        if self.silent {
            return;
        }
        self.silent = true;
        // Nothing measured before says what the path will be like after.
        self.measure.clear();
        self.epoch.announce_again(self.last_tick, self.measure.smoothed());
        let Silence { lasted, unanswered } = silence;
        self.open(ModeReason::NoFeedback { silence: lasted, unanswered });
    }

    /// Decides the mode and sets the rate.
    pub(super) fn control(&mut self, m: &Measurement, elapsed: Nanos) {
        if self.check_paths(m.now) || (self.mode == Mode::Open && !self.try_close(m)) {
            return;
        }
        if !self.started {
            self.started = true;
            self.start_controller(m);
        }
        if let Some((mode, reason)) = self.respond_to_cross_traffic(m) {
            self.change_mode(mode, reason);
        }
        let base = match &mut self.pass_through.pi {
            None => Some(self.delay_control(m)),
            Some(pi) => {
                let cross = self.cross.as_ref();
                if let Some(cut) = cross.and_then(|cross| cross.rate_cut(m.now)) {
                    pi.hold(elapsed, m.backlog, cut.before);
                    Some(cut.during)
                } else {
                    let highest = cross.map_or(Rate::ZERO, CrossTraffic::highest_rate);
                    let (backlog, send_rate) = (m.backlog, m.send_rate);
                    pi.on_tick(&PassThroughInput { elapsed, backlog, send_rate, highest })
                }
            }
        };
        let base = base.map(|rate| rate.clamp(self.config.min_rate, self.config.max_rate));
        self.rate = base.map(|base| self.pulsed(base, m.now));
        match (base, self.phase()) {
            (Some(base), Some(phase)) => self.log.rate(base, phase),
            _ => self.log.unlimited(),
        }
    }

    /// Why the rate is what it is.
    pub(super) fn phase(&self) -> Option<Phase> {
        match self.mode {
            Mode::Open => None,
            Mode::PassThrough => Some(Phase::PassThrough),
            Mode::DelayControl => Some(self.controller.phase()),
        }
    }

    /// The amplitude of the pulses; zero for none.
    pub(super) fn amplitude(&self) -> Rate {
        self.pass_through.amplitude
    }

    fn delay_control(&mut self, m: &Measurement) -> Rate {
        let threshold = self.controller.cut_threshold(m.receive_rate, m.packet);
        let mut m = *m;
        if let Some(LongerPath { min_rtt, rate }) = self.baseline.on_tick(&m, threshold) {
            self.min_rtt.reset(m.now, min_rtt);
            self.log.min_rtt(min_rtt, MinRttReason::PathLonger);
            m = Measurement {
                min_rtt,
                min_rtt_age: Nanos::ZERO,
                busy_rate: None,
                sustained_rate: None,
                ..m
            };
            self.controller.resume(rate, &m);
            self.forget_cross_traffic();
        }
        let rate = self.controller.on_tick(&m);
        if self.controller.phase() == Phase::Drain {
            self.traffic.on_held_back(m.now);
        }
        let Some(cross) = &self.cross else { return rate };
        self.pass_through.amplitude = cross.amplitude();
        rate.max(cross.min_test_rate(m.now))
    }

    /// `base` and the pulse of this tick.
    fn pulsed(&self, base: Rate, now: Nanos) -> Rate {
        let amplitude = self.pass_through.amplitude;
        let Some(cross) = self.cross.as_ref().filter(|_| amplitude > Rate::ZERO) else {
            return base;
        };
        let shape = cross.pulse().shape(now, self.config.tick);
        let rate = base.as_bps() as f64 + amplitude.as_bps() as f64 * shape;
        let least = cross.highest_rate().scaled(TROUGH).min(base).max(self.config.min_rate);
        Rate::from_bps_f64(rate).clamp(least, self.config.max_rate)
    }

    /// Opens the bundle while its packets take several ways.
    fn check_paths(&mut self, now: Nanos) -> bool {
        if self.config.multipath == Detection::Ignore {
            return false;
        }
        let several = self.multipath.on_tick(now);
        let out_of_order = thousandths(self.multipath.share().unwrap_or_default());
        match (several, self.several_since) {
            (true, None) => {
                self.several_since = Some(now);
                self.open(ModeReason::SeveralPaths { out_of_order });
            }
            (false, Some(since)) => {
                self.several_since = None;
                let lasted = now.saturating_sub(since);
                if !self.silent {
                    self.close(ModeReason::SinglePath { out_of_order, lasted });
                }
            }
            _ => {}
        }
        several
    }

    /// Lets flows compete for themselves while cross traffic is elastic: the mode to change to now, and
    /// why.
    fn respond_to_cross_traffic(&mut self, m: &Measurement) -> Option<(Mode, ModeReason)> {
        let cross = self.cross.as_mut()?;
        // Of a rate that was cut: what others of its kind would leave it, half at least.
        let usual = m.receive_rate.max(cross.highest_rate().scaled(0.5));
        let target = self.controller.target_delay(usual, m.packet);
        cross.on_tick(m, target, self.pass_through.pi.is_some());
        if self.pass_through.pi.is_none() {
            return cross.is_elastic().then(|| self.enter_pass_through(m));
        }
        let (reason, rate) = self.elastic_traffic_gone(m)?;
        self.pass_through.turned_at = m.now;
        self.pass_through.pi = None;
        self.baseline.clear();
        if let Some(cross) = &mut self.cross {
            cross.on_return(m.now, rate);
        }
        self.controller.resume(rate, m);
        Some((Mode::DelayControl, reason))
    }

    fn enter_pass_through(&mut self, m: &Measurement) -> (Mode, ModeReason) {
        let pass_through = &mut self.pass_through;
        let soon = m.now.saturating_sub(pass_through.turned_at) < FORGIVEN;
        pass_through.relapsed = pass_through.before && soon;
        (pass_through.turned_at, pass_through.before) = (m.now, true);
        let rate = self.rate.unwrap_or(m.receive_rate).max(m.receive_rate);
        pass_through.pi =
            Some(PassThrough::new(self.controller.pass_through_policy(), rate, m.backlog));
        pass_through.amplitude = Rate::ZERO;
        let (mut answer, mut highest_rate) = (None, Rate::ZERO);
        if let Some(cross) = &mut self.cross {
            (answer, highest_rate) = (cross.pulse_response(), cross.highest_rate());
            cross.on_pass_through(m.now);
        }
        let answer = answer.unwrap_or_default();
        let (response, contrast) = (thousandths(answer.response), thousandths(answer.contrast));
        let receive_rate = m.receive_rate;
        let reason = ModeReason::ElasticCross { response, contrast, receive_rate, highest_rate };
        (Mode::PassThrough, reason)
    }

    /// While the bundle passes through: how it is known that elastic traffic has gone, if it is, and the
    /// rate at which the bottleneck served the bundle until then.
    fn elastic_traffic_gone(&mut self, m: &Measurement) -> Option<(ModeReason, Rate)> {
        let cross = self.cross.as_mut()?;
        let lasted = m.now.saturating_sub(self.pass_through.turned_at);
        let emptied = cross.without_queue_for(m.now);
        if emptied >= EMPTIED.max(m.smoothed_rtt * EMPTIED_RTTS) {
            let rate = m.busy_rate.unwrap_or(m.receive_rate);
            return Some((ModeReason::QueueGone { emptied, lasted }, rate));
        }
        let drain = cross.drain_probe(m, self.pass_through.drain_probes_needed(lasted))?;
        let (cut, delay) = (thousandths(drain.cut()), drain.delay());
        Some((ModeReason::InelasticCross { cut, delay, lasted }, drain.served()))
    }

    /// Whether an open bundle knows enough to be controlled; then it is.
    fn try_close(&mut self, m: &Measurement) -> bool {
        let needed = if self.silent { RETURN_SAMPLES } else { FIRST_SAMPLES };
        if self.samples < needed {
            return false;
        }
        let receive_rate = m.receive_rate;
        let reason = if self.silent {
            ModeReason::FeedbackReturned { samples: self.samples, receive_rate }
        } else {
            ModeReason::Measured { rtt: m.smoothed_rtt, receive_rate }
        };
        self.silent = false;
        self.close(reason);
        true
    }

    /// A queue tells that what is received is what the path serves; without one it may serve more.
    fn start_controller(&mut self, m: &Measurement) {
        match m.busy_rate {
            Some(rate) if m.queueing_delay() > self.controller.target_delay(rate, m.packet) => {
                self.controller.resume(rate, m);
            }
            _ => self.controller.start(m.receive_rate, m),
        }
    }

    fn open(&mut self, reason: ModeReason) {
        self.baseline.clear();
        self.forget_cross_traffic();
        self.pass_through.pi = None;
        self.pass_through.amplitude = Rate::ZERO;
        if self.mode != Mode::Open {
            self.change_mode(Mode::Open, reason);
        }
        self.rate = None;
        self.log.unlimited();
    }

    pub(super) fn forget_cross_traffic(&mut self) {
        if let Some(cross) = &mut self.cross {
            cross.clear(self.last_tick);
        }
    }

    fn close(&mut self, reason: ModeReason) {
        self.change_mode(Mode::DelayControl, reason);
        self.started = false;
    }

    fn change_mode(&mut self, to: Mode, reason: ModeReason) {
        self.log.push(Event::ModeChanged { from: self.mode, to, reason });
        self.mode = to;
    }
}

/// A share as events have it.
fn thousandths(share: f64) -> u32 {
    (share * 1000.0 + 0.5) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_return_is_held_against_the_next_for_a_time() {
        let passing = |relapsed| PassThroughState { relapsed, ..PassThroughState::default() };
        for (relapsed, seconds, looks) in
            [(false, 1, 1), (true, 1, 2), (true, 24, 2), (true, 25, 1)]
        {
            assert_eq!(passing(relapsed).drain_probes_needed(Nanos::from_secs(seconds)), looks);
        }
    }
}
