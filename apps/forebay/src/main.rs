//! The program `forebay`: it reads arguments and returns an exit status. All work is done in the
//! other crates. The laboratory and the planner are programs of their own, which this one becomes
//! for `forebay lab`, `demo`, `stack` and `plan`.

#![forbid(unsafe_code)]

mod boxes;
mod check;
mod cli;
mod l4s;
mod other;
mod reload;
#[cfg(any(feature = "exporter", feature = "watch"))]
mod service;
mod site;
mod status;
mod upgrade;
#[cfg(feature = "watch")]
mod watch;

use std::process::ExitCode;

use clap::Parser;
use forebay_cli::programs::{LAB, PLAN};
use forebay_cli::terminal::fail;
use forebay_config::Configuration;
use forebay_system::privileges;
use forebay_vhost::VhostConfig;

use crate::cli::{Cli, Command, VhostArgs};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let verbosity = cli.verbosity;
    verbosity.set_up();
    match cli.command {
        Command::Demo(args) => other::run(LAB, "forebay", Some("demo"), verbosity, args),
        Command::Lab(args) => other::run(LAB, "forebay lab", None, verbosity, args),
        Command::Stack(args) => other::run(LAB, "forebay", Some("stack"), verbosity, args),
        Command::Plan(args) => other::run(PLAN, "forebay plan", None, verbosity, args),
        Command::L4s(args) => l4s::run(&args),
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
        Command::Generate(command) => command.run(<Cli as clap::CommandFactory>::command()),
        Command::ResolveNames => boxes::resolve_names(),
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
