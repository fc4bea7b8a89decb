//! The program `forebay-plan`, which `forebay plan` runs: it reads arguments and returns an exit
//! status. All work is done in the crates of the planner.

#![forbid(unsafe_code)]

mod cli;
mod plan;

use std::process::ExitCode;

use clap::Parser;
use forebay_lab::traffic;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.verbosity.set_up();
    match cli.command {
        Command::Plan(command) => plan::run(&command),
        #[cfg(feature = "generate")]
        Command::Generate(command) => command.run(<Cli as clap::CommandFactory>::command()),
        Command::Agent => traffic::main(),
    }
}
