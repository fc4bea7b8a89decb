//! The bytes of feedback that a bundle's traffic may draw.
//!
//! The sendbox chooses the epoch size so that feedback stays within a share of the bundle's bytes.
//! Somebody who sends packets to the bundle's prefixes can craft them so that all are boundary
//! packets. The receivebox therefore keeps to a share of its own.

use forebay_units::Bytes;

/// The share of a bundle's bytes that its feedback may take. A guarded bundle asks for 1 %; which
/// packets are boundary packets is random, and feedback beside other bundles is a little longer.
const SHARE: f64 = 0.0125;
/// The bytes that may be sent at once: 64 of the longest messages, for the first packets of a
/// bundle, which have the smallest epochs.
const BURST: f64 = 64.0 * 112.0;

/// A token bucket that fills with the bundle's bytes.
#[derive(Debug)]
pub(super) struct Budget {
    left: f64,
    /// The bundle's bytes by the last message.
    counted: Bytes,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { left: BURST, counted: Bytes::ZERO }
    }

    /// Returns whether a message in an IP packet of this length may be sent when `received` bytes
    /// of the bundle have arrived, and takes it from the budget.
    pub(super) fn take(&mut self, received: Bytes, message: Bytes) -> bool {
        let more = received.saturating_sub(self.counted).as_f64();
        self.counted = received;
        self.left = (self.left + SHARE * more).min(BURST);
        let enough = self.left >= message.as_f64();
        if enough {
            self.left -= message.as_f64();
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: Bytes = Bytes(80);

    /// Sends `packets` of this length, of which every `epoch`-th is a boundary packet. Returns the
    /// bytes of feedback, and the number of messages refused.
    fn fed(packets: u64, length: u64, epoch: u64) -> (u64, u64) {
        let mut budget = Budget::new();
        let (mut bytes, mut refused) = (0, 0);
        for n in (1..=packets).filter(|n| n % epoch == 0) {
            if budget.take(Bytes(n * length), MESSAGE) {
                bytes += MESSAGE.0;
            } else {
                refused += 1;
            }
        }
        (bytes, refused)
    }

    #[test]
    fn what_a_sendbox_asks_for_is_never_refused() {
        // Epochs of 8 full packets take 0.7 %, and the smallest ones are used for 512 packets.
        assert_eq!(fed(1_000_000, 1500, 8).1, 0);
        assert_eq!(fed(512, 50, 16).1, 0);
    }

    #[test]
    fn packets_that_are_all_boundary_packets_draw_no_more_than_the_share() {
        let (bytes, refused) = fed(100_000, 60, 1);
        assert!(bytes as f64 <= 100_000.0 * 60.0 * SHARE + BURST, "{bytes}");
        assert!(refused > 98_000, "{refused}");
    }

    #[test]
    fn counters_that_begin_anew_neither_fill_nor_empty_the_budget() {
        let mut budget = Budget::new();
        while budget.take(Bytes(1 << 40), MESSAGE) {}
        assert!(!budget.take(Bytes(10), MESSAGE));
        assert!(!budget.take(Bytes(1_000), MESSAGE));
        assert!(budget.take(Bytes(20_000), MESSAGE));
    }
}
