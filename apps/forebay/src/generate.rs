//! Completion scripts and manual pages, generated from the arguments of the command line.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::fail;
use crate::terminal::print;

pub(crate) fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "forebay", &mut script);
    // A reader that has ended wants no more.
    let _ = print(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

pub(crate) fn man(directory: &Path) -> ExitCode {
    let write = || {
        fs::create_dir_all(directory)?;
        clap_mangen::generate_to(Cli::command(), directory)
    };
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&format!("cannot write to {}: {e}", directory.display()), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_and_each_shell_a_script() {
        Cli::command().debug_assert();
        let directory = std::env::temp_dir().join(format!("fb-man-{}", std::process::id()));
        assert_eq!(man(&directory), ExitCode::SUCCESS);
        let page = fs::read_to_string(directory.join("forebay-site-init.1")).unwrap();
        let pages = fs::read_dir(&directory).unwrap().count();
        fs::remove_dir_all(&directory).unwrap();
        assert!(pages > Cli::command().get_subcommands().count(), "{pages} pages");
        assert!(page.contains("PREFIX"), "{page}");
    }
}
