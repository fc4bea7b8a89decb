//! A histogram of queue delays: exact mean and maximum, and percentiles to within a sixteenth.

use alloc::boxed::Box;
use alloc::vec;

use forebay_units::Nanos;

/// The base-2 logarithm of the number of bins per octave.
const PER_OCTAVE_LOG2: u32 = 4;
/// The first bin ends at 2^10 ns, about a microsecond; the last one begins at about 17 s.
const FIRST_LOG2: u32 = 10;
const LAST_LOG2: u32 = 34;
const BINS: usize = (((LAST_LOG2 - FIRST_LOG2) << PER_OCTAVE_LOG2) + 2) as usize;

/// The delays recorded since the last `clear`.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bins: Box<[u32]>,
    count: u64,
    sum: u128,
    max: Nanos,
}

fn bin(delay: Nanos) -> usize {
    if delay.0 < 1 << FIRST_LOG2 {
        return 0;
    }
    let octave = delay.0.ilog2();
    if octave >= LAST_LOG2 {
        return BINS - 1;
    }
    let within = (delay.0 >> (octave - PER_OCTAVE_LOG2)) as u32 & ((1 << PER_OCTAVE_LOG2) - 1);
    (1 + ((octave - FIRST_LOG2) << PER_OCTAVE_LOG2) + within) as usize
}

/// Returns the exclusive upper bound of a bin.
fn end(bin: usize) -> Nanos {
    if bin + 1 >= BINS {
        return Nanos::MAX;
    }
    let (octave, within) = ((bin as u32) >> PER_OCTAVE_LOG2, bin as u64 & 15);
    Nanos((16 + within) << (octave + FIRST_LOG2 - PER_OCTAVE_LOG2))
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { bins: vec![0; BINS].into(), count: 0, sum: 0, max: Nanos::ZERO }
    }

    #[inline]
    pub(super) fn record(&mut self, delay: Nanos) {
        let bin = &mut self.bins[bin(delay)];
        *bin = bin.saturating_add(1);
        self.count += 1;
        self.sum += u128::from(delay.0);
        self.max = self.max.max(delay);
    }

    pub(super) fn mean(&self) -> Nanos {
        Nanos((self.sum / u128::from(self.count.max(1))) as u64)
    }

    pub(super) fn max(&self) -> Nanos {
        self.max
    }

    /// Returns the delay that `percent` of all delays do not exceed, rounded up to the end of its
    /// bin.
    pub(super) fn percentile(&self, percent: u64) -> Nanos {
        let rank = (self.count * percent).div_ceil(100);
        let mut below = 0;
        for (bin, &n) in self.bins.iter().enumerate() {
            below += u64::from(n);
            if below >= rank {
                return end(bin).min(self.max);
            }
        }
        self.max
    }

    pub(super) fn clear(&mut self) {
        self.bins.fill(0);
        (self.count, self.sum, self.max) = (0, 0, Nanos::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_contiguous_and_a_sixteenth_wide() {
        for delay in (0..100_000).chain((100_000..20_000_000_000).step_by(9_999_991)) {
            let delay = Nanos(delay);
            let at = bin(delay);
            assert!(delay < end(at) && (at == 0 || delay >= end(at - 1)), "{delay} in {at}");
            if (1..BINS - 1).contains(&at) {
                assert!((end(at) - end(at - 1)).0 * 16 <= delay.0, "{delay}");
            }
        }
    }

    #[test]
    fn mean_and_maximum_are_exact_and_percentiles_within_a_bin() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(99), Nanos::ZERO, "an empty histogram");
        (1..=1000).for_each(|us| histogram.record(Nanos::from_micros(us)));
        assert_eq!(histogram.mean(), Nanos(500_500));
        assert_eq!(histogram.max(), Nanos::from_micros(1000));
        let p99 = histogram.percentile(99).0;
        assert!((990_000..=1_000_000).contains(&p99), "{p99}");
        let p50 = histogram.percentile(50).0;
        assert!((500_000..=531_250).contains(&p50), "{p50}");
        histogram.clear();
        assert_eq!((histogram.count, histogram.mean()), (0, Nanos::ZERO));
    }
}
