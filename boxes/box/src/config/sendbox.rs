use std::net::SocketAddr;

use forebay_config::{ConfigError, Configuration, HostAddress, RateValue, Source, Spanned};
use forebay_dataplane::{Method, Netdev};
use forebay_discipline::QueueOwner;
use forebay_tc::{Features, Foreign};
use forebay_units::Rate;
use serde::Deserialize;

use super::bundle::{BundleTable, check_distinct};
use super::share::check_limit;
use super::{BundleConfig, Ports, interface, kernel_interface, own};

/// The configuration of a sendbox, which holds bundles to their rates.
#[derive(Debug)]
pub struct SendboxConfig {
    /// The interface towards the network.
    pub outside: Netdev,
    /// The dataplane that moves and queues packets.
    pub dataplane: Dataplane,
    /// The address at which feedback arrives; `None` without bundles.
    pub listen: Option<SocketAddr>,
    /// The bundles. Traffic of no bundle passes unshaped.
    pub bundles: Vec<BundleConfig>,
    /// The common limit of all bundles.
    pub limit: Option<Rate>,
}

/// The dataplane that moves and queues packets.
#[derive(Debug)]
pub enum Dataplane {
    /// The sendbox itself, as a wire between two interfaces.
    User(Ports),
    /// The kernel, which routes or bridges as usual, and queues at the outer interface.
    Kernel {
        /// What to do with queues of another owner.
        foreign: Foreign,
    },
}

impl Dataplane {
    /// Returns the keys of the file that cannot change in a running process, with their values.
    pub(crate) fn fixed(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::User(Ports { inside, method, busy_poll, workers }) => vec![
                ("sendbox.dataplane", "user".to_owned()),
                ("sendbox.inside", inside.name.clone()),
                ("sendbox.method", format!("{method:?}")),
                ("sendbox.busy_poll", busy_poll.to_string()),
                ("sendbox.workers", workers.map_or_else(String::new, |n| n.to_string())),
            ],
            Self::Kernel { foreign } => vec![
                ("sendbox.dataplane", "kernel".to_owned()),
                ("sendbox.take_over", format!("{foreign:?}")),
            ],
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    sendbox: SendboxTable,
    #[serde(default)]
    bundle: Vec<BundleTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SendboxTable {
    #[serde(default)]
    dataplane: DataplaneName,
    inside: Option<Spanned<String>>,
    outside: Spanned<String>,
    listen: Option<Spanned<HostAddress>>,
    method: Option<Spanned<Method>>,
    busy_poll: Option<Spanned<bool>>,
    workers: Option<Spanned<u8>>,
    take_over: Option<Spanned<bool>>,
    max_rate: Option<Spanned<RateValue>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DataplaneName {
    #[default]
    User,
    Kernel,
}

impl DataplaneName {
    fn queue_owner(self) -> QueueOwner {
        match self {
            Self::User => QueueOwner::Forebay,
            Self::Kernel => QueueOwner::Kernel(Features::probe().ok()),
        }
    }
}

impl Configuration for SendboxConfig {
    type File = File;

    fn check(file: File, source: &Source) -> Result<Self, ConfigError> {
        let table = file.sendbox;
        check_distinct(source, &file.bundle)?;
        let listen = match (&table.listen, file.bundle.first()) {
            (None, Some(first)) => {
                let message = "with bundles, sendbox.listen must say where feedback arrives";
                return Err(source.error_at(first.name.span(), "bundle", message));
            }
            (listen, _) => listen.as_ref().map(|l| own(source, "sendbox.listen", l)).transpose()?,
        };
        let owner = table.dataplane.queue_owner();
        let limit = table.max_rate.as_ref().map(|rate| rate.get_ref().0);
        let mut bundles = Vec::new();
        for bundle in file.bundle {
            let listen = listen.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
            bundles.push(bundle.check(source, "bundle", listen, &owner, limit)?);
        }
        check_limit(source, "sendbox", table.max_rate.as_ref(), &bundles)?;
        let dataplane = table.dataplane(source)?;
        Ok(Self { outside: table.outer(source)?, dataplane, listen, bundles, limit })
    }
}

impl SendboxTable {
    fn outer(&self, source: &Source) -> Result<Netdev, ConfigError> {
        match self.dataplane {
            DataplaneName::User => interface(source, "sendbox.outside", &self.outside),
            DataplaneName::Kernel => kernel_interface(source, "sendbox.outside", &self.outside),
        }
    }

    fn dataplane(&self, source: &Source) -> Result<Dataplane, ConfigError> {
        match self.dataplane {
            DataplaneName::User => {
                let message = "this goes with dataplane = \"kernel\" only";
                refuse(source, "sendbox.take_over", &self.take_over, message)?;
                self.ports(source).map(Dataplane::User)
            }
            DataplaneName::Kernel => {
                let message = "this goes with dataplane = \"user\" only";
                refuse(source, "sendbox.inside", &self.inside, message)?;
                refuse(source, "sendbox.method", &self.method, message)?;
                refuse(source, "sendbox.busy_poll", &self.busy_poll, message)?;
                refuse(source, "sendbox.workers", &self.workers, message)?;
                let take_over = self.take_over.as_ref().is_some_and(|t| *t.get_ref());
                let foreign = if take_over { Foreign::Replace } else { Foreign::Refuse };
                Ok(Dataplane::Kernel { foreign })
            }
        }
    }

    fn ports(&self, source: &Source) -> Result<Ports, ConfigError> {
        let Some(inside) = &self.inside else {
            let message = "with dataplane = \"user\", the interface towards the site's hosts must \
                           be given (`inside = ...`)";
            return Err(source.error_at(self.outside.span(), "sendbox.inside", message));
        };
        let method = self.method.as_ref().map(|m| *m.get_ref()).unwrap_or_default();
        let busy_poll = self.busy_poll.as_ref().is_some_and(|b| *b.get_ref());
        let interfaces = [inside, &self.outside];
        Ports::check(source, "sendbox", interfaces, method, busy_poll, self.workers.as_ref())
    }
}

/// Refuses a key that goes with the other dataplane.
fn refuse<T>(
    source: &Source,
    key: &str,
    value: &Option<Spanned<T>>,
    message: &str,
) -> Result<(), ConfigError> {
    value.as_ref().map_or(Ok(()), |v| Err(source.error_at(v.span(), key, message)))
}
