//! The history of running boxes.
//!
//! A box does not write to disk while it runs. `forebay watch` is a process of its own: it asks all
//! boxes of its network namespace for their state every second, as `forebay status` does, and keeps
//! the last hour by the second, the last day by the minute, and the log of events.
//!
//! Start at [`Recorder`], which turns states into a history; [`store::Store`] keeps it in a file.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod event;
mod recorder;
mod series;
pub mod store;

pub use event::{EVENT_VERSION, LogEvent, kind};
pub use recorder::{Live, Recorder, Trouble};
pub use series::{Direction, Mode, Range, Row, Sample, Series};
