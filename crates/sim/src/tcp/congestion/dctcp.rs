//! DCTCP (RFC 8257): Reno but for the size of its cuts.

use super::{Connection, Sample, Window};

/// The share of marked segments, averaged over round trips, in 1024ths.
const ONE: u64 = 1024;
/// The average's gain is 2^-4 (RFC 8257 section 4.2).
const GAIN_SHIFT: u64 = 4;

/// DCTCP's estimate of how much is marked.
#[derive(Clone, Debug)]
pub(crate) struct Dctcp {
    alpha: u64,
    acked: u64,
    marked: u64,
    round_end: u64,
}

impl Dctcp {
    pub(super) fn new() -> Self {
        // Conservative until known (RFC 8257 section 4.2 recommends 1).
        Self { alpha: ONE, acked: 0, marked: 0, round_end: 0 }
    }

    pub(super) fn on_ack(&mut self, c: &Connection, sample: &Sample) {
        self.acked += u64::from(sample.newly);
        self.marked += u64::from(sample.marked);
        if c.una >= self.round_end {
            let share = self.marked * ONE / self.acked.max(1);
            // Below what the gain's shift leaves, it goes to zero (Linux).
            let fade = self.alpha >> GAIN_SHIFT;
            let fade = if fade == 0 { self.alpha } else { fade };
            self.alpha = (self.alpha - fade + (share >> GAIN_SHIFT)).min(ONE);
            (self.acked, self.marked, self.round_end) = (0, 0, c.next);
        }
    }

    pub(super) fn on_congestion(&self, window: &Window) -> u32 {
        let cut = u64::from(window.size) * self.alpha / (2 * ONE);
        (window.size - cut as u32).max(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::tests::connection;

    #[test]
    fn the_cut_is_half_the_average_share_of_marks() {
        let mut dctcp = Dctcp::new();
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
}
