use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_config::{
    ConfigError, Configuration, HostAddress, Prefix, RateValue, RemoteAddress, Source, Spanned,
};
use forebay_control::{ControllerKind, Detection};
use forebay_dataplane::Netdev;
use forebay_discipline::QueueOwner;
use forebay_tc::{Features, Foreign};
use forebay_units::Rate;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;

use super::bundle::BundleTable;
use super::policy::{ClassTable, PolicyValue};
use super::share::check_limit;
use super::{
    BundleConfig, Dataplane, PeerAddress, PeerConfig, SendboxConfig, kernel_interface, key, own,
    peer, unique,
};

/// The configuration of a site: a sendbox over the kernel's queues and a receivebox, at one
/// interface and one UDP port.
#[derive(Debug)]
pub struct SiteConfig {
    /// The interface towards the network.
    pub interface: Netdev,
    /// What to do with queues of another owner.
    pub foreign: Foreign,
    /// The address for messages of other sites.
    pub listen: SocketAddr,
    /// The bundles to other sites.
    pub bundles: Vec<BundleConfig>,
    /// The bundles from other sites.
    pub peers: Vec<PeerConfig>,
    /// The common limit of the bundles to other sites.
    pub limit: Option<Rate>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    site: SiteTable,
    peer: Vec<PeerTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteTable {
    interface: Spanned<String>,
    listen: Spanned<HostAddress>,
    #[serde(default)]
    prefixes: Vec<Prefix>,
    #[serde(default)]
    take_over: bool,
    max_rate: Option<Spanned<RateValue>>,
}

/// The sending half of a site, for what concerns only that.
impl From<SiteConfig> for SendboxConfig {
    fn from(site: SiteConfig) -> Self {
        Self {
            outside: site.interface,
            dataplane: Dataplane::Kernel { foreign: site.foreign },
            listen: Some(site.listen),
            bundles: site.bundles,
            limit: site.limit,
        }
    }
}

/// The table `[[peer]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerTable {
    name: Spanned<String>,
    address: Option<Spanned<RemoteAddress>>,
    prefixes: Vec<Spanned<Prefix>>,
    key_file: Spanned<PathBuf>,
    #[serde(default = "yes")]
    send: bool,
    #[serde(default = "yes")]
    receive: bool,
    policy: Option<Spanned<PolicyValue>>,
    #[serde(default)]
    class: Vec<ClassTable>,
    #[serde(default)]
    controller: ControllerKind,
    #[serde(default = "Detection::cross_traffic_default")]
    cross_traffic: Detection,
    #[serde(default)]
    multipath: Detection,
    guard: Option<Spanned<bool>>,
    min_rate: Option<Spanned<RateValue>>,
    max_rate: Option<Spanned<RateValue>>,
    weight: Option<Spanned<u32>>,
    rate: Option<Spanned<RateValue>>,
    ceil: Option<Spanned<RateValue>>,
}

const fn yes() -> bool {
    true
}

impl Configuration for SiteConfig {
    type File = File;

    fn check(file: File, source: &Source) -> Result<Self, ConfigError> {
        let File { site, peer } = file;
        let listen = own(source, "site.listen", &site.listen)?;
        unique(source, "peer.name", peer.iter().map(|p| &p.name))?;
        unique(source, "peer.prefixes", peer.iter().flat_map(|p| &p.prefixes))?;
        let owner = QueueOwner::Kernel(Features::probe().ok());
        let here: Vec<IpNet> = match site.prefixes.as_slice() {
            [] => vec![Ipv4Net::default().into(), Ipv6Net::default().into()],
            given => given.iter().map(|prefix| prefix.0).collect(),
        };
        let limit = site.max_rate.as_ref().map(|rate| rate.get_ref().0);
        let (mut bundles, mut peers) = (Vec::new(), Vec::new());
        for table in peer {
            table.check(source, (listen, limit), &owner, &here, (&mut bundles, &mut peers))?;
        }
        check_limit(source, "site", site.max_rate.as_ref(), &bundles)?;
        Ok(Self {
            interface: kernel_interface(source, "site.interface", &site.interface)?,
            foreign: if site.take_over { Foreign::Replace } else { Foreign::Refuse },
            listen,
            bundles,
            peers,
            limit,
        })
    }
}

impl PeerTable {
    /// Adds the bundles of both directions.
    fn check(
        self,
        source: &Source,
        (listen, limit): (SocketAddr, Option<Rate>),
        owner: &QueueOwner,
        here: &[IpNet],
        (bundles, peers): (&mut Vec<BundleConfig>, &mut Vec<PeerConfig>),
    ) -> Result<(), ConfigError> {
        let fail = |key: &str, message: &str| {
            Err(source.error_at(self.name.span(), format!("peer.{key}"), message))
        };
        if self.prefixes.is_empty() {
            return fail("prefixes", "name the prefixes of the hosts at the other site");
        }
        if !self.send && !self.receive {
            return fail("send", "with send = false and receive = false nothing is left to do");
        }
        let key = key::read(source, "peer.key_file", &self.key_file)?;
        let id = key.bundle_id().0;
        let address = match &self.address {
            Some(address) => peer(source, "peer.address", address, listen)?,
            None if self.receive => PeerAddress::learned(),
            // A receivebox alone says nothing before it hears something.
            None => return fail("address", "with receive = false nothing can tell it: give it"),
        };
        let theirs: Vec<IpNet> = self.prefixes.iter().map(|p| p.get_ref().0).collect();
        if self.receive {
            peers.push(PeerConfig {
                name: self.name.get_ref().clone(),
                id,
                prefixes: here.to_vec(),
                sources: theirs,
                sendbox: address,
                key,
            });
        }
        if self.send {
            let id = Spanned::new(self.key_file.span(), id);
            let table = BundleTable {
                name: self.name,
                id,
                prefixes: self.prefixes,
                receivebox: self.address,
                key_file: self.key_file,
                policy: self.policy,
                class: self.class,
                classifier: Vec::new(),
                controller: self.controller,
                cross_traffic: self.cross_traffic,
                multipath: self.multipath,
                guard: self.guard,
                min_rate: self.min_rate,
                max_rate: self.max_rate,
                weight: self.weight,
                rate: self.rate,
                ceil: self.ceil,
            };
            bundles.push(table.check(source, "peer", listen, owner, limit)?);
        }
        Ok(())
    }
}
