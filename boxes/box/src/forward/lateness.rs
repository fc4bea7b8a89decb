//! The lateness of timers: the delay that a box adds to the intended delay of its queues.

use forebay_records::Late;
use forebay_units::Nanos;

/// The lateness of packets that a shaper held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    /// The histogram of the lateness in nanoseconds.
    bins: Bins,
    count: u64,
    sum: u64,
    max: u64,
}

#[derive(Clone, Debug)]
struct Bins([u64; Lateness::BINS]);

impl Default for Bins {
    fn default() -> Self {
        Self([0; Lateness::BINS])
    }
}

impl Lateness {
    /// The number of bins: eight for each octave, up to 2^40 ns.
    const BINS: usize = 8 * 40;

    /// Records the lateness of a packet.
    #[inline]
    pub(super) fn record(&mut self, late: Nanos) {
        self.bins.0[bin(late.0)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(late.0);
        self.max = self.max.max(late.0);
    }

    /// Adds the packets of another histogram.
    pub(crate) fn add(&mut self, other: &Self) {
        for (bin, more) in self.bins.0.iter_mut().zip(other.bins.0) {
            *bin += more;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Returns mean, 99th percentile and maximum; `None` without packets.
    pub(crate) fn figures(&self) -> Option<Late> {
        if self.count == 0 {
            return None;
        }
        let rank = (self.count * 99).div_ceil(100);
        let mut below = 0;
        let mut p99_ns = 0;
        for (bin, n) in self.bins.0.iter().enumerate() {
            below += n;
            if below >= rank {
                p99_ns = end(bin).min(self.max);
                break;
            }
        }
        Some(Late { mean_ns: self.sum / self.count, p99_ns, max_ns: self.max })
    }
}

/// Returns the bin of a lateness: a nanosecond wide below eight, an eighth of an octave above.
fn bin(late: u64) -> usize {
    if late < 8 {
        return late as usize;
    }
    let octave = late.ilog2() as usize;
    let within = (late >> (octave - 3)) as usize & 7;
    (8 * (octave - 2) + within).min(Lateness::BINS - 1)
}

/// Returns the longest lateness in a bin.
fn end(bin: usize) -> u64 {
    if bin < 8 {
        return bin as u64;
    }
    let (octave, within) = (bin / 8 + 2, bin as u64 % 8);
    ((9 + within) << (octave - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_in_order_and_an_eighth_wide() {
        for late in (0..5_000).chain((5_000..1 << 34).step_by(99_999_989)) {
            let at = bin(late);
            assert!(late <= end(at) && (at == 0 || late > end(at - 1)), "{late} in {at}");
            assert!((end(at) - late) * 8 <= late, "{late} in {at}");
        }
        assert_eq!(bin(u64::MAX), Lateness::BINS - 1);
    }

    #[test]
    fn figures_agree_with_a_calculation_by_hand() {
        let mut all = Lateness::default();
        assert_eq!(all.figures(), None, "of nothing");
        let mut some = Lateness::default();
        (1..=99).for_each(|us| some.record(Nanos::from_micros(us)));
        all.record(Nanos::from_micros(1_000));
        all.add(&some);
        let Late { mean_ns, p99_ns, max_ns } = all.figures().unwrap();
        assert_eq!((mean_ns, max_ns), (59_500, 1_000_000));
        assert!((99_000..=111_400).contains(&p99_ns), "{p99_ns}");
    }
}
