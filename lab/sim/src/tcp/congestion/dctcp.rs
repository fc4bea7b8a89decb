//! DCTCP (RFC 8257): Reno with a reduction by the share of marks.

use super::{Connection, Sample, Window};

/// The fractional bits of Linux's average.
const LINUX_BITS: u32 = 10;
/// The fractional bits of the exact average, enough for that of RFC 8257 section 3.3.
const EXACT_BITS: u32 = 30;
/// The base-2 logarithm of the inverse gain of the average, 2^-4 (RFC 8257 section 4.2).
const GAIN_SHIFT: u64 = 4;

/// DCTCP's moving average of the share of marked segments.
///
/// Linux's average of ten bits gets stuck. An average below 2^-6 decays to zero in one round trip,
/// and a share of marks below a quarter adds less than 2^-6. After a time without marks the average
/// of such a share is therefore a sixteenth of it, and the window many times that of RFC 8257.
/// (Before 4.2 it did not decay below 2^-6 and did not get stuck.)
#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    /// The average share of marked segments, as a fraction of `one`.
    alpha: u64,
    one: u64,
    acked: u64,
    marked: u64,
    round_end: u64,
}

impl Dctcp {
    /// Creates the average of Linux (6.12).
    pub(super) fn of_linux() -> Self {
        Self::with_bits(LINUX_BITS)
    }

    /// Creates the average of RFC 8257.
    pub(super) fn exact() -> Self {
        Self::with_bits(EXACT_BITS)
    }

    fn with_bits(bits: u32) -> Self {
        // Conservative until measured (RFC 8257 section 4.2 recommends 1).
        let one = 1 << bits;
        Self { alpha: one, one, acked: 0, marked: 0, round_end: 0 }
    }

    pub(super) fn on_ack(&mut self, c: &Connection, sample: &Sample) {
        self.acked += u64::from(sample.newly);
        self.marked += u64::from(sample.marked);
        if c.una >= self.round_end {
            let share = self.marked * self.one / self.acked.max(1);
            // If the shift by the gain gives zero, the average decays to zero (Linux).
            let fade = self.alpha >> GAIN_SHIFT;
            let fade = if fade == 0 { self.alpha } else { fade };
            self.alpha = (self.alpha - fade + (share >> GAIN_SHIFT)).min(self.one);
            (self.acked, self.marked, self.round_end) = (0, 0, c.next);
        }
    }

    pub(super) fn on_congestion(&self, window: &Window) -> u32 {
        let cut = u64::from(window.size) * self.alpha / (2 * self.one);
        (window.size - cut as u32).max(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::tests::connection;

    #[test]
    fn the_reduction_is_half_of_the_average_share_of_marks() {
        let mut dctcp = Dctcp::of_linux();
        let window = Window::new(100);
        assert_eq!(dctcp.on_congestion(&window), 50, "the initial share is one");
        // Rounds of ten segments, one of them marked: alpha approaches a tenth.
        for round in 1..200 {
            let sample = Sample { newly: 10, marked: 1, ..Sample::default() };
            let c = connection(round * 1000, 0);
            dctcp.on_ack(&Connection { una: round * 10, next: round * 10 + 10, ..c }, &sample);
        }
        // A 16th of 102 / 1024 is added, rounded to six; rounding keeps alpha at 96 to 111.
        assert!((90..=112).contains(&dctcp.alpha), "{}", dctcp.alpha);
        assert_eq!(dctcp.on_congestion(&window), 95);
        for round in 200..400 {
            let c = connection(round * 1000, 0);
            let sample = Sample { newly: 10, ..Sample::default() };
            dctcp.on_ack(&Connection { una: round * 10, next: round * 10 + 10, ..c }, &sample);
        }
        assert_eq!(dctcp.alpha, 0);
    }

    /// A tenth of the segments is marked after a time without marks.
    #[test]
    fn only_the_exact_average_recovers_from_zero() {
        let after = |mut dctcp: Dctcp| {
            for round in 1..400 {
                let marked = u32::from(round >= 200);
                let sample = Sample { newly: 10, marked, ..Sample::default() };
                let c = connection(round * 1000, 0);
                let c = Connection { una: round * 10, next: round * 10 + 10, ..c };
                dctcp.on_ack(&c, &sample);
            }
            dctcp.alpha as f64 / dctcp.one as f64
        };
        let (linux, exact) = (after(Dctcp::of_linux()), after(Dctcp::exact()));
        assert!((0.005..0.007).contains(&linux), "6 of 1024: {linux}");
        assert!((0.099..0.101).contains(&exact), "{exact}");
    }
}
