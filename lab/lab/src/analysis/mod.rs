//! Figures from the raw record of a run: exact percentiles, queue delays, slowdowns, packet counts,
//! and the sendbox's estimates compared with the truth.
//!
//! Everything is computed from [`Run`] alone, so a figure has the same meaning for every engine.
//! [`Analysis`] holds all that tables, pictures and reports need. It is much smaller than the run,
//! which can be freed.

mod accounts;
mod course;
mod decisions;
mod delay;
mod estimates;
mod percentile;
mod requests;
mod round_trips;
mod spans;
mod summary;
mod transfers;
mod truth;
mod waits;
mod worse;

pub use accounts::{Conservation, Violation, violations};
pub use course::Course;
pub use decisions::{Decision, Decisions, Weight};
pub use delay::{Bin, Column, Delay, Series};
pub use estimates::{Differences, Errors, EstimateErrors, Estimates};
pub use percentile::Sorted;
pub use percentile::rounded;
pub use requests::slowdown;
pub use requests::{ByClass, Requests, Size, Slowdown, Slowdowns};
pub use round_trips::RoundTrips;
pub use spans::{ByTransfer, Quantiles, Spans, Waits, WhoWaits};
pub use summary::{ByL4s, Signals, Summary};
pub use transfers::{LARGE, PAUSE, SMALL};
pub use waits::{at_sendbox, at_sendbox_of};
pub use worse::Intake;

use crate::results::Run;

/// The analysis of one run, with all that reports need.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The figures of the run.
    pub summary: Summary,
    /// The waits in both queues over time.
    pub waits: Waits,
    /// Goodput and round trips over time.
    pub course: Course,
    /// Every request's slowdown, by class of size.
    pub slowdowns: ByClass<Slowdowns>,
    /// Every difference of the sendbox's estimates from the truth.
    pub estimate_errors: EstimateErrors,
    /// The controllers' decisions and the faults.
    pub decisions: Decisions,
}

impl Analysis {
    /// Analyses the record `run`.
    pub fn of(run: &Run) -> Self {
        let slowdowns = Slowdowns::of(run);
        let estimate_errors = EstimateErrors::of(run);
        let (waits, who_waits) = Waits::of(run);
        let summary = Summary::of(run, &slowdowns, &estimate_errors);
        Self {
            summary: Summary { who_waits, ..summary },
            waits,
            course: Course::of(run),
            slowdowns,
            estimate_errors,
            decisions: Decisions::of(run),
        }
    }
}
