//! An ISP with its neighbours: the topology, the content providers with their entries, and demands.

use std::collections::BTreeSet;

use forebay_units::Rate;

use crate::topology::{RouterId, Topology};

/// The most providers in a network.
pub const MAX_PROVIDERS: usize = 1000;
/// The most entries of one provider.
pub const MAX_ENTRIES: usize = 1000;

/// A point where a provider hands over traffic to the ISP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The ingress router.
    pub router: RouterId,
    /// The capacity of the interconnection; `None` if it is no limit.
    pub capacity: Option<Rate>,
}

/// A content provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// The provider's name, which is unique.
    pub name: String,
    /// Whether the provider follows hints.
    pub participates: bool,
    /// The provider's weight under contention, beside its demand: above 0, and neutral at 1.
    pub weight: f64,
    /// The provider's entries, at least one.
    pub entries: Vec<Entry>,
}

/// The present traffic of a provider through one of its entries to the users behind one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The index of the provider in [`Network::providers`].
    pub provider: u32,
    /// The index of the entry in [`Provider::entries`].
    pub entry: u32,
    /// The router of the users, or the boundary router in front of them.
    pub egress: RouterId,
    /// The rate that the provider would send.
    pub rate: Rate,
}

/// An ISP with its neighbours and their demands.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The routers and links.
    pub topology: Topology,
    /// The content providers.
    pub providers: Vec<Provider>,
    /// The demands of the providers.
    pub demands: Vec<Demand>,
    /// Entries that a provider wants to avoid for the users behind a router: provider, entry and
    /// router. Hints do not name them; present traffic through them stays.
    pub avoided: BTreeSet<(u32, u32, RouterId)>,
}
