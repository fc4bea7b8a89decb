//! DCTCP (RFC 8257): Reno but for the size of its cuts.

use super::{Connection, Sample, Window};

/// The bits that Linux keeps of the average,
const LINUX_BITS: u32 = 10;
/// and enough for the average to be that of RFC 8257 section 3.3 for all that it matters.
const EXACT_BITS: u32 = 30;
/// The average's gain is 2^-4 (RFC 8257 section 4.2).
const GAIN_SHIFT: u64 = 4;

/// DCTCP's estimate of how much is marked.
///
/// In Linux's ten bits it gets stuck: an average below 2^-6 fades to nothing in one round trip, and a
/// share of marks below a quarter adds less than 2^-6, so that after a time without marks the
/// average of any such share is a sixteenth of it, and the window many times what RFC 8257 makes it.
/// (Before 4.2 it did not fade below 2^-6, and did not get stuck.)
#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    /// The average share of marked segments, of which `one` is all.
    alpha: u64,
    one: u64,
    acked: u64,
    marked: u64,
    round_end: u64,
}

impl Dctcp {
    /// As Linux (6.12) has it.
    pub(super) fn of_linux() -> Self {
        Self::with_bits(LINUX_BITS)
    }

    /// As RFC 8257 has it.
    pub(super) fn exact() -> Self {
        Self::with_bits(EXACT_BITS)
    }

    fn with_bits(bits: u32) -> Self {
        // Conservative until known (RFC 8257 section 4.2 recommends 1).
        let one = 1 << bits;
        Self { alpha: one, one, acked: 0, marked: 0, round_end: 0 }
    }

    pub(super) fn on_ack(&mut self, c: &Connection, sample: &Sample) {
        self.acked += u64::from(sample.newly);
        self.marked += u64::from(sample.marked);
        if c.una >= self.round_end {
            let share = self.marked * self.one / self.acked.max(1);
            // Below what the gain's shift leaves, it goes to zero (Linux).
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
    fn the_cut_is_half_the_average_share_of_marks() {
        let mut dctcp = Dctcp::of_linux();
        let window = Window::new(100);
        assert_eq!(dctcp.on_congestion(&window), 50, "all is taken to be marked at first");
        // Rounds of ten segments of which one is marked: alpha goes to a tenth.
        for round in 1..200 {
            let sample = Sample { newly: 10, marked: 1, ..Sample::default() };
            let c = connection(round * 1000, 0);
            dctcp.on_ack(&Connection { una: round * 10, next: round * 10 + 10, ..c }, &sample);
        }
        // 102 / 1024 is added in 16ths, six at a time; what is shifted out keeps it at 96 to 111.
        assert!((90..=112).contains(&dctcp.alpha), "{}", dctcp.alpha);
        assert_eq!(dctcp.on_congestion(&window), 95);
        for round in 200..400 {
            let c = connection(round * 1000, 0);
            let sample = Sample { newly: 10, ..Sample::default() };
            dctcp.on_ack(&Connection { una: round * 10, next: round * 10 + 10, ..c }, &sample);
        }
        assert_eq!(dctcp.alpha, 0);
    }

    /// A tenth is marked after a time without marks.
    #[test]
    fn only_the_exact_average_recovers_from_nothing() {
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
