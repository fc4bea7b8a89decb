//! One process at a time: who announces holds the lock of its journal.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether a lock is free.
const LOOK: Duration = Duration::from_millis(20);

/// Held until it is dropped, or the process is dead.
#[derive(Debug)]
pub(crate) struct Lock {
    /// The kernel lets the lock go with the descriptor.
    _file: File,
}

impl Lock {
    /// The lock of `path`, which is a file of its own beside it, `PATH.lock`. Waits up to `patience` for whoever has it.
    ///
    /// # Errors
    /// If the file cannot be made; `WouldBlock` if somebody still has it.
    pub(crate) fn of(path: &Path, patience: Duration) -> io::Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".lock");
        let options = || OpenOptions::new().create(true).truncate(false).write(true).to_owned();
        let file = options().open(path.with_file_name(name))?;
        let end = Instant::now() + patience;
        loop {
            // SAFETY: takes a descriptor that is open for the length of the call, and a number.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                return Ok(Self { _file: file });
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock if Instant::now() < end => thread::sleep(LOOK),
                _ => return Err(error),
            }
        }
    }
}
