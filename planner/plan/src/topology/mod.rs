//! The ISP's network: routers, and directed links with a capacity and a metric.
//!
//! Files of real networks are irregular. Those of the Topology Zoo have parallel edges,
//! disconnected parts, duplicate labels, and speeds for some links only. So readers fill a
//! [`Draft`], and [`Draft::finish`] turns it into a consistent [`Topology`] whose
//! [`Topology::notes`] list the decisions.

mod draft;

use std::collections::BTreeMap;

use forebay_units::Rate;
use serde::Serialize;

pub use draft::{Draft, DraftEdge, DraftRouter, Fault};

/// The most routers of a network: twenty times the largest network of the Topology Zoo.
pub const MAX_ROUTERS: usize = 20_000;
/// The most edges in a file.
pub const MAX_EDGES: usize = 200_000;

/// A router, as an index into [`Topology::routers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RouterId(pub u32);

impl RouterId {
    /// Returns the router as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A directed link, as an index into [`Topology::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LinkId(pub u32);

impl LinkId {
    /// Returns the link as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A router of the network.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// The label, followed by the file's id where several routers have the same label: a unique
    /// name.
    pub name: String,
    /// Whether users can be behind the router: it is the ISP's, and not a shared medium.
    pub serves: bool,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The router where the link begins.
    pub from: RouterId,
    /// The router where the link ends.
    pub to: RouterId,
    /// The capacity; `None` if the file has none, in which case the link is no limit.
    pub capacity: Option<Rate>,
    /// The metric of OSPF (RFC 2328) or IS-IS (RFC 5305): at least 1.
    pub metric: u32,
}

/// A network of routers and links.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    name: String,
    routers: Vec<Router>,
    links: Vec<Link>,
    /// The links by the router where they begin: those of router r are `leaving[first[r]..first[r +
    /// 1]]`.
    leaving: Vec<LinkId>,
    first: Vec<u32>,
    notes: Vec<String>,
}

impl Topology {
    /// Returns the name of the network in its file; it may be empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the same network with this name.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Returns all routers.
    pub fn routers(&self) -> &[Router] {
        &self.routers
    }

    /// Returns all links, with each direction separate.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns a sentence for each detail that the file leaves open or duplicates, with how it was
    /// read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the links that begin at `router`.
    pub fn leaving(&self, router: RouterId) -> &[LinkId] {
        let at = router.index();
        &self.leaving[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// Returns the link of an index.
    pub fn link(&self, id: LinkId) -> Link {
        self.links[id.index()]
    }

    /// Returns the router with this name.
    pub fn router(&self, name: &str) -> Option<RouterId> {
        // Only readers of files look up single names; those with many names build a map.
        self.routers.iter().position(|r| r.name == name).map(|at| RouterId(at as u32))
    }

    /// Returns all routers by name.
    pub fn by_name(&self) -> BTreeMap<&str, RouterId> {
        self.routers.iter().zip(0..).map(|(r, id)| (r.name.as_str(), RouterId(id))).collect()
    }

    /// Returns the indices of all routers.
    pub fn ids(&self) -> impl Iterator<Item = RouterId> + use<> {
        (0..self.routers.len() as u32).map(RouterId)
    }

    /// Says how many links have no capacity; `None` if all have one.
    pub fn unlimited(&self) -> Option<String> {
        match self.links.iter().filter(|link| link.capacity.is_none()).count() {
            0 => None,
            1 => Some("1 direction of a link has no capacity, and limits nothing".to_owned()),
            n => Some(format!("{n} directions of links have no capacity, and limit nothing")),
        }
    }

    /// Sets the capacity of each link to what `of` returns for it.
    pub fn set_capacities(&mut self, of: impl Fn(LinkId, &Link) -> Option<Rate>) {
        for (at, link) in self.links.iter_mut().enumerate() {
            link.capacity = of(LinkId(at as u32), link);
        }
    }

    /// Sets the metric of a link.
    pub fn set_metric(&mut self, id: LinkId, metric: u32) {
        self.links[id.index()].metric = metric;
    }

    /// Builds the network of `routers`, which have unique names, and the `links` between them.
    pub fn new(name: String, routers: Vec<Router>, links: Vec<Link>, notes: Vec<String>) -> Self {
        let mut first = vec![0u32; routers.len() + 1];
        for link in &links {
            first[link.from.index() + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut leaving: Vec<LinkId> = (0..links.len() as u32).map(LinkId).collect();
        // The sort is stable: links of a router keep the order of the file, which decides between
        // equal paths.
        leaving.sort_by_key(|id| links[id.index()].from);
        Self { name, routers, links, leaving, first, notes }
    }
}
