//! Traces of a varying link rate in mahimahi's format.
//!
//! Each line is a time in whole milliseconds at which 1504 bytes may pass. Several lines of one
//! time add up, and the trace repeats after the time of its last line (Netravali et al., "Mahimahi:
//! accurate record-and-replay for HTTP", ATC 2015, section 4.3, and `mm-link`'s manual page).

use std::sync::Arc;

use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

/// The bytes that pass at each opportunity. mahimahi counts an IP packet of 1500 bytes with the
/// four bytes of a TUN device's header.
pub(super) const OPPORTUNITY: u64 = 1504;
/// The difference in length of the Ethernet header and a TUN device's header.
const FRAME_EXTRA: u64 = 14 - 4;
/// The largest number of lines: 16 million opportunities are half an hour at 100 Mbit/s.
const MAX_LINES: usize = 1 << 24;
const MILLI: u64 = 1_000_000;

/// The reason why a file is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line is not a time.
    #[error(
        "{file}:{line}: `{text}` is no time: write whole milliseconds, a line each, up to 2^32 - 1"
    )]
    Time {
        /// The name of the file.
        file: String,
        /// The number of the line, from one.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// The time of a line is before that of the line above.
    #[error("{file}:{line}: {time} ms comes before the line above it: sort the times")]
    Order {
        /// The name of the file.
        file: String,
        /// The number of the line, from one.
        line: usize,
        /// The time in milliseconds.
        time: u32,
    },
    /// The trace has no time above zero.
    #[error("{file}: a trace needs a line with a time above zero, where it begins again")]
    Empty {
        /// The name of the file.
        file: String,
    },
    /// The trace has too many lines.
    #[error(
        "{file}:{line}: a trace has at most {MAX_LINES} lines: shorten it, since a trace repeats"
    )]
    TooLong {
        /// The name of the file.
        file: String,
        /// The number of the first line past the limit.
        line: usize,
    },
    /// A line of a trace of delays is not a delay.
    #[error(
        "{file}:{line}: `{text}` is no delay: write milliseconds from 0 to 1000, such as 12 or 12.5"
    )]
    Delay {
        /// The name of the file.
        file: String,
        /// The number of the line, from one.
        line: usize,
        /// The text of the line.
        text: String,
    },
    /// A trace of delays has no line.
    #[error("{file}: a trace of delays needs at least one line")]
    NoDelays {
        /// The name of the file.
        file: String,
    },
    /// A trace of delays has too many lines.
    #[error("{file}:{line}: a trace of delays has at most 1000000 lines: shorten it")]
    TooManyDelays {
        /// The name of the file.
        file: String,
        /// The number of the first line past the limit.
        line: usize,
    },
}

/// The times at which 1504 bytes may pass, repeated forever. Copies share their memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub struct Trace {
    /// The times in milliseconds, ascending. The last one is above zero and is the period.
    stamps: Arc<[u32]>,
}

impl From<Trace> for Vec<u32> {
    fn from(trace: Trace) -> Self {
        trace.stamps.to_vec()
    }
}

impl TryFrom<Vec<u32>> for Trace {
    type Error = &'static str;

    fn try_from(stamps: Vec<u32>) -> Result<Self, Self::Error> {
        if !stamps.is_sorted() || stamps.last().is_none_or(|last| *last == 0) {
            return Err("the times of a trace must be ascending and the last one above zero");
        }
        Ok(Self { stamps: stamps.into() })
    }
}

impl Trace {
    /// Parses `text`, the contents of `file`. Empty lines are skipped.
    ///
    /// # Errors
    /// Returns the file and the line at which it is not a valid trace.
    pub fn parse(file: &str, text: &str) -> Result<Self, TraceError> {
        let file = || file.to_owned();
        let mut stamps: Vec<u32> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let time: u32 = text.parse().map_err(|_| {
                let text = text.chars().take(40).collect();
                TraceError::Time { file: file(), line, text }
            })?;
            if stamps.last().is_some_and(|last| *last > time) {
                return Err(TraceError::Order { file: file(), line, time });
            }
            if stamps.len() == MAX_LINES {
                return Err(TraceError::TooLong { file: file(), line });
            }
            stamps.push(time);
        }
        if stamps.last().is_none_or(|last| *last == 0) {
            return Err(TraceError::Empty { file: file() });
        }
        Ok(Self { stamps: stamps.into() })
    }

    /// Returns the time after which the trace repeats.
    pub fn period(&self) -> Nanos {
        Nanos(self.period_ms() * MILLI)
    }

    /// Returns the mean rate, counting IP packets with the four bytes of a TUN device's header.
    pub fn mean_rate(&self) -> Rate {
        let bytes = Bytes(self.stamps.len() as u64 * OPPORTUNITY);
        Rate::from_bytes_over(bytes, self.period())
    }

    fn period_ms(&self) -> u64 {
        self.stamps.last().map_or(1, |last| u64::from(*last))
    }

    /// Returns the time of opportunity `number`, counted from the start through all repetitions.
    fn time(&self, number: u64) -> Nanos {
        let len = self.stamps.len() as u64;
        let ms = (number / len)
            .saturating_mul(self.period_ms())
            .saturating_add(u64::from(self.stamps[(number % len) as usize]));
        Nanos(ms.saturating_mul(MILLI))
    }

    /// Returns the number of the first opportunity at or after `time`.
    fn first_from(&self, time: Nanos) -> u64 {
        let ms = time.0.div_ceil(MILLI);
        // The end of a repetition is also the start of the next; its opportunities come first.
        let round = ms.saturating_sub(1) / self.period_ms();
        let within = ms - round * self.period_ms();
        let place = self.stamps.partition_point(|stamp| u64::from(*stamp) < within);
        round * self.stamps.len() as u64 + place as u64
    }
}

/// The position of a link in its trace.
#[derive(Clone, Debug)]
pub(super) struct Cursor {
    trace: Trace,
    /// The number of the current opportunity.
    number: u64,
    /// The bytes that are left of the current opportunity.
    left: u64,
}

impl Cursor {
    pub(super) fn new(trace: Trace) -> Self {
        Self { trace, number: 0, left: OPPORTUNITY }
    }

    /// Returns when a packet can pass, at `now` or later. Bytes left of an opportunity are lost
    /// when its time has passed.
    pub(super) fn ready(&mut self, now: Nanos) -> Nanos {
        if self.trace.time(self.number) < now {
            self.number = self.number.max(self.trace.first_from(now));
            self.left = OPPORTUNITY;
        }
        self.trace.time(self.number)
    }

    /// Passes a frame of `len` from the current opportunity on. Returns when it has passed.
    pub(super) fn pass(&mut self, len: Bytes) -> Nanos {
        let mut need = len.0.saturating_sub(FRAME_EXTRA).max(1);
        while need > self.left {
            need -= self.left;
            self.advance();
        }
        self.left -= need;
        let end = self.trace.time(self.number);
        if self.left == 0 {
            self.advance();
        }
        end
    }

    fn advance(&mut self) {
        self.number += 1;
        self.left = OPPORTUNITY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn an_error_names_the_file_and_the_line() {
        let parse = |text| Trace::parse("lte.up", text).map_err(|e| e.to_string());
        assert!(parse("1\n2\n\n2\r\n9\n").is_ok());
        assert_eq!(parse("1\n2x\n").unwrap_err().split(" is").next(), Some("lte.up:2: `2x`"));
        assert!(parse("-1\n").unwrap_err().starts_with("lte.up:1:"));
        assert!(parse("4294967296\n").is_err());
        let back = parse("1\n5\n\n4\n").unwrap_err();
        assert!(back.starts_with("lte.up:4: 4 ms comes before"), "{back}");
        assert!(parse("").unwrap_err().starts_with("lte.up: a trace needs"));
        assert!(parse("0\n0\n").is_err(), "the period would be zero");
    }

    #[test]
    fn a_trace_repeats_at_its_end() {
        let trace = Trace::parse("t", "0\n2\n2\n5\n").unwrap();
        assert_eq!((trace.period(), trace.mean_rate()), (ms(5), Rate::from_bps(9_625_600)));
        let times: Vec<_> = (0..8).map(|n| trace.time(n).0 / MILLI).collect();
        assert_eq!(times, [0, 2, 2, 5, 5, 7, 7, 10]);
        for (time, first) in [(0, 0), (1, 1), (2, 1), (3, 3), (5, 3), (6, 5), (10, 7), (11, 9)] {
            assert_eq!(trace.first_from(ms(time)), first, "at {time} ms");
        }
        assert_eq!(trace.first_from(ms(5) + Nanos(1)), 5);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_wait_for_the_next() {
        let mut cursor = Cursor::new(Trace::parse("t", "1\n2\n3\n").unwrap());
        assert_eq!(cursor.ready(Nanos::ZERO), ms(1));
        // A full frame is one opportunity.
        assert_eq!(cursor.pass(Bytes(1514)), ms(1));
        assert_eq!(cursor.ready(ms(1)), ms(2));
        assert_eq!(cursor.pass(Bytes(1010)), ms(2));
        assert_eq!(cursor.ready(ms(2)), ms(2), "504 bytes are left");
        assert_eq!(cursor.pass(Bytes(614)), ms(3), "100 bytes more than are left");
        assert_eq!(cursor.ready(ms(3)), ms(3));
        assert_eq!(cursor.ready(ms(3) + Nanos(1)), ms(4), "the rest was not used in time");
        assert_eq!(cursor.pass(Bytes(1514)), ms(4));
    }
}
