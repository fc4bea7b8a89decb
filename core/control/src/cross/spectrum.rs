use core::ops::RangeInclusive;

use super::dft::{Complex, SlidingDft};
use super::pulse::PulseFrequency;
use super::series::{Slot, WINDOW};
use crate::math::sqrt;

/// Distance from the pulse's bins of the bins that count as noise. Nearer bins hold a part of the
/// pulse, because of the Hann window and of pulses that start and stop.
const NOISE: RangeInclusive<usize> = 3..=6;
/// Number of slots needed for a result: half of the window.
const FILLED: usize = WINDOW / 2;
/// Weight of a new value in the mean that is subtracted, which follows over a second.
const MEAN_WEIGHT: f64 = 0.01;
/// The largest bottleneck rate considered, as a multiple of the bundle's highest rate.
const MAX_OF_HIGHEST: f64 = 4.0;

/// The smallest bottleneck rate considered, as a share of the bundle's highest rate, which may have
/// been measured a little too high or before the path became slower.
const MIN_OF_HIGHEST: f64 = 0.95;
/// Number of frequencies tested: the pulse's frequency and twice that.
const HARMONICS: f64 = 2.0;
/// The bundle's rate must vary by this share of the bottleneck's rate at the pulse's frequencies.
const VISIBLE: f64 = 0.02;
/// The bundle's power there must be this multiple of the power around them. Nimbus asks for twice
/// the amplitude, which is four times the power.
const CLEAR: f64 = 4.0;

/// The response of cross traffic to the pulses, over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PulseResponse {
    /// The variation of cross traffic at the pulse's frequencies as a share of the bundle's: 1 if
    /// it makes room for the whole pulse.
    pub(crate) response: f64,
    /// The same variation as a multiple of that of cross traffic at neighbouring frequencies.
    pub(crate) contrast: f64,
    /// The part of the response that is delayed, as a share of the bundle's variation. An error in
    /// the bottleneck's rate cannot cause a delay.
    pub(crate) late: f64,
    /// The delayed part as a multiple of the variation at neighbouring frequencies.
    pub(crate) late_contrast: f64,
    /// The bottleneck's rate in bytes per second, if there is no response.
    pub(crate) bottleneck: f64,
    /// The share of the window in which the bottleneck's queue was never empty.
    pub(crate) busy: f64,
}

/// The send rate of the bundle and its ratio to the receive rate, in the frequency domain.
///
/// While the bottleneck is busy and serves in order, S / R = (S + z) / mu, since a byte of the
/// bundle waits for all that arrived with it. With a constant z, S / R is a straight line over S of
/// slope 1 / mu. Traffic that responds to the pulses does so later, at the earliest after its own
/// round-trip time. This turns the phase, and no mu gives a line that fits. What the best line
/// leaves is the response of the cross traffic.
///
/// So mu need not be known, and an error in mu does not look like elasticity. With |FFT(z)|, as in
/// Nimbus, it does: with mu a tenth too small, z varies with the pulses by a tenth of them.
#[derive(Debug)]
pub(super) struct Spectrum {
    send: SlidingDft,
    ratio: SlidingDft,
    mean: Option<Mean>,
    filled: usize,
    /// The share of slots in which the bottleneck was busy, over about the window.
    busy: f64,
}

/// The mean of the two series.
#[derive(Clone, Copy, Debug)]
struct Mean {
    send: f64,
    ratio: f64,
}

impl Spectrum {
    pub(super) fn new() -> Self {
        let reach = NOISE.end() + 1;
        let [lowest, .., highest] = PulseFrequency::BINS;
        let dft = || SlidingDft::new(WINDOW, lowest - reach, 2 * highest + reach);
        Self { send: dft(), ratio: dft(), mean: None, filled: 0, busy: 1.0 }
    }

    /// Adds a slot to the window.
    pub(super) fn push(&mut self, slot: Slot) {
        let weight = 1.0 / (self.filled.min(WINDOW / 2) + 1) as f64;
        self.filled += 1;
        self.busy += (f64::from(u8::from(slot.queued)) - self.busy) * weight;
        let mean = self.mean.get_or_insert(Mean { send: slot.send, ratio: slot.ratio });
        // While the bottleneck is idle nothing is known about other traffic.
        let known = f64::from(u8::from(slot.queued));
        self.send.push((slot.send - mean.send) * known);
        self.ratio.push((slot.ratio - mean.ratio) * known);
        mean.send += MEAN_WEIGHT * (slot.send - mean.send);
        mean.ratio += MEAN_WEIGHT * (slot.ratio - mean.ratio);
    }

    /// Returns the response to the pulses.
    ///
    /// `highest` is the highest rate, in bytes per second, at which the bottleneck served the
    /// bundle. The result is `None` until half of the window is filled and while the bundle's own
    /// rate does not show the pulses.
    pub(super) fn response(&self, pulse: PulseFrequency, highest: f64) -> Option<PulseResponse> {
        if self.filled < FILLED {
            return None;
        }
        // The second harmonic of an asymmetric pulse has two thirds of the first's amplitude.
        let pulse = [pulse.bin(), 2 * pulse.bin()];
        let (sent, sent_noise) = powers(pulse, |k| self.send.hann(k));
        // Half the window's length times half the amplitude of a cosine.
        let floor = VISIBLE * highest * WINDOW as f64 / 4.0;
        if sent < CLEAR * sent_noise * HARMONICS || sent < floor * floor {
            return None;
        }
        let along: f64 = pulse.iter().map(|&k| self.ratio.hann(k).dot(self.send.hann(k))).sum();
        let received = self.mean.map_or(0.0, |mean| mean.send / mean.ratio.max(0.1));
        let slope = if along > 0.0 { sent / along } else { f64::INFINITY };
        // The bottleneck's rate is at least the bundle's receive rate.
        let most = (MAX_OF_HIGHEST * highest).max(received);
        let bottleneck = slope.clamp((MIN_OF_HIGHEST * highest).max(received), most);
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

    /// Discards all values.
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

/// Returns the total power in the pulse's bins, and the mean power of a noise bin.
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

    /// The traffic that shares the bottleneck with the bundle.
    struct Cross {
        /// A constant rate, in bytes per second.
        inelastic: f64,
        /// The amplitude of random noise on that rate.
        noise: f64,
        /// Bytes per second that are sent again when they are acknowledged, `slots` later.
        elastic: f64,
        slots: usize,
    }

    /// Returns the response after `seconds` of a bundle at 40 % of the bottleneck's rate with
    /// pulses of a quarter of it.
    fn response(cross: &Cross, seconds: u32) -> Option<PulseResponse> {
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
            // What was served is acknowledged and sent again.
            clocked.push(elastic / ratio.max(1e-3));
            spectrum.push(Slot { send, ratio, queued: true });
        }
        spectrum.response(pulse, MU)
    }

    #[test]
    fn traffic_clocked_by_acknowledgements_responds() {
        for slots in [3, 7, 12, 15] {
            let cross = Cross { inelastic: 0.0, noise: 0.0, elastic: 0.6 * MU, slots };
            let response = response(&cross, 8).unwrap();
            assert!(response.response > 0.2 && response.late > 0.1, "{slots} slots: {response:?}");
            assert!(response.contrast > 2.5, "{slots} slots: {response:?}");
        }
    }

    #[test]
    fn traffic_at_a_constant_rate_does_not_respond() {
        let cross = Cross { inelastic: 0.6 * MU, noise: 0.0, elastic: 0.0, slots: 1 };
        let response = response(&cross, 8).unwrap();
        assert!(response.response < 1e-6 && response.late < 1e-6, "{response:?}");
        assert!((response.bottleneck - MU).abs() < 1e-3 * MU, "{response:?}");
        assert_eq!(response.busy, 1.0);
    }

    #[test]
    fn an_error_in_the_rate_is_not_a_late_response() {
        // With three times the true rate less of S / R is explained, but nothing is delayed.
        let pulse = PulseFrequency::from_number(7);
        let mut spectrum = Spectrum::new();
        for i in 0..800 {
            let send = 0.4 * MU + 0.25 * MU * pulse.shape(Nanos(SLOT.0 * i), SLOT);
            spectrum.push(Slot { send, ratio: (send + 0.6 * MU) / MU, queued: true });
        }
        let response = spectrum.response(pulse, 3.0 * MU).unwrap();
        assert!(response.response > 1.0 && response.late < 1e-6, "{response:?}");
    }

    #[test]
    fn there_is_no_response_too_soon_or_without_pulses() {
        let cross = Cross { inelastic: 0.6 * MU, noise: 0.0, elastic: 0.0, slots: 1 };
        assert_eq!(response(&cross, 2), None);
        let mut spectrum = Spectrum::new();
        (0..800).for_each(|_| spectrum.push(Slot { send: MU, ratio: 1.0, queued: true }));
        assert_eq!(spectrum.response(PulseFrequency::from_number(7), MU), None);
        spectrum.clear();
        assert_eq!(spectrum.response(PulseFrequency::from_number(7), MU), None);
    }

    proptest! {
        #[test]
        fn noise_is_not_a_response(noise in 0.05f64..0.5) {
            let cross = Cross { inelastic: 0.6 * MU, noise: noise * MU, elastic: 0.0, slots: 1 };
            let response = response(&cross, 10).unwrap();
            prop_assert!(response.contrast < 2.5, "{response:?}");
        }
    }
}
