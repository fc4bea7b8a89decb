//! The times of flows, and the parts of flows in a window. Times are milliseconds since 1970.

use std::time::{Duration, UNIX_EPOCH};

use forebay_picture::date::day;

/// The time of a flow, from its first packet to its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The time of the first packet.
    pub start: i64,
    /// The time of the last packet, not before the first.
    pub end: i64,
}

/// A window of time: from `begin` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The start of the window.
    pub begin: i64,
    /// The end of the window.
    pub end: i64,
}

impl Window {
    /// Returns the length of the window, in milliseconds.
    pub fn length(&self) -> i64 {
        self.end.saturating_sub(self.begin).max(0)
    }

    /// Returns the part of a flow in the window, from 0 to 1.
    ///
    /// The octets of a flow count as spread evenly from its first packet to its last. A flow with a
    /// single packet is at one point in time.
    pub fn share(&self, span: Span) -> f64 {
        if span.start == span.end {
            return f64::from(u8::from((self.begin..self.end).contains(&span.start)));
        }
        let within = self.end.min(span.end).saturating_sub(self.begin.max(span.start));
        within.max(0) as f64 / (span.end - span.start) as f64
    }
}

/// Formats whole seconds of a time in UTC, as in RFC 3339.
pub fn text(millis: i64) -> String {
    let seconds = u64::try_from(millis).unwrap_or(0) / 1000;
    let date = day(UNIX_EPOCH + Duration::from_secs(seconds));
    let within = seconds % 86_400;
    format!("{date}T{:02}:{:02}:{:02}Z", within / 3600, within / 60 % 60, within % 60)
}

/// Reads a time: seconds since 1970, or the format of [`text`].
///
/// # Errors
/// If it is neither.
pub fn parse(written: &str) -> Result<i64, String> {
    let fail = || {
        format!(
            "{written:?} is not a time: write it as 2026-11-22T13:05:00Z, or as seconds since 1970"
        )
    };
    if let Ok(seconds) = written.parse::<u32>() {
        return Ok(i64::from(seconds) * 1000);
    }
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = written.get(range)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    };
    let read = || {
        let (year, month, date) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        // Days since 1970 by the Gregorian calendar, with years that start in March.
        let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + date - 1 - 719_468;
        Some((days * 86_400 + hour * 3600 + minute * 60 + second) * 1000)
    };
    // A date that does not exist, or another notation, does not match its own text.
    read().filter(|millis| *millis >= 0 && text(*millis) == written).ok_or_else(fail)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn shares_match_hand_calculations() {
        let window = Window { begin: 1000, end: 2000 };
        let share = |start, end| window.share(Span { start, end });
        assert_eq!(share(1000, 2000), 1.0);
        assert_eq!(share(0, 4000), 0.25);
        assert_eq!(share(500, 1500), 0.5);
        assert_eq!(share(1900, 2300), 0.25);
        assert_eq!((share(0, 1000), share(2000, 3000)), (0.0, 0.0));
        // A packet at the start of a window belongs to it, and not to the one before.
        assert_eq!((share(1000, 1000), share(1999, 1999), share(2000, 2000)), (1.0, 1.0, 0.0));
    }

    #[test]
    fn times_are_written_and_read() {
        assert_eq!(text(951_868_799_999), "2000-02-29T23:59:59Z");
        assert_eq!(parse("2000-02-29T23:59:59Z"), Ok(951_868_799_000));
        assert_eq!(parse("1798675200"), Ok(1_798_675_200_000));
        for bad in ["", "now", "2001-02-29T00:00:00Z", "2000-01-01T24:00:00Z", "2000-01-01", "-5"] {
            assert!(parse(bad).unwrap_err().contains("is not a time"), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn adjacent_windows_share_all_of_a_flow(
            start in 0_i64..10_000, length in 0_i64..10_000, cut in 1_i64..19_999,
        ) {
            let span = Span { start, end: start + length };
            let before = Window { begin: 0, end: cut }.share(span);
            let after = Window { begin: cut, end: 20_001 }.share(span);
            prop_assert!((before + after - 1.0).abs() < 1e-12);
        }

        #[test]
        fn a_written_time_is_read_back(seconds in 0_i64..8_000_000_000) {
            prop_assert_eq!(parse(&text(seconds * 1000)), Ok(seconds * 1000));
        }
    }
}
