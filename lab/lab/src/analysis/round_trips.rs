use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::percentile::{Sorted, rounded};
use crate::results::{LoopTally, Run};

/// Closed-loop round trips of one traffic in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// The number of round trips that completed.
    pub count: u64,
    /// The number of requests that were given up as lost; they are in no percentile.
    pub lost: u64,
    /// The median; `None` if none completed.
    pub p50: Option<f64>,
    /// The 90th percentile.
    pub p90: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
}

impl RoundTrips {
    /// Computes the round trips that started in the measured interval, by the traffic's name.
    pub fn of(run: &Run) -> BTreeMap<String, Self> {
        if let Some(tally) = &run.tally {
            let counted = |(traffic, own): (&String, &LoopTally)| {
                let at = |percent| own.times.percentile_ms(percent).map(|v| rounded(v, 3));
                let (count, lost) = (own.times.count(), own.lost);
                (traffic.clone(), Self { count, lost, p50: at(50), p90: at(90), p99: at(99) })
            };
            return tally.loops.iter().map(counted).collect();
        }
        let mut times: BTreeMap<&str, (Vec<f64>, u64)> = BTreeMap::new();
        for trip in run.round_trips.iter().filter(|t| (run.start.0..run.end.0).contains(&t.start)) {
            let (times, lost) = times.entry(&trip.traffic).or_default();
            match trip.end {
                Some(end) => times.push(end.saturating_sub(trip.start) as f64 / 1e6),
                None => *lost += 1,
            }
        }
        times
            .into_iter()
            .map(|(traffic, (times, lost))| {
                let times: Sorted = times.into_iter().collect();
                let at = |p| times.percentile(p).map(|v| rounded(v, 3));
                let count = times.len() as u64;
                let trips = Self { count, lost, p50: at(50), p90: at(90), p99: at(99) };
                (traffic.to_owned(), trips)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::RoundTrip;
    use forebay_units::Nanos;

    #[test]
    fn by_traffic_with_losses_apart() {
        let trip =
            |traffic: &str, start, end| RoundTrip { traffic: traffic.into(), flow: 0, start, end };
        let run = Run {
            start: Nanos(1_000_000),
            end: Nanos(9_000_000),
            round_trips: vec![
                trip("voip", 0, Some(50_000_000)),
                trip("voip", 1_000_000, Some(51_500_000)),
                trip("voip", 2_000_000, Some(53_000_000)),
                trip("voip", 3_000_000, None),
                trip("game", 4_000_000, None),
            ],
            ..Run::default()
        };
        let trips = RoundTrips::of(&run);
        let voip = &trips["voip"];
        assert_eq!((voip.count, voip.lost, voip.p50, voip.p99), (2, 1, Some(50.5), Some(51.0)));
        assert_eq!((trips["game"].count, trips["game"].p50), (0, None));
    }
}
