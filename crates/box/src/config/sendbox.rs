use std::net::SocketAddr;
use std::path::Path;

use forebay_config::{ConfigError, Source, Spanned, load, parse};
use forebay_dataplane::{Method, Netdev};
use serde::Deserialize;

use super::bundle::{BundleTable, check_distinct};
use super::{BundleConfig, interface};

/// A sendbox: a wire between two interfaces that holds bundles to their rates.
#[derive(Debug)]
pub struct SendboxConfig {
    /// The interface towards the site's hosts.
    pub inside: Netdev,
    /// The interface towards the network.
    pub outside: Netdev,
    /// How frames get in and out.
    pub method: Method,
    /// Whether to poll the ports without ever sleeping: a core for a few microseconds.
    pub busy_poll: bool,
    /// Where feedback arrives; `None` if there are no bundles.
    pub listen: Option<SocketAddr>,
    /// The bundles. Traffic of no bundle passes unshaped.
    pub bundles: Vec<BundleConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    sendbox: SendboxTable,
    #[serde(default)]
    bundle: Vec<BundleTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SendboxTable {
    inside: Spanned<String>,
    outside: Spanned<String>,
    listen: Option<Spanned<SocketAddr>>,
    #[serde(default)]
    method: MethodName,
    #[serde(default)]
    busy_poll: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MethodName {
    #[default]
    Auto,
    Xdp,
    Packet,
}

impl SendboxConfig {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (file, source) = load(path)?;
        Self::check(file, &source)
    }

    /// Checks `text`; `path` is what errors call it, and what the files it names are relative to.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let (file, source) = parse(path, text)?;
        Self::check(file, &source)
    }

    fn check(file: File, source: &Source) -> Result<Self, ConfigError> {
        let table = file.sendbox;
        check_distinct(source, &file.bundle)?;
        if table.inside.get_ref() == table.outside.get_ref() {
            let message = "is the same interface as sendbox.inside";
            return Err(source.error_at(table.outside.span(), "sendbox.outside", message));
        }
        let listen = match (&table.listen, file.bundle.first()) {
            (None, Some(first)) => {
                let message = "with bundles, sendbox.listen must say where feedback arrives";
                return Err(source.error_at(first.name.span(), "bundle", message));
            }
            (listen, _) => listen.as_ref().map(|l| *l.get_ref()),
        };
        let mut bundles = Vec::new();
        for bundle in file.bundle {
            let listen = listen.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
            bundles.push(bundle.check(source, listen)?);
        }
        Ok(Self {
            inside: interface(source, "sendbox.inside", &table.inside)?,
            outside: interface(source, "sendbox.outside", &table.outside)?,
            method: match table.method {
                MethodName::Auto => Method::Auto,
                MethodName::Xdp => Method::Xdp,
                MethodName::Packet => Method::Packet,
            },
            busy_poll: table.busy_poll,
            listen,
            bundles,
        })
    }
}
