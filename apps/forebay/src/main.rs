//! The `forebay` command: it reads arguments and returns an exit status. All work is done in the
//! other crates.
//!
//! The feature `plan`, on by default, is the planner with its solver and its service. The build for
//! `make demo` goes without.

#![forbid(unsafe_code)]

mod boxes;
mod check;
mod cli;
#[cfg(feature = "generate")]
mod generate;
mod l4s;
mod lab;
#[cfg(feature = "plan")]
mod plan;
mod reload;
mod site;
mod stack;
mod status;
mod terminal;
mod upgrade;
#[cfg(feature = "watch")]
mod watch;

use std::fmt::{self, Write};
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use forebay_config::Configuration;
use forebay_guest::zd;
use forebay_lab::uml;
use forebay_system::text::Escaper;
use forebay_system::{output, privileges};
use forebay_vhost::VhostConfig;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format;

use crate::cli::{Cli, Command, VhostArgs};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let level = match cli.verbose {
        0 => tracing_subscriber::filter::LevelFilter::INFO,
        1 => tracing_subscriber::filter::LevelFilter::DEBUG,
        _ => tracing_subscriber::filter::LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| output::Log)
        // A line that cannot be written is counted by the writer. The layer would panic instead.
        .log_internal_errors(false)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .fmt_fields(format::debug_fn(write_field).delimited(" "))
        .init();
    match cli.command {
        Command::Demo(args) => lab::demo(&args),
        Command::Lab(args) => lab::run(&args),
        Command::L4s(args) => l4s::run(&args),
        Command::Stack(args) => stack::run(&args),
        #[cfg(feature = "plan")]
        Command::Plan(args) => plan::run(&args),
        #[cfg(not(feature = "plan"))]
        Command::Plan { .. } => fail(&"this build has no planner: build it with `make build`", 2),
        Command::Site(args) => boxes::site(&args),
        Command::Sendbox(args) => boxes::sendbox(&args),
        Command::Receivebox(args) => boxes::receivebox(&args),
        Command::Link(args) => boxes::link(&args),
        Command::Vhost(args) => vhost(&args),
        Command::Status(args) => status::status(&args),
        Command::Reload(args) => reload::reload(&args),
        Command::Upgrade(args) => upgrade::upgrade(&args),
        #[cfg(feature = "exporter")]
        Command::Exporter(args) => status::exporter(&args),
        #[cfg(feature = "watch")]
        Command::Watch(args) => watch::watch(&args),
        #[cfg(feature = "watch")]
        Command::Explain(args) => watch::explain(&args),
        #[cfg(feature = "watch")]
        Command::Events(args) => watch::events(&args),
        #[cfg(feature = "watch")]
        Command::Top => watch::top(),
        Command::Check { file, show } => check::check(&file, show),
        Command::Doctor { config, json } => boxes::doctor(config.as_deref(), json),
        Command::Detach { interfaces } => boxes::detach(&interfaces),
        Command::Keygen { file } => boxes::keygen(&file),
        #[cfg(feature = "generate")]
        Command::Completions { shell } => generate::completions(shell),
        #[cfg(feature = "generate")]
        Command::Man { directory } => generate::man(&directory),
        Command::ResolveNames => boxes::resolve_names(),
        Command::Agent => lab::agent(),
        Command::LinkEmulator => lab::link_emulator(),
        Command::Guest => uml::guest(),
        Command::ZdGuest => zd::guest(),
    }
}

fn vhost(args: &VhostArgs) -> ExitCode {
    privileges::protect();
    let load = VhostConfig::load(&args.config).map_err(forebay_vhost::Error::from);
    match load.and_then(|config| forebay_vhost::run(config, args.json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e, e.exit_code()),
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

/// Prints an error, mostly as one line, and returns the exit status.
fn fail(error: &dyn fmt::Display, code: u8) -> ExitCode {
    output::stderr().paragraph(&format!("forebay: {error}"));
    ExitCode::from(code)
}
