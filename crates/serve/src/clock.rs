//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

use forebay_picture::date::day;

/// Returns the present time in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Formats a time of [`now`] in UTC, as in RFC 3339.
pub(crate) fn text(millis: u64) -> String {
    let seconds = millis / 1000;
    let date = day(UNIX_EPOCH + std::time::Duration::from_secs(seconds));
    let within = seconds % 86_400;
    format!("{date}T{:02}:{:02}:{:02}Z", within / 3600, within / 60 % 60, within % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(super::text(951_868_799_999), "2000-02-29T23:59:59Z");
    }
}
