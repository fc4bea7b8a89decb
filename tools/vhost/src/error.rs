use std::io;
use std::path::PathBuf;

/// Why the back end could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong; nothing was changed.
    #[error(transparent)]
    Config(#[from] forebay_config::ConfigError),
    /// A port cannot be opened.
    #[error(transparent)]
    Dataplane(#[from] forebay_dataplane::Error),
    /// The settings of the scheduled buffer are wrong.
    #[error("the scheduled buffer: {0}")]
    Scheduler(#[from] forebay_discipline::BuildError),
    /// A virtual machine's socket cannot be created.
    #[error("socket {}: {source}", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// Another process listens on a virtual machine's socket.
    #[error("socket {}: another process listens on it; end that process first", .0.display())]
    SocketInUse(PathBuf),
    /// The TAP device cannot be opened.
    #[error(
        "TAP device `{name}`: {source} (run as root, or create a persistent device for this user)"
    )]
    Tap {
        /// Name of the device.
        name: String,
        /// Error of the system call.
        source: io::Error,
    },
    /// A thread, a signal handler or an event descriptor cannot be created.
    #[error("cannot set up the back end: {0}")]
    System(#[from] io::Error),
}

impl Error {
    /// Exit status of a command that ends with this error: 2 for a wrong configuration, 1 for all
    /// other errors.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Scheduler(_) => 2,
            _ => 1,
        }
    }
}
