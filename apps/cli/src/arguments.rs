//! Arguments that several commands have.

/// What the texts of `--help` say about the exit status.
pub const EXIT_STATUS: &str = "Exit status: 0 on success, 1 on failure, 2 for invalid arguments or files, 130 if interrupted.";

/// Parses a share from 0 to 1, given as a percentage.
///
/// # Errors
/// If the text is no percentage; the error says what to write.
pub fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>();
    match number {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a share from 0% to 100%".to_owned()),
    }
}

/// Asserts that every command and argument has a text for `--help`, for a test of a program.
///
/// # Panics
/// If one has none, or if the arguments contradict each other.
pub fn assert_documented(command: clap::Command) {
    fn check(command: &clap::Command) {
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{} {argument}", command.get_name());
        }
        for inner in command.get_subcommands() {
            assert!(inner.get_about().is_some(), "{}", inner.get_name());
            check(inner);
        }
    }
    command.clone().debug_assert();
    check(&command);
}
