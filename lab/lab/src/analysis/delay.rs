use forebay_records::packet_log::{Fate, Record};
use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::percentile::{Sorted, rounded};
use crate::results::Histogram;

/// Waiting times of packets in a queue in milliseconds. Each packet counts once, whatever its
/// length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delay {
    /// The number of packets that left the queue in the measured interval, or of ticks if packets
    /// were not observed.
    pub packets: u64,
    /// The mean waiting time.
    pub mean: f64,
    /// The median waiting time.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Delay {
    /// Computes the delay of the packets in `records` that left in `[from, to)`; `None` if there
    /// are none. Dropped packets do not count.
    pub fn of(records: &[Record], from: Nanos, to: Nanos) -> Option<Self> {
        Self::of_those(records, from, to, |_| true)
    }

    /// Like [`Delay::of`], for the packets for which `wanted` is true.
    pub fn of_those(
        records: &[Record],
        from: Nanos,
        to: Nanos,
        wanted: impl Fn(&Record) -> bool,
    ) -> Option<Self> {
        let sent = sent(records, from, to).filter(|r| wanted(r));
        let waits: Sorted = sent.map(|r| r.sojourn.as_millis_f64()).collect();
        Some(Self {
            packets: waits.len() as u64,
            mean: rounded(waits.mean()?, 3),
            p50: rounded(waits.percentile(50)?, 3),
            p90: rounded(waits.percentile(90)?, 3),
            p99: rounded(waits.percentile(99)?, 3),
        })
    }
}

impl Delay {
    /// The delay of the packets that are counted in `waits`; `None` if there are none.
    pub fn counted(waits: &Histogram) -> Option<Self> {
        Some(Self {
            packets: waits.count(),
            mean: rounded(waits.mean_ms()?, 3),
            p50: rounded(waits.percentile_ms(50)?, 3),
            p90: rounded(waits.percentile_ms(90)?, 3),
            p99: rounded(waits.percentile_ms(99)?, 3),
        })
    }
}

fn sent(records: &[Record], from: Nanos, to: Nanos) -> impl Iterator<Item = &Record> {
    records.iter().filter(move |r| r.fate == Fate::Sent && (from..to).contains(&r.time))
}

/// The delay of a queue over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The width of a bin.
    pub width: Nanos,
    /// The bins of the measured interval in order; `None` if no packet left in that time.
    pub bins: Vec<Option<Bin>>,
}

/// The packets that left a queue in one bin of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// The number of packets.
    pub packets: u64,
    /// Their mean waiting time in milliseconds.
    pub mean: f64,
    /// The longest waiting time in milliseconds.
    pub max: f64,
}

impl Series {
    /// The width of a bin: a controller's tick. A picture shows only noise below it.
    pub const WIDTH: Nanos = Nanos::from_millis(10);

    /// The largest number of bins, enough for one hour; the bins of longer runs are wider.
    pub const MAX_BINS: u64 = 360_000;

    /// Bins the packets in `records` that left in `[from, to)` by the time of departure.
    pub fn of(records: &[Record], from: Nanos, to: Nanos) -> Self {
        let span = to.saturating_sub(from);
        let width = Self::WIDTH.max(Nanos(span.0.div_ceil(Self::MAX_BINS)));
        let mut bins = vec![None; usize::try_from(span.0.div_ceil(width.0)).unwrap_or(0)];
        for r in sent(records, from, to) {
            let index = usize::try_from((r.time.0 - from.0) / width.0).unwrap_or(usize::MAX);
            let Some(slot) = bins.get_mut(index) else { continue };
            let bin = slot.get_or_insert(Bin { packets: 0, mean: 0.0, max: 0.0 });
            let wait = r.sojourn.as_millis_f64();
            bin.packets += 1;
            bin.mean += (wait - bin.mean) / bin.packets as f64;
            bin.max = bin.max.max(wait);
        }
        Self { width, bins }
    }

    /// The number of bins to group into one column so that the series has at most `columns`
    /// columns.
    pub fn bins_per_column(&self, columns: usize) -> usize {
        self.bins.len().div_ceil(columns.max(1)).max(1)
    }

    /// Groups every `bins` bins into one column; the last group may be smaller.
    pub fn grouped(&self, bins: usize) -> Vec<Option<Column>> {
        self.bins.chunks(bins.max(1)).map(Column::of).collect()
    }
}

/// Several adjacent bins that are drawn as one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column {
    /// The lowest mean of the bins in milliseconds.
    pub low: f64,
    /// The mean over all packets in milliseconds.
    pub mean: f64,
    /// The highest mean of the bins in milliseconds.
    pub high: f64,
    /// The longest waiting time of any packet in milliseconds.
    pub max: f64,
}

impl Column {
    fn of(bins: &[Option<Bin>]) -> Option<Self> {
        let full = || bins.iter().flatten();
        let packets: u64 = full().map(|b| b.packets).sum();
        if packets == 0 {
            return None;
        }
        Some(Self {
            low: full().map(|b| b.mean).fold(f64::INFINITY, f64::min),
            mean: full().map(|b| b.mean * b.packets as f64).sum::<f64>() / packets as f64,
            high: full().map(|b| b.mean).fold(0.0, f64::max),
            max: full().map(|b| b.max).fold(0.0, f64::max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::Bytes;

    fn left(time_ms: u64, wait_ms: u64, fate: Fate) -> Record {
        Record {
            time: Nanos::from_millis(time_ms),
            sojourn: Nanos::from_millis(wait_ms),
            len: Bytes(1514),
            source: 0,
            flow: 0,
            fate,
            l4s: false,
            marked: false,
        }
    }

    fn log() -> Vec<Record> {
        vec![
            left(99, 1000, Fate::Sent),
            left(100, 4, Fate::Sent),
            left(105, 8, Fate::Sent),
            left(109, 900, Fate::Dropped),
            left(125, 30, Fate::Sent),
            left(130, 1000, Fate::Sent),
        ]
    }

    #[test]
    fn only_packets_sent_in_the_interval_count() {
        let delay = Delay::of(&log(), Nanos::from_millis(100), Nanos::from_millis(130)).unwrap();
        assert_eq!(delay, Delay { packets: 3, mean: 14.0, p50: 8.0, p90: 30.0, p99: 30.0 });
        assert_eq!(Delay::of(&log(), Nanos::from_millis(131), Nanos::from_millis(140)), None);
    }

    #[test]
    fn bins_by_departure() {
        let series = Series::of(&log(), Nanos::from_millis(100), Nanos::from_millis(130));
        let first = Bin { packets: 2, mean: 6.0, max: 8.0 };
        let third = Bin { packets: 1, mean: 30.0, max: 30.0 };
        assert_eq!(series.bins, [Some(first), None, Some(third)]);
        let all = Column { low: 6.0, mean: 14.0, high: 30.0, max: 30.0 };
        assert_eq!((series.bins_per_column(1), series.bins_per_column(2)), (3, 2));
        assert_eq!(series.grouped(3), [Some(all)]);
        assert_eq!(series.grouped(2)[1].unwrap().mean, 30.0);
        assert_eq!(Series::default().bins_per_column(0), 1);
    }

    #[test]
    fn a_week_has_no_more_bins_than_an_hour() {
        let week = Nanos::from_secs(7 * 86_400);
        let series = Series::of(&log(), Nanos::ZERO, week);
        assert_eq!(series.bins.len() as u64, Series::MAX_BINS);
        assert_eq!(series.bins[0].unwrap().packets, 5);
        assert!(Series::of(&log(), week, Nanos::ZERO).bins.is_empty());
    }
}
