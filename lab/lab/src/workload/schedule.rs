use std::ops::Range;

use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::Sizes;
use super::draw::Draw;

/// The largest difference between the realised load of a balanced schedule and the offered load.
const WHOLE_WITHIN: f64 = 0.02;
/// The largest difference for each half of the measured interval, so that the load is spread over
/// it.
const HALF_WITHIN: f64 = 0.05;
/// The number of sizes in a closed loop before they repeat: more than a demonstration needs.
const CLOSED: usize = 1 << 16;
/// The number of schedules to try before a balance counts as impossible.
const ATTEMPTS: u32 = 2_000;

/// A workload of requests: sizes from a distribution, and exponential gaps with a random connection
/// each, or a closed loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Requests {
    /// The offered load in bits of answers per second; zero for a closed loop.
    pub load_bps: u64,
    /// The number of connections; with a new connection per request, the number at the same time.
    pub connections: u32,
    /// The distribution of answer sizes.
    pub sizes: Sizes,
    /// The largest size in bytes; larger sizes are drawn again.
    pub max_size: u64,
    /// Whether the realised load is held to the offered load, see [`Requests::schedule`].
    pub balanced: bool,
    /// The arrivals of requests.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Whether each request opens its own connection.
    #[serde(default)]
    pub new_connections: bool,
}

/// The arrivals of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// An open loop with exponential gaps that do not depend on answers.
    #[default]
    Poisson,
    /// A closed loop: each connection sends the next request after an answer.
    Closed,
}

/// One request of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The time of the request, from the start of the run.
    pub at: Nanos,
    /// The number of the connection.
    pub connection: u32,
    /// The size of the answer in bytes.
    pub size: u64,
}

/// No balanced schedule exists among those tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no schedule of about {expected} requests came within 2 % of the load in {ATTEMPTS} attempts: \
     lengthen the duration, lower max_size or set balanced = false"
)]
pub struct UnbalancedError {
    expected: u64,
}

impl Requests {
    /// The mean size of the requests in bytes; `None` if no size is below the largest allowed.
    pub fn mean_size(&self) -> Option<f64> {
        self.sizes.mean_up_to(self.max_size)
    }

    /// The requests from zero to `length`, in the order of their times; those of another `stream`
    /// of the same `seed` are independent of them.
    ///
    /// With heavy-tailed sizes the realised load of a run varies: over 40 s at 48 Mbit/s and
    /// at most 20 MB by some 8 % (one standard deviation). A *balanced* schedule is the first of a
    /// sequence of independent ones whose sizes add up, over the requests asked for in `measured`,
    /// to within 2 % of the offered load, and in each half of `measured` to within 5 %. Nothing is
    /// scaled or moved: each request is as drawn.
    ///
    /// # Errors
    /// If none of 2 000 schedules is balanced, as when only a handful of requests is expected.
    pub fn schedule(
        &self,
        seed: u64,
        stream: u32,
        length: Nanos,
        measured: Range<Nanos>,
    ) -> Result<Vec<Asked>, UnbalancedError> {
        if !self.balanced {
            return Ok(self.attempt(seed, stream, 0, length));
        }
        (0..ATTEMPTS)
            .map(|attempt| self.attempt(seed, stream, attempt, length))
            .find(|schedule| self.is_balanced(schedule, &measured))
            .ok_or_else(|| UnbalancedError {
                expected: measured.end.saturating_sub(measured.start).0 / self.mean_gap().max(1),
            })
    }

    /// The sizes for the clients of a closed loop. Of `n` clients, client `c` uses the sizes at
    /// `c`, `c + n` and so on, and starts again after the last.
    pub fn closed(&self, seed: u64, stream: u32) -> Vec<u64> {
        let mut draw = Draw::new(seed, stream, 0);
        let below_max = self.sizes.share_up_to(self.max_size);
        (0..CLOSED).map(|_| self.size(&mut draw, below_max)).collect()
    }

    /// Draws a size from the lower share of the distribution, which equals drawing again until a
    /// size fits.
    fn size(&self, draw: &mut Draw, below_max: f64) -> u64 {
        self.sizes.quantile(draw.unit() * below_max).min(self.max_size)
    }

    fn attempt(&self, seed: u64, stream: u32, attempt: u32, length: Nanos) -> Vec<Asked> {
        let mut draw = Draw::new(seed, stream, attempt);
        let mean_gap = self.mean_gap();
        let below_max = self.sizes.share_up_to(self.max_size);
        let mut schedule = Vec::new();
        let mut at = Nanos::ZERO;
        loop {
            at = at.saturating_add(Nanos(draw.exponential(mean_gap)));
            if at >= length {
                return schedule;
            }
            let size = self.size(&mut draw, below_max);
            let connection = draw.below(self.connections);
            schedule.push(Asked { at, connection, size });
        }
    }

    /// The mean gap in nanoseconds; "never" without load or sizes.
    fn mean_gap(&self) -> u64 {
        let bits = self.mean_size().unwrap_or(f64::INFINITY) * 8.0;
        // A float that does not fit saturates.
        ((bits / self.load_bps as f64 * 1e9).round() as u64).max(1)
    }

    fn is_balanced(&self, schedule: &[Asked], measured: &Range<Nanos>) -> bool {
        let middle = Nanos(measured.start.0.midpoint(measured.end.0));
        let within = |interval: Range<Nanos>, share: f64| {
            let offered = Rate::from_bps(self.load_bps)
                .bytes_in(interval.end.saturating_sub(interval.start))
                .as_f64();
            (realised(schedule, &interval).as_f64() - offered).abs() <= offered * share
        };
        within(measured.clone(), WHOLE_WITHIN)
            && within(measured.start..middle, HALF_WITHIN)
            && within(middle..measured.end, HALF_WITHIN)
    }
}

/// The number of bytes asked for within `interval`.
fn realised(schedule: &[Asked], interval: &Range<Nanos>) -> Bytes {
    let from = schedule.partition_point(|asked| asked.at < interval.start);
    let to = schedule.partition_point(|asked| asked.at < interval.end);
    schedule[from..to].iter().map(|asked| Bytes(asked.size)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn web(load_mbps: u64) -> Requests {
        Requests {
            load_bps: load_mbps * 1_000_000,
            connections: 200,
            sizes: Sizes::web(),
            max_size: 20_000_000,
            balanced: true,
            arrivals: Arrivals::Poisson,
            new_connections: false,
        }
    }

    const LENGTH: Nanos = Nanos::from_secs(47);
    const MEASURED: Range<Nanos> = Nanos::from_secs(5)..Nanos::from_secs(45);

    #[test]
    fn schedules_never_change() {
        let first = web(48).attempt(7, 0, 0, LENGTH);
        let head: Vec<_> = first[..3].iter().map(|a| (a.at.0, a.connection, a.size)).collect();
        assert_eq!(head, EXPECTED_HEAD);
    }

    const EXPECTED_HEAD: [(u64, u32, u64); 3] =
        [(1_390_879, 67, 3956), (7_935_590, 51, 7333), (11_048_307, 96, 51)];

    #[test]
    fn gaps_follow_the_load() {
        // 8 x 10 920 B / 48 Mbit/s, see the mean of the capped distribution.
        assert_eq!(web(48).mean_gap() / 1_000, 1_820);
        let unbalanced = Requests { balanced: false, max_size: 100_000_000, ..web(84) };
        assert_eq!(unbalanced.mean_gap() / 1_000, 2_002, "the evaluation's own gap at 84 Mbit/s");
        let n = unbalanced.schedule(1, 0, Nanos::from_secs(200), MEASURED).unwrap().len();
        assert!((98_700..101_100).contains(&n), "100 000 of them in 200 s, not {n}");
    }

    #[test]
    fn unbalanced_loads_vary() {
        let requests = Requests { balanced: false, ..web(48) };
        let off: f64 = (0..100)
            .map(|seed| {
                let schedule = requests.schedule(seed, 0, LENGTH, MEASURED).unwrap();
                (realised(&schedule, &MEASURED).as_f64() / 240e6 - 1.0).powi(2)
            })
            .sum();
        let deviation = (off / 100.0).sqrt();
        // sqrt(E[x^2] / E[x]^2 / n) = sqrt(129 / 22 000).
        assert!((0.05..0.11).contains(&deviation), "0.077 is expected, not {deviation}");
    }

    #[test]
    fn an_impossible_balance_is_refused() {
        let few = Requests { load_bps: 200, ..web(1) };
        let error = few.schedule(1, 0, LENGTH, MEASURED).unwrap_err();
        assert!(error.to_string().contains("about 0 requests"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn balanced_schedules_are(
            seed: u64,
            load in 24_u64..90,
            stream in 0_u32..4,
            seconds in 10_u64..=40,
        ) {
            let requests = web(load);
            let measured = Nanos::from_secs(5)..Nanos::from_secs(5 + seconds);
            let schedule = requests.schedule(seed, stream, LENGTH, measured.clone()).unwrap();
            let again = requests.schedule(seed, stream, LENGTH, measured.clone()).unwrap();
            prop_assert_eq!(&schedule, &again, "the same parameters give the same requests");
            let middle = Nanos((measured.start.0 + measured.end.0) / 2);
            for (interval, within) in [
                (measured.clone(), 0.0201),
                (measured.start..middle, 0.0501),
                (middle..measured.end, 0.0501),
            ] {
                let length = interval.end - interval.start;
                let got = Rate::from_bytes_over(realised(&schedule, &interval), length);
                prop_assert!((got.as_mbps_f64() / load as f64 - 1.0).abs() < within, "{}", got);
            }
            prop_assert!(schedule.is_sorted_by_key(|asked| asked.at));
            for asked in &schedule {
                prop_assert!(asked.at < LENGTH && asked.connection < 200);
                prop_assert!((1..=20_000_000).contains(&asked.size));
            }
        }
    }
}
