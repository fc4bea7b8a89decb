//! The program `forebay-lab`, which `forebay lab`, `forebay demo` and `forebay stack` run: it reads
//! arguments and returns an exit status. All work is done in the crates of the laboratory. Its
//! engines start the boxes as the program `forebay`.

#![forbid(unsafe_code)]

mod cli;
mod lab;
mod stack;

use std::process::ExitCode;

use clap::Parser;
use forebay_guest::zd;
use forebay_lab::uml;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.verbosity.set_up();
    match cli.command {
        Command::Lab(command) => lab::run(&command),
        Command::Demo(args) => lab::demo(&args),
        Command::Stack(args) => stack::run(&args),
        Command::Check { file } => lab::check(&file),
        #[cfg(feature = "generate")]
        Command::Generate(command) => command.run(<Cli as clap::CommandFactory>::command()),
        Command::Agent => lab::agent(),
        Command::LinkEmulator => lab::link_emulator(),
        Command::Guest => uml::guest(),
        Command::ZdGuest => zd::guest(),
    }
}
