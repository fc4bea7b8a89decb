//! Random numbers that cannot be guessed and do not repeat.

use std::num::NonZeroU64;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_wire::feedback::Session;

/// Returns a random number; the time of day if the system has no random numbers.
pub(crate) fn number() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(_) => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64)
        }
    }
}

/// Makes a session number for one run of a box.
pub(crate) fn session() -> Session {
    Session(NonZeroU64::new(number()).unwrap_or(NonZeroU64::MIN))
}
