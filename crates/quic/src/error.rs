use forebay_queue::ConfigError;

/// Why a socket was not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is out of range.
    #[error("the egress cannot be set up: {0}")]
    Config(#[from] ConfigError),
    /// The thread that sends was not started.
    #[error("the thread that sends packets was not started: {0}; raise the limit on threads")]
    Thread(#[source] std::io::Error),
}
