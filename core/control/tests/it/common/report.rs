//! The quantities that the assertions and tables use.

use forebay_units::{Nanos, Rate};

use super::path::Outcome;

impl Outcome {
    /// Returns the quantile `p` of the queueing delay of the packets that leave in [from, to).
    pub(crate) fn queue(&self, p: f64, from: Nanos, to: Nanos) -> Nanos {
        let mut found: Vec<_> =
            self.sojourns.iter().filter(|(t, _)| (from..to).contains(t)).map(|&(_, s)| s).collect();
        assert!(!found.is_empty(), "no packet left the bottleneck between {from} and {to}");
        found.sort_unstable();
        found[((found.len() - 1) as f64 * p) as usize]
    }

    /// Returns the throughput of the bottleneck in [from, to).
    pub(crate) fn throughput(&self, from: Nanos, to: Nanos) -> Rate {
        let bytes = self.departures.iter().filter(|d| (from..to).contains(&d.0)).map(|d| d.2).sum();
        Rate::from_bytes_over(bytes, to - from)
    }

    /// Returns the throughput of one bundle in [from, to).
    pub(crate) fn bundle_throughput(&self, bundle: usize, from: Nanos, to: Nanos) -> Rate {
        let bytes = self
            .departures
            .iter()
            .filter(|d| d.1 == bundle && (from..to).contains(&d.0))
            .map(|d| d.2)
            .sum();
        Rate::from_bytes_over(bytes, to - from)
    }

    /// Returns whether packets waited at the first bundle's sendbox at every tick in [from, to).
    pub(crate) fn waits(&self, from: Nanos, to: Nanos) -> bool {
        let ticks = &self.ticks[0];
        let [a, b] = [from, to].map(|t| ticks.partition_point(|tick| tick.0 < t));
        ticks[a..b].iter().all(|tick| tick.2.0 > 3000)
    }

    /// Returns the throughput as a share of the link's rate, which must not have changed.
    pub(crate) fn utilisation(&self, from: Nanos, to: Nanos) -> f64 {
        self.throughput(from, to).as_bps() as f64 / self.world.rate.as_bps() as f64
    }
}

/// Returns Jain's index of fairness.
pub(crate) fn jain(rates: &[Rate]) -> f64 {
    let x: Vec<f64> = rates.iter().map(|r| r.as_mbps_f64()).collect();
    let sum: f64 = x.iter().sum();
    sum * sum / (x.len() as f64 * x.iter().map(|v| v * v).sum::<f64>())
}

impl Outcome {
    /// Returns the throughput of the bottleneck while packets waited at a sendbox, as a share of
    /// its rate. The rest is throughput that the boxes cost. Also returns the share of time in
    /// which packets waited.
    pub(crate) fn efficiency(&self, from: Nanos, to: Nanos) -> (f64, f64) {
        let shift = self.world.rtt / 4;
        let mut wanted = vec![];
        for pair in self.ticks[0].windows(2) {
            let waits = |t: Nanos| {
                self.ticks.iter().any(|ticks| {
                    let i = ticks.partition_point(|tick| tick.0 < t);
                    ticks.get(i).is_some_and(|tick| tick.2.0 > 3000)
                })
            };
            if pair[0].0 >= from && pair[1].0 <= to && waits(pair[0].0) && waits(pair[1].0) {
                wanted.push((pair[0].0 + shift, pair[1].0 + shift));
            }
        }
        let mut bytes = 0;
        let mut time = Nanos::ZERO;
        for &(a, b) in &wanted {
            let i = self.departures.partition_point(|d| d.0 < a);
            bytes +=
                self.departures[i..].iter().take_while(|d| d.0 < b).map(|d| d.2.0).sum::<u64>();
            time += b - a;
        }
        let could = self.world.rate.bytes_in(time).as_f64();
        (bytes as f64 / could.max(1.0), time.as_secs_f64() / (to - from).as_secs_f64())
    }
}
