//! The points of a chart: means over equal parts of a range.

use crate::series::{Range, Row, Sample};

/// The number of points of a chart: more than one for every two units of its width shows nothing
/// more.
pub(super) const POINTS: u64 = 180;

/// The points of a range.
pub(super) struct Buckets {
    /// The start of the first in seconds since 1970.
    pub(super) start: u64,
    /// The length of each in seconds.
    pub(super) step: u64,
    /// The figures of each; `None` where there is no row.
    pub(super) samples: Vec<Option<Sample>>,
}

impl Buckets {
    /// Divides the `range` before `now`, in seconds since 1970, into `count` parts, on whole
    /// multiples of their length so that points stay where they are when time passes.
    pub(super) fn new(rows: &[Row], range: Range, now: u64, count: u64) -> Self {
        let step = range.seconds() / count;
        let end = (now + 1).next_multiple_of(step);
        let start = end.saturating_sub(step * count);
        let mut parts = vec![Vec::new(); count as usize];
        for row in rows {
            if let Some(index) = row.at.checked_sub(start)
                && let Some(part) = parts.get_mut((index / step) as usize)
            {
                part.push(row.sample);
            }
        }
        Self { start, step, samples: parts.iter().map(|part| merge(part)).collect() }
    }

    /// Returns the length of all in seconds.
    pub(super) fn length(&self) -> u64 {
        self.step * self.samples.len() as u64
    }

    /// Returns the middle of part number `index`, in seconds from the start.
    pub(super) fn middle(&self, index: usize) -> f64 {
        (index as f64 + 0.5) * self.step as f64
    }
}

/// Returns the figures over several samples; `None` without one.
pub(super) fn merge(samples: &[Sample]) -> Option<Sample> {
    let last = samples.last()?;
    let mean = |of: fn(&Sample) -> Option<f64>| {
        let values: Vec<f64> = samples.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let extreme = |of: fn(&Sample) -> Option<f64>, choose: fn(f64, f64) -> f64| {
        samples.iter().filter_map(of).reduce(choose)
    };
    let sum = |of: fn(&Sample) -> Option<f64>| samples.iter().filter_map(of).reduce(|a, b| a + b);
    Some(Sample {
        mode: last.mode,
        trouble: samples.iter().any(|s| s.trouble),
        limit_bps: mean(|s| s.limit_bps),
        rate_bps: mean(|s| s.rate_bps),
        arrived_bps: mean(|s| s.arrived_bps),
        here_ms: mean(|s| s.here_ms),
        here_high_ms: extreme(|s| s.here_high_ms, f64::max),
        there_ms: mean(|s| s.there_ms),
        there_low_ms: extreme(|s| s.there_low_ms, f64::min),
        there_high_ms: extreme(|s| s.there_high_ms, f64::max),
        small_ms: mean(|s| s.small_ms),
        small_high_ms: extreme(|s| s.small_high_ms, f64::max),
        large_ms: mean(|s| s.large_ms),
        large_high_ms: extreme(|s| s.large_high_ms, f64::max),
        classes_ms: [
            mean(|s| s.classes_ms[0]),
            mean(|s| s.classes_ms[1]),
            mean(|s| s.classes_ms[2]),
            mean(|s| s.classes_ms[3]),
        ],
        lost: mean(|s| s.lost),
        packets: sum(|s| s.packets),
        dropped: sum(|s| s.dropped),
        marked: sum(|s| s.marked),
        refused: sum(|s| s.refused),
    })
}

/// Returns the share of packets that the queue here dropped, 0 to 1.
pub(super) fn dropped(sample: &Sample) -> Option<f64> {
    let (packets, dropped) = (sample.packets?, sample.dropped?);
    Some(if dropped > 0.0 { dropped / (packets + dropped) } else { 0.0 })
}

/// Returns the share of packets that the queue here marked, 0 to 1.
pub(super) fn marked(sample: &Sample) -> Option<f64> {
    let (packets, marked) = (sample.packets?, sample.marked?);
    Some(if marked > 0.0 { (marked / packets.max(marked)).min(1.0) } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_means_and_stay_in_place() {
        let row = |at: u64| Row {
            at,
            sample: Sample {
                here_ms: (!at.is_multiple_of(2)).then_some(at as f64),
                there_high_ms: Some(at as f64),
                packets: Some(3.0),
                dropped: Some(1.0),
                ..Sample::default()
            },
        };
        let rows: Vec<Row> = (7_000..7_045).map(row).collect();
        // Parts of 20 seconds: 6 980 to 7 000 is empty, and 7 040 to 7 060 has five rows.
        let buckets = Buckets::new(&rows, Range::Hour, 7_044, POINTS);
        assert_eq!((buckets.start + buckets.length(), buckets.step), (7_060, 20));
        let last: Vec<_> = buckets.samples[176..].to_vec();
        assert_eq!(last[0], None);
        let first = last[1].unwrap();
        // 7001, 7003, ..., 7019.
        assert_eq!((first.here_ms, first.there_high_ms), (Some(7_010.0), Some(7_019.0)));
        assert_eq!((first.packets, dropped(&first)), (Some(60.0), Some(0.25)));
        assert_eq!(last[3].unwrap().packets, Some(15.0));
        let later = Buckets::new(&rows, Range::Hour, 7_059, POINTS);
        assert_eq!(later.start, buckets.start);
        assert_eq!(later.middle(0), 10.0);
    }
}
