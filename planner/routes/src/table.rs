//! The table: the routes of each prefix, by the peer that they were learned from.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use prefix_trie::PrefixMap;

use crate::attributes::Attributes;
use crate::link_state::{Graph, Object};

/// The most of what a table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The peers, of all routers together.
    pub peers: usize,
    /// The routes, of all peers together.
    pub routes: usize,
}

impl Default for Limits {
    /// Returns room for 1024 peers and four million routes: four full tables.
    fn default() -> Self {
        Self { peers: 1024, routes: 4_000_000 }
    }
}

/// The number of a peer in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(u32);

/// A BGP session of a router, from which routes were learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The router that has the session: its name or address.
    pub router: String,
    /// The address at the other end.
    pub address: IpAddr,
    /// The AS at the other end.
    pub asn: u32,
    /// The number of routes that the peer has in the table.
    pub routes: usize,
    /// The same peer before its session was cut, whose routes stay until they are announced anew.
    pub replaces: Option<PeerId>,
}

/// One route to a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The peer that it was learned from.
    pub peer: PeerId,
    /// The path identifier (RFC 7911); 0 in sessions without any.
    pub path_id: u32,
    /// What the route says.
    pub attributes: Arc<Attributes>,
}

/// Returns the best of a prefix's routes, by the steps of RFC 4271, section 9.1.2, that do not
/// depend on the router that decides: the highest local preference, which is 100 by default; the
/// shortest AS path; the lowest origin code; and the lowest discriminator, which is 0 by default,
/// of the routes from the same neighbouring AS.
///
/// Of equally good routes the one of the first peer is taken. BGP would go on to compare the kinds
/// of sessions, distances inside the network and identifiers of routers.
pub fn best(routes: &[Route]) -> Option<&Route> {
    let [_, _, ..] = routes else { return routes.first() };
    let rank = |route: &Route| {
        let attributes = &route.attributes;
        let preference = attributes.local_preference.unwrap_or(100);
        (std::cmp::Reverse(preference), attributes.path_length(), attributes.origin_code)
    };
    let least = routes.iter().map(rank).min()?;
    let equal = || routes.iter().filter(|route| rank(route) == least);
    let med = |route: &Route| route.attributes.med.unwrap_or(0);
    // A route is out if another one from the same AS has a lower discriminator.
    let is_in = |route: &&Route| {
        let neighbour = route.attributes.neighbour();
        let mut same = equal().filter(|other| other.attributes.neighbour() == neighbour);
        same.all(|other| med(route) <= med(other))
    };
    equal().filter(is_in).min_by_key(|route| (route.peer, route.path_id))
}

/// Why the table takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the table is full")]
pub struct Full;

/// The routes of many peers.
#[derive(Debug, Default)]
pub struct Table {
    limits: Limits,
    v4: PrefixMap<Ipv4Net, Vec<Route>>,
    v6: PrefixMap<Ipv6Net, Vec<Route>>,
    /// All attributes, each once.
    attributes: HashSet<Arc<Attributes>>,
    peers: Vec<Option<Peer>>,
    routes: usize,
    refused: u64,
    graph: Graph,
}

impl Table {
    /// Creates an empty table.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns the number of routes.
    pub fn routes(&self) -> usize {
        self.routes
    }

    /// Returns the number of different sets of attributes.
    pub fn distinct(&self) -> usize {
        self.attributes.len()
    }

    /// Returns how many announcements did not fit into the table.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the links and nodes that routers report by BGP-LS.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Takes back what a peer reports about an object, and what the same peer reported before its
    /// session was cut. Returns whether there was anything.
    pub(crate) fn unreport(&mut self, peer: PeerId, object: &Object) -> bool {
        let before = self.peer(peer).and_then(|p| p.replaces);
        let gone = before.is_some_and(|before| self.graph.withdraw(before, object));
        self.graph.withdraw(peer, object) || gone
    }

    pub(crate) fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// Returns the present peers.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        let all = self.peers.iter().zip(0..);
        all.filter_map(|(peer, id)| peer.as_ref().map(|p| (PeerId(id), p)))
    }

    /// Returns a peer, unless it was removed.
    pub fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(id.0 as usize)?.as_ref()
    }

    /// Adds a peer.
    ///
    /// # Errors
    /// If the table has as many peers as it may have.
    pub fn add_peer(&mut self, router: &str, address: IpAddr, asn: u32) -> Result<PeerId, Full> {
        let peer =
            Some(Peer { router: router.to_owned(), address, asn, routes: 0, replaces: None });
        if let Some(free) = self.peers.iter().position(Option::is_none) {
            self.peers[free] = peer;
            return Ok(PeerId(free as u32));
        }
        if self.peers.len() >= self.limits.peers {
            return Err(Full);
        }
        self.peers.push(peer);
        Ok(PeerId(self.peers.len() as u32 - 1))
    }

    /// Makes `new` take over the routes of `old`, one by one, as it announces or withdraws them.
    /// Those that it does neither for stay until `old` is removed.
    pub fn replace_peer(&mut self, old: PeerId, new: PeerId) {
        if let Some(Some(peer)) = self.peers.get_mut(new.0 as usize) {
            peer.replaces = Some(old).filter(|old| *old != new);
        }
    }

    /// Removes `new`, which replaces `old`, and gives its routes to `old`.
    pub fn give_back(&mut self, new: PeerId, old: PeerId) {
        if new == old || self.peer(old).is_none() {
            return;
        }
        let Some(peer) = self.peers.get_mut(new.0 as usize).and_then(Option::take) else { return };
        for routes in self.v4.iter_mut().map(|(_, r)| r).chain(self.v6.iter_mut().map(|(_, r)| r)) {
            routes.iter_mut().filter(|r| r.peer == new).for_each(|r| r.peer = old);
        }
        self.graph.give_back(new, old);
        self.count(old, isize::try_from(peer.routes).unwrap_or(isize::MAX));
    }

    /// Removes a peer and withdraws all its routes.
    pub fn remove_peer(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(id.0 as usize).and_then(Option::take) else { return };
        for other in self.peers.iter_mut().flatten() {
            // The number may belong to another peer soon.
            other.replaces = other.replaces.filter(|replaced| *replaced != id);
        }
        self.graph.remove_peer(id);
        if peer.routes == 0 {
            return;
        }
        self.routes -= peer.routes;
        let mut gone = Vec::new();
        let mut strip = |routes: &mut Vec<Route>| {
            routes.retain_mut(|route| {
                let theirs = route.peer == id;
                if theirs {
                    gone.push(Arc::clone(&route.attributes));
                }
                !theirs
            });
            routes.is_empty()
        };
        let empty: Vec<Ipv4Net> =
            self.v4.iter_mut().filter_map(|(net, routes)| strip(routes).then_some(net)).collect();
        empty.iter().for_each(|net| drop(self.v4.remove(net)));
        let empty: Vec<Ipv6Net> =
            self.v6.iter_mut().filter_map(|(net, routes)| strip(routes).then_some(net)).collect();
        empty.iter().for_each(|net| drop(self.v6.remove(net)));
        gone.into_iter().for_each(|attributes| self.release(attributes));
    }

    /// Returns the shared copy of `attributes`.
    pub fn share(&mut self, attributes: Attributes) -> Arc<Attributes> {
        if let Some(known) = self.attributes.get(&attributes) {
            return Arc::clone(known);
        }
        let shared = Arc::new(attributes);
        self.attributes.insert(Arc::clone(&shared));
        shared
    }

    /// Forgets attributes that no route has any more. The table and the argument hold one each.
    pub(crate) fn release(&mut self, attributes: Arc<Attributes>) {
        if Arc::strong_count(&attributes) <= 2 {
            self.attributes.remove(&attributes);
        }
    }

    fn at(&mut self, prefix: IpNet) -> &mut Vec<Route> {
        match prefix {
            IpNet::V4(net) => self.v4.entry(net).or_default(),
            IpNet::V6(net) => self.v6.entry(net).or_default(),
        }
    }

    /// Adds a route, in place of the peer's route with the same path identifier. A new route that
    /// no longer fits is refused, and counted.
    pub fn announce(
        &mut self,
        peer: PeerId,
        prefix: IpNet,
        path_id: u32,
        attributes: &Arc<Attributes>,
    ) {
        let room = self.routes < self.limits.routes;
        if self.peer(peer).is_none() {
            return;
        }
        let known = self.position(peer, prefix, path_id);
        if !room && known.is_none() {
            self.refused += 1;
            return;
        }
        let new = Route { peer, path_id, attributes: Arc::clone(attributes) };
        let routes = self.at(prefix);
        if let Some(at) = known {
            let old = std::mem::replace(&mut routes[at], new);
            self.release(old.attributes);
            if old.peer != peer {
                self.count(old.peer, -1);
                self.count(peer, 1);
            }
            return;
        }
        routes.reserve_exact(1);
        routes.push(new);
        self.routes += 1;
        self.count(peer, 1);
    }

    /// Changes the number of a peer's routes by `by`.
    fn count(&mut self, peer: PeerId, by: isize) {
        if let Some(Some(peer)) = self.peers.get_mut(peer.0 as usize) {
            peer.routes = peer.routes.saturating_add_signed(by);
        }
    }

    /// Returns the place of a peer's route, or of that which it takes over, among those of the
    /// prefix.
    fn position(&self, peer: PeerId, prefix: IpNet, path_id: u32) -> Option<usize> {
        let replaced = self.peer(peer)?.replaces;
        let routes = self.exactly(prefix);
        let of = |id: PeerId| routes.iter().position(|r| r.peer == id && r.path_id == path_id);
        of(peer).or_else(|| replaced.and_then(of))
    }

    /// Removes the route of a peer. Returns whether there was one.
    pub fn withdraw(&mut self, peer: PeerId, prefix: IpNet, path_id: u32) -> bool {
        let Some(at) = self.position(peer, prefix, path_id) else { return false };
        let routes = self.at(prefix);
        let old = routes.remove(at);
        if routes.is_empty() {
            match prefix {
                IpNet::V4(net) => drop(self.v4.remove(&net)),
                IpNet::V6(net) => drop(self.v6.remove(&net)),
            }
        }
        self.release(old.attributes);
        self.routes -= 1;
        self.count(old.peer, -1);
        true
    }

    /// Returns the routes of exactly this prefix.
    pub fn exactly(&self, prefix: IpNet) -> &[Route] {
        let routes = match prefix {
            IpNet::V4(net) => self.v4.get(&net),
            IpNet::V6(net) => self.v6.get(&net),
        };
        routes.map_or(&[], Vec::as_slice)
    }

    /// Returns the longest prefix that has `address`, with its routes.
    pub fn longest(&self, address: IpAddr) -> Option<(IpNet, &[Route])> {
        match address {
            IpAddr::V4(a) => {
                let (net, routes) = self.v4.get_lpm(&Ipv4Net::from(a))?;
                Some((net.into(), routes))
            }
            IpAddr::V6(a) => {
                let (net, routes) = self.v6.get_lpm(&Ipv6Net::from(a))?;
                Some((net.into(), routes))
            }
        }
    }

    /// Returns all prefixes with their routes, IPv4 first, in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = (IpNet, &[Route])> {
        let v4 = self.v4.iter().map(|(net, routes)| (IpNet::V4(net), routes.as_slice()));
        v4.chain(self.v6.iter().map(|(net, routes)| (IpNet::V6(net), routes.as_slice())))
    }

    /// Returns the prefixes that have a route which `asn` originated.
    pub fn originated_by(&self, asn: u32) -> impl Iterator<Item = IpNet> {
        let by = move |routes: &[Route]| routes.iter().any(|r| r.attributes.origin() == Some(asn));
        self.iter().filter(move |(_, routes)| by(routes)).map(|(net, _)| net)
    }
}

#[cfg(test)]
mod tests;
