//! Goodput and round trips over time.

use forebay_units::{Bytes, Nanos, Rate};

use super::spans::Spans;
use crate::results::Run;

/// The course of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// The length of a span of `goodput_mbps`.
    pub width: Nanos,
    /// The payload that reached receivers, over all traffic, by span of the measured interval.
    pub goodput_mbps: Vec<f64>,
    /// The round trips in milliseconds, over all closed loops, by the time at which they began.
    pub round_trips_ms: Spans,
}

/// The length of the intervals in which receivers report what they read.
const REPORTED: Nanos = Nanos::from_millis(100);

/// The least number of such intervals in a span: other tools report every half second at best.
const LEAST: u64 = 5;

/// The largest number of spans.
const SPANS: u64 = 120;

impl Course {
    /// Computes the course of `run`.
    pub(super) fn of(run: &Run) -> Self {
        let width = Self::width(run.duration());
        let mut bytes = vec![0_u64; (run.duration().0 / width.0) as usize];
        for read in &run.progress {
            // A report that ends at a border belongs before it.
            let since = read.time.checked_sub(run.start.0 + 1);
            if let Some(sum) = since.and_then(|s| bytes.get_mut((s / width.0) as usize)) {
                *sum = sum.saturating_add(read.bytes);
            }
        }
        let mbps = |bytes: u64| Rate::from_bytes_over(Bytes(bytes), width).as_mbps_f64();
        let trips = run
            .round_trips
            .iter()
            .filter_map(|t| Some((Nanos(t.start), Nanos(t.end?.saturating_sub(t.start)))));
        Self {
            width,
            goodput_mbps: bytes.into_iter().map(mbps).collect(),
            round_trips_ms: match &run.tally {
                Some(tally) => Spans::counted(tally, &tally.loop_spans),
                None => Spans::of(trips, run.start, run.end),
            },
        }
    }

    /// The length of a span of goodput in a measured interval of this length. A span has whole
    /// intervals of reports, or it would seem to jump.
    pub(crate) fn width(duration: Nanos) -> Nanos {
        let least = duration.0.div_ceil(SPANS);
        Nanos(REPORTED.0 * least.div_ceil(REPORTED.0).max(LEAST))
    }

    /// Whether any receiver read anything.
    pub fn has_goodput(&self) -> bool {
        self.goodput_mbps.iter().any(|mbps| *mbps > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Progress, RoundTrip};

    #[test]
    fn payload_and_round_trips_by_span() {
        let read = |ms, bytes| Progress {
            traffic: "bulk".into(),
            flow: 0,
            time: Nanos::from_millis(ms).0,
            bytes,
        };
        let run = Run {
            start: Nanos::from_secs(1),
            end: Nanos::from_secs(3),
            progress: [(1_000, 9), (1_500, 62_500), (2_000, 125_000), (3_000, 0), (3_001, 9)]
                .map(|(ms, bytes)| read(ms, bytes))
                .into(),
            round_trips: [Some(1_070), None]
                .map(|end: Option<u64>| RoundTrip {
                    traffic: "rr".into(),
                    flow: 0,
                    start: Nanos::from_millis(1_050).0,
                    end: end.map(|ms| Nanos::from_millis(ms).0),
                })
                .into(),
            ..Run::default()
        };
        let course = Course::of(&run);
        // 62.5 kB in half a second are 1 Mbit/s.
        assert_eq!(course.goodput_mbps, [1.0, 2.0, 0.0, 0.0]);
        let trips: Vec<_> = course.round_trips_ms.spans.iter().flatten().collect();
        assert_eq!(trips.len(), 1);
        assert_eq!((trips[0].packets, trips[0].p50), (1, 20.0));
        assert!(course.has_goodput() && !Course::default().has_goodput());
    }
}
