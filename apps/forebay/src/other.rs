//! Commands that another program runs: `forebay lab`, `demo`, `stack` and `plan`.

use std::ffi::OsString;
use std::process::ExitCode;

use forebay_cli::log::Verbosity;
use forebay_cli::programs::Program;
use forebay_cli::terminal::fail;

use crate::cli::OtherArgs;

/// Becomes `program`, which sees `shown` as its own name, with its `command`, if that is not the
/// whole program, and the arguments as they are.
pub(crate) fn run(
    program: Program,
    shown: &str,
    command: Option<&'static str>,
    verbosity: Verbosity,
    args: OtherArgs,
) -> ExitCode {
    let first = verbosity.arguments().chain(command).map(OsString::from);
    fail(&program.become_it(shown, first.chain(args.arguments)), 2)
}
