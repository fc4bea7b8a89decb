//! The linear programs of section 3.4, solved by HiGHS.

mod binned;
mod highs;
mod packing;
mod plain;
mod shape;
mod single;

pub(crate) use binned::binned;
pub use packing::{Bound, Packing};
pub(crate) use plain::{most_within, raised};
pub use single::exact;

/// Why a program was not solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SolveError {
    /// The bounds contradict each other.
    #[error("no allocation meets all bounds: floors ask for more than the links carry")]
    Infeasible,
    /// The program has more than 2^31 columns, rows or entries.
    #[error(
        "the network is too large for the solver: lower the number of paths or of aggregate flows"
    )]
    TooLarge,
    /// The solver had no memory left.
    #[error(
        "there is not enough memory for the solver: lower the number of paths or of aggregate flows"
    )]
    Memory,
    /// The solver refused a call, which is an error of this program.
    #[error("the solver refused its input: please report this with the input")]
    Refused,
    /// The solver gave up, with this model status.
    #[error(
        "the solver ended without an answer (HiGHS model status {0}): please report this with the input"
    )]
    Unsolved(i32),
}

/// The difference, in units, up to which two rates are equal. HiGHS's feasibility tolerance is 1e-7
/// for a row, and a rate is the sum of a few columns.
pub(crate) const SLACK: f64 = 1e-6;
