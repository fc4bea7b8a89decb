//! Completion scripts and manual pages, generated from the arguments of a program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use clap_complete::Shell;

use crate::terminal::{fail, print};

/// The commands that print or write what is generated from the arguments.
#[derive(Debug, Subcommand)]
pub enum Generate {
    /// Print a completion script: add `source <(PROGRAM completions bash)` to your shell's start.
    Completions {
        /// The shell that will read it.
        shell: Shell,
    },
    /// Write a manual page for each command.
    Man {
        /// The directory for the pages.
        directory: PathBuf,
    },
}

impl Generate {
    /// Runs the command for the program whose arguments are `command`.
    pub fn run(&self, command: clap::Command) -> ExitCode {
        match self {
            Self::Completions { shell } => completions(command, *shell),
            Self::Man { directory } => man(command, directory),
        }
    }
}

fn completions(mut command: clap::Command, shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(shell, &mut command, name, &mut script);
    // A reader that has ended wants no more.
    let _ = print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

fn man(command: clap::Command, directory: &Path) -> ExitCode {
    let write = || {
        fs::create_dir_all(directory)?;
        clap_mangen::generate_to(command, directory)
    };
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&format!("cannot write to {}: {e}", directory.display()), 1),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};
    use forebay_test_support::Dir;

    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let prefix = Arg::new("prefix").value_name("PREFIX");
        let site = Command::new("site").subcommand(Command::new("init").arg(prefix));
        let program = Command::new("forebay").subcommand(site).subcommand(Command::new("link"));
        let dir = Dir::new("man");
        let directory = dir.path().join("pages");
        assert_eq!(man(program, &directory), ExitCode::SUCCESS);
        let page = fs::read_to_string(directory.join("forebay-site-init.1")).unwrap();
        assert!(page.contains("PREFIX"), "{page}");
        assert!(fs::read_dir(&directory).unwrap().count() >= 4);
    }
}
