//! The log of a program, on standard error.

use std::fmt::{self, Write};
use std::io::IsTerminal;

use clap::ArgAction;
use forebay_system::output;
use forebay_system::text::Escaper;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format;

/// The flag that makes a program log more.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Verbosity {
    /// Log more: once for debug messages, twice for traces.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

impl Verbosity {
    /// Returns the arguments that give another program the same verbosity.
    pub fn arguments(self) -> impl Iterator<Item = &'static str> {
        std::iter::repeat_n("-v", self.verbose.into())
    }

    /// Sets up the log of this process.
    pub fn set_up(self) {
        let level = match self.verbose {
            0 => LevelFilter::INFO,
            1 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_writer(|| output::Log)
            // A line that cannot be written is counted by the writer. The layer would panic
            // instead.
            .log_internal_errors(false)
            .with_ansi(std::io::stderr().is_terminal())
            .with_target(false)
            .fmt_fields(format::debug_fn(write_field).delimited(" "))
            .init();
    }
}

/// Writes a part of a line of the log. Its control characters are escaped, since it may have what
/// others wrote.
fn write_field(out: &mut format::Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let mut out = Escaper(out);
    match field.name() {
        "message" => write!(out, "{value:?}"),
        name => write!(out, "{name}={value:?}"),
    }
}
