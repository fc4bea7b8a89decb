//! Notices that the receivebox counts more than the sendbox sends.

use forebay_units::{Bytes, Nanos};

use crate::feedback::Feedback;
use crate::marks::Mark;

/// The time over which bytes sent and received are compared. Two such spans are shorter than the
/// ten seconds in which a stranger is to be reported.
const SPAN: Nanos = Nanos::from_secs(4);
/// More than this share of the bytes sent is an excess. A stranger who sends less hardly matters,
/// and a network that duplicates or fragments some packets is no stranger.
const SHARE: f64 = 0.1;
/// A smaller excess is not reported: the network may reorder packets around a boundary packet.
const LEAST: Bytes = Bytes(64 * 1024);
/// The boxes may count this much more of each packet: two VLAN tags and a stack of two labels
/// between them. Short packets would make a larger share of it than [`SHARE`].
const FRAMING: u64 = 16;
/// The shortest time between two reports.
const REPORT_INTERVAL: Nanos = Nanos::from_secs(60);

/// More arrived than was sent: somebody else sends to the bundle's prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExcessReceived {
    /// Bytes sent between two boundary packets.
    pub(crate) sent: Bytes,
    /// Bytes that the receivebox counted between them.
    pub(crate) received: Bytes,
    /// The time between them.
    pub(crate) lasted: Nanos,
}

/// The comparison of bytes sent and received over the latest span.
#[derive(Debug, Default)]
pub(crate) struct Excess {
    start: Option<Start>,
    reported_at: Option<Nanos>,
}

/// The totals at the start of a span.
#[derive(Clone, Copy, Debug)]
struct Start {
    at: Nanos,
    sent: Bytes,
    packets: u32,
    received: Bytes,
}

impl Excess {
    /// Takes in a valid sample. Returns an excess that is to be reported.
    pub(crate) fn on_sample(&mut self, mark: &Mark, feedback: &Feedback) -> Option<ExcessReceived> {
        let now = mark.time;
        let Mark { bytes: sent, packets, .. } = *mark;
        let totals = Start { at: now, sent, packets, received: feedback.bytes };
        let start = *self.start.get_or_insert(totals);
        let lasted = now.saturating_sub(start.at);
        if lasted < SPAN {
            return None;
        }
        self.start = Some(totals);
        let sent = sent.saturating_sub(start.sent);
        let received = feedback.bytes.saturating_sub(start.received);
        let framing = Bytes(FRAMING * u64::from(packets.wrapping_sub(start.packets)));
        let excess = received.saturating_sub(sent).saturating_sub(framing);
        if excess < LEAST || excess.as_f64() <= SHARE * sent.as_f64() {
            return None;
        }
        if self.reported_at.is_some_and(|t| now.saturating_sub(t) < REPORT_INTERVAL) {
            return None;
        }
        self.reported_at = Some(now);
        Some(ExcessReceived { sent, received, lasted })
    }

    /// Begins a new span: the receivebox's count may have begun anew.
    pub(crate) fn clear(&mut self) {
        self.start = None;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::shares::Others;

    const MS: Nanos = Nanos::from_millis(1);

    /// A sample every 10 ms in which `packets` of this length leave, and `received` bytes arrive.
    fn run(excess: &mut Excess, ms: u64, packets: u64, len: u64, received: u64) -> Vec<(u64, u64)> {
        let sample = |n: u64| {
            let mark = Mark {
                time: MS * (n * 10),
                bytes: Bytes(n * packets * len),
                packets: (n * packets) as u32,
                ..Mark::default()
            };
            let feedback = Feedback {
                fingerprint: 0,
                epoch: 64,
                bytes: Bytes(77_000 + n * received),
                packets: 0,
                received_at: mark.time,
                others: Others::default(),
                sequence: n,
            };
            (mark, feedback)
        };
        (0..=ms / 10)
            .filter_map(|n| {
                let (mark, feedback) = sample(n);
                let found = excess.on_sample(&mark, &feedback)?;
                Some((n * 10, found.received.0 * 100 / found.sent.0))
            })
            .collect()
    }

    #[test]
    fn an_excess_is_reported_within_two_spans_and_once_a_minute() {
        let found = run(&mut Excess::default(), 125_000, 10, 1_500, 21_000);
        assert_eq!(found, [(4_000, 140), (64_000, 140), (124_000, 140)]);
    }

    #[test]
    fn longer_frames_at_the_receivebox_are_not_an_excess() {
        // 16 bytes more of 64 are a quarter.
        assert_eq!(run(&mut Excess::default(), 20_000, 100, 64, 8_000), []);
        assert_eq!(run(&mut Excess::default(), 20_000, 100, 64, 8_800).len(), 1);
    }

    #[test]
    fn a_tenth_of_what_was_sent_and_a_few_packets_are_not_an_excess() {
        assert_eq!(run(&mut Excess::default(), 20_000, 100, 1_500, 166_000), []);
        assert_eq!(run(&mut Excess::default(), 20_000, 100, 1_500, 167_000).len(), 1);
        // 160 bytes every 10 ms are below 64 KiB in 4 s.
        assert_eq!(run(&mut Excess::default(), 20_000, 0, 1_500, 160), []);
    }

    #[test]
    fn a_span_does_not_reach_over_a_count_that_begins_anew() {
        let mut excess = Excess::default();
        assert_eq!(run(&mut excess, 3_000, 10, 1_500, 15_000), []);
        excess.clear();
        assert_eq!(run(&mut excess, 20_000, 10, 1_500, 15_000), []);
    }
}
