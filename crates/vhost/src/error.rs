use std::io;
use std::path::PathBuf;

/// Why the back end could not start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong; nothing was touched.
    #[error(transparent)]
    Config(#[from] forebay_config::ConfigError),
    /// A port.
    #[error(transparent)]
    Dataplane(#[from] forebay_dataplane::Error),
    /// The scheduled buffer does not take its settings.
    #[error("the scheduled buffer: {0}")]
    Scheduler(#[from] forebay_queue::ConfigError),
    /// A virtual machine's socket cannot be made.
    #[error("socket {}: {source}", path.display())]
    Socket {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process listens at a virtual machine's socket.
    #[error("socket {}: another process serves it; end that first", .0.display())]
    SocketInUse(PathBuf),
    /// The TAP device cannot be had.
    #[error("TAP device `{name}`: {source} (it needs root, or a persistent device of this user's)")]
    Tap {
        /// Its name.
        name: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A thread, a signal or an event cannot be had.
    #[error("cannot set up the back end: {0}")]
    System(#[from] io::Error),
}

impl Error {
    /// The exit code of a command that ends with this error: 2 where the user's configuration is
    /// wrong, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Scheduler(_) => 2,
            _ => 1,
        }
    }
}
