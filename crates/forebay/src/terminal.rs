//! Output, files and interrupts, for all commands.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use forebay_lab::engine::Interrupt;

/// The reason for which a command fails.
pub(crate) type Failure = Box<dyn Error>;

/// Makes Ctrl-C and SIGTERM request an orderly stop.
pub(crate) fn interrupt() -> Result<Interrupt, Failure> {
    let interrupt = Interrupt::default();
    let raised = interrupt.clone();
    ctrlc::set_handler(move || raised.raise())?;
    Ok(interrupt)
}

/// Prints `text` to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes `text` to the file `path`, and creates its directory first.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(|e| format!("cannot make {}: {e}", dir.display()))?;
    }
    Ok(fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?)
}
