//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time of [`now`] in UTC, as in RFC 3339.
pub(crate) use forebay_picture::date::second as text;

/// Returns the present time in milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
