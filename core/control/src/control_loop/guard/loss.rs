//! The share of a bundle's packets that is lost.

use forebay_units::Nanos;

/// Loss is averaged over at most this many packets.
const AVERAGE: f64 = 1000.0;
/// Loss is averaged over at least this many packets. Over fewer, packets that were overtaken by a
/// boundary packet would look lost.
const AVERAGE_LEAST: f64 = 100.0;
/// Between these bounds loss is averaged over this time.
const TIME: Nanos = Nanos::from_secs(2);

/// Packets sent and received since the start, as counters that wrap.
#[derive(Clone, Copy, Debug)]
struct Totals {
    /// When the packet of the sample left.
    at: Nanos,
    sent: u32,
    received: u32,
}

/// The average share of packets lost.
#[derive(Debug, Default)]
pub(super) struct Loss {
    /// The totals by the newest sample.
    newest: Option<Totals>,
    average: f64,
}

impl Loss {
    /// Takes in a sample that was sent `at` a time, by which `sent` packets had left and `received`
    /// arrived.
    pub(super) fn update(&mut self, at: Nanos, sent: u32, received: u32) {
        if let Some(last) = self.newest.replace(Totals { at, sent, received }) {
            let sent = f64::from(sent.wrapping_sub(last.sent));
            let received = f64::from(received.wrapping_sub(last.received));
            let share = at.saturating_sub(last.at).as_secs_f64() / TIME.as_secs_f64();
            let weight = share.clamp(sent / AVERAGE, sent / AVERAGE_LEAST).min(1.0);
            self.average += ((sent - received) / sent.max(1.0) - self.average) * weight;
        }
    }

    /// Returns the average. It is negative while overtaken packets come in.
    pub(super) fn average(&self) -> f64 {
        self.average
    }
}
