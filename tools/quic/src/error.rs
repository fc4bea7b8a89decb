use forebay_queue::ConfigError;

/// The reason why a socket was not created.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is out of range.
    #[error("the egress cannot be set up: {0}")]
    Config(#[from] ConfigError),
    /// The thread that sends could not be started.
    #[error("the thread that sends packets was not started: {0}; raise the limit on threads")]
    Thread(#[source] std::io::Error),
}
