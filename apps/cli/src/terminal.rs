//! Output, files and signals, for all commands.

use std::error::Error;
use std::fmt::Display;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use forebay_system::output;
use forebay_system::text::escaped_lines;

use crate::programs;

/// The reason for which a command fails.
pub type Failure = Box<dyn Error>;

/// Returns a new flag of type `T`, such as a request to stop, that Ctrl-C and SIGTERM `raise`.
///
/// # Errors
/// If the process already has a handler of signals, or the system refuses it.
pub fn raised_by_signals<T>(raise: fn(&T)) -> Result<T, ctrlc::Error>
where
    T: Clone + Default + Send + 'static,
{
    let flag = T::default();
    let handled = flag.clone();
    ctrlc::set_handler(move || raise(&handled))?;
    Ok(flag)
}

/// Prints `text` to standard output. A reader that has ended wants no more, which is no error.
/// Control characters in it are escaped, since names in it may be of others.
///
/// # Errors
/// If standard output cannot be written, for example to a full disk.
pub fn print(text: &str) -> io::Result<()> {
    print_if_read(text).map(drop)
}

/// Prints as [`print`] does, and returns whether there is a reader still.
///
/// # Errors
/// As [`print`].
pub fn print_if_read(text: &str) -> io::Result<bool> {
    print_as_it_is(&escaped_lines(text))
}

/// Prints as [`print_if_read`] does, after an escape sequence that clears the terminal.
///
/// # Errors
/// As [`print`].
pub fn print_on_cleared_screen(text: &str) -> io::Result<bool> {
    print_as_it_is(&format!("\x1b[H\x1b[2J{}", escaped_lines(text)))
}

/// Prints a text whose control characters the caller has escaped, and returns whether there is a
/// reader still.
///
/// # Errors
/// As [`print`].
pub fn print_as_it_is(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true),
    }
}

/// Prints a text for people to standard output, unless JSON goes there, which then is alone.
///
/// # Errors
/// As [`print`].
pub fn print_beside(json: Option<&Path>, text: &str) -> io::Result<()> {
    if json.is_some_and(is_standard_output) { Ok(()) } else { print(text) }
}

/// Whether `path` is `-`, which stands for standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a line on the progress of a command to standard error, if it can be written at once. It
/// stays one line.
pub fn note(line: &str) {
    output::stderr().line(line);
}

/// Writes a message with this program's name, as [`note`] does.
pub fn warn(message: impl Display) {
    note(&format!("{}: {message}", programs::own_name()));
}

/// Prints an error with this program's name, mostly as one line, and returns the exit status.
pub fn fail(error: &dyn Display, code: u8) -> ExitCode {
    output::stderr().paragraph(&format!("{}: {error}", programs::own_name()));
    ExitCode::from(code)
}

/// Writes `text` to the file `path`, and creates its directory first. The path `-` is standard
/// output.
///
/// # Errors
/// If the file or its directory cannot be written.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if is_standard_output(path) {
        return Ok(print(text)?);
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    }
    Ok(fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?)
}
