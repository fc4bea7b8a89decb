//! Formats dates and times of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// Formats the UTC date of `time` as in ISO 8601; times before 1970 give the first day of 1970.
pub fn day(time: SystemTime) -> String {
    let days = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs() / DAY;
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let (mut year, mut rest) = (1970, days);
    while rest >= 365 + u64::from(leap(year)) {
        rest -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", rest + 1)
}

/// Formats a time in milliseconds since 1970 in UTC, as in RFC 3339, to the second.
pub fn second(millis: u64) -> String {
    let date = day(UNIX_EPOCH + Duration::from_millis(millis));
    format!("{date}T{}Z", time_of_day(millis))
}

/// Formats the time of day of a time in milliseconds since 1970, in UTC: `20:59:07`.
pub fn time_of_day(millis: u64) -> String {
    let within = millis / 1000 % DAY;
    format!("{:02}:{:02}:{:02}", within / 3600, within / 60 % 60, within % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(second(951_868_799_999), "2000-02-29T23:59:59Z");
        assert_eq!(time_of_day(951_868_800_000), "00:00:00");
    }

    #[test]
    fn dates_match_examples() {
        let after = |seconds: u64| day(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(after(0), "1970-01-01");
        assert_eq!(after(951_782_400), "2000-02-29");
        assert_eq!(after(951_868_800), "2000-03-01");
        assert_eq!(after(1_795_132_799), "2026-11-19");
        assert_eq!(after(1_798_675_200), "2026-12-31");
        assert_eq!(after(4_107_542_399), "2100-02-28");
        assert_eq!(after(4_107_542_400), "2100-03-01");
    }
}
