//! Waits in a queue over time, of all packets and of those of small and large transfers.

use forebay_records::packet_log::{Fate, Record};
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::percentile::Sorted;
use super::transfers::{Kind, kinds};
use super::{Delay, at_sendbox};
use crate::results::{Histogram, Run, Tally};

/// A value for all packets, and for those of small and of large transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByTransfer<T> {
    /// The value for all packets.
    pub all: T,
    /// The value for packets of small transfers, see [`SMALL`](super::SMALL).
    pub small: T,
    /// The value for packets of large transfers, see [`LARGE`](super::LARGE).
    pub large: T,
}

/// The waits in both queues over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// The waits in the bottleneck's queue.
    pub bottleneck: ByTransfer<Spans>,
    /// The waits in the sendbox's queues; empty if the sendbox only forwards.
    pub sendbox: ByTransfer<Spans>,
}

/// The waits of packets by the span of time in which they left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spans {
    /// The length of a span.
    pub width: Nanos,
    /// The spans of the measured interval in order; `None` if no packet left in that time.
    pub spans: Vec<Option<Quantiles>>,
}

/// The waits in a span in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    /// The number of packets.
    pub packets: u64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median of the waits.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
}

/// The delay by place and transfer, over the whole measured interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WhoWaits {
    /// The delay in the bottleneck's queue of packets of small transfers.
    pub bottleneck_small_ms: Option<Delay>,
    /// The delay in the bottleneck's queue of packets of large transfers.
    pub bottleneck_large_ms: Option<Delay>,
    /// The delay in the sendbox's queues of packets of small transfers.
    pub sendbox_small_ms: Option<Delay>,
    /// The delay in the sendbox's queues of packets of large transfers.
    pub sendbox_large_ms: Option<Delay>,
}

impl Spans {
    /// The number of spans; a picture of a panel's width shows no more.
    pub const COUNT: u64 = 120;

    /// The least length of a span: a controller's tick.
    const LEAST: Nanos = Nanos::from_millis(10);

    /// Computes the spans of these waits in `[from, to)`: each the time of departure and the wait.
    pub(super) fn of(waits: impl Iterator<Item = (Nanos, Nanos)>, from: Nanos, to: Nanos) -> Self {
        let length = to.saturating_sub(from);
        let width = Self::width(length);
        let mut spans = vec![Vec::new(); usize::try_from(length.0.div_ceil(width.0)).unwrap_or(0)];
        for (time, wait) in waits.filter(|(time, _)| (from..to).contains(time)) {
            spans[((time.0 - from.0) / width.0) as usize].push(wait.as_millis_f64());
        }
        Self { width, spans: spans.into_iter().map(Quantiles::of).collect() }
    }

    /// The length of a span in an interval of this length.
    pub(crate) fn width(length: Nanos) -> Nanos {
        Self::LEAST.max(Nanos(length.0.div_ceil(Self::COUNT)))
    }

    /// The spans of `tally` whose waits are counted in `spans`.
    pub(super) fn counted(tally: &Tally, spans: &[Histogram]) -> Self {
        let mut spans: Vec<_> = spans.iter().map(Quantiles::counted).collect();
        spans.resize(tally.spans(), None);
        Self { width: tally.width(), spans }
    }

    /// Whether no packet left.
    pub fn is_empty(&self) -> bool {
        self.spans.iter().all(Option::is_none)
    }
}

impl Quantiles {
    fn counted(waits: &Histogram) -> Option<Self> {
        let at = |percent| waits.percentile_ms(percent);
        Some(Self { packets: waits.count(), p10: at(10)?, p50: at(50)?, p90: at(90)? })
    }

    fn of(waits: Vec<f64>) -> Option<Self> {
        let waits: Sorted = waits.into_iter().collect();
        let at = |percent| waits.percentile(percent);
        Some(Self { packets: waits.len() as u64, p10: at(10)?, p50: at(50)?, p90: at(90)? })
    }
}

impl Waits {
    /// Computes the waits of `run`, over time and by who waits; the latter is `None` if the records
    /// do not tell flows apart.
    pub(crate) fn of(run: &Run) -> (Self, Option<WhoWaits>) {
        if let Some(tally) = &run.tally {
            let all = |spans: &[Histogram]| ByTransfer {
                all: Spans::counted(tally, spans),
                ..<_>::default()
            };
            let bottleneck = all(&tally.bottleneck.spans);
            let sendbox = all(&tally.sendbox.spans);
            return (Self { bottleneck, sendbox }, None);
        }
        let (bottleneck, [bottleneck_small_ms, bottleneck_large_ms]) = queue(run, &run.bottleneck);
        let (sendbox, [sendbox_small_ms, sendbox_large_ms]) = queue(run, &at_sendbox(run));
        let who = WhoWaits {
            bottleneck_small_ms,
            bottleneck_large_ms,
            sendbox_small_ms,
            sendbox_large_ms,
        };
        (Self { bottleneck, sendbox }, (who != WhoWaits::default()).then_some(who))
    }

    /// Whether the waits are known by transfer.
    pub fn are_split(&self) -> bool {
        let known = |q: &ByTransfer<Spans>| !(q.small.is_empty() && q.large.is_empty());
        known(&self.bottleneck) || known(&self.sendbox)
    }
}

/// The waits in one queue, and the delays of packets of small and of large transfers.
fn queue(run: &Run, records: &[Record]) -> (ByTransfer<Spans>, [Option<Delay>; 2]) {
    let (from, to) = (run.start, run.end);
    let wait = |r: &Record| (r.time, r.sojourn);
    let sent = |r: &&Record| r.fate == Fate::Sent;
    let all = Spans::of(records.iter().filter(sent).map(wait), from, to);
    let Some(kinds) = kinds(records, run.base_rtt) else {
        return (ByTransfer { all, ..ByTransfer::default() }, [None, None]);
    };
    let of = |wanted: Kind| -> Vec<Record> {
        let own = records.iter().zip(&kinds).filter(|(_, kind)| **kind == wanted);
        own.map(|(record, _)| *record).filter(|r| r.fate == Fate::Sent).collect()
    };
    let [small, large] = [of(Kind::Small), of(Kind::Large)];
    let delays = [&small, &large].map(|records| Delay::of(records, from, to));
    let [small, large] = [small, large].map(|own| Spans::of(own.iter().map(wait), from, to));
    (ByTransfer { all, small, large }, delays)
}

#[cfg(test)]
mod tests {
    use forebay_units::{Bytes, Rate};

    use super::*;

    fn packet(flow: u16, time_ms: u64, wait_ms: u64, len: u64) -> Record {
        Record {
            time: Nanos::from_millis(time_ms),
            sojourn: Nanos::from_millis(wait_ms),
            len: Bytes(len),
            flow,
            ..Record::of_flags(0)
        }
    }

    #[test]
    fn quantiles_of_each_span() {
        let waits = (1..=10).map(|n| (Nanos::from_millis(110), Nanos::from_millis(n)));
        let outside = [99, 160].map(|t| (Nanos::from_millis(t), Nanos::from_millis(500)));
        let spans =
            Spans::of(waits.chain(outside), Nanos::from_millis(100), Nanos::from_millis(130));
        assert_eq!(spans.width, Nanos::from_millis(10));
        let ten = Quantiles { packets: 10, p10: 1.0, p50: 5.0, p90: 9.0 };
        assert_eq!(spans.spans, [None, Some(ten), None]);
        assert!(Spans::default().is_empty() && !spans.is_empty());
    }

    #[test]
    fn a_day_has_no_more_spans_than_a_minute() {
        let all = Spans::of([].into_iter(), Nanos::ZERO, Nanos::from_secs(86_400));
        assert_eq!(all.spans.len() as u64, Spans::COUNT);
    }

    #[test]
    fn small_and_large_transfers_are_apart() {
        let run = Run {
            end: Nanos::from_secs(2),
            rate: Rate::from_mbps(8),
            bottleneck: vec![packet(1, 100, 2, 1500)],
            sendbox: vec![packet(1, 98, 1, 1500), packet(2, 500, 300, 1_000_001)],
            ..Run::default()
        };
        let (waits, who) = Waits::of(&run);
        let who = who.unwrap();
        assert_eq!(who.sendbox_small_ms.map(|d| d.p50), Some(1.0));
        assert_eq!(who.sendbox_large_ms.map(|d| d.p50), Some(300.0));
        assert_eq!(who.bottleneck_small_ms.map(|d| d.packets), Some(1));
        assert_eq!(who.bottleneck_large_ms, None);
        assert!(waits.are_split() && waits.bottleneck.large.is_empty());
        let unknown = Run { sendbox: vec![packet(0, 98, 1, 1500)], bottleneck: vec![], ..run };
        let (waits, who) = Waits::of(&unknown);
        assert!(who.is_none() && !waits.are_split() && !waits.sendbox.all.is_empty());
    }
}
