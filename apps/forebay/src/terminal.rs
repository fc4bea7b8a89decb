//! Output, files and interrupts, for all commands.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use forebay_lab::engine::Interrupt;
use forebay_lab::report;
use forebay_system::output;
use forebay_system::text::escaped_lines;

/// The reason for which a command fails.
pub(crate) type Failure = Box<dyn Error>;

/// Makes Ctrl-C and SIGTERM request an orderly stop.
pub(crate) fn interrupt() -> Result<Interrupt, Failure> {
    let interrupt = Interrupt::default();
    let raised = interrupt.clone();
    ctrlc::set_handler(move || raised.raise())?;
    Ok(interrupt)
}

/// Makes Ctrl-C and SIGTERM stop a service in an orderly way.
#[cfg(any(feature = "exporter", feature = "plan", feature = "watch"))]
pub(crate) fn stop() -> Result<forebay_web::Stop, ctrlc::Error> {
    let stop = forebay_web::Stop::default();
    let handler = stop.clone();
    ctrlc::set_handler(move || handler.stop())?;
    Ok(stop)
}

/// Prints that a service listens at `address`.
#[cfg(any(feature = "exporter", feature = "watch"))]
pub(crate) fn ready(address: std::net::SocketAddr) {
    // A closed standard output is no error.
    let _ = print(&format!("{{\"event\":\"ready\",\"listen\":\"{address}\"}}\n"));
}

/// Prints `text` to standard output. A reader that has ended wants no more, which is no error.
/// Control characters in it are escaped, since names in it may be of others.
pub(crate) fn print(text: &str) -> io::Result<()> {
    print_if_read(text).map(drop)
}

/// As [`print`], and returns whether there is a reader still.
pub(crate) fn print_if_read(text: &str) -> io::Result<bool> {
    print_as_it_is(&escaped_lines(text))
}

/// As [`print_if_read`], after an escape sequence that clears the terminal.
pub(crate) fn print_on_cleared_screen(text: &str) -> io::Result<bool> {
    print_as_it_is(&format!("\x1b[H\x1b[2J{}", escaped_lines(text)))
}

fn print_as_it_is(text: &str) -> io::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true),
    }
}

/// Prints a text for people to standard output, unless JSON goes there, which then is alone.
pub(crate) fn print_beside(json: Option<&Path>, text: &str) -> io::Result<()> {
    if json.is_some_and(is_standard_output) { Ok(()) } else { print(text) }
}

/// As [`print_beside`], for a report of the laboratory with tables, which may have bold type.
pub(crate) fn print_report_beside(json: Option<&Path>, text: &str) -> io::Result<()> {
    if json.is_some_and(is_standard_output) {
        return Ok(());
    }
    print_as_it_is(&report::printable(text)).map(drop)
}

/// Whether `path` is `-`, which stands for standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes a line on the progress of a command to standard error, if it can be written at once. It
/// stays one line.
pub(crate) fn note(line: &str) {
    output::stderr().line(line);
}

/// Writes `text` to the file `path`, and creates its directory first. The path `-` is standard
/// output.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if is_standard_output(path) {
        return Ok(print(text)?);
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    }
    Ok(fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?)
}
