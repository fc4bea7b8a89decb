//! The history of running boxes.
//!
//! A box does not write to disk while it runs. `forebay watch` is a process of its own: it asks all
//! boxes of its network namespace for their state every second, as `forebay status` does, and keeps
//! the last hour by the second, the last day by the minute, and the log of events.
//!
//! Start at [`run()`]. [`Recorder`] turns states into a history, and [`store::Store`] keeps it in a
//! file. The page shows it over HTTP, and [`explain`] tells it in sentences.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod bands;
mod event;
mod http;
mod page;
mod query;
mod recorder;
mod run;
mod series;
pub mod store;
mod story;

pub use event::{EVENT_VERSION, LogEvent, kind};
pub use recorder::{Live, Recorder, Trouble};
pub use run::{Error, Options, now, run};
pub use series::{Direction, Mode, Range, Row, Sample, Series};
pub use story::explain;
