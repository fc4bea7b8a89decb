//! Detection of elastic cross traffic.
//!
//! Cross traffic is *elastic* if it reacts to the bundle's rate, as backlogged TCP flows do, which
//! fill the bottleneck's buffer. Delay control loses its share of the bottleneck to such traffic
//! (Bundler section 5.1).
//!
//! The method is that of Nimbus (Goyal et al., 2018; Bundler section 5.1): the bundle sends in
//! pulses, and traffic that is clocked by its acknowledgements sends less one round-trip time after
//! each pulse. S is the bundle's send rate, R its receive rate, mu the bottleneck's rate and z the
//! rate of the cross traffic. The differences:
//!
//! | Nimbus, and Bundler's prototype | here | why |
//! |---|---|---|
//! | z = mu S / R - S, with a given constant mu | S / R = (S + z) / mu, fitted at the pulse's frequencies; z is what does not fit (`spectrum`) | a sendbox does not know mu; an error in mu is a factor without a delay, while a response is delayed |
//! | the peak of FFT(z) at 5 Hz over the highest between 5 and 10 Hz | the power at 5 and 10 Hz over the mean of the bins around both, under a Hann window | the second harmonic separates delays that look the same at the first (100 ms is half a period); a mean varies less than a maximum; without a window, slow changes leak into every bin |
//! | a response below a quarter of what R shows counts for less | the response must be a minimum share of the pulse and also exceed the noise | a quiet path has no noise to exceed |
//! | S and R over a window of about a round-trip time, z shifted by two round-trip times | S and R over the same bytes, between boundary packets (`series`) | the response to a pulse lies in the pulse's own slot; long paths do not average it away |
//! | 5 Hz, 6 Hz in delay control | one of five frequencies around 5 Hz, chosen by the traffic (`pulse`) | bundles that share a bottleneck would take each other's pulses for a response |
//! | pulses all the time | pulses while the queue stands above the controller's target (`standing_queue`) | a pulse of mu / 4 is 8 ms of queue; elastic traffic leaves a queue |
//! | pulses in pass-through too, until there is no response | no pulses; drain probes (`drain_probe`), when the queue falls more than usual and at long intervals (`drain_probes`). A bottleneck without a queue is enough evidence by itself | the pulses that the bundle could send there are smaller than the variation that other traffic causes; traffic that fills a buffer leaves a queue |
//! | delay control may go down to 5 % of mu during the test | not below a quarter of the highest rate for the eight seconds of the test | a pulse needs a rate to vary, and boundary packets come by packet count, so a starved bundle has no samples |
//! | z below a tenth of mu is inelastic | a bottleneck that is idle for a tenth of the window is not shared with elastic traffic | while it is idle S / R is one at any rate, so the bundle's own pulses would look like a response |
//!
//! The test does not see cross traffic whose response is below the thresholds. It does not work
//! where boundary packets are more than a fifth of a second apart (a full-size packet every 3 ms or
//! more). Two bundles that pulse at the same bottleneck and chose the same frequency each find the
//! other elastic.

mod bottleneck_estimate;
mod dft;
mod drain_probe;
mod drain_probes;
mod highest_rate;
pub(crate) mod pulse;
mod queue_fall;
mod series;
mod spectrum;
mod standing_queue;

use forebay_units::{Nanos, Rate};

use crate::controller::Measurement;
use drain_probe::DrainProbe;
pub(crate) use drain_probe::RateCut;
use drain_probes::DrainProbes;
use highest_rate::HighestRate;
use pulse::PulseFrequency;
pub(crate) use series::BoundarySample;
use series::{Continuity, Series};
pub(crate) use spectrum::PulseResponse;
use spectrum::Spectrum;
use standing_queue::StandingQueue;

/// How often the pulse response is evaluated.
const EVALUATION_INTERVAL: Nanos = Nanos::from_millis(50);
/// Cross traffic is elastic from this share of the pulse on.
const ELASTIC_RESPONSE: f64 = 0.20;
/// Cross traffic is elastic from this contrast on. Nimbus has 2.25, against a maximum.
const ELASTIC_CONTRAST: f64 = 2.5;
/// The least late response of elastic traffic, as a share of the pulse.
const ELASTIC_LATE_RESPONSE: f64 = 0.06;
/// The least contrast of the late response of elastic traffic.
const ELASTIC_LATE_CONTRAST: f64 = 1.3;
/// How long the response must exceed the thresholds.
const ELASTIC_FOR: Nanos = Nanos::from_millis(400);
/// How long a standing queue keeps the estimates of the empty path and of the bottleneck's rate
/// from aging. A test that has not ended by then may be about another path.
const ESTIMATES_KEPT: Nanos = Nanos::from_secs(30);
/// Elastic traffic keeps the bottleneck busy for at least this share of the window.
const BUSY: f64 = 0.9;
/// Elastic traffic fills the buffer: the queue must have stood this long without a break. The delay
/// control of another bundle responds to pulses too, but leaves no queue.
const STOOD: Nanos = Nanos::from_secs(2);
/// A queue that has stood this long, nearly the whole test, counts as elastic traffic's even if the
/// response does not exceed the noise. Traffic that leaves room for the rate that the test holds
/// would have let the queue drain.
const STOOD_LONG: Nanos = Nanos::from_millis(7_500);
/// The least late response in that case, as a share of the pulse.
const STOOD_LONG_LATE_RESPONSE: f64 = 0.1;
/// How long after a return to delay control a standing queue shows that the return was wrong.
const RELAPSE: Nanos = Nanos::from_secs(12);
/// How long the queue must stand after a return, besides the time to detect it. The bundle's own
/// queue has drained by then. A wrong return that is reverted this fast costs less than a return
/// that comes too late.
const STOOD_AGAIN: Nanos = Nanos::from_secs(1);
/// A wrong return leaves the bundle less than this share of the rate that it had before. With more,
/// the queue comes from bursts.
const KEPT: f64 = 0.8;
/// A queue that has stood this long, and [`LONG_RTTS`], was not drained by what the bundle held
/// back.
const LONG: Nanos = Nanos::from_secs(4);
/// Round trips after which a bundle that sends less would have drained its queue.
const LONG_RTTS: u64 = 12;
/// How long the rate is held up for a test.
const TEST: Nanos = Nanos::from_secs(8);
/// The share of the highest rate below which a test does not let the rate fall.
const TEST_RATE: f64 = 0.25;
/// The upper bound of that share where [`MARKED_RATE`] asks for more.
const TEST_RATE_MAX: f64 = 0.5;
/// The rate at which a pulse's period has three epochs of 64 full-size packets.
const MARKED_RATE: Rate = Rate::from_bps(3 * 64 * 1_514 * 8 * 5);
/// How long after the begin of a test that found nothing the next one begins.
const TEST_AGAIN: Nanos = Nanos::from_secs(20);
/// The pulse's amplitude as a share of the bottleneck's rate (Nimbus section 4.1).
const AMPLITUDE: f64 = 0.25;

/// What is known about the traffic that shares the bottleneck.
#[derive(Debug)]
pub(crate) struct CrossTraffic {
    series: Series,
    /// The response to pulses; `None` where a guard detects elastic traffic.
    spectrum: Option<Spectrum>,
    standing_queue: StandingQueue,
    highest: HighestRate,
    /// Whether the bundle sends pulses, so that the spectrum is kept.
    watching: bool,
    pulse: PulseFrequency,
    /// The last boundary packet's fingerprint, a number that hardly any other bundle has.
    number: u32,
    response: Option<PulseResponse>,
    evaluated_at: Nanos,
    /// Since when there has been evidence of elastic traffic.
    elastic_since: Option<Nanos>,
    /// The last return to delay control.
    returned: Option<Return>,
    elastic: bool,
    /// The drain probes of pass-through mode.
    drain_probes: DrainProbes,
}

/// A return from pass-through to delay control.
#[derive(Clone, Copy, Debug)]
struct Return {
    at: Nanos,
    /// The rate at which the bottleneck served the bundle until then.
    served: Rate,
}

impl CrossTraffic {
    pub(crate) fn new(by_pulses: bool) -> Self {
        Self {
            series: Series::default(),
            spectrum: by_pulses.then(Spectrum::new),
            standing_queue: StandingQueue::default(),
            highest: HighestRate::default(),
            watching: false,
            pulse: PulseFrequency::from_number(0),
            number: 0,
            response: None,
            evaluated_at: Nanos::ZERO,
            elastic_since: None,
            returned: None,
            elastic: false,
            drain_probes: DrainProbes::default(),
        }
    }

    /// Takes in a boundary packet, which is newer than those before.
    pub(crate) fn on_boundary_sample(&mut self, sample: BoundarySample, fingerprint: u32) {
        self.number = fingerprint;
        let watching = self.watching;
        let Some(spectrum) = &mut self.spectrum else { return };
        let put = |slot| {
            if watching {
                spectrum.push(slot);
            }
        };
        if self.series.on_boundary_sample(sample, put) == Continuity::Broken {
            spectrum.clear();
            self.response = None;
        }
    }

    /// Evaluates a tick. `target` is the queueing delay that the controller aims for.
    /// `pass_through` is whether the bundle is in pass-through mode rather than under delay
    /// control.
    pub(crate) fn on_tick(&mut self, m: &Measurement, target: Nanos, pass_through: bool) {
        if let Some(rate) = m.sustained_rate {
            self.highest.on_rate(m.now, rate, self.keeps_old_estimates(m.now));
        }
        self.standing_queue.on_tick(m, target);
        // Without pulses there is nothing to see; this saves time with thousands of bundles.
        let watching = self.standing_queue.detected_at().is_some() && !pass_through;
        let Some(spectrum) = &mut self.spectrum else { return };
        if watching && !self.watching {
            spectrum.clear();
            self.pulse = PulseFrequency::from_number(self.number);
        }
        self.watching = watching;
        if pass_through || m.now.saturating_sub(self.evaluated_at) < EVALUATION_INTERVAL {
            return;
        }
        self.evaluated_at = m.now;
        let highest = self.highest.get().as_bytes_per_sec_f64();
        self.response = watching.then(|| spectrum.response(self.pulse, highest)).flatten();
        let Some(wait) = self.elastic_for(m.now, m.send_rate) else {
            self.elastic_since = None;
            return;
        };
        if m.now.saturating_sub(*self.elastic_since.get_or_insert(m.now)) >= wait {
            self.elastic = true;
        }
    }

    /// Returns how long the present evidence of elastic traffic must last, `None` without evidence.
    /// The bundle is under delay control and sends at `rate`.
    fn elastic_for(&self, now: Nanos, rate: Rate) -> Option<Nanos> {
        self.standing_queue.detected_at()?;
        let stood = self.standing_queue.stood_for(now);
        let lost =
            |Return { at, served }| now.saturating_sub(at) < RELAPSE && rate < served.scaled(KEPT);
        let relapse = stood >= STOOD_AGAIN && self.returned.is_some_and(lost);
        let responds = stood >= STOOD && self.response.is_some_and(|r| r.is_elastic());
        // Where the pulses are not visible, the queue alone decides.
        let fills =
            stood >= STOOD_LONG && self.response.is_none_or(|r| r.late >= STOOD_LONG_LATE_RESPONSE);
        (relapse || fills || responds).then_some(if responds { ELASTIC_FOR } else { Nanos::ZERO })
    }

    /// Records that the guard found elastic traffic.
    pub(crate) fn on_contested(&mut self) {
        self.elastic = true;
    }

    /// Returns whether a queue stands at the bottleneck.
    pub(crate) fn queue_stands(&self) -> bool {
        self.standing_queue.detected_at().is_some()
    }

    /// Returns whether a queue has stood for so long that a bundle that sends less would have
    /// drained it.
    pub(crate) fn queue_stood_long(&self, m: &Measurement) -> bool {
        self.queue_stands()
            && self.standing_queue.stood_for(m.now) >= LONG.max(m.smoothed_rtt * LONG_RTTS)
    }

    /// Returns the present response to the pulses.
    pub(crate) fn pulse_response(&self) -> Option<PulseResponse> {
        self.response
    }

    /// Returns whether elastic cross traffic was detected.
    pub(crate) fn is_elastic(&self) -> bool {
        self.elastic
    }

    /// Returns the rates of the drain probe that is under way, if any.
    pub(crate) fn rate_cut(&self, now: Nanos) -> Option<RateCut> {
        self.drain_probes.rate_cut(now)
    }

    /// Evaluates a tick in pass-through mode. Returns the drain probe that ended now if it was the
    /// last of `needed` in a row that found the queue drained.
    pub(crate) fn drain_probe(&mut self, m: &Measurement, needed: u32) -> Option<DrainProbe> {
        self.drain_probes.on_tick(m, needed, self.highest.get())
    }

    /// Returns for how long the bottleneck has had no standing queue. Elastic traffic does not
    /// leave it empty for long, and no pulses are needed to see this.
    pub(crate) fn without_queue_for(&self, now: Nanos) -> Nanos {
        self.standing_queue.absent_for(now)
    }

    /// Returns whether cross traffic may hide the empty path and the bottleneck's full rate, so
    /// that older estimates must not age.
    pub(crate) fn keeps_old_estimates(&self, now: Nanos) -> bool {
        let within =
            |since: Option<Nanos>, time| since.is_some_and(|t| now.saturating_sub(t) < time);
        // A return may be wrong, and several in a row would let the estimates of the path expire.
        self.elastic
            || within(self.standing_queue.detected_at(), ESTIMATES_KEPT)
            || within(self.returned.map(|r| r.at), RELAPSE)
    }

    /// Returns the least rate that the controller may set now, for the sake of a test.
    pub(crate) fn min_test_rate(&self, now: Nanos) -> Rate {
        let testing = |since: Nanos| now.saturating_sub(since).0 % TEST_AGAIN.0 < TEST.0;
        let testing =
            self.spectrum.is_some() && self.standing_queue.detected_at().is_some_and(testing);
        if !testing {
            return Rate::ZERO;
        }
        let highest = self.highest.get();
        highest.scaled(TEST_RATE).max(MARKED_RATE.min(highest.scaled(TEST_RATE_MAX)))
    }

    /// Returns the highest recent rate at which the bottleneck served the bundle.
    pub(crate) fn highest_rate(&self) -> Rate {
        self.highest.get()
    }

    /// Returns the best estimate of the bottleneck's rate.
    pub(crate) fn bottleneck(&self) -> Rate {
        let shown = self.response.filter(|_| !self.elastic).map_or(0.0, |r| r.bottleneck);
        self.highest.get().max(Rate::from_bps_f64(shown * 8.0))
    }

    /// Returns the frequency of the pulses.
    pub(crate) fn pulse(&self) -> PulseFrequency {
        self.pulse
    }

    /// Returns the amplitude of the pulses, zero if there are none.
    pub(crate) fn amplitude(&self) -> Rate {
        if self.spectrum.is_some() && self.queue_stands() {
            self.highest.get().scaled(AMPLITUDE)
        } else {
            Rate::ZERO
        }
    }

    /// Records the return to delay control, from a rate of `served`. The search for a standing
    /// queue starts anew.
    pub(crate) fn on_return(&mut self, now: Nanos, served: Rate) {
        self.standing_queue.clear(now);
        self.returned = Some(Return { at: now, served });
        self.elastic_since = None;
        self.elastic = false;
    }

    /// Records the start of pass-through mode.
    pub(crate) fn on_pass_through(&mut self, now: Nanos) {
        self.drain_probes = DrainProbes::begin(now);
        self.elastic_since = None;
        self.response = None;
    }

    /// Discards everything except the bottleneck's rate.
    pub(crate) fn clear(&mut self, now: Nanos) {
        self.series.clear();
        if let Some(spectrum) = &mut self.spectrum {
            spectrum.clear();
        }
        self.standing_queue.clear(now);
        self.returned = None;
        self.response = None;
        self.elastic_since = None;
        self.elastic = false;
    }
}

impl PulseResponse {
    /// Returns whether the response exceeds every threshold for elastic traffic.
    fn is_elastic(&self) -> bool {
        self.busy >= BUSY
            && (self.response >= ELASTIC_RESPONSE && self.contrast >= ELASTIC_CONTRAST)
            && (self.late >= ELASTIC_LATE_RESPONSE && self.late_contrast >= ELASTIC_LATE_CONTRAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const MS: Nanos = Nanos::from_millis(1);

    /// Returns whether a return from 30 Mbit/s counts as wrong when a queue of 20 ms then stands
    /// for three seconds while the bundle sends at `rate`.
    fn was_wrong(rate: Rate) -> bool {
        let mut cross = CrossTraffic::new(true);
        cross.on_return(Nanos::ZERO, Rate::from_mbps(30));
        for ms in (10..3_000).step_by(10) {
            let rtt = quiet().min_rtt + MS * 20;
            let m =
                Measurement { now: MS * ms, rtt, standing_rtt: rtt, send_rate: rate, ..quiet() };
            cross.on_tick(&m, MS * 2, false);
        }
        cross.is_elastic()
    }

    #[test]
    fn a_return_is_wrong_if_the_queue_costs_the_bundle_its_rate() {
        assert!(was_wrong(Rate::from_mbps(23)));
        assert!(!was_wrong(Rate::from_mbps(25)), "bursts leave the bundle its rate");
    }
}
