//! The mode of a bundle and the rate that follows from it.

use forebay_units::{Nanos, Rate};

use super::ControlLoop;
use super::guard::Outcome;
use crate::config::Detection;
use crate::controller::Measurement;
use crate::cross::CrossTraffic;
use crate::event::{Event, MinRttReason, Mode, ModeReason, Phase};
use crate::longer_path::LongerPath;
use crate::pass_through::{PassThrough, PassThroughInput};
use crate::watchdog::Silence;

/// Samples needed before the bundle first leaves open mode.
const FIRST_SAMPLES: u32 = 2;
/// Samples needed before a bundle whose feedback had stopped returns to delay control.
const RETURN_SAMPLES: u32 = 3;
/// Useless messages from which on a bundle opens because of them, and not because none came.
const MIN_USELESS: u32 = 3;
/// Pass-through ends once the bottleneck has had no queue for this long and for [`EMPTIED_RTTS`]:
/// elastic traffic would have filled it.
const EMPTIED: Nanos = Nanos::from_secs(1);
/// Round-trip times without a queue after which pass-through ends.
const EMPTIED_RTTS: u64 = 6;
/// Drain probes in a row that must find the queue drained before pass-through ends.
const DRAIN_PROBES: u32 = 1;
/// The same number after a return to delay control that proved wrong.
const DRAIN_PROBES_AFTER_RELAPSE: u32 = 2;
/// How long a wrong return raises the number of drain probes. Later the traffic may have changed.
const RELAPSE_MEMORY: Nanos = Nanos::from_secs(25);
/// A return to delay control that lasted this long counts as right.
const RETURN_CONFIRMED: Nanos = Nanos::from_secs(30);
/// A pulse's trough leaves at least this share of the bottleneck's rate, as in Nimbus, so that
/// boundary packets keep coming.
const TROUGH: f64 = 0.05;

/// The state of pass-through mode, and what is kept of it for the next time.
#[derive(Debug, Default)]
pub(super) struct PassThroughState {
    /// The queue controller, while the bundle is in pass-through.
    pi: Option<PassThrough>,
    /// When pass-through last began or ended.
    turned_at: Nanos,
    /// Whether the bundle has been in pass-through before.
    before: bool,
    /// Whether the last return to delay control proved wrong.
    relapsed: bool,
    /// The amplitude of the pulses, for status.
    amplitude: Rate,
}

impl PassThroughState {
    /// Returns how many drain probes in a row must find the queue drained, `lasted` after
    /// pass-through began.
    fn drain_probes_needed(&self, lasted: Nanos) -> u32 {
        if self.relapsed && lasted < RELAPSE_MEMORY {
            DRAIN_PROBES_AFTER_RELAPSE
        } else {
            DRAIN_PROBES
        }
    }
}

impl ControlLoop {
    /// Opens the bundle because feedback has stopped.
    pub(super) fn on_silence(&mut self, silence: Silence) {
        self.samples = 0;
        if self.silent {
            return;
        }
        self.silent = true;
        // The path may be another one when feedback returns.
        self.estimator.clear();
        self.forget_guard();
        self.epoch.announce_again(self.last_tick, self.estimator.smoothed());
        let Silence { lasted: silence, unanswered, useless } = silence;
        self.open(if useless >= MIN_USELESS {
            ModeReason::UselessFeedback { silence, messages: useless }
        } else {
            ModeReason::NoFeedback { silence, unanswered }
        });
    }

    /// Decides the mode and sets the rate.
    pub(super) fn control(&mut self, m: &Measurement, elapsed: Nanos) {
        if self.open_if_multipath(m.now) || (self.mode == Mode::Open && !self.close_if_measured(m))
        {
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

    /// Returns the reason for the present rate; `None` in open mode.
    pub(super) fn phase(&self) -> Option<Phase> {
        match self.mode {
            Mode::Open => None,
            Mode::PassThrough => Some(Phase::PassThrough),
            Mode::DelayControl => Some(self.controller.phase()),
        }
    }

    /// Returns the amplitude of the pulses, zero if there are none.
    pub(super) fn amplitude(&self) -> Rate {
        self.pass_through.amplitude
    }

    /// Returns the rate of delay control, and handles a path that became longer.
    fn delay_control(&mut self, m: &Measurement) -> Rate {
        let threshold = self.controller.cut_threshold(m.receive_rate, m.packet);
        let mut m = *m;
        if let Some(LongerPath { min_rtt, rate }) = self.longer_path.on_tick(&m, threshold) {
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
        if let Some(min_rtt) = self.controller.take_longer_path() {
            self.min_rtt.reset(m.now, min_rtt);
            self.log.min_rtt(min_rtt, MinRttReason::PathLonger);
            self.longer_path.clear();
            self.forget_cross_traffic();
        }
        if self.controller.phase() == Phase::Drain {
            self.traffic.on_held_back(m.now);
        }
        let rate = self.guarded(&m, rate);
        let Some(cross) = &self.cross else { return rate };
        self.pass_through.amplitude = cross.amplitude();
        rate.max(cross.min_test_rate(m.now))
    }

    /// Returns the rate of the guard where the controller wants `wanted`.
    fn guarded(&mut self, m: &Measurement, wanted: Rate) -> Rate {
        let Some(guard) = &mut self.guard else { return wanted };
        let target = self.controller.target_delay(m.receive_rate.max(wanted), m.packet);
        let draining = self.controller.phase() == Phase::Drain;
        let (rate, outcome) = guard.on_tick(m, wanted, target, draining);
        let contested = outcome.as_ref().is_some_and(|outcome| outcome.contested);
        if let Some(Outcome { before, sent, received, followed, .. }) = outcome {
            self.log.push(Event::GuardTested { before, sent, received, followed });
        }
        if let Some(cross) = &mut self.cross
            && ((contested && cross.queue_stands())
                || (cross.queue_stood_long(m) && guard.is_starved()))
        {
            cross.on_contested();
        }
        rate
    }

    /// Returns `base` plus the pulse of this tick.
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

    /// Opens the bundle while its packets take several paths. Returns whether they do.
    fn open_if_multipath(&mut self, now: Nanos) -> bool {
        if self.config.multipath == Detection::Ignore {
            return false;
        }
        let multipath = self.multipath.on_tick(now);
        let out_of_order = || thousandths(self.multipath.share().unwrap_or_default());
        match (multipath, self.multipath_since) {
            (true, None) => {
                let out_of_order = out_of_order();
                self.multipath_since = Some(now);
                self.open(ModeReason::SeveralPaths { out_of_order });
            }
            (false, Some(since)) => {
                let out_of_order = out_of_order();
                self.multipath_since = None;
                let lasted = now.saturating_sub(since);
                if !self.silent {
                    self.close(ModeReason::SinglePath { out_of_order, lasted });
                }
            }
            _ => {}
        }
        multipath
    }

    /// Enters pass-through when elastic cross traffic is detected and leaves it when the traffic
    /// has ended. Returns the new mode and the reason when the mode changes.
    fn respond_to_cross_traffic(&mut self, m: &Measurement) -> Option<(Mode, ModeReason)> {
        let cross = self.cross.as_mut()?;
        // After a rate cut the receive rate is low; traffic of the same kind leaves at least half.
        let usual = m.receive_rate.max(cross.highest_rate().scaled(0.5));
        let target = self.controller.target_delay(usual, m.packet);
        cross.on_tick(m, target, self.pass_through.pi.is_some());
        if self.pass_through.pi.is_none() {
            return cross.is_elastic().then(|| self.enter_pass_through(m));
        }
        let (reason, rate) = self.elastic_traffic_gone(m)?;
        self.pass_through.turned_at = m.now;
        self.pass_through.pi = None;
        self.longer_path.clear();
        if let Some(cross) = &mut self.cross {
            cross.on_return(m.now, rate);
        }
        if let Some(guard) = &mut self.guard {
            guard.on_return(m.now);
        }
        self.controller.resume(rate, m);
        Some((Mode::DelayControl, reason))
    }

    /// Starts pass-through. Returns the new mode and the reason.
    fn enter_pass_through(&mut self, m: &Measurement) -> (Mode, ModeReason) {
        let pass_through = &mut self.pass_through;
        let soon = m.now.saturating_sub(pass_through.turned_at) < RETURN_CONFIRMED;
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
        let receive_rate = m.receive_rate;
        let reason = if self.guard.is_some() {
            ModeReason::Contested { delay: m.queueing_delay(), receive_rate, highest_rate }
        } else {
            let answer = answer.unwrap_or_default();
            let (response, contrast) = (thousandths(answer.response), thousandths(answer.contrast));
            ModeReason::ElasticCross { response, contrast, receive_rate, highest_rate }
        };
        (Mode::PassThrough, reason)
    }

    /// Checks in pass-through whether elastic traffic has ended. If so, returns how this is known
    /// and the rate at which the bottleneck served the bundle until then.
    fn elastic_traffic_gone(&mut self, m: &Measurement) -> Option<(ModeReason, Rate)> {
        let cross = self.cross.as_mut()?;
        let lasted = m.now.saturating_sub(self.pass_through.turned_at);
        let emptied = cross.without_queue_for(m.now).min(lasted);
        if emptied >= EMPTIED.max(m.smoothed_rtt * EMPTIED_RTTS) {
            let rate = m.busy_rate.unwrap_or(m.receive_rate);
            return Some((ModeReason::QueueGone { emptied, lasted }, rate));
        }
        let probe = cross.drain_probe(m, self.pass_through.drain_probes_needed(lasted))?;
        let (cut, delay) = (thousandths(probe.cut()), probe.delay());
        Some((ModeReason::InelasticCross { cut, delay, lasted }, probe.served()))
    }

    /// Starts delay control if an open bundle has enough samples. Returns whether it did.
    fn close_if_measured(&mut self, m: &Measurement) -> bool {
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

    /// Gives the controller its starting rate.
    ///
    /// A queue shows that the receive rate is the path's rate. Without one the path may be faster.
    /// A loop that took another's place goes on at its rate.
    fn start_controller(&mut self, m: &Measurement) {
        if let Some(rate) = self.resumed.take() {
            self.controller.resume(rate, m);
            return;
        }
        match m.busy_rate {
            Some(rate) if m.queueing_delay() > self.controller.target_delay(rate, m.packet) => {
                self.controller.resume(rate, m);
            }
            _ => self.controller.start(m.receive_rate, m),
        }
    }

    /// Removes the rate limit.
    fn open(&mut self, reason: ModeReason) {
        self.longer_path.clear();
        self.forget_cross_traffic();
        self.pass_through.pi = None;
        self.pass_through.amplitude = Rate::ZERO;
        self.resumed = None;
        if self.mode != Mode::Open {
            self.change_mode(Mode::Open, reason);
        }
        self.rate = None;
        self.log.unlimited();
    }

    /// Discards what the guard knows about the path.
    pub(super) fn forget_guard(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.clear();
        }
    }

    /// Discards what is known about cross traffic.
    pub(super) fn forget_cross_traffic(&mut self) {
        if let Some(cross) = &mut self.cross {
            cross.clear(self.last_tick);
        }
    }

    /// Returns to delay control.
    fn close(&mut self, reason: ModeReason) {
        self.change_mode(Mode::DelayControl, reason);
        self.started = false;
    }

    /// Changes the mode and logs the reason.
    fn change_mode(&mut self, to: Mode, reason: ModeReason) {
        self.log.push(Event::ModeChanged { from: self.mode, to, reason });
        self.mode = to;
    }
}

/// Returns `share` in thousandths, as events store it.
fn thousandths(share: f64) -> u32 {
    (share * 1000.0 + 0.5) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_return_raises_the_number_of_drain_probes_for_a_time() {
        let state = |relapsed| PassThroughState { relapsed, ..PassThroughState::default() };
        for (relapsed, seconds, probes) in
            [(false, 1, 1), (true, 1, 2), (true, 24, 2), (true, 25, 1)]
        {
            assert_eq!(state(relapsed).drain_probes_needed(Nanos::from_secs(seconds)), probes);
        }
    }
}
