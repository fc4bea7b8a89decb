use core::f64::consts::PI;

use forebay_units::Nanos;

use super::series;
use crate::math::cos_turns;

/// Length of the spectrum's window, in which every pulse frequency has a whole number of periods.
const WINDOW: Nanos = Nanos(series::WINDOW as u64 * series::SLOT.0);

/// The part of a period with a higher rate. The rest makes up for it with a lower rate.
const UP: f64 = 0.25;
/// The area under an up-pulse of amplitude 1, over the period: half a sine over a quarter of it.
const AREA: f64 = UP * 2.0 / PI;

/// The frequency of the pulses, about five a second (Nimbus section 4; Bundler section 5.1).
///
/// This is slower than most round trips, so that elastic flows have time to react, and faster than
/// most other changes of traffic. Each bundle uses one of five frequencies, since bundles that
/// share a bottleneck would otherwise take each other's pulses for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PulseFrequency {
    /// Periods in the window of the spectrum.
    bin: usize,
}

impl PulseFrequency {
    /// The five frequencies, in periods per window of five seconds: 4.4 to 6.8 Hz. Three bins away
    /// a frequency does not belong to the peak of another.
    pub(super) const BINS: [usize; 5] = [22, 25, 28, 31, 34];

    /// Returns one of the five frequencies, chosen by any number.
    pub(crate) fn from_number(number: u32) -> Self {
        // The highest bits of a product are well mixed (Knuth's multiplicative hashing).
        let mixed = u64::from(number.wrapping_mul(2_654_435_769));
        let index = (mixed * Self::BINS.len() as u64) >> 32;
        Self { bin: Self::BINS[index as usize] }
    }

    /// Returns the bin of the spectrum that holds the pulses.
    pub(super) fn bin(self) -> usize {
        self.bin
    }

    /// Returns the deviation from the base rate between `now` and `now + tick`, as a share of the
    /// pulse's amplitude.
    ///
    /// The pulse is half a sine upward for a quarter of the period and a third as much downward for
    /// the rest. The result is the mean over the interval, so that ticks of any length add up to
    /// zero over a period.
    pub(crate) fn shape(self, now: Nanos, tick: Nanos) -> f64 {
        let period = WINDOW.as_secs_f64() / self.bin as f64;
        let sent = self.area(now.saturating_add(tick)) - self.area(now);
        sent * period / tick.as_secs_f64()
    }

    /// Returns the excess sent since the start of the period, in periods of the amplitude.
    fn area(self, at: Nanos) -> f64 {
        let part = (at.0 % WINDOW.0) as f64 / WINDOW.0 as f64;
        let periods = part * self.bin as f64;
        let phase = periods - (periods as u64) as f64;
        let risen = if phase < UP { phase / UP } else { 1.0 - (phase - UP) / (1.0 - UP) };
        // The integral of a half sine is a raised cosine. The fall has the same shape, three times
        // as slow.
        AREA * 0.5 * (1.0 - cos_turns(risen / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Nanos = Nanos::from_millis(1);
    const FIVE: PulseFrequency = PulseFrequency { bin: 25 };

    #[test]
    fn the_shape_has_the_values_computed_by_hand() {
        // 0.2 s / (2 pi) is 31.8 ms of the amplitude, so 8 ms at an amplitude of a quarter of a
        // rate.
        assert!((0.2 * AREA - 0.031_831).abs() < 1e-6);
        let at = |us: u64| FIVE.shape(Nanos::from_micros(us), Nanos(1000));
        assert!((at(25_000) - 1.0).abs() < 1e-6, "the top, an eighth of the period in");
        assert!((at(125_000) + 1.0 / 3.0).abs() < 1e-6, "the bottom");
        assert!(at(0).abs() < 1e-4 && at(50_000).abs() < 1e-4, "nothing in between");
        // The value is sin(pi / 5) of the top.
        assert!((at(10_000) - 0.587_785).abs() < 1e-4);
        // 22.3 ms are an eighth of a period at 5.6 Hz, where the top is.
        let faster = PulseFrequency { bin: 28 };
        assert!((faster.shape(Nanos(22_321_428), Nanos(1000)) - 1.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn pulses_add_up_to_zero_over_a_window(
            start in 0u64..1_000_000_000, number: u32, per in 1u64..1000,
        ) {
            let tick = Nanos(5_000_000_000 / per / 1000 * 1000);
            let pulse = PulseFrequency::from_number(number);
            let whole = 5_000_000_000 / tick.0;
            let rest = Nanos(5_000_000_000 - whole * tick.0);
            let at = |i: u64| Nanos(start + i * tick.0);
            let sum: f64 = (0..whole).map(|i| pulse.shape(at(i), tick)).sum();
            let last = if rest.0 == 0 { 0.0 } else { pulse.shape(at(whole), rest) };
            let sent = sum * tick.as_secs_f64() + last * rest.as_secs_f64();
            prop_assert!(sent.abs() < 1e-9, "{sent}");
        }
    }

    #[test]
    fn every_frequency_is_used() {
        let count =
            |bin| (0..10_000).filter(|&n| PulseFrequency::from_number(n).bin == bin).count();
        assert!(PulseFrequency::BINS.iter().all(|&bin| count(bin) > 1500));
        assert_eq!(MS * 5000, WINDOW);
    }
}
