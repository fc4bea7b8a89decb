//! An ISP with its neighbours: the network, the content providers with their entry points, and what they send.

use std::collections::BTreeSet;

use forebay_units::Rate;

use crate::topology::{RouterId, Topology};

/// The most providers.
pub const MOST_PROVIDERS: usize = 1000;
/// The most entries of a provider.
pub const MOST_ENTRIES: usize = 1000;

/// Where a provider hands over traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The ingress router.
    pub router: RouterId,
    /// What the interconnection carries; `None` if it limits nothing.
    pub capacity: Option<Rate>,
}

/// A content provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// Its name, unique.
    pub name: String,
    /// Whether it follows hints.
    pub participates: bool,
    /// Its share against others under contention, beside its demand: 1 is neutral, and it is above 0.
    pub weight: f64,
    /// Its entry points, at least one.
    pub entries: Vec<Entry>,
}

/// What a provider sends through one of its entries to the users behind one router, at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The provider's number.
    pub provider: u32,
    /// The entry's number among the provider's.
    pub entry: u32,
    /// The router where the users are, or the boundary router before them.
    pub egress: RouterId,
    /// How much.
    pub rate: Rate,
}

/// An ISP with its neighbours.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The routers and links.
    pub topology: Topology,
    /// The neighbours.
    pub providers: Vec<Provider>,
    /// What they send.
    pub demands: Vec<Demand>,
    /// Entries that a provider does not want used for the users behind a router: provider, entry and router. It is told no
    /// hint to use them; what comes in there already is no business of this.
    pub avoided: BTreeSet<(u32, u32, RouterId)>,
}
