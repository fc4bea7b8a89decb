use serde::{Deserialize, Serialize};

use super::percentile::{Sorted, rounded};
use crate::results::{Request, Run};

/// A value for all requests and one for each size class of the Bundler evaluation (EuroSys '21,
/// figure 9).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByClass<T> {
    /// The value for all requests.
    pub all: T,
    /// Requests of at most 10 kB.
    pub small: T,
    /// Requests of more than 10 kB and at most 1 MB.
    pub medium: T,
    /// Requests of more than 1 MB.
    pub large: T,
}

/// A size class of requests, or all requests; see [`ByClass`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Requests of all sizes.
    #[default]
    All,
    /// Requests of at most 10 kB.
    Small,
    /// Requests of more than 10 kB and at most 1 MB.
    Medium,
    /// Requests of more than 1 MB.
    Large,
}

impl Size {
    /// Returns the class of a request for `bytes` bytes.
    pub const fn of(bytes: u64) -> Self {
        match bytes {
            0..=10_000 => Self::Small,
            10_001..=1_000_000 => Self::Medium,
            _ => Self::Large,
        }
    }

    /// Whether a request for `bytes` bytes belongs to the class.
    pub fn holds(self, bytes: u64) -> bool {
        self == Self::All || self == Self::of(bytes)
    }
}

impl<T> ByClass<T> {
    /// Applies `f` to each value.
    pub fn map<U>(&self, f: impl Fn(&T) -> U) -> ByClass<U> {
        ByClass {
            all: f(&self.all),
            small: f(&self.small),
            medium: f(&self.medium),
            large: f(&self.large),
        }
    }
}

/// The slowdowns of the requests of one class: completion time over [`Run::ideal`].
///
/// A request that is unfinished when the run ends is included, with the slowdown that it has
/// reached by then (at least 1) as a lower bound. Without it, an arm that keeps requests waiting
/// would look better. So percentiles may be too low, but never too high.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slowdowns {
    /// The slowdowns, including the bounds of unfinished requests.
    pub values: Sorted,
    /// The number of these bounds.
    pub unfinished: u64,
}

impl Slowdowns {
    /// Computes the slowdowns of the requests that started in the measured interval `[start, end)`.
    /// A request that finished after `end` counts as finished, with the time it took.
    pub fn of(run: &Run) -> ByClass<Self> {
        Self::among(run, measured(run))
    }

    /// Computes the slowdowns of these requests of `run`.
    pub fn among<'a>(run: &Run, requests: impl Iterator<Item = &'a Request>) -> ByClass<Self> {
        let mut values: ByClass<(Vec<f64>, u64)> = ByClass::default();
        for request in requests {
            let value = slowdown(run, request);
            let class = match Size::of(request.size) {
                Size::All | Size::Small => &mut values.small,
                Size::Medium => &mut values.medium,
                Size::Large => &mut values.large,
            };
            for (values, unfinished) in [&mut values.all, class] {
                values.push(value);
                *unfinished += u64::from(request.end.is_none());
            }
        }
        values.map(|(values, unfinished)| Self {
            values: values.iter().copied().collect(),
            unfinished: *unfinished,
        })
    }

    /// Merges the slowdowns of all `parts`.
    pub fn pooled<'a>(parts: impl Iterator<Item = &'a ByClass<Self>> + Clone) -> ByClass<Self> {
        let of = |class: fn(&ByClass<Self>) -> &Self| Self {
            values: Sorted::pooled(parts.clone().map(|p| &class(p).values)),
            unfinished: parts.clone().map(|p| class(p).unfinished).sum(),
        };
        ByClass {
            all: of(|c| &c.all),
            small: of(|c| &c.small),
            medium: of(|c| &c.medium),
            large: of(|c| &c.large),
        }
    }

    /// The figures to print.
    pub fn figures(&self) -> Slowdown {
        Slowdown {
            p50: self.values.percentile(50).map(|v| rounded(v, 4)),
            p99: self.values.percentile(99).map(|v| rounded(v, 4)),
            count: self.values.len() as u64,
            unfinished: self.unfinished,
        }
    }
}

/// The slowdown of a request of `run`; for an unfinished one, the slowdown reached so far.
pub fn slowdown(run: &Run, request: &Request) -> f64 {
    let ideal = run.ideal(request.size).0.max(1) as f64;
    let until = request.end.unwrap_or(run.end.0);
    let slowdown = until.saturating_sub(request.start) as f64 / ideal;
    if request.end.is_none() { slowdown.max(1.0) } else { slowdown }
}

/// The slowdown of a class of requests as a multiple of the time on the empty path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// The median; `None` without requests.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The number of requests that started in the measured interval.
    pub count: u64,
    /// The number of those that were unfinished at the end, see [`Slowdowns`].
    pub unfinished: u64,
}

/// The outcome of the requests that started in the measured interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// The number of requests.
    pub offered: u64,
    /// The number of requests that were answered completely before the run ended.
    pub completed: u64,
    /// The number of unfinished requests.
    pub unfinished: u64,
    /// The number of bytes that the requests asked for.
    pub bytes: u64,
}

impl Requests {
    /// Counts the requests of `run`.
    pub fn of(run: &Run) -> Self {
        measured(run).fold(Self::default(), |sum, request| {
            let completed = u64::from(request.end.is_some());
            Self {
                offered: sum.offered + 1,
                completed: sum.completed + completed,
                unfinished: sum.unfinished + (1 - completed),
                bytes: sum.bytes.saturating_add(request.size),
            }
        })
    }
}

fn measured(run: &Run) -> impl Iterator<Item = &Request> {
    run.requests.iter().filter(|r| (run.start.0..run.end.0).contains(&r.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_units::{Nanos, Rate};

    const MS: u64 = 1_000_000;

    /// 8 Mbit/s and 50 ms: the ideal time is 50 ms plus one microsecond per byte.
    fn run(requests: &[(u64, u64, Option<u64>)]) -> Run {
        let request = |(id, &(size, start, end)): (usize, &(u64, u64, Option<u64>))| Request {
            id: id as u64,
            connection: 0,
            size,
            start: start * MS,
            end: end.map(|e| e * MS),
        };
        Run {
            start: Nanos::from_secs(1),
            end: Nanos::from_secs(11),
            rate: Rate::from_mbps(8),
            base_rtt: Nanos::from_millis(50),
            requests: requests.iter().enumerate().map(request).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn slowdown_by_hand() {
        // Ideals: 10 kB 60 ms, 50 kB 100 ms, 2 MB 2050 ms.
        let run = run(&[
            (10_000, 999, Some(5000)),      // before the interval
            (10_000, 1000, Some(1120)),     // 2.0
            (50_000, 2000, Some(2150)),     // 1.5
            (2_000_000, 6900, None),        // 4100 / 2050: at least 2.0
            (2_000_000, 10_999, None),      // 1 ms in: at least 1
            (10_000, 10_990, Some(11_080)), // 1.5, finished after the interval
            (10_000, 11_000, Some(11_060)), // after it
        ]);
        let by_class = Slowdowns::of(&run);
        let values = by_class.map(|s| s.values.values().to_vec());
        assert_eq!(values.small, [1.5, 2.0]);
        assert_eq!(values.medium, [1.5]);
        assert_eq!(values.large, [1.0, 2.0]);
        assert_eq!(values.all, [1.0, 1.5, 1.5, 2.0, 2.0]);
        assert_eq!(by_class.map(|s| s.unfinished).all, 2);
        let all = by_class.all.figures();
        assert_eq!((all.p50, all.p99, all.count, all.unfinished), (Some(1.5), Some(2.0), 5, 2));
        let requests = Requests::of(&run);
        assert_eq!((requests.offered, requests.completed, requests.unfinished), (5, 3, 2));
        assert_eq!(requests.bytes, 4_070_000);
    }

    #[test]
    fn class_borders_belong_to_the_smaller_class() {
        let sizes = [0, 10_000, 10_001, 1_000_000, 1_000_001];
        let run = run(&sizes.map(|size| (size, 2000, Some(3000))));
        let counts = Slowdowns::of(&run).map(|s| s.figures().count);
        assert_eq!(counts, ByClass { all: 5, small: 2, medium: 2, large: 1 });
    }

    #[test]
    fn no_requests_no_figures() {
        let none = Slowdowns::of(&run(&[])).all.figures();
        assert_eq!((none.p50, none.p99, none.count), (None, None, 0));
    }
}
