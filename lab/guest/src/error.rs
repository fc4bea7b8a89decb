//! Why a run fails.

/// Why a run failed. Everything that it had set up is removed by then.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was interrupted, as asked by an [`Interrupt`](crate::Interrupt).
    #[error("interrupted")]
    Interrupted,
    /// It cannot run on this machine; the text says why and what to change.
    #[error("{0}")]
    Unfit(String),
    /// A command of the system failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The command line.
        command: String,
        /// The text on standard error.
        message: String,
    },
    /// A process of the run ended early, or never became ready.
    #[error("{process} {what}:\n{stderr}")]
    Process {
        /// The name of the process.
        process: String,
        /// A description of what it did.
        what: String,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// The attempted action.
        what: String,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// Returns a function for `map_err` that reports a failed attempt at `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
