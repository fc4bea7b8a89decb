use std::collections::BTreeMap;

use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::percentile::{Sorted, rounded};
use super::truth::Truth;
use crate::results::{Run, Tick};

/// Differences between the sendbox's estimates of a quantity and the truth that the bottleneck
/// recorded (EuroSys '21, section 4.5, figures 5 and 6).
///
/// The controller holds an estimate until the next sample, so most figures are over the ticks whose
/// estimate differs from the previous tick: the new samples. The share over all ticks shows what
/// the controller acted on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Differences {
    /// The number of ticks with a new sample whose truth is known.
    pub samples: u64,
    /// The 5th percentile of the signed difference.
    pub p5: f64,
    /// The median of the signed difference: the bias.
    pub p50: f64,
    /// The 95th percentile of the signed difference.
    pub p95: f64,
    /// The median of the absolute difference.
    pub absolute_p50: f64,
    /// The 80th percentile of the absolute difference.
    pub absolute_p80: f64,
    /// The 95th percentile of the absolute difference.
    pub absolute_p95: f64,
    /// The share of new samples within the limit, 0 to 1.
    pub within: f64,
    /// The number of ticks with an estimate, new or held, whose truth is known.
    pub ticks: u64,
    /// The share of those ticks within the limit, 0 to 1.
    pub within_all_ticks: f64,
}

/// The quality of the sendbox's estimates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimates {
    /// Errors of the round-trip time in milliseconds; the limit is [`Estimates::RTT_LIMIT`].
    pub rtt_ms: Option<Differences>,
    /// Errors of the receive rate R over one round trip in Mbit/s; the limit is
    /// [`Estimates::RATE_LIMIT`]. `None` also if there are several bundles, since the bottleneck's
    /// log does not distinguish them.
    pub receive_rate_mbps: Option<Differences>,
}

impl Estimates {
    /// The limit of round-trip times in milliseconds: 80 % of the Bundler prototype's samples were
    /// within it.
    pub const RTT_LIMIT: f64 = 1.2;

    /// The limit of rates in Mbit/s: 80 % of the prototype's samples were within it.
    pub const RATE_LIMIT: f64 = 4.0;
}

/// All differences of one quantity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Errors {
    /// Differences at ticks with a new sample.
    pub new: Sorted,
    /// Differences at all ticks.
    pub all: Sorted,
}

impl Errors {
    /// Collects differences, each with whether it belongs to a new sample.
    fn of(differences: &[(f64, bool)]) -> Self {
        Self {
            new: differences.iter().filter(|(_, new)| *new).map(|(d, _)| *d).collect(),
            all: differences.iter().map(|(d, _)| *d).collect(),
        }
    }

    fn figures(&self, limit: f64) -> Option<Differences> {
        let absolute = self.new.magnitudes();
        let of = |values: &Sorted, p| values.percentile(p).map(|v| rounded(v, 3));
        Some(Differences {
            samples: self.new.len() as u64,
            p5: of(&self.new, 5)?,
            p50: of(&self.new, 50)?,
            p95: of(&self.new, 95)?,
            absolute_p50: of(&absolute, 50)?,
            absolute_p80: of(&absolute, 80)?,
            absolute_p95: of(&absolute, 95)?,
            within: rounded(self.new.share_within(limit)?, 4),
            ticks: self.all.len() as u64,
            within_all_ticks: rounded(self.all.share_within(limit)?, 4),
        })
    }

    fn pooled<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        Self {
            new: Sorted::pooled(parts.clone().map(|e| &e.new)),
            all: Sorted::pooled(parts.map(|e| &e.all)),
        }
    }
}

/// All differences between the sendbox's estimates and the truth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EstimateErrors {
    /// Differences of the round-trip time in milliseconds.
    pub rtt: Errors,
    /// Differences of the receive rate in Mbit/s.
    pub receive_rate: Errors,
}

impl EstimateErrors {
    /// Computes the differences at the ticks of the measured interval.
    ///
    /// The truth at a tick is that of the packet whose feedback arrived last. For R it is over the
    /// estimate's own round-trip time.
    pub fn of(run: &Run) -> Self {
        let truth = Truth::of(run);
        let (mut rtt, mut rate) = (Vec::new(), Vec::new());
        let mut before: BTreeMap<&str, &Tick> = BTreeMap::new();
        for tick in &run.ticks {
            let before = before.insert(&tick.bundle, tick);
            if !(run.start.0..run.end.0).contains(&tick.time) {
                continue;
            }
            let (now, estimate) = (Nanos(tick.time), tick.rtt.map(Nanos));
            if let (Some(estimate), Some(truth)) = (estimate, truth.rtt(now)) {
                let difference = estimate.as_millis_f64() - truth.as_millis_f64();
                rtt.push((difference, before.is_none_or(|b| b.rtt != tick.rtt)));
            }
            let truth = estimate.and_then(|window| truth.receive_rate(now, window));
            if let (Some(estimate), Some(truth)) = (tick.receive_rate, truth) {
                let difference = estimate as f64 / 1e6 - truth.as_mbps_f64();
                rate.push((difference, before.is_none_or(|b| b.receive_rate != tick.receive_rate)));
            }
        }
        if before.len() > 1 {
            rate.clear();
        }
        Self { rtt: Errors::of(&rtt), receive_rate: Errors::of(&rate) }
    }

    /// Merges the differences of all `parts`.
    pub fn pooled<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        Self {
            rtt: Errors::pooled(parts.clone().map(|e| &e.rtt)),
            receive_rate: Errors::pooled(parts.map(|e| &e.receive_rate)),
        }
    }

    /// The figures to print; `None` if no tick had an estimate with known truth.
    pub fn figures(&self) -> Option<Estimates> {
        let rtt_ms = self.rtt.figures(Estimates::RTT_LIMIT);
        let receive_rate_mbps = self.receive_rate.figures(Estimates::RATE_LIMIT);
        let any = rtt_ms.is_some() || receive_rate_mbps.is_some();
        any.then_some(Estimates { rtt_ms, receive_rate_mbps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_records::packet_log::{Fate, Record};
    use forebay_units::{Bytes, Rate};

    const MS: u64 = 1_000_000;

    /// A full 12 Mbit/s link over 50 ms. There is one packet of 1500 B per millisecond and each
    /// waits 9 ms, so each round trip takes 9 + 1 + 50 = 60 ms and R is 12 Mbit/s.
    fn run(ticks: Vec<Tick>) -> Run {
        let record = |time| Record {
            time: Nanos::from_millis(time),
            sojourn: Nanos::from_millis(9),
            len: Bytes(1500),
            source: 0,
            flow: 0,
            fate: Fate::Sent,
            l4s: false,
            marked: false,
        };
        Run {
            start: Nanos::from_millis(200),
            end: Nanos::from_millis(400),
            rate: Rate::from_mbps(12),
            base_rtt: Nanos::from_millis(50),
            bottleneck: (0..400).map(record).collect(),
            ticks,
            ..Run::default()
        }
    }

    fn tick(time: u64, rtt_us: u64, rate_mbps: u64) -> Tick {
        Tick {
            time: time * MS,
            bundle: "b".into(),
            mode: "delay_control".into(),
            rate: None,
            rtt: Some(rtt_us * 1000),
            min_rtt: None,
            send_rate: None,
            receive_rate: Some(rate_mbps * 1_000_000),
            response: None,
            contrast: None,
            epoch: 16,
            backlog: 0,
            accepted: 0,
            out_of_order: 0,
        }
    }

    #[test]
    fn differences_by_hand() {
        let ticks = vec![
            tick(190, 60_000, 12), // before the interval, but what follows is held
            tick(200, 60_000, 12), // held: 0, 0
            tick(210, 61_000, 12), // new: +1; held: 0
            tick(220, 61_000, 17), // held: +1; new: +5
            tick(230, 58_000, 10), // new: -2; new: -2
            tick(240, 62_500, 11), // new: +2.5; new: -1
            tick(400, 99_000, 99), // after it
        ];
        let e = EstimateErrors::of(&run(ticks)).figures().unwrap();
        let rtt = e.rtt_ms.unwrap();
        assert_eq!((rtt.samples, rtt.ticks), (3, 5));
        assert_eq!((rtt.p5, rtt.p50, rtt.p95), (-2.0, 1.0, 2.5));
        assert_eq!((rtt.absolute_p50, rtt.absolute_p80, rtt.absolute_p95), (2.0, 2.5, 2.5));
        assert_eq!((rtt.within, rtt.within_all_ticks), (0.3333, 0.6));
        let rate = e.receive_rate_mbps.unwrap();
        assert_eq!((rate.samples, rate.ticks), (3, 5));
        // The window is the estimated round trip, in whole milliseconds except for the last.
        assert_eq!((rate.p5, rate.p95, rate.absolute_p50), (-2.0, 5.0, 2.0));
        assert_eq!((rate.within, rate.within_all_ticks), (0.6667, 0.8));
    }

    #[test]
    fn several_bundles_have_no_known_rate() {
        let other = Tick { bundle: "c".into(), ..tick(210, 60_000, 12) };
        let e = EstimateErrors::of(&run(vec![tick(200, 60_000, 12), other])).figures().unwrap();
        assert_eq!(e.receive_rate_mbps, None);
        assert_eq!(e.rtt_ms.unwrap().samples, 2, "each bundle's first sample is new");
    }

    #[test]
    fn pooled_runs_count_each_tick() {
        let [a, b] =
            [vec![tick(200, 61_000, 12)], vec![tick(200, 62_000, 12), tick(210, 62_000, 13)]]
                .map(|ticks| EstimateErrors::of(&run(ticks)));
        let pooled = EstimateErrors::pooled([&a, &b].into_iter()).figures().unwrap();
        let (rtt, rate) = (pooled.rtt_ms.unwrap(), pooled.receive_rate_mbps.unwrap());
        assert_eq!((rtt.samples, rtt.ticks, rtt.within, rtt.within_all_ticks), (2, 3, 0.5, 0.3333));
        assert_eq!((rate.samples, rate.p95), (3, 1.0));
    }

    #[test]
    fn no_ticks_no_estimates() {
        assert_eq!(EstimateErrors::of(&run(vec![])).figures(), None);
        let blind = Tick { rtt: None, receive_rate: None, ..tick(200, 0, 0) };
        assert_eq!(EstimateErrors::of(&run(vec![blind])).figures(), None);
    }
}
