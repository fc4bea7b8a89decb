//! A socket of a running box.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use forebay_system::local;

/// Why a box refuses other users.
const REFUSED: &str = "it answers root and its own user only: run this with sudo";
/// Why a box that does not answer is not read.
pub(crate) const HANGS: &str = "it does not answer: does it hang?";

/// A socket of a running box for commands.
#[derive(Debug)]
pub struct BoxSocket {
    pub(crate) process: u32,
    pub(crate) path: PathBuf,
}

impl BoxSocket {
    pub(crate) fn new(process: u32, path: PathBuf) -> Self {
        Self { process, path }
    }

    /// Returns the number of the box's process, by the name of the socket.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Whether a process has the socket. The process does not notice the question.
    pub fn is_alive(&self) -> bool {
        // An abstract name goes with its process.
        let is_abstract = self.path.as_os_str().as_bytes().first() == Some(&0);
        is_abstract || local::is_alive(&self.path)
    }

    /// Connects to the box without waiting. The process that listens is the one that
    /// [`Self::process`] says, of root or of this user.
    ///
    /// # Errors
    /// If it has ended, or does not accept this command.
    pub fn connect(&self) -> io::Result<UnixStream> {
        let (stream, peer) = local::connect(&self.path).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => io::Error::other(HANGS),
            io::ErrorKind::PermissionDenied if e.raw_os_error().is_some() => {
                io::Error::new(e.kind(), REFUSED)
            }
            _ => e,
        })?;
        if peer.process != self.process {
            let why = format!("its socket belongs to the process {}", peer.process);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(stream)
    }
}
