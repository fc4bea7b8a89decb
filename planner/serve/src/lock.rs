//! A lock between processes: the process that announces routes holds the lock of its journal.

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use forebay_system::private;

/// The interval at which a lock is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// A lock, held until it is dropped or the process is dead.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The kernel releases the lock with this descriptor.
    _file: File,
}

impl Lock {
    /// Takes the lock of `path`, which is a separate file, `PATH.lock`. Waits up to `patience` for
    /// another process.
    ///
    /// # Errors
    /// If the file cannot be created; `WouldBlock` if another process still holds the lock.
    pub(crate) fn of(path: &Path, patience: Duration) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let file = private::file(&path.with_file_name(name))?;
        let end = Instant::now() + patience;
        loop {
            let error = match private::lock(&file, false) {
                Ok(true) => return Ok(Self { _file: file }),
                Ok(false) => io::ErrorKind::WouldBlock.into(),
                Err(error) => error,
            };
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock if Instant::now() < end => thread::sleep(RETRY),
                _ => return Err(error),
            }
        }
    }
}
