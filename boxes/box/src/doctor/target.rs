//! The needs of a configuration.

use std::path::Path;

use forebay_config::{Configuration, load};
use forebay_dataplane::{Method, Pool};
use forebay_tc::Foreign;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Role;
use crate::config::{Dataplane, ReceiveboxConfig, SendboxConfig, SiteConfig};
use crate::sendbox;

/// A configuration as far as it can be read.
pub(super) struct Target {
    pub(super) file: String,
    pub(super) role: Role,
    /// The interfaces that it names, the outer one first.
    pub(super) interfaces: Vec<String>,
    pub(super) config: Result<Config, String>,
}

pub(super) enum Config {
    Sendbox(SendboxConfig),
    Receivebox(ReceiveboxConfig),
}

/// The parts of a file that show its purpose, even if something else in it is wrong.
#[derive(Default, Deserialize)]
struct Outline {
    site: Option<Site>,
    receivebox: Option<Receivebox>,
    sendbox: Option<Sendbox>,
    #[serde(flatten)]
    _rest: std::collections::BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct Site {
    interface: Option<String>,
}

#[derive(Deserialize)]
struct Receivebox {
    interface: Option<String>,
}

#[derive(Deserialize)]
struct Sendbox {
    dataplane: Option<String>,
    inside: Option<String>,
    outside: Option<String>,
}

impl Target {
    pub(super) fn load(path: &Path) -> Self {
        let outline = load::<Outline>(path).map(|(outline, _)| outline).unwrap_or_default();
        let file = path.display().to_string();
        if let Some(table) = outline.site {
            let config = SiteConfig::load(path).map(|site| Config::Sendbox(site.into()));
            return Self {
                file,
                role: Role::SendboxKernel,
                interfaces: table.interface.into_iter().collect(),
                config: config.map_err(|e| e.to_string()),
            };
        }
        if let Some(table) = outline.receivebox {
            let config = ReceiveboxConfig::load(path).map(Config::Receivebox);
            return Self {
                file,
                role: Role::Receivebox,
                interfaces: table.interface.into_iter().collect(),
                config: config.map_err(|e| e.to_string()),
            };
        }
        let table = outline.sendbox;
        let kernel = table.as_ref().is_some_and(|t| t.dataplane.as_deref() == Some("kernel"));
        let interfaces = table.map(|t| [t.outside, t.inside]).into_iter().flatten().flatten();
        let config = SendboxConfig::load(path).map(Config::Sendbox);
        Self {
            file,
            role: if kernel { Role::SendboxKernel } else { Role::SendboxUser },
            interfaces: interfaces.collect(),
            config: config.map_err(|e| e.to_string()),
        }
    }

    pub(super) fn sendbox(&self) -> Option<&SendboxConfig> {
        match &self.config {
            Ok(Config::Sendbox(config)) => Some(config),
            _ => None,
        }
    }

    pub(super) fn receivebox(&self) -> Option<&ReceiveboxConfig> {
        match &self.config {
            Ok(Config::Receivebox(config)) => Some(config),
            _ => None,
        }
    }

    pub(super) fn method(&self) -> Method {
        match self.sendbox().map(|c| &c.dataplane) {
            Some(Dataplane::User(ports)) => ports.method,
            _ => Method::Auto,
        }
    }

    pub(super) fn take_over(&self) -> bool {
        let dataplane = self.sendbox().map(|c| &c.dataplane);
        matches!(dataplane, Some(Dataplane::Kernel { foreign: Foreign::Replace }))
    }

    /// Returns the bytes of the frame pool of a sendbox in user space.
    pub(super) fn pool(&self) -> u64 {
        let Some(config) = self.sendbox() else { return 0 };
        let Dataplane::User(ports) = &config.dataplane else { return 0 };
        let mtu = config.outside.mtu.max(ports.inside.mtu);
        u64::from(sendbox::chunks(&config.bundles, mtu)) * u64::from(Pool::chunk_of(mtu))
    }
}
