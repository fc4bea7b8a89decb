use forebay_config::{ConfigError, Source, Spanned};
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
}

impl Ports {
    /// Checks the ports of the table `of`.
    pub(super) fn check(
        source: &Source,
        of: &str,
        [inside, outside]: [&Spanned<String>; 2],
        method: Method,
        busy_poll: bool,
    ) -> Result<Self, ConfigError> {
        if inside.get_ref() == outside.get_ref() {
            let message = format!("is the same interface as {of}.inside");
            return Err(source.error_at(outside.span(), format!("{of}.outside"), message));
        }
        Ok(Self { inside: interface(source, &format!("{of}.inside"), inside)?, method, busy_poll })
    }
}
