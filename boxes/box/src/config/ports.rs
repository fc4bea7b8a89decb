use forebay_config::{ConfigError, Source, Spanned};
use std::thread;

use forebay_dataplane::{Method, Netdev};

use super::interface;

/// The ports of a box that moves packets itself, beside its outer interface.
#[derive(Debug)]
pub struct Ports {
    /// The interface towards the hosts.
    pub inside: Netdev,
    /// How frames are received and sent.
    pub method: Method,
    /// Whether to poll the ports without sleeping, which saves a few microseconds and takes a core.
    pub busy_poll: bool,
    /// The largest number of threads that move packets; `None` is that of the processor's cores.
    pub workers: Option<usize>,
}

impl Ports {
    /// Checks the ports of the table `of`.
    pub(super) fn check(
        source: &Source,
        of: &str,
        [inside, outside]: [&Spanned<String>; 2],
        method: Method,
        busy_poll: bool,
        workers: Option<&Spanned<u8>>,
    ) -> Result<Self, ConfigError> {
        if inside.get_ref() == outside.get_ref() {
            let message = format!("is the same interface as {of}.inside");
            return Err(source.error_at(outside.span(), format!("{of}.outside"), message));
        }
        if let Some(zero) = workers.filter(|workers| *workers.get_ref() == 0) {
            let message = "is at least 1 (without this key: as many as there are cores)";
            return Err(source.error_at(zero.span(), format!("{of}.workers"), message));
        }
        let workers = workers.map(|workers| usize::from(*workers.get_ref()));
        let inside = interface(source, &format!("{of}.inside"), inside)?;
        Ok(Self { inside, method, busy_poll, workers })
    }

    /// Returns the largest number of threads that move packets.
    pub(crate) fn workers(&self) -> usize {
        self.workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into))
    }
}
