//! Traces of a path's one-way delay.
//!
//! Each line is a delay in milliseconds, which holds for 10 ms. The trace repeats after its last
//! line (the `.delay` files of LeoReplayer; Lai et al., "LeoCC", SIGCOMM 2025).

use std::sync::Arc;

use forebay_units::Nanos;
use serde::{Deserialize, Serialize};

use super::trace::TraceError;

/// The time for which a line's delay holds.
const INTERVAL: Nanos = Nanos::from_millis(10);
/// The largest number of lines: one million are almost three hours.
const MAX_LINES: usize = 1_000_000;
/// The largest delay, half of the longest round trip that scenarios allow.
const MAX_DELAY: Nanos = Nanos::from_secs(1);

/// One-way delays over time, repeated forever. Copies share their memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u64>", into = "Vec<u64>")]
pub struct DelayTrace {
    /// The delays in nanoseconds; at least one.
    delays: Arc<[u64]>,
}

impl From<DelayTrace> for Vec<u64> {
    fn from(trace: DelayTrace) -> Self {
        trace.delays.to_vec()
    }
}

impl TryFrom<Vec<u64>> for DelayTrace {
    type Error = &'static str;

    fn try_from(delays: Vec<u64>) -> Result<Self, Self::Error> {
        if delays.is_empty() || delays.len() > MAX_LINES || delays.iter().any(|d| *d > MAX_DELAY.0)
        {
            return Err("a trace of delays must have 1 to 1000000 values of at most a second");
        }
        Ok(Self { delays: delays.into() })
    }
}

impl DelayTrace {
    /// Parses `text`, the contents of `file`. Empty lines are skipped.
    ///
    /// # Errors
    /// Returns the file and the line at which it is not a valid trace of delays.
    pub fn parse(file: &str, text: &str) -> Result<Self, TraceError> {
        let file = || file.to_owned();
        let mut delays = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let Some(delay) = milliseconds(text) else {
                let text = text.chars().take(40).collect();
                return Err(TraceError::Delay { file: file(), line, text });
            };
            if delays.len() == MAX_LINES {
                return Err(TraceError::TooManyDelays { file: file(), line });
            }
            delays.push(delay.0);
        }
        if delays.is_empty() {
            return Err(TraceError::NoDelays { file: file() });
        }
        Ok(Self { delays: delays.into() })
    }

    /// Returns the delay of a packet that is sent at `time`.
    pub fn at(&self, time: Nanos) -> Nanos {
        let line = time.0 / INTERVAL.0 % self.delays.len() as u64;
        Nanos(self.delays[line as usize])
    }

    /// Returns the shortest delay.
    pub fn shortest(&self) -> Nanos {
        Nanos(self.delays.iter().copied().min().unwrap_or(0))
    }

    /// Returns the longest delay.
    pub fn longest(&self) -> Nanos {
        Nanos(self.delays.iter().copied().max().unwrap_or(0))
    }
}

/// Reads a number of milliseconds, which may have decimals, of at most [`MAX_DELAY`].
fn milliseconds(text: &str) -> Option<Nanos> {
    if !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let ms: f64 = text.parse().ok()?;
    let nanos = (ms * 1e6).round();
    (nanos <= MAX_DELAY.0 as f64).then_some(Nanos(nanos as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_holds_for_ten_milliseconds() {
        let trace = DelayTrace::parse("d", "12\n16.5\n\n8\n").unwrap();
        let at = |ms| trace.at(Nanos::from_millis(ms)).0;
        let delays = [0, 9, 10, 20, 29, 30].map(at);
        let micros = [12_000, 12_000, 16_500, 8_000, 8_000, 12_000];
        assert_eq!(delays, micros.map(|us: u64| us * 1_000));
        assert_eq!((trace.shortest().0, trace.longest().0), (8_000_000, 16_500_000));
    }

    #[test]
    fn an_error_names_the_file_and_the_line() {
        let parse = |text| DelayTrace::parse("leo.delay", text).map_err(|e| e.to_string());
        for (text, says) in [
            ("12\n-1\n", "leo.delay:2: `-1` is no delay"),
            ("12\n\nNaN\n", "leo.delay:3: `NaN`"),
            ("1e3\n", "leo.delay:1:"),
            ("1000.1\n", "leo.delay:1: `1000.1`"),
            ("\n", "leo.delay: a trace of delays needs"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(says), "{error}");
        }
        assert!(parse("1000\n0\n").is_ok());
        let long = "1\n".repeat(MAX_LINES + 1);
        assert!(parse(&long).unwrap_err().starts_with("leo.delay:1000001:"));
        assert!(DelayTrace::try_from(Vec::new()).is_err());
    }
}
