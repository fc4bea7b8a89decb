//! Checks of simulated paths, and of captures of simulated transfers.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod capture;
mod path;
