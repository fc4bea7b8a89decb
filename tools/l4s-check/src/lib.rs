//! Whether L4S (RFC 9330) works on a path, and if not, why.
//!
//! A [`Prober`] sends datagrams with all ECN codepoints to the other end, which answers each with
//! the codepoint and the time at which it arrived ([`Echo::of`]). The prober finds the path's rate,
//! loads its bottleneck for about a second with classic and then with L4S packets, and compares
//! what happened to both: [`Report`]. It is a state machine without I/O and without a clock;
//! [`live`] runs both ends over UDP.
//!
//! [`tcp`] reads captures of TCP connections instead, and says the same of their path.
//!
//! | phase | what is sent | what it shows |
//! |---|---|---|
//! | codepoints | a few small packets of each codepoint | which arrive, and with which codepoint |
//! | ramp | Not-ECT packets, twice as fast in each step | the rate of the bottleneck |
//! | light | ECT(1) packets at a fifth of that rate | marks without a load |
//! | classic | Not-ECT packets at 1.2 times the rate, few ECT(1) packets | whether L4S packets wait in the classic queue, and whether its load marks them (RFC 9332 section 2.1) |
//! | L4S | ECT(1) packets at 1.2 times the rate, few Not-ECT packets | whether and how early the bottleneck marks them |

#![forbid(unsafe_code)]

pub mod live;
mod message;
mod prober;
mod report;
mod samples;
pub mod tcp;

pub use message::{Echo, MessageError, Probe};
pub use prober::{Datagram, Flow, Options, Prober};
pub use report::{Finding, Kind, Report, Verdict};
pub use samples::{Phase, Sample};

/// Returns a random number for [`Options::seed`].
///
/// # Errors
/// Fails if the system has no random numbers.
pub fn session() -> std::io::Result<u64> {
    getrandom::u64().map_err(std::io::Error::other)
}
