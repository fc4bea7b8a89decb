//! Samples of connections: a bounded number of flows, evenly spaced over all.

use std::net::TcpStream;
use std::time::Instant;

use super::tcp_info::TcpInfo;
use crate::distribution::{Distribution, cumulative};

/// The most flows that are sampled.
pub const SAMPLED: usize = 4096;
/// The most samples of round trips that are kept.
const ROUND_TRIPS: usize = 200_000;
/// The points of a picture of the flows' rates.
const CURVE: usize = 60;

/// The flows of one sending thread that are sampled, and what was read from them.
#[derive(Debug)]
pub struct Sample {
    flows: Vec<usize>,
    first: Vec<TcpInfo>,
    begun: Instant,
    last: Vec<TcpInfo>,
    ended: Instant,
    round_trips: Vec<f64>,
    room: usize,
}

/// What samples say over the measured time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Rates of flows in bit/s.
    pub rates: Distribution,
    /// The cumulative distribution of rates: the rate in bit/s, and the share of flows up to it.
    pub rate_curve: Vec<(f64, f64)>,
    /// Smoothed round trips in milliseconds, over flows and time.
    pub round_trips: Distribution,
    /// The median of the lowest round trips in milliseconds.
    pub min_rtt_ms: f64,
    /// The mean congestion window in segments at the end.
    pub cwnd: f64,
    /// The bytes that all sampled flows have had acknowledged.
    pub acked: u64,
}

/// The numbers of the flows that one of `parts` threads samples of its `flows`, evenly spaced, in
/// ascending order.
fn chosen(flows: usize, parts: usize) -> impl Iterator<Item = usize> {
    let n = flows.min(SAMPLED / parts.max(1));
    (0..n).map(move |i| i * flows / n.max(1))
}

impl Sample {
    /// Begins to measure `flows`, those of one of `parts` threads.
    pub fn begin(flows: &[TcpStream], parts: usize) -> Self {
        let chosen: Vec<usize> = chosen(flows.len(), parts).collect();
        let now = Instant::now();
        let first = read(flows, &chosen);
        let room = ROUND_TRIPS / parts.max(1);
        let last = first.clone();
        Self { flows: chosen, first, begun: now, last, ended: now, round_trips: Vec::new(), room }
    }

    /// Reads all flows of the sample once more.
    pub fn read(&mut self, flows: &[TcpStream]) {
        self.ended = Instant::now();
        self.last = read(flows, &self.flows);
        let room = self.room.saturating_sub(self.round_trips.len());
        // Before the first answer to data, the round trip is that of the handshake.
        let known = self.last.iter().filter(|info| info.acked > 1 && info.rtt_us > 0);
        self.round_trips.extend(known.take(room).map(|info| f64::from(info.rtt_us) / 1000.0));
    }

    fn rates(&self) -> impl Iterator<Item = f64> {
        let seconds = (self.ended - self.begun).as_secs_f64().max(1e-9);
        let pairs = self.first.iter().zip(&self.last);
        pairs.map(move |(a, b)| b.acked.saturating_sub(a.acked) as f64 * 8.0 / seconds)
    }
}

impl Sampled {
    /// What the samples of all threads say together.
    pub fn of(samples: &[Sample]) -> Self {
        let last = || samples.iter().flat_map(|sample| &sample.last);
        let mut rates: Vec<f64> = samples.iter().flat_map(Sample::rates).collect();
        let mut round_trips: Vec<f64> =
            samples.iter().flat_map(|sample| sample.round_trips.iter().copied()).collect();
        let mut lowest: Vec<f64> = last().map(|info| f64::from(info.min_rtt_us) / 1000.0).collect();
        let windows: f64 = last().map(|info| f64::from(info.cwnd)).sum();
        let count = last().count().max(1) as f64;
        Self {
            rates: Distribution::of(&mut rates),
            rate_curve: cumulative(&rates, CURVE),
            round_trips: Distribution::of(&mut round_trips),
            min_rtt_ms: Distribution::of(&mut lowest).p50,
            cwnd: windows / count,
            acked: last().map(|info| info.acked).sum(),
        }
    }
}

/// Reads the flows with these numbers; one that has ended keeps its place with zeros.
fn read(flows: &[TcpStream], chosen: &[usize]) -> Vec<TcpInfo> {
    chosen.iter().map(|flow| TcpInfo::of(&flows[*flow]).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_sample_is_bounded_and_evenly_spaced() {
        assert_eq!(chosen(3, 1).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(chosen(0, 1).count(), 0);
        let many: Vec<_> = chosen(300_000, 1).collect();
        assert_eq!(many.len(), SAMPLED);
        assert!(many.windows(2).all(|pair| (73..=74).contains(&(pair[1] - pair[0]))));
        assert!(*many.last().unwrap() < 300_000);
        assert_eq!(chosen(50_000, 4).count(), SAMPLED / 4);
    }

    #[test]
    fn samples_of_threads_are_joined() {
        let begun = Instant::now();
        let info = |acked, rtt_us, cwnd| TcpInfo { acked, rtt_us, cwnd, ..TcpInfo::default() };
        let sample = |last: Vec<TcpInfo>, seconds| Sample {
            flows: (0..last.len()).collect(),
            first: vec![info(1000, 0, 0); last.len()],
            begun,
            ended: begun + Duration::from_secs(seconds),
            round_trips: last.iter().map(|info| f64::from(info.rtt_us) / 1000.0).collect(),
            last,
            room: 10,
        };
        // 1 MB in two seconds are 4 Mbit/s; 4 MB in four seconds are 8 Mbit/s.
        let one = sample(vec![info(1_001_000, 2000, 10)], 2);
        let two = sample(vec![info(4_001_000, 4000, 20), info(1000, 6000, 30)], 4);
        let all = Sampled::of(&[one, two]);
        assert_eq!(all.rate_curve, [(0.0, 1.0 / 3.0), (4e6, 2.0 / 3.0), (8e6, 1.0)]);
        assert_eq!((all.round_trips.p50, all.cwnd, all.acked), (4.0, 20.0, 5_003_000));
        assert_eq!(Sampled::of(&[]), Sampled::default());
    }
}
