use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reasons why a box cannot start, or has to stop.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong; nothing was touched.
    #[error(transparent)]
    Config(#[from] forebay_config::ConfigError),
    /// A port or a BPF program failed.
    #[error(transparent)]
    Dataplane(#[from] forebay_dataplane::Error),
    /// The kernel's queues failed.
    #[error(transparent)]
    Queues(#[from] forebay_tc::Error),
    /// The control address cannot be used.
    #[error("cannot listen on {address}: {source} (is it an address of this machine?)")]
    Listen {
        /// The control address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// A queueing discipline does not take its settings, or only the kernel has it.
    #[error("{of}: {source}")]
    Policy {
        /// The bundle or direction of the policy.
        of: String,
        /// The mistake in the settings.
        source: forebay_discipline::BuildError,
    },
    /// The controller does not take its settings.
    #[error("bundle {bundle}: {source}")]
    Control {
        /// The name of the bundle.
        bundle: String,
        /// The mistake in the settings.
        source: forebay_control::ConfigError,
    },
    /// A log or a result cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A log lacks records, since they could not be written.
    #[error("cannot write {}: {source}; at least {lost} records are lost", path.display())]
    Lost {
        /// The path of the file.
        path: PathBuf,
        /// The number of records that are known to be lost.
        lost: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The threads that move packets cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
    /// Signals cannot be waited for.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

impl Error {
    /// Returns the exit status of a command that ends with this error: 2 if the configuration is
    /// wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_) | Self::Policy { .. } | Self::Control { .. } | Self::Listen { .. } => 2,
            _ => 1,
        }
    }
}
