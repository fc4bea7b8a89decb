//! Statistics of a run that keeps no records, with memory that does not grow with simulated time.
//!
//! A run with `records = "figures"` adds up its packets and round trips as they happen. Waits are
//! counted in histograms, for the whole measured interval and for each of a fixed number of spans.

use std::collections::BTreeMap;

use forebay_records::packet_log::{Fate, Record};
use forebay_units::Nanos;

/// The number of bits of a value that a bin of a [`Histogram`] keeps.
const BITS: u32 = 8;
/// The number of bins for each power of two.
const BINS: u64 = 1 << BITS;

/// The number of decisions and observations that are kept; more are counted.
pub const MAX_EVENTS: usize = 10_000;

/// A histogram of times whose bins are at most 1/256 of their values wide.
///
/// Its mean is exact. A percentile is the middle of a bin, so it is at most 0.2 % away from the
/// exact one. It has at most 14 592 bins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The number of values in each bin, up to the last one that has any.
    bins: Vec<u64>,
    count: u64,
    sum: u128,
    largest: u64,
}

impl Histogram {
    /// Adds a value.
    pub fn add(&mut self, value: Nanos) {
        let bin = bin(value.0);
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
        self.sum += u128::from(value.0);
        self.largest = self.largest.max(value.0);
    }

    /// Adds all values of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.bins.len() > self.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (own, theirs) in self.bins.iter_mut().zip(&other.bins) {
            *own += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.largest = self.largest.max(other.largest);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The arithmetic mean in milliseconds; `None` without values.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64 / 1e6)
    }

    /// The percentile by nearest rank in milliseconds, within 0.2 %; `None` without values.
    pub fn percentile_ms(&self, percent: u8) -> Option<f64> {
        let rank = (u128::from(self.count) * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut below = 0;
        let reaches = |n: &u64| {
            below += u128::from(*n);
            below >= rank
        };
        let bin = self.bins.iter().position(reaches)?;
        Some(middle(bin).min(self.largest) as f64 / 1e6)
    }
}

/// The bin of `value`: values below [`BINS`] have one each, those above share it by their first
/// bits.
fn bin(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(BITS + 1);
    (u64::from(shift) * BINS + (value >> shift)) as usize
}

/// The middle of a bin.
fn middle(bin: usize) -> u64 {
    let bin = bin as u64;
    let shift = (bin / BINS).saturating_sub(1);
    let first = (bin - shift * BINS) << shift;
    first + ((1 << shift) >> 1)
}

/// The packets that left a queue in the measured interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueTally {
    /// The waits of L4S traffic, and of other traffic.
    pub waits: [Histogram; 2],
    /// The packets of L4S traffic that the queue marked, and those of other traffic.
    pub marked: [u64; 2],
    /// The packets of L4S traffic that the queue dropped, and those of other traffic.
    pub dropped: [u64; 2],
    /// The waits of all packets in each span.
    pub spans: Vec<Histogram>,
    /// Whether there was L4S traffic at any time of the run.
    pub saw_l4s: bool,
}

impl QueueTally {
    /// The waits of all packets.
    pub fn all(&self) -> Histogram {
        let [mut all, classic] = self.waits.clone();
        all.merge(&classic);
        all
    }
}

/// Round trips of the closed loops of one traffic that started in the measured interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopTally {
    /// The round trips that completed.
    pub times: Histogram,
    /// The number of those that were given up as lost.
    pub lost: u64,
}

/// The statistics of a run without records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    from: Nanos,
    to: Nanos,
    /// The length of a span.
    width: Nanos,
    /// The bottleneck's queue.
    pub bottleneck: QueueTally,
    /// The sendboxes' queues.
    pub sendbox: QueueTally,
    /// The closed loops by the name of their traffic.
    pub loops: BTreeMap<String, LoopTally>,
    /// The round trips of all closed loops in each span.
    pub loop_spans: Vec<Histogram>,
    /// How often a control loop set a rate anew.
    pub rates: u64,
    /// The number of decisions and observations that were not kept.
    pub events_left_out: u64,
}

impl Tally {
    /// Creates the statistics of the interval from `from` to `to`, in spans of `width`.
    pub fn new(from: Nanos, to: Nanos, width: Nanos) -> Self {
        Self { from, to, width, ..Self::default() }
    }

    /// The length of a span.
    pub fn width(&self) -> Nanos {
        self.width
    }

    /// The number of spans.
    pub fn spans(&self) -> usize {
        self.to.saturating_sub(self.from).0.div_ceil(self.width.0.max(1)) as usize
    }

    /// Adds a packet that left a queue: that of the sendboxes, or the bottleneck's.
    pub fn packet(&mut self, at_sendbox: bool, record: &Record) {
        let (span, spans) = (self.span(record.time), self.spans());
        let queue = if at_sendbox { &mut self.sendbox } else { &mut self.bottleneck };
        queue.saw_l4s |= record.l4s;
        let Some(span) = span else { return };
        let kind = usize::from(!record.l4s);
        queue.marked[kind] += u64::from(record.marked);
        if record.fate == Fate::Dropped {
            queue.dropped[kind] += 1;
            return;
        }
        queue.waits[kind].add(record.sojourn);
        queue.spans.resize(spans, Histogram::default());
        queue.spans[span].add(record.sojourn);
    }

    /// Adds a round trip of a closed loop of `traffic`; `end` is `None` if it was given up as lost.
    pub fn round_trip(&mut self, traffic: &str, start: Nanos, end: Option<Nanos>) {
        let (Some(span), spans) = (self.span(start), self.spans()) else { return };
        if !self.loops.contains_key(traffic) {
            self.loops.insert(traffic.to_owned(), LoopTally::default());
        }
        let Some(own) = self.loops.get_mut(traffic) else { return };
        let Some(time) = end.map(|end| end.saturating_sub(start)) else {
            own.lost += 1;
            return;
        };
        own.times.add(time);
        self.loop_spans.resize(spans, Histogram::default());
        self.loop_spans[span].add(time);
    }

    /// The index of the span that holds `time`; `None` outside the measured interval.
    fn span(&self, time: Nanos) -> Option<usize> {
        let inside = (self.from..self.to).contains(&time);
        inside.then(|| (time.saturating_sub(self.from).0 / self.width.0.max(1)) as usize)
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn packet(time_ms: u64, wait: Nanos, fate: Fate, l4s: bool) -> Record {
        let time = Nanos::from_millis(time_ms);
        Record {
            time,
            sojourn: wait,
            len: Bytes(1500),
            fate,
            l4s,
            marked: l4s,
            ..Record::of_flags(0)
        }
    }

    #[test]
    fn the_bins_of_the_whole_range_follow_each_other() {
        assert_eq!((bin(0), bin(255), bin(256), bin(511), bin(512)), (0, 255, 256, 511, 512));
        assert_eq!((bin(513), bin(514)), (512, 513));
        assert_eq!(bin(u64::MAX), 14_591);
        for value in [0, 1, 255, 256, 700, 1_000_000, u64::MAX / 3] {
            assert_eq!(bin(middle(bin(value))), bin(value), "{value}");
        }
    }

    #[test]
    fn only_packets_of_the_interval_count() {
        let mut tally =
            Tally::new(Nanos::from_millis(100), Nanos::from_millis(130), Nanos::from_millis(10));
        let ms = Nanos::from_millis;
        for (time, wait, fate, l4s) in [
            (99, 1000, Fate::Sent, false),
            (100, 4, Fate::Sent, false),
            (105, 8, Fate::Sent, true),
            (109, 900, Fate::Dropped, true),
            (125, 30, Fate::Sent, false),
            (130, 1000, Fate::Sent, false),
        ] {
            tally.packet(false, &packet(time, ms(wait), fate, l4s));
        }
        let queue = &tally.bottleneck;
        let all = queue.all();
        assert_eq!((all.count(), all.mean_ms()), (3, Some(14.0)));
        assert_eq!(queue.waits.each_ref().map(Histogram::count), [1, 2]);
        assert_eq!((queue.marked, queue.dropped, queue.saw_l4s), ([2, 0], [1, 0], true));
        let spans: Vec<_> = queue.spans.iter().map(Histogram::count).collect();
        assert_eq!(spans, [2, 0, 1]);
        assert_eq!(tally.sendbox, QueueTally::default());
    }

    #[test]
    fn round_trips_count_by_their_start() {
        let mut tally =
            Tally::new(Nanos::from_millis(10), Nanos::from_millis(30), Nanos::from_millis(10));
        let ms = Nanos::from_millis;
        tally.round_trip("rr", ms(9), Some(ms(20)));
        tally.round_trip("rr", ms(29), Some(ms(79)));
        tally.round_trip("rr", ms(12), None);
        assert_eq!((tally.loops["rr"].times.count(), tally.loops["rr"].lost), (1, 1));
        assert_eq!(tally.loop_spans[1].mean_ms(), Some(50.0));
    }

    proptest! {
        /// Against the exact percentile by nearest rank.
        #[test]
        fn percentiles_are_within_a_fifth_of_a_percent(
            values in prop::collection::vec(0..4_000_000_000u64, 1..300),
            percent in 0..=100u8,
        ) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(Nanos(*value)));
            let mut sorted = values;
            sorted.sort_unstable();
            let rank = (sorted.len() * usize::from(percent)).div_ceil(100).max(1);
            let exact = sorted[rank - 1] as f64 / 1e6;
            let found = histogram.percentile_ms(percent).unwrap();
            prop_assert!((found - exact).abs() <= exact * 0.002, "{found} is not {exact}");
        }
    }
}
