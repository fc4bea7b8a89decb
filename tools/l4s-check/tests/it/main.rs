//! Checks of simulated paths, of captures of simulated transfers, and the reflector over UDP.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod capture;
mod live;
mod path;
