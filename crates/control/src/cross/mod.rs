//! Tells cross traffic that reacts to the bundle (*elastic*: backlogged TCP flows, which fill the
//! bottleneck's buffer) from cross traffic that does not. Beside the first, delay control gives its
//! share away (Bundler section 5.1).
//!
//! The way is Nimbus' (Goyal et al., 2018; Bundler section 5.1): the bundle sends in pulses, and
//! traffic that is clocked by its acknowledgements sends less one round-trip time after each. What
//! differs:
//!
//! | Nimbus, and Bundler's prototype | here | why |
//! |---|---|---|
//! | z = mu S / R - S, mu a given constant | S / R = (S + z) / mu, fitted at the pulse's frequencies; z is what does not fit (`spectrum`) | mu is not known at a sendbox; an error in it is a factor without a delay, an answer has a delay |
//! | the peak of FFT(z) at 5 Hz over the highest between 5 and 10 Hz | the power at 5 and 10 Hz over the mean of the bins around both, under a Hann window | the second harmonic tells delays apart that look alike at the first (100 ms is half a period); a mean varies less than a maximum; without a window, slow changes leak into every bin |
//! | an answer below a quarter of what R shows counts for less | the answer must be a share of the pulse as well as stand out from the noise | a quiet path has no noise to stand out from |
//! | S and R over a window of about a round-trip time, z shifted by two round-trip times | both over the same bytes, by boundary packets (`series`) | what a pulse caused stands in the pulse's own slot; nothing is averaged away on long paths |
//! | 5 Hz, 6 Hz in delay control | one of five frequencies about 5 Hz, drawn by the traffic (`pulse`) | bundles that share a bottleneck would take each other's pulses for an answer |
//! | pulses all the time | pulses while a queue stands that the controller did not want (`suspicion`) | a pulse of mu / 4 is 8 ms of queue; elastic traffic leaves a queue |
//! | pulses in pass-through too, until nobody answers | none: the bundle leaves so much room that the queue would be gone within some round trips, and sees whether it goes (`drain`); when the queue falls as it has not for long, and now and then (`looks`). A bottleneck without a queue is enough by itself | what the bundle may pulse there is less than others' queues vary by; what fills a buffer leaves a queue |
//! | delay control down to 5 % of mu meanwhile | not below a quarter of the highest rate for the eight seconds of the test | pulses need a rate to stand on, and marks come by bytes: a starved bundle is blind |
//! | z below a tenth of mu is inelastic | a bottleneck that idles for a tenth of the window is not shared with elastic traffic | where it idles, S / R is one whatever is sent: the bundle's own pulses would look like an answer |
//!
//! What it cannot see: cross traffic that answers by less than the thresholds; anything where marks
//! lie more than a fifth of a second apart (a full packet every 3 ms and slower).
//! Two bundles that pulse at the same bottleneck and drew the same frequency look elastic to each
//! other.

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

/// The window is looked at this often.
const EVERY: Nanos = Nanos::from_millis(50);
/// Cross traffic is elastic from this response and contrast on (Nimbus: 2.25 against a maximum),
const ELASTIC: (f64, f64) = (0.20, 2.5);
/// so much of it late,
const LATE: (f64, f64) = (0.06, 1.3);
/// for so long.
const ELASTIC_FOR: Nanos = Nanos::from_millis(400);
/// A suspicion keeps what is known of the empty path and of the bottleneck's rate for so long: what is
/// not settled by then may as well be another path.
const HOLDS: Nanos = Nanos::from_secs(30);
/// Elastic traffic keeps the bottleneck busy for at least this share of the window.
const BUSY: f64 = 0.9;
/// and fills its buffer: the queue has stood for so long without a break. Another bundle's delay
/// control answers pulses as well, but leaves no queue.
const STOOD: Nanos = Nanos::from_secs(2);
/// A queue that has stood for so long, the test's whole time, is elastic traffic's even if its answer
/// does not stand out, unless none of it is late: traffic that leaves room for the rate that is held
/// would have let it drain.
const STOOD_LONG: Nanos = Nanos::from_millis(7_500);
const LATE_LEAST: f64 = 0.1;
/// A return to delay control was wrong if within this time
const RELAPSE: Nanos = Nanos::from_secs(12);
/// a queue stands for so long, and long enough to be suspected: what the bundle left of its own is gone
/// by then. An error that is put right as soon as that costs less than a return that comes too late.
const STOOD_AGAIN: Nanos = Nanos::from_secs(1);
/// and takes from the bundle: less than this is left of the rate that it had before. Without that it is
/// of what comes in bursts.
const KEPT: f64 = 0.8;
/// How long the rate is held up while a suspicion is tested.
const TEST: Nanos = Nanos::from_secs(8);
/// And what is held: a quarter of the highest rate, or what marks three epochs in a period of the
/// pulse, 64 full packets each, up to half of it.
const HELD: (f64, f64) = (0.25, 0.5);
const MARKED: Rate = Rate::from_bps(3 * 64 * 1_514 * 8 * 5);
/// A suspicion that was not confirmed is tested again after so long.
const TEST_AGAIN: Nanos = Nanos::from_secs(20);
/// The pulse's amplitude, of the bottleneck's rate (Nimbus section 4.1).
const AMPLITUDE: f64 = 0.25;

/// What is known of the traffic that shares the bottleneck.
#[derive(Debug)]
pub(crate) struct CrossTraffic {
    series: Series,
    spectrum: Spectrum,
    standing_queue: StandingQueue,
    highest: HighestRate,
    /// There are pulses to see.
    watching: bool,
    pulse: PulseFrequency,
    /// The last boundary packet's fingerprint: a number that no other bundle has.
    number: u32,
    response: Option<PulseResponse>,
    evaluated_at: Nanos,
    /// Since when the answer has been on the other side of the thresholds.
    turned: Option<Nanos>,
    /// When delay control was last tried again, and the rate that the bottleneck served the bundle at
    /// until then.
    returned: Option<(Nanos, Rate)>,
    elastic: bool,
    /// While the bundle passes through.
    drain_probes: DrainProbes,
}

impl CrossTraffic {
    pub(crate) fn new() -> Self {
        Self {
            series: Series::default(),
            spectrum: Spectrum::new(),
            standing_queue: StandingQueue::default(),
            highest: HighestRate::default(),
            watching: false,
            pulse: PulseFrequency::from_number(0),
            number: 0,
            response: None,
            evaluated_at: Nanos::ZERO,
            turned: None,
            returned: None,
            elastic: false,
            drain_probes: DrainProbes::default(),
        }
    }

    /// Takes in a boundary packet, newer than those before.
    pub(crate) fn on_boundary_sample(&mut self, point: BoundarySample, fingerprint: u32) {
        self.number = fingerprint;
        let (spectrum, watching) = (&mut self.spectrum, self.watching);
        let put = |slot| {
            if watching {
                spectrum.push(slot);
            }
        };
        if self.series.on_boundary_sample(point, put) == Continuity::Broken {
            self.spectrum.clear();
            self.response = None;
        }
    }

    /// A tick. `target` is the queueing delay that the controller aims for; the bundle is `passing`
    /// through, or under delay control.
    pub(crate) fn on_tick(&mut self, m: &Measurement, target: Nanos, passing: bool) {
        if let Some(rate) = m.sustained_rate {
            self.highest.on_rate(m.now, rate, self.keeps_old_estimates(m.now));
        }
        self.standing_queue.on_tick(m, target);
        // Without pulses there is nothing to see, and ten thousand bundles need not look.
        let watching = self.standing_queue.detected_at().is_some() && !passing;
        if watching && !self.watching {
            self.spectrum.clear();
            self.pulse = PulseFrequency::from_number(self.number);
        }
        self.watching = watching;
        if passing || m.now.saturating_sub(self.evaluated_at) < EVERY {
            return;
        }
        self.evaluated_at = m.now;
        let highest = self.highest.get().as_bytes_per_sec_f64();
        self.response = watching.then(|| self.spectrum.answer(self.pulse, highest)).flatten();
        let Some(wait) = self.elastic_for(m.now, m.send_rate) else {
            self.turned = None;
            return;
        };
        if m.now.saturating_sub(*self.turned.get_or_insert(m.now)) >= wait {
            self.elastic = true;
        }
    }

    /// In delay control, which sends at `rate`: whether there is elastic traffic now, and for how long
    /// that must last.
    fn elastic_for(&self, now: Nanos, rate: Rate) -> Option<Nanos> {
        self.standing_queue.detected_at()?;
        let stood = self.standing_queue.stood_for(now);
        let lost = |(at, served): (Nanos, Rate)| {
            now.saturating_sub(at) < RELAPSE && rate < served.scaled(KEPT)
        };
        let relapse = stood >= STOOD_AGAIN && self.returned.is_some_and(lost);
        let shown = stood >= STOOD && self.response.is_some_and(|a| a.is_elastic());
        // Where pulses do not show, nothing but the queue tells.
        let fills = stood >= STOOD_LONG && self.response.is_none_or(|a| a.late >= LATE_LEAST);
        (relapse || fills || shown).then_some(if shown { ELASTIC_FOR } else { Nanos::ZERO })
    }

    /// What the pulses show now.
    pub(crate) fn pulse_response(&self) -> Option<PulseResponse> {
        self.response
    }

    /// Whether they show that cross traffic is elastic.
    pub(crate) fn is_elastic(&self) -> bool {
        self.elastic
    }

    /// The cut for the sake of a look at whose the queue is; the bundle passes through.
    pub(crate) fn rate_cut(&self, now: Nanos) -> Option<RateCut> {
        self.drain_probes.rate_cut(now)
    }

    /// A tick of a bundle that passes through, which looks now and then and when the queue gives cause:
    /// the look that showed, as the last of `needed`, that nobody takes what the bundle leaves.
    pub(crate) fn drain_probe(&mut self, m: &Measurement, needed: u32) -> Option<DrainProbe> {
        self.drain_probes.on_tick(m, needed, self.highest.get())
    }

    /// For how long the bottleneck has been without a queue that stands. Elastic traffic leaves none
    /// that is empty for long, and this needs no pulses to be seen.
    pub(crate) fn without_queue_for(&self, now: Nanos) -> Nanos {
        self.standing_queue.absent_for(now)
    }

    /// Whether others may keep the bottleneck from being seen empty or at its full rate, so that what
    /// was seen before still stands.
    pub(crate) fn keeps_old_estimates(&self, now: Nanos) -> bool {
        let within =
            |since: Option<Nanos>, time| since.is_some_and(|t| now.saturating_sub(t) < time);
        // A return may be wrong: several in a row would age what is known of the path away.
        self.elastic
            || within(self.standing_queue.detected_at(), HOLDS)
            || within(self.returned.map(|(at, _)| at), RELAPSE)
    }

    /// The rate below which a controller must not go now, for the sake of the test.
    pub(crate) fn min_test_rate(&self, now: Nanos) -> Rate {
        let testing = |since: Nanos| now.saturating_sub(since).0 % TEST_AGAIN.0 < TEST.0;
        let testing = self.standing_queue.detected_at().is_some_and(testing);
        if !testing {
            return Rate::ZERO;
        }
        let highest = self.highest.get();
        highest.scaled(HELD.0).max(MARKED.min(highest.scaled(HELD.1)))
    }

    /// The highest rate at which the bottleneck served the bundle lately.
    pub(crate) fn highest_rate(&self) -> Rate {
        self.highest.get()
    }

    /// The bottleneck's rate, as well as it is known.
    pub(crate) fn bottleneck(&self) -> Rate {
        let shown = self.response.filter(|_| !self.elastic).map_or(0.0, |a| a.bottleneck);
        self.highest.get().max(Rate::from_bps_f64(shown * 8.0))
    }

    /// When the pulses come.
    pub(crate) fn pulse(&self) -> PulseFrequency {
        self.pulse
    }

    /// The amplitude of the pulses now; zero for none.
    pub(crate) fn amplitude(&self) -> Rate {
        if self.standing_queue.detected_at().is_some() {
            self.highest.get().scaled(AMPLITUDE)
        } else {
            Rate::ZERO
        }
    }

    /// The bundle is under delay control again, from the rate `served` that it had until now: looks anew
    /// whether there is a queue that the controller does not want.
    pub(crate) fn on_return(&mut self, now: Nanos, served: Rate) {
        self.standing_queue.clear(now);
        self.returned = Some((now, served));
        self.turned = None;
        self.elastic = false;
    }

    /// The bundle passes through from now on.
    pub(crate) fn on_pass_through(&mut self, now: Nanos) {
        self.drain_probes = DrainProbes::begin(now);
        self.turned = None;
        self.response = None;
    }

    /// Forgets all but the bottleneck's rate.
    pub(crate) fn clear(&mut self, now: Nanos) {
        self.series.clear();
        self.spectrum.clear();
        self.standing_queue.clear(now);
        self.returned = None;
        self.response = None;
        self.turned = None;
        self.elastic = false;
    }
}

impl PulseResponse {
    fn is_elastic(&self) -> bool {
        self.busy >= BUSY
            && (self.response >= ELASTIC.0 && self.contrast >= ELASTIC.1)
            && (self.late >= LATE.0 && self.late_contrast >= LATE.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::quiet;

    const MS: Nanos = Nanos::from_millis(1);

    /// Whether a return from 30 Mbit/s was wrong, after which a queue of 20 ms stands for three seconds
    /// while the bundle sends at `rate`.
    fn was_wrong(rate: Rate) -> bool {
        let mut cross = CrossTraffic::new();
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
    fn a_return_was_wrong_if_the_queue_takes_from_the_bundle() {
        assert!(was_wrong(Rate::from_mbps(23)));
        assert!(!was_wrong(Rate::from_mbps(25)), "bursts leave the bundle its rate");
    }
}
