//! The limit of a bundle's fair queue: a number of packets, or a time at the rate of the path.

use crate::common::path::{Outcome, World};
use forebay_units::{Nanos, Rate};

/// The default limit in packets.
const DEFAULT: usize = 1250;
/// From here on flows have found their rate.
const STEADY: Nanos = Nanos::from_secs(10);

/// What one limit gives, over all seeds.
#[derive(Debug, Default)]
struct Figures {
    used: Vec<f64>,
    /// The wait at the sendbox in milliseconds, at each tick.
    waits: Vec<f64>,
    /// The times of requests in milliseconds.
    requests: Vec<f64>,
}

impl Figures {
    fn add(&mut self, o: &Outcome) {
        self.used.push(o.utilisation(STEADY, o.world.duration));
        let ticks = o.ticks[0].iter().filter(|tick| tick.0 > STEADY);
        let wait = |tick: &(_, Option<Rate>, _)| Some(tick.1?.time_for(tick.2).as_millis_f64());
        self.waits.extend(ticks.filter_map(wait));
        let flows = o.flows.iter().filter(|flow| flow.size != u64::MAX && flow.started > STEADY);
        let times = flows.filter_map(|flow| Some((flow.finished? - flow.started).as_millis_f64()));
        self.requests.extend(times);
    }

    fn mean_used(&self) -> f64 {
        self.used.iter().sum::<f64>() / self.used.len() as f64
    }
}

fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * p) as usize]
}

/// Runs bulk flows and requests of a tenth of the rate with a queue of `limit` packets.
fn figures((mbps, rtt, flows): (u64, u64, usize), limit: usize) -> Figures {
    let mut figures = Figures::default();
    for seed in 1..=2 {
        let mut w = World::new(mbps, rtt).bundles(1, flows);
        (w.seed, w.sendbox_limit) = (seed, limit);
        w.duration = Nanos::from_secs(if mbps < 100 { 60 } else { 30 });
        w.requests = vec![Rate::from_bps(mbps * 100_000)];
        figures.add(&w.run());
    }
    figures
}

/// Limits of 100 to 400 ms at the path's rate, and at least 64 packets, beside the default.
fn compare(path: (u64, u64, usize)) {
    let packets = |ms: u64| ((path.0 * 1000 * ms / 8 / 1514) as usize).max(64);
    let default = figures(path, DEFAULT);
    let limits = [100, 200, 400].map(|ms| (format!("{ms} ms"), figures(path, packets(ms))));
    let (mbps, rtt, flows) = path;
    for (name, f) in [("1250 packets".to_owned(), &default)]
        .into_iter()
        .chain(limits.iter().map(|(name, f)| (name.clone(), f)))
    {
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|p| quantile(&f.requests, p));
        println!(
            "{mbps} Mbit/s, {rtt} ms, {flows} flows, {name}: {:.1} % used, {:.0} ms of queue; \
             {} requests take {p50:.0}, {p95:.0}, {p99:.0} ms",
            100.0 * f.mean_used(),
            quantile(&f.waits, 0.5),
            f.requests.len()
        );
        let lost = default.mean_used() - f.mean_used();
        assert!(lost < 0.01, "{path:?}, {name}: {lost}");
    }
}

/// In a fair queue requests do not wait for bulk flows, so that a limit in time changes little.
#[test]
fn a_limit_of_a_fair_queue_costs_no_throughput() {
    compare((30, 20, 8));
}

mod measured {
    use super::*;

    /// The figures of the page about sendboxes.
    #[test]
    fn limits_in_time() {
        for mbps in [6, 30, 300] {
            for (rtt, flows) in [(20, 1), (20, 8), (100, 1), (100, 8)] {
                compare((mbps, rtt, flows));
            }
        }
    }
}
