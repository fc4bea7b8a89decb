//! The ISP's network: routers, and directed links with a capacity and a metric each.
//!
//! Files of real networks are untidy (the Topology Zoo's have parallel edges, disconnected parts, labels that
//! stand twice and speeds for some links only), so readers fill a [`Draft`], and [`Draft::finish`] makes a
//! network of it that is safe to compute with and says in [`Topology::notes`] what it had to settle.

mod draft;

use std::collections::BTreeMap;

use forebay_units::Rate;
use serde::Serialize;

pub use draft::{Draft, DraftEdge, DraftRouter, Fault};

/// The most routers of a network: ten times the largest in the Topology Zoo, twice.
pub const MOST_ROUTERS: usize = 20_000;
/// The most edges of a network's file.
pub const MOST_EDGES: usize = 200_000;

/// A router, as an index into [`Topology::routers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RouterId(pub u32);

impl RouterId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A directed link, as an index into [`Topology::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct LinkId(pub u32);

impl LinkId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A router.
#[derive(Clone, Debug, PartialEq)]
pub struct Router {
    /// Its label, or the label and the file's own id where several have the same: unique.
    pub name: String,
    /// Whether users can be behind it: a router of the ISP's own, and no stand-in for a shared medium.
    pub serves: bool,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it begins.
    pub from: RouterId,
    /// Where it ends.
    pub to: RouterId,
    /// What it carries; `None` if the file does not say, and then it limits nothing.
    pub capacity: Option<Rate>,
    /// Its cost to OSPF (RFC 2328): at least 1.
    pub metric: u32,
}

/// A network.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    name: String,
    routers: Vec<Router>,
    links: Vec<Link>,
    /// Links by where they begin: those of router r are `leaving[first[r]..first[r + 1]]`.
    leaving: Vec<LinkId>,
    first: Vec<u32>,
    notes: Vec<String>,
}

impl Topology {
    /// What the file calls it; may be empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same, called `name`.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// All routers.
    pub fn routers(&self) -> &[Router] {
        &self.routers
    }

    /// All links, each direction for itself.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// What the file left open or had twice, and how it was taken: a sentence each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The links that begin at `router`.
    pub fn leaving(&self, router: RouterId) -> &[LinkId] {
        let at = router.index();
        &self.leaving[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// The link.
    pub fn link(&self, id: LinkId) -> Link {
        self.links[id.index()]
    }

    /// The router of that name.
    pub fn router(&self, name: &str) -> Option<RouterId> {
        // Names are looked up while files are read only, each once: callers that read many build a map.
        self.routers.iter().position(|r| r.name == name).map(|at| RouterId(at as u32))
    }

    /// All routers by name.
    pub fn by_name(&self) -> BTreeMap<&str, RouterId> {
        self.routers.iter().zip(0..).map(|(r, id)| (r.name.as_str(), RouterId(id))).collect()
    }

    /// All routers' ids.
    pub fn ids(&self) -> impl Iterator<Item = RouterId> + use<> {
        (0..self.routers.len() as u32).map(RouterId)
    }

    /// Gives each link the capacity that `of` says.
    pub fn set_capacities(&mut self, of: impl Fn(LinkId, &Link) -> Option<Rate>) {
        for (at, link) in self.links.iter_mut().enumerate() {
            link.capacity = of(LinkId(at as u32), link);
        }
    }

    /// The network of `routers`, which have unique names, and `links` between them.
    pub fn new(name: String, routers: Vec<Router>, links: Vec<Link>, notes: Vec<String>) -> Self {
        let mut first = vec![0u32; routers.len() + 1];
        for link in &links {
            first[link.from.index() + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut leaving: Vec<LinkId> = (0..links.len() as u32).map(LinkId).collect();
        // Stable: links of a router stay in the file's order, which breaks ties between paths.
        leaving.sort_by_key(|id| links[id.index()].from);
        Self { name, routers, links, leaving, first, notes }
    }
}
