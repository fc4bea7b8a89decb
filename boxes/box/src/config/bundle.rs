use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_config::{ConfigError, Prefix, RateValue, RemoteAddress, Source, Spanned, rate_bounds};
use forebay_control::{ControlConfig, ControllerKind, Detection};
use forebay_discipline::QueueOwner;
use forebay_units::Rate;
use forebay_wire::feedback::Key;
use ipnet::IpNet;
use serde::Deserialize;

use super::policy::{ClassTable, DEFAULT, Policy, PolicyValue};
use super::share::{Share, ShareKeys};
use super::steering::ClassifierTable;
use super::{PeerAddress, key, peer, unique};

/// The configuration of a sendbox's bundle.
#[derive(Debug)]
pub struct BundleConfig {
    /// The name of the bundle.
    pub name: String,
    /// The number by which both boxes know the bundle.
    pub id: u16,
    /// The destinations of the bundle's packets; the longest prefix decides.
    pub prefixes: Vec<IpNet>,
    /// The address at which its receivebox listens.
    pub receivebox: PeerAddress,
    /// The key that it shares with its receivebox.
    pub key: Key,
    /// The policy of its queue.
    pub policy: Policy,
    /// The controller that sets its rate.
    pub controller: ControllerKind,
    /// Whether elastic cross traffic switches it to pass-through.
    pub cross_traffic: Detection,
    /// Whether several paths open it.
    pub multipath: Detection,
    /// Whether a guard tests that holding it back helps.
    pub guard: bool,
    /// The lowest rate of its control loop.
    pub min_rate: Option<Rate>,
    /// The highest rate of its control loop.
    pub max_rate: Option<Rate>,
    /// Its part of the common limit, and its own.
    pub share: Share,
}

/// The table `[[bundle]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BundleTable {
    pub(super) name: Spanned<String>,
    pub(super) id: Spanned<u16>,
    pub(super) prefixes: Vec<Spanned<Prefix>>,
    pub(super) receivebox: Option<Spanned<RemoteAddress>>,
    pub(super) key_file: Spanned<PathBuf>,
    pub(super) policy: Option<Spanned<PolicyValue>>,
    #[serde(default)]
    pub(super) class: Vec<ClassTable>,
    #[serde(default)]
    pub(super) classifier: Vec<ClassifierTable>,
    #[serde(default)]
    pub(super) controller: ControllerKind,
    #[serde(default = "Detection::cross_traffic_default")]
    pub(super) cross_traffic: Detection,
    #[serde(default)]
    pub(super) multipath: Detection,
    pub(super) guard: Option<Spanned<bool>>,
    pub(super) min_rate: Option<Spanned<RateValue>>,
    pub(super) max_rate: Option<Spanned<RateValue>>,
    pub(super) weight: Option<Spanned<u32>>,
    pub(super) rate: Option<Spanned<RateValue>>,
    pub(super) ceil: Option<Spanned<RateValue>>,
}

impl BundleTable {
    /// Checks the table, which the file calls `of`: `bundle`, or a site's `peer`. All bundles have
    /// `limit` in common.
    pub(super) fn check(
        self,
        source: &Source,
        of: &str,
        listen: SocketAddr,
        owner: &QueueOwner,
        limit: Option<Rate>,
    ) -> Result<BundleConfig, ConfigError> {
        let key_of = |key: &str| format!("{of}.{key}");
        let address = if of == "peer" { "address" } else { "receivebox" };
        if self.prefixes.is_empty() {
            let message = "a bundle needs at least one destination prefix";
            return Err(source.error_at(self.name.span(), key_of("prefixes"), message));
        }
        let receivebox = match &self.receivebox {
            Some(receivebox) => peer(source, &key_of(address), receivebox, listen)?,
            None if of == "peer" => PeerAddress::learned(),
            None => {
                let message = "a bundle needs the address of its receivebox";
                return Err(source.error_at(self.name.span(), key_of(address), message));
            }
        };
        let takes_guard = self.controller.takes_guard(self.cross_traffic);
        let guarded = self.guard.as_ref().map_or(takes_guard, |guard| *guard.get_ref());
        if let Some(guard) = self.guard.as_ref().filter(|_| guarded && !takes_guard) {
            let message = "needs controller = \"forebay\" and cross_traffic = \"ignore\"";
            return Err(source.error_at(guard.span(), key_of("guard"), message));
        }
        let defaults = ControlConfig::default();
        let [min_rate, max_rate] = rate_bounds(
            source,
            of,
            [self.min_rate.as_ref(), self.max_rate.as_ref()],
            [defaults.min_rate, defaults.max_rate],
        )?;
        let Self { weight, rate, ceil, .. } = self;
        let share = ShareKeys { weight, rate, ceil }.check(source, of, limit)?;
        let place = self.policy.as_ref().map_or_else(|| self.name.span(), Spanned::span);
        let policy = Policy::check(
            source,
            of,
            owner,
            self.policy,
            DEFAULT,
            (self.class, self.classifier),
            &[
                ("the bundle's max_rate", max_rate),
                ("the bundle's ceil", share.ceil),
                ("the common max_rate", limit),
            ],
        )?;
        if policy.disciplines().any(|discipline| discipline.settings.l4s_burst.is_some()) {
            let message = "goes with `forebay link`, whose rate is known: a bundle's rate changes";
            return Err(source.error_at(place, key_of("policy.l4s_burst"), message));
        }
        Ok(BundleConfig {
            key: key::read(source, &key_of("key_file"), &self.key_file)?,
            policy,
            name: self.name.into_inner(),
            id: self.id.into_inner(),
            prefixes: self.prefixes.into_iter().map(|p| p.into_inner().0).collect(),
            receivebox,
            controller: self.controller,
            cross_traffic: self.cross_traffic,
            multipath: self.multipath,
            guard: guarded,
            min_rate,
            max_rate,
            share,
        })
    }
}

/// Refuses names, ids and prefixes that occur twice.
pub(super) fn check_distinct(source: &Source, bundles: &[BundleTable]) -> Result<(), ConfigError> {
    unique(source, "bundle.name", bundles.iter().map(|b| &b.name))?;
    unique(source, "bundle.id", bundles.iter().map(|b| &b.id))?;
    unique(source, "bundle.prefixes", bundles.iter().flat_map(|b| &b.prefixes))
}
