use core::ops::RangeInclusive;

use super::dft::{Complex, SlidingDft};
use super::pulse::PulseFrequency;
use super::series::{Slot, WINDOW};
use crate::math::sqrt;

/// Bins so far from those are noise; nearer ones have a part of the pulse, by the Hann window and by
/// pulses that come and go.
const NOISE: RangeInclusive<usize> = 3..=6;
/// How much of the window must be filled: three quarters of the Hann window's weight.
const FILLED: usize = WINDOW / 2;
/// The mean that is taken off each value follows over a second.
const MEAN: f64 = 0.01;
/// The bottleneck's rate may turn out to be that many times the highest rate that the bundle ever
/// had of it, not more.
const MOST_OF_RATE: f64 = 4.0;

/// And not less than this part of it: it may have been a little too high, and the path may have
/// become slower since.
const LEAST_OF_RATE: f64 = 0.95;
/// The pulse's frequency and twice that.
const HARMONICS: f64 = 2.0;
/// The bundle must move by this share of the bottleneck's rate at the pulse's frequencies,
const VISIBLE: f64 = 0.02;
/// and its power there be that many times what it is around them (Nimbus asks for twice the
/// amplitude).
const CLEAR: f64 = 4.0;

/// What the pulses have shown over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PulseResponse {
    /// What the cross traffic did at the pulse's frequencies, as a share of what the bundle did: 1 if
    /// it made room for all of it.
    pub(crate) response: f64,
    /// The same against what cross traffic does at the frequencies around, which nobody asked for.
    pub(crate) contrast: f64,
    /// The part of the answer that comes late, which no error in the bottleneck's rate explains: a
    /// share of what the bundle did,
    pub(crate) late: f64,
    /// and against what cross traffic does around.
    pub(crate) late_contrast: f64,
    /// The bottleneck's rate that the pulses show if nobody answers them, in bytes per second.
    pub(crate) bottleneck: f64,
    /// The share of the window in which the bottleneck's queue never emptied.
    pub(crate) busy: f64,
}

/// The bundle's own rate and what the bottleneck made of it, in the frequency domain.
///
/// While the bottleneck is busy and serves in order, S / R = (S + z) / mu: what a byte of the bundle
/// waits for is all that came with it. An even z leaves a straight line through S, whose slope is
/// 1 / mu. Traffic that answers the pulses answers later, at the earliest after its own round-trip
/// time, so it turns the phase; there is no mu for which a line fits. What the best line leaves is
/// the cross traffic's answer. So mu need not be known, and an error in it cannot be mistaken for
/// elasticity, which it can in Nimbus' |FFT(z)| (with mu a tenth too small, z moves with the pulses
/// by a tenth of them).
#[derive(Debug)]
pub(super) struct Spectrum {
    send: SlidingDft,
    ratio: SlidingDft,
    mean: Option<(f64, f64)>,
    filled: usize,
    /// The share of slots in which the bottleneck was busy, over the window or so.
    busy: f64,
}

impl Spectrum {
    pub(super) fn new() -> Self {
        let reach = NOISE.end() + 1;
        let [lowest, .., highest] = PulseFrequency::BINS;
        let dft = || SlidingDft::new(WINDOW, lowest - reach, 2 * highest + reach);
        Self { send: dft(), ratio: dft(), mean: None, filled: 0, busy: 1.0 }
    }

    pub(super) fn push(&mut self, slot: Slot) {
        let weight = 1.0 / (self.filled.min(WINDOW / 2) + 1) as f64;
        self.filled += 1;
        self.busy += (f64::from(u8::from(slot.queued)) - self.busy) * weight;
        let (send, ratio) = self.mean.get_or_insert((slot.send, slot.ratio));
        // Where the bottleneck idles nothing can be said about who else uses it.
        let known = f64::from(u8::from(slot.queued));
        self.send.push((slot.send - *send) * known);
        self.ratio.push((slot.ratio - *ratio) * known);
        *send += MEAN * (slot.send - *send);
        *ratio += MEAN * (slot.ratio - *ratio);
    }

    /// What the pulses show; `highest` is the highest rate, in bytes per second, that the bottleneck
    /// was seen to serve the bundle at. `None` before half the window is filled, and while the
    /// bundle's own rate does not show the pulses.
    pub(super) fn answer(&self, pulse: PulseFrequency, highest: f64) -> Option<PulseResponse> {
        if self.filled < FILLED {
            return None;
        }
        // An asymmetric pulse has two thirds as much at its second harmonic.
        let pulse = [pulse.bin(), 2 * pulse.bin()];
        let (sent, sent_noise) = powers(pulse, |k| self.send.hann(k));
        // Half the window's weight times half the amplitude of a cosine.
        let floor = VISIBLE * highest * WINDOW as f64 / 4.0;
        if sent < CLEAR * sent_noise * HARMONICS || sent < floor * floor {
            return None;
        }
        let along: f64 = pulse.iter().map(|&k| self.ratio.hann(k).dot(self.send.hann(k))).sum();
        let received = self.mean.map_or(0.0, |(send, ratio)| send / ratio.max(0.1));
        let slope = if along > 0.0 { sent / along } else { f64::INFINITY };
        // What the bundle has of the bottleneck is no more than it has.
        let most = (MOST_OF_RATE * highest).max(received);
        let bottleneck = slope.clamp((LEAST_OF_RATE * highest).max(received), most);
        let [(response, contrast), (late, late_contrast)] =
            [bottleneck, slope.clamp(received, most)].map(|mu| {
                let (cross, noise) =
                    powers(pulse, |k| self.ratio.hann(k).scaled_less(mu, self.send.hann(k)));
                let contrast = cross / HARMONICS / noise.max(f64::MIN_POSITIVE);
                (sqrt(cross / sent), sqrt(contrast).min(99.0))
            });
        let busy = self.busy;
        Some(PulseResponse { response, contrast, late, late_contrast, bottleneck, busy })
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        if self.filled > 0 {
            self.send.clear();
            self.ratio.clear();
        }
        self.mean = None;
        self.filled = 0;
        self.busy = 1.0;
    }
}

/// The power in the bins of the pulse together, and of a bin of noise on average.
fn powers(pulse: [usize; 2], bin: impl Fn(usize) -> Complex) -> (f64, f64) {
    let power = |k: usize| bin(k).power();
    let around = |k: usize| NOISE.map(|d| power(k - d) + power(k + d)).sum::<f64>();
    let bins = HARMONICS * 2.0 * (NOISE.end() - NOISE.start() + 1) as f64;
    (pulse.map(power).iter().sum(), pulse.map(around).iter().sum::<f64>() / bins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::Nanos;
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::super::series::SLOT;

    const MU: f64 = 12e6;

    /// What shares the bottleneck with the bundle.
    struct Cross {
        /// Bytes per second of a rate that nothing moves, and by how much it is noise.
        inelastic: f64,
        noise: f64,
        /// Bytes per second that are sent when they are acknowledged, so many slots later.
        elastic: f64,
        slots: usize,
    }

    /// The answer after `seconds`: a bundle at 40 % of the bottleneck with pulses of a quarter of it.
    fn answer(cross: &Cross, seconds: u32) -> Option<PulseResponse> {
        let pulse = PulseFrequency::from_number(7);
        let mut spectrum = Spectrum::new();
        let mut state = 1_u64;
        let mut clocked: Vec<f64> = std::vec![cross.elastic; cross.slots];
        for i in 0..seconds as usize * 100 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let noise = cross.noise * ((state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0);
            let now = Nanos(SLOT.0 * i as u64);
            let send = 0.4 * MU + 0.25 * MU * pulse.shape(now, SLOT);
            let elastic = clocked[i];
            let ratio = (send + cross.inelastic + noise + elastic) / MU;
            // What was served of it comes back as the next packets.
            clocked.push(elastic / ratio.max(1e-3));
            spectrum.push(Slot { send, ratio, queued: true });
        }
        spectrum.answer(pulse, MU)
    }

    #[test]
    fn traffic_clocked_by_acknowledgements_answers() {
        for slots in [3, 7, 12, 15] {
            let cross = Cross { inelastic: 0.0, noise: 0.0, elastic: 0.6 * MU, slots };
            let answer = answer(&cross, 8).unwrap();
            assert!(answer.response > 0.2 && answer.late > 0.1, "{slots} slots: {answer:?}");
            assert!(answer.contrast > 2.5, "{slots} slots: {answer:?}");
        }
    }

    #[test]
    fn traffic_at_its_own_rate_does_not() {
        let cross = Cross { inelastic: 0.6 * MU, noise: 0.0, elastic: 0.0, slots: 1 };
        let answer = answer(&cross, 8).unwrap();
        assert!(answer.response < 1e-6 && answer.late < 1e-6, "{answer:?}");
        assert!((answer.bottleneck - MU).abs() < 1e-3 * MU, "{answer:?}");
        assert_eq!(answer.busy, 1.0);
    }

    #[test]
    fn an_error_in_the_rate_is_no_late_answer() {
        // Seen from a path that had three times the rate: less is left of S / R, all of it at once.
        let pulse = PulseFrequency::from_number(7);
        let mut spectrum = Spectrum::new();
        for i in 0..800 {
            let send = 0.4 * MU + 0.25 * MU * pulse.shape(Nanos(SLOT.0 * i), SLOT);
            spectrum.push(Slot { send, ratio: (send + 0.6 * MU) / MU, queued: true });
        }
        let answer = spectrum.answer(pulse, 3.0 * MU).unwrap();
        assert!(answer.response > 1.0 && answer.late < 1e-6, "{answer:?}");
    }

    #[test]
    fn nothing_is_said_too_soon_or_without_pulses() {
        let cross = Cross { inelastic: 0.6 * MU, noise: 0.0, elastic: 0.0, slots: 1 };
        assert_eq!(answer(&cross, 2), None);
        let mut spectrum = Spectrum::new();
        (0..800).for_each(|_| spectrum.push(Slot { send: MU, ratio: 1.0, queued: true }));
        assert_eq!(spectrum.answer(PulseFrequency::from_number(7), MU), None);
        spectrum.clear();
        assert_eq!(spectrum.answer(PulseFrequency::from_number(7), MU), None);
    }

    proptest! {
        #[test]
        fn noise_is_no_answer(noise in 0.05f64..0.5) {
            let cross = Cross { inelastic: 0.6 * MU, noise: noise * MU, elastic: 0.0, slots: 1 };
            let answer = answer(&cross, 10).unwrap();
            prop_assert!(answer.contrast < 2.5, "{answer:?}");
        }
    }
}
