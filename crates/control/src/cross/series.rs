use forebay_units::{Bytes, Nanos};

/// A slot of the series: short enough for the pulse's second harmonic.
pub(super) const SLOT: Nanos = Nanos::from_millis(10);
/// Slots in the window that the spectrum covers: five seconds (Nimbus section 4.2).
pub(super) const WINDOW: usize = 500;
/// Samples further apart say nothing about what was between them: two pulses would fit in.
const GAP: Nanos = Nanos::from_millis(400);
/// More than this much delay in the time of one slot is a fault of the clocks, not of the network.
const MOST_RATIO: f64 = 8.0;

/// A boundary packet at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoundarySample {
    /// When it left the sendbox, and how many bytes had by then.
    pub(crate) sent_at: Nanos,
    pub(crate) sent: Bytes,
    /// When it reached the receivebox (on its clock), and how many bytes had by then.
    pub(crate) received_at: Nanos,
    pub(crate) received: Bytes,
    /// It waited at the bottleneck.
    pub(crate) queued: bool,
}

/// What was sent in a slot, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    /// S, in bytes per second.
    pub(super) send: f64,
    /// S / R: how much longer the same bytes took to arrive than to leave.
    pub(super) ratio: f64,
    /// All of them waited at the bottleneck.
    pub(super) queued: bool,
}

/// Turns boundary packets, which come when they come, into an even series over the time at which
/// packets left the sendbox. Rates of both ends are those of the *same bytes*, so the answer to a
/// pulse stands in the slot of the pulse whatever the round-trip time: nothing needs to be shifted.
#[derive(Debug, Default)]
pub(super) struct Series {
    last: Option<BoundarySample>,
    /// The edge up to which slots were given, and what had been sent and received of what was sent
    /// before it, and when that was.
    edge: Option<Edge>,
    /// Every point since the edge waited.
    queued: bool,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    at: Nanos,
    sent: f64,
    received_at: f64,
    received: f64,
}

/// What a point brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Continuity {
    /// It follows on the one before.
    Continuous,
    /// It is the first, or the first after a gap: what was before is no part of the series.
    Broken,
}

impl Series {
    /// Takes in a point, newer than those before, and gives the slots that it ends.
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

    /// Begins anew.
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
    // Bytes that were lost took no part of the bottleneck: what was sent against what arrived.
    let received = (to.received - from.received).max(1.0);
    let ratio = (receive_time / send_time) * (sent / received);
    Slot { send: sent * 1e9 / send_time, ratio: ratio.clamp(0.0, MOST_RATIO), queued }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn point(sent_us: u64, sent: u64, received_us: u64, received: u64) -> BoundarySample {
        BoundarySample {
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
    fn rates_of_the_same_bytes() {
        // 1 MB/s leave; what leaves in 4..24 ms arrives in twice the time.
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
    fn what_was_lost_counts_as_sent() {
        // Half of it lost, the rest at its own pace: S / R is two.
        let slots = slots(&[point(0, 0, 0, 0), point(40_000, 40_000, 40_000, 20_000)]);
        assert_eq!(slots.len(), 3, "the first edge after the first point is at 10 ms");
        assert!(slots.iter().all(|s| (s.ratio - 2.0).abs() < 1e-9), "{slots:?}");
    }

    #[test]
    fn short_and_long_epochs() {
        // Every millisecond: a slot for each ten.
        let dense: Vec<_> = (0..100).map(|i| point(i * 1000, i * 500, i * 1000, i * 500)).collect();
        assert_eq!(slots(&dense).len(), 8);
        let gap = [point(0, 0, 0, 0), point(500_000, 500, 500_000, 500)];
        assert!(slots(&gap).is_empty());
    }

    #[test]
    fn a_point_that_did_not_wait_marks_the_slots_that_it_touches() {
        let mut points: Vec<_> =
            (0..10).map(|i| point(i * 5000, i * 500, i * 5000, i * 500)).collect();
        points[4].queued = false;
        // It lies at 20 ms: on the edge between the second and the third slot.
        let queued: Vec<_> = slots(&points).iter().map(|s| s.queued).collect();
        assert_eq!(queued, [false, false, true]);
    }
}
