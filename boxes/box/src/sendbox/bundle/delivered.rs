//! The bytes of a bundle that have arrived.

use forebay_units::Bytes;

/// The bytes that have arrived, by the receivebox's counter.
///
/// The counter includes the packets of strangers, and an authentic receivebox may claim what it
/// likes. Other bundles give way to what is said here, so it is never more than has left.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    counter: Bytes,
    total: Bytes,
}

impl Delivered {
    /// Takes in the receivebox's counter when `sent` bytes have left; returns the total.
    pub(super) fn on_counter(&mut self, counter: Bytes, sent: Bytes) -> Bytes {
        // A receivebox that was restarted counts from zero.
        let more = counter.saturating_sub(self.counter);
        self.counter = counter;
        self.total = Bytes(self.total.0.saturating_add(more.0)).min(sent);
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_delivered_than_has_left_whatever_the_counter_says() {
        let mut delivered = Delivered::default();
        let steps = [
            (1_000, 900, 900, "a counter that began before the bundle"),
            (1_050, 1_000, 950, "less has arrived than has left"),
            (u64::MAX, 2_000, 2_000, "an impossible claim"),
            (10, 3_000, 2_000, "a counter that began anew"),
            (510, 3_000, 2_500, "what it counts since"),
        ];
        for (counter, sent, total, why) in steps {
            assert_eq!(delivered.on_counter(Bytes(counter), Bytes(sent)), Bytes(total), "{why}");
        }
    }
}
