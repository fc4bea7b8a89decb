//! Finds the sum that a flow counts for, by the prefix of its destination: in a file's prefixes, or
//! in a table of routes as it is at that moment.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};

use forebay_routes::table::{Table, best};
use ipnet::IpNet;

use crate::flows::collector::Grain;
use crate::flows::lookup::Lookup;
use crate::input::Users;
use crate::topology::RouterId;

/// The users of the network as its routes tell, for a [`Collector`](super::Collector).
#[derive(Clone, Debug)]
pub struct RouteUsers {
    /// The routes, which something else keeps up to date.
    pub table: Arc<RwLock<Table>>,
    /// The router of each next hop.
    pub next_hops: Arc<BTreeMap<IpAddr, RouterId>>,
}

impl RouteUsers {
    /// Returns the router where traffic to `destination` leaves the network: that of the next hop
    /// of the best route of the longest prefix.
    pub fn router(&self, destination: IpAddr) -> Option<RouterId> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let (_, routes) = table.longest(destination)?;
        let hop = best(routes)?.attributes.next_hop?;
        self.next_hops.get(&hop.to_canonical()).copied()
    }

    /// Returns the AS that originated the best route of the longest prefix of `source`.
    pub fn origin(&self, source: IpAddr) -> Option<u32> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let (_, routes) = table.longest(source)?;
        best(routes)?.attributes.origin()
    }
}

/// Where a collector looks for the users of a destination.
#[derive(Debug)]
pub(super) enum Destinations {
    /// In prefixes, each of which has the index of its sum.
    Prefixes { lookup: Lookup, keys: Vec<u32> },
    /// In routes; the index of a router's sum is its own.
    Routes(RouteUsers),
}

impl Destinations {
    /// Returns the destinations of `prefixes`, and the router of each sum.
    pub(super) fn of_prefixes(
        prefixes: &BTreeMap<IpNet, Users>,
        grain: Grain,
    ) -> (Self, Vec<RouterId>) {
        let (mut keys, mut routers) = (Vec::new(), Vec::new());
        let mut numbers: BTreeMap<RouterId, u32> = BTreeMap::new();
        for users in prefixes.values() {
            let new = routers.len() as u32;
            let key = match grain {
                Grain::Prefix => new,
                Grain::Router => *numbers.entry(users.router).or_insert(new),
            };
            if key == new {
                routers.push(users.router);
            }
            keys.push(key);
        }
        let lookup = Lookup::new(prefixes.keys().zip(0..));
        (Self::Prefixes { lookup, keys }, routers)
    }

    /// Returns the index of the sum of traffic to `destination`.
    pub(super) fn sum_of(&self, destination: IpAddr) -> Option<u32> {
        match self {
            Self::Prefixes { lookup, keys } => {
                lookup.longest(destination).and_then(|prefix| keys.get(prefix as usize).copied())
            }
            Self::Routes(routes) => routes.router(destination).map(|router| router.0),
        }
    }

    /// Returns the AS of a source, if routes are known.
    pub(super) fn origin(&self, source: IpAddr) -> Option<u32> {
        match self {
            Self::Prefixes { .. } => None,
            Self::Routes(routes) => routes.origin(source),
        }
    }
}
