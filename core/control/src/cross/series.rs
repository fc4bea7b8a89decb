use forebay_units::{Bytes, Nanos};

use crate::shares::Others;

/// Length of a slot, short enough for the pulse's second harmonic.
pub(super) const SLOT: Nanos = Nanos::from_millis(10);
/// Number of slots in the window of the spectrum: five seconds (Nimbus section 4.2).
pub(super) const WINDOW: usize = 500;
/// Samples further apart do not show what was between them: two pulses would fit in.
const GAP: Nanos = Nanos::from_millis(400);
/// A larger ratio of receive time to send time is an error of the clocks, not a delay.
const MAX_RATIO: f64 = 8.0;

/// A boundary packet as seen at both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BoundarySample {
    /// When it left the sendbox.
    pub(crate) sent_at: Nanos,
    /// Bytes of the bundle sent by then.
    pub(crate) sent: Bytes,
    /// When it reached the receivebox, on the receivebox's clock.
    pub(crate) received_at: Nanos,
    /// Bytes of the bundle received by then.
    pub(crate) received: Bytes,
    /// What other bundles had received by then.
    pub(crate) others: Others,
    /// Whether it waited at the bottleneck.
    pub(crate) queued: bool,
}

impl BoundarySample {
    /// Returns the bundle's own bytes that were received since `old`: no more than were sent, since
    /// the receivebox also counts what a stranger sends to the bundle's prefixes.
    pub(crate) fn own_since(&self, old: &Self) -> Bytes {
        let received = self.received.saturating_sub(old.received);
        received.min(self.sent.saturating_sub(old.sent))
    }
}

/// The rates of the bytes that were sent in one slot of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    /// S, in bytes per second.
    pub(super) send: f64,
    /// S / R: how much longer the same bytes took to arrive than to leave.
    pub(super) ratio: f64,
    /// Whether all of them waited at the bottleneck.
    pub(super) queued: bool,
}

/// Converts boundary packets, which come at irregular times, into slots of equal length over the
/// time at which packets left the sendbox.
///
/// The rates of both ends are those of the *same bytes*. So the response to a pulse lies in the
/// slot of the pulse at any round-trip time, and no series needs to be shifted.
#[derive(Debug, Default)]
pub(super) struct Series {
    last: Option<BoundarySample>,
    /// The end of the last slot.
    edge: Option<Edge>,
    /// Whether every boundary packet since the edge waited at the bottleneck.
    queued: bool,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    at: Nanos,
    sent: f64,
    received_at: f64,
    received: f64,
}

/// Whether a boundary packet continues the series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuity {
    /// It follows the packet before.
    Continuous,
    /// It is the first, or the first after a gap. Earlier slots do not belong to the series.
    Broken,
}

impl Series {
    /// Takes in a boundary packet, newer than those before, and passes each slot that ends to
    /// `put`.
    pub(super) fn on_boundary_sample(
        &mut self,
        point: BoundarySample,
        mut put: impl FnMut(Slot),
    ) -> Continuity {
        let follows = |last: &BoundarySample| {
            point.sent_at > last.sent_at
                && point.sent_at.saturating_sub(last.sent_at) <= GAP
                && point.received_at > last.received_at
                && point.received > last.received
        };
        let Some(last) = self.last.replace(point).filter(follows) else {
            self.edge = None;
            return Continuity::Broken;
        };
        self.queued &= last.queued && point.queued;
        let mut edge = match self.edge {
            Some(edge) => edge,
            None => {
                self.queued = last.queued && point.queued;
                let next = Nanos((last.sent_at.0 / SLOT.0 + 1) * SLOT.0);
                if next > point.sent_at {
                    return Continuity::Continuous;
                }
                between(&last, &point, next)
            }
        };
        while edge.at + SLOT <= point.sent_at {
            let next = between(&last, &point, edge.at + SLOT);
            put(slot(&edge, &next, self.queued));
            edge = next;
            self.queued = last.queued && point.queued;
        }
        self.edge = Some(edge);
        Continuity::Continuous
    }

    /// Discards all samples.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn between(a: &BoundarySample, b: &BoundarySample, at: Nanos) -> Edge {
    let whole = b.sent_at.saturating_sub(a.sent_at).0 as f64;
    let part = at.saturating_sub(a.sent_at).0 as f64 / whole;
    let mix = |a: u64, b: u64| a as f64 + part * b.saturating_sub(a) as f64;
    Edge {
        at,
        sent: mix(a.sent.0, b.sent.0),
        received_at: mix(a.received_at.0, b.received_at.0),
        received: mix(a.received.0, b.received.0),
    }
}

fn slot(from: &Edge, to: &Edge, queued: bool) -> Slot {
    let sent = to.sent - from.sent;
    let send_time = to.at.saturating_sub(from.at).0 as f64;
    let receive_time = to.received_at - from.received_at;
    // Lost bytes took no share of the bottleneck, so the ratio is of bytes sent to bytes received.
    // More than was sent is a stranger's.
    let received = (to.received - from.received).min(sent).max(1.0);
    let ratio = (receive_time / send_time) * (sent / received);
    Slot { send: sent * 1e9 / send_time, ratio: ratio.clamp(0.0, MAX_RATIO), queued }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn point(sent_us: u64, sent: u64, received_us: u64, received: u64) -> BoundarySample {
        BoundarySample {
            others: Others::default(),
            sent_at: Nanos::from_micros(sent_us),
            sent: Bytes(sent),
            received_at: Nanos::from_micros(received_us),
            received: Bytes(received),
            queued: true,
        }
    }

    fn slots(points: &[BoundarySample]) -> Vec<Slot> {
        let mut series = Series::default();
        let mut slots = vec![];
        for &p in points {
            series.on_boundary_sample(p, |slot| slots.push(slot));
        }
        slots
    }

    #[test]
    fn both_rates_are_of_the_same_bytes() {
        // 1 MB/s leaves; what leaves between 4 and 24 ms takes twice the time to arrive.
        let slots = slots(&[
            point(4_000, 4_000, 100_000, 4_000),
            point(24_000, 24_000, 140_000, 24_000),
            point(44_000, 44_000, 160_000, 44_000),
        ]);
        // Edges at 10, 20, 30, 40 ms; the second slot holds 4 ms of the slow part.
        let ratios: Vec<f64> = slots.iter().map(|s| s.ratio).collect();
        assert_eq!(slots.len(), 3);
        assert!((ratios[0] - 2.0).abs() < 1e-9 && (ratios[1] - 1.4).abs() < 1e-9);
        assert!((ratios[2] - 1.0).abs() < 1e-9);
        assert!(slots.iter().all(|s| (s.send - 1e6).abs() < 1.0 && s.queued));
    }

    #[test]
    fn lost_bytes_count_as_sent() {
        // Half of the bytes are lost and the rest arrives at its own pace, so S / R is two.
        let slots = slots(&[point(0, 0, 0, 0), point(40_000, 40_000, 40_000, 20_000)]);
        assert_eq!(slots.len(), 3, "the first edge after the first point is at 10 ms");
        assert!(slots.iter().all(|s| (s.ratio - 2.0).abs() < 1e-9), "{slots:?}");
    }

    #[test]
    fn epochs_may_be_short_or_long() {
        // A sample every millisecond gives one slot for each ten.
        let dense: Vec<_> = (0..100).map(|i| point(i * 1000, i * 500, i * 1000, i * 500)).collect();
        assert_eq!(slots(&dense).len(), 8);
        let gap = [point(0, 0, 0, 0), point(500_000, 500, 500_000, 500)];
        assert!(slots(&gap).is_empty());
    }

    #[test]
    fn a_sample_that_did_not_wait_marks_the_slots_that_it_touches() {
        let mut points: Vec<_> =
            (0..10).map(|i| point(i * 5000, i * 500, i * 5000, i * 500)).collect();
        points[4].queued = false;
        // It lies at 20 ms, on the edge between the second and the third slot.
        let queued: Vec<_> = slots(&points).iter().map(|s| s.queued).collect();
        assert_eq!(queued, [false, false, true]);
    }
}
