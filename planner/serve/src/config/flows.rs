//! The table `[flows]`: demands measured from flow records.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use forebay_config::{ConfigError, DurationValue, Source, Spanned};
use serde::Deserialize;

use super::{File, MAX_ADDRESSES};

/// The length of a window in milliseconds; the limits are those of a round's interval.
const WINDOW: std::ops::RangeInclusive<u64> = 1000..=86_400_000;
/// The delay in milliseconds. Routers usually report long flows after half an hour at most.
const DELAY: std::ops::RangeInclusive<u64> = 0..=7_200_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowsTable {
    /// Empty if records are read from Kafka only.
    listen: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) exporters: PathBuf,
    window: Option<Spanned<DurationValue>>,
    delay: Option<Spanned<DurationValue>>,
}

/// How demands are measured from flow records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flows {
    /// The UDP addresses that receive messages.
    pub listen: Vec<SocketAddr>,
    /// The length of the window.
    pub window: Duration,
    /// The longest delay of a report after the traffic that it is about.
    pub delay: Duration,
}

impl File {
    /// Reads the table `[flows]`; the default window is as long as a round's `interval`.
    pub(super) fn flows(
        &self,
        source: &Source,
        interval: Duration,
    ) -> Result<Option<Flows>, ConfigError> {
        let Some(table) = &self.flows else { return Ok(None) };
        if let Some(demands) = &self.serve.get_ref().demands {
            let message = "demands are measured by [flows]: remove one of the two";
            return Err(source.error_at(demands.span(), "serve.demands", message));
        }
        let table = table.get_ref();
        let given = table.listen.as_ref().map_or(&[][..], |listen| listen.get_ref());
        let addresses = given.iter().map(|address| {
            address.get_ref().parse().map_err(|_| {
                let message =
                    "write an address and a port, as in \"0.0.0.0:4739\" or \"[::]:4739\"";
                source.error_at(address.span(), "flows.listen", message)
            })
        });
        let listen: Vec<SocketAddr> = addresses.collect::<Result<_, _>>()?;
        let relayed = self.kafka.is_some() && table.listen.is_none();
        if (listen.is_empty() && !relayed) || listen.len() > MAX_ADDRESSES {
            let message = format!("write 1 to {MAX_ADDRESSES} addresses");
            let span = self.flows.as_ref().map_or(0..0, Spanned::span);
            let span = table.listen.as_ref().map_or(span, Spanned::span);
            return Err(source.error_at(span, "flows.listen", message));
        }
        let time = |key: &str,
                    value: &Option<Spanned<DurationValue>>,
                    usual: Duration,
                    range: std::ops::RangeInclusive<u64>,
                    message: &str| match value {
            None => Ok(usual),
            Some(value) => {
                let millis = value.get_ref().0.0 / 1_000_000;
                match range.contains(&millis) {
                    true => Ok(Duration::from_millis(millis)),
                    false => Err(source.error_at(value.span(), format!("flows.{key}"), message)),
                }
            }
        };
        let minute = Duration::from_secs(60);
        let window =
            time("window", &table.window, interval, WINDOW, "write a time from 1 s to 1440 min")?;
        let delay = time("delay", &table.delay, minute, DELAY, "write a time up to 120 min")?;
        Ok(Some(Flows { listen, window, delay }))
    }
}
