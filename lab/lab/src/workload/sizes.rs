use std::path::Path;

use forebay_config::ConfigError;
use forebay_units::Bytes;
use serde::{Deserialize, Serialize};

/// The size of the largest file: some hundred thousand points, more than any figure shows.
const MAX_FILE: Bytes = Bytes(4_000_000);

/// A distribution of request sizes: points of its cumulative distribution, linear between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sizes {
    /// Sizes in bytes with the probability of at most that size, from 0 to 1, never falling.
    points: Vec<(u64, f64)>,
}

impl Sizes {
    /// Returns the web requests of the Bundler evaluation.
    pub fn web() -> Self {
        let text = include_str!("../../data/web-requests.csv");
        Self::parse(Path::new("web-requests.csv"), text)
            .expect("part of the program, read by a test")
    }

    /// Reads a distribution from a CSV file, see [`Sizes::parse`].
    ///
    /// # Errors
    /// If the file cannot be read or is larger than 4 MB, or as [`Sizes::parse`].
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::parse(file, &forebay_input::text(file, MAX_FILE)?)
    }

    /// Parses `text`: a header `bytes,cdf` and then one point per line, with rising bytes and
    /// probabilities from 0 to 1 that never fall. Lines that start with `#` are skipped. Errors
    /// refer to the text as `file`.
    ///
    /// # Errors
    ///
    /// If `text` is malformed; the error names the line.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(n, line)| (n + 1, line.trim()))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        match lines.next() {
            Some((_, "bytes,cdf")) => {}
            other => {
                let line = other.map(|(n, _)| n);
                return Err(error(file, line, "the first line must be the header bytes,cdf"));
            }
        }
        let mut points: Vec<(u64, f64)> = Vec::new();
        for (n, line) in lines {
            let point = line
                .split_once(',')
                .and_then(|(b, p)| Some((b.trim().parse().ok()?, p.trim().parse().ok()?)))
                .filter(|(_, p)| (0.0..=1.0).contains(p))
                .ok_or_else(|| {
                    error(file, Some(n), format!("\"{line}\" is no BYTES,PROBABILITY"))
                })?;
            let first = points.is_empty() && point.1 != 0.0;
            if first || points.last().is_some_and(|last| last.0 >= point.0 || last.1 > point.1) {
                let what = "bytes must rise and probabilities start at 0 and not fall";
                return Err(error(file, Some(n), what));
            }
            points.push(point);
        }
        if points.last().is_none_or(|last| last.1 != 1.0) {
            return Err(error(file, None, "the last probability must be 1"));
        }
        Ok(Self { points })
    }

    /// The size below which a share `u` of all requests lies, `u` in [0, 1); at least one byte.
    pub fn quantile(&self, u: f64) -> u64 {
        let above = self.points.partition_point(|(_, p)| *p <= u).min(self.points.len() - 1);
        let ((x0, p0), (x1, p1)) = (self.points[above - 1], self.points[above]);
        let size = x0 as f64 + (u - p0) / (p1 - p0) * (x1 - x0) as f64;
        (size.ceil() as u64).max(1)
    }

    /// The share of requests that are at most `size` bytes.
    pub fn share_up_to(&self, size: u64) -> f64 {
        let above = self.points.partition_point(|(x, _)| *x <= size);
        match (above.checked_sub(1), self.points.get(above)) {
            (None, _) => 0.0,
            (_, None) => 1.0,
            (Some(below), Some((x1, p1))) => {
                let (x0, p0) = self.points[below];
                p0 + (p1 - p0) * (size - x0) as f64 / (x1 - x0) as f64
            }
        }
    }

    /// The mean size in bytes of the requests of at most `max` bytes, before rounding up; `None` if
    /// there are none.
    pub fn mean_up_to(&self, max: u64) -> Option<f64> {
        let share = self.share_up_to(max);
        let sum: f64 = self
            .points
            .windows(2)
            .filter(|pair| pair[0].0 < max)
            .map(|pair| {
                let end = pair[1].0.min(max);
                // Linear between the points means uniform, so the mean is the middle.
                (self.share_up_to(end) - pair[0].1) * (pair[0].0 + end) as f64 / 2.0
            })
            .sum();
        (share > 0.0 && sum > 0.0).then(|| sum / share)
    }

    /// The largest size of the distribution.
    pub fn max(&self) -> u64 {
        self.points.last().map_or(0, |(x, _)| *x)
    }
}

fn error(file: &Path, line: Option<usize>, message: impl Into<String>) -> ConfigError {
    ConfigError { file: file.to_owned(), line, key: String::new(), message: message.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn web_requests_are_as_published() {
        let web = Sizes::web();
        let mean = web.mean_up_to(web.max()).unwrap();
        assert!((mean - 21_025.0).abs() < 1e-6, "{mean}");
        assert_eq!(web.quantile(0.5), 5_123, "0.5 / 0.976 x 10 kB = 5122.95");
        assert_eq!(web.quantile(0.0), 1, "no request is empty");
        assert_eq!(web.quantile(0.976), 10_000);
        assert_eq!(web.quantile(0.98), 28_948, "10 kB + 0.004 / 0.019 x 90 kB = 28947.4");
        assert_eq!(web.quantile(0.999_95), 76_250_000, "a quarter from 100 MB down to 5 MB");
        let capped = web.mean_up_to(20_000_000).unwrap();
        // 4880 + 1045 + 2200 + 2400 below 5 MB; 0.0002 x 15/95 above it, of 12.5 MB each.
        let tail = 0.0002 * 15.0 / 95.0;
        let expected = (10_525.0 + tail * 12.5e6) / (0.9998 + tail);
        assert!((capped - expected).abs() < 1e-6, "{capped} {expected}");
        assert_eq!(web.mean_up_to(0), None);
    }

    #[test]
    fn bad_files_name_the_line() {
        let cases = [
            ("0,0\n1,1\n", "s.csv:1: the first line must be the header bytes,cdf"),
            ("bytes,cdf\n0,0\n5,x\n", "s.csv:3: \"5,x\" is no BYTES,PROBABILITY"),
            ("bytes,cdf\n0,0\n5,1.5\n", "s.csv:3: \"5,1.5\" is no BYTES,PROBABILITY"),
            (
                "bytes,cdf\n0,0\n# more\n9,0.5\n9,1\n",
                "s.csv:5: bytes must rise and probabilities start at 0 and not fall",
            ),
            (
                "bytes,cdf\n7,1\n",
                "s.csv:2: bytes must rise and probabilities start at 0 and not fall",
            ),
            ("bytes,cdf\n0,0\n5,0.5\n", "s.csv: the last probability must be 1"),
            ("bytes,cdf\n", "s.csv: the last probability must be 1"),
        ];
        for (text, expected) in cases {
            let error = Sizes::parse(Path::new("s.csv"), text).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn quantiles_never_fall_and_invert_shares(a in 0.0..1.0_f64, b in 0.0..1.0_f64) {
            let web = Sizes::web();
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(web.quantile(low) <= web.quantile(high));
            let size = web.quantile(a);
            prop_assert!(web.share_up_to(size) >= a - 1e-12, "rounded up, so at least that share");
            prop_assert!(web.share_up_to(size - 1) <= a + 1e-12);
        }
    }
}
