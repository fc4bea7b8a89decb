//! Distances from every router to one target.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::topology::{LinkId, RouterId, Topology};

/// The distance of a router without a path.
pub const UNREACHABLE: u64 = u64::MAX;

/// The shortest path from every router to one target, by Dijkstra's algorithm backwards from the
/// target.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The sum of metrics from each router to the target.
    pub distance: Vec<u64>,
    /// The next link from each router towards the target.
    pub next: Vec<Option<LinkId>>,
}

/// The links by the router where they end.
#[derive(Clone, Debug)]
pub struct Entering {
    links: Vec<LinkId>,
    first: Vec<u32>,
}

impl Entering {
    /// Sorts the links of `topology` by the router where they end.
    pub fn of(topology: &Topology) -> Self {
        let mut first = vec![0u32; topology.routers().len() + 1];
        for link in topology.links() {
            first[link.to.index() + 1] += 1;
        }
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut links: Vec<LinkId> = (0..topology.links().len() as u32).map(LinkId).collect();
        links.sort_by_key(|id| topology.link(*id).to);
        Self { links, first }
    }

    fn at(&self, router: RouterId) -> &[LinkId] {
        let at = router.index();
        &self.links[self.first[at] as usize..self.first[at + 1] as usize]
    }
}

impl Tree {
    /// Computes the shortest path from every router to `target`.
    ///
    /// Of two paths of equal length it takes the one whose link comes first in the file, so that
    /// the same network gives the same tree.
    pub fn to(topology: &Topology, entering: &Entering, target: RouterId) -> Self {
        let routers = topology.routers().len();
        let mut tree = Self { distance: vec![UNREACHABLE; routers], next: vec![None; routers] };
        let mut open = BinaryHeap::new();
        tree.distance[target.index()] = 0;
        open.push(Reverse((0, target)));
        while let Some(Reverse((distance, at))) = open.pop() {
            if distance > tree.distance[at.index()] {
                continue;
            }
            for &id in entering.at(at) {
                let link = topology.link(id);
                let through = distance + u64::from(link.metric);
                let known = &mut tree.distance[link.from.index()];
                let next = &mut tree.next[link.from.index()];
                if through < *known {
                    (*known, *next) = (through, Some(id));
                    open.push(Reverse((through, link.from)));
                } else if through == *known && next.is_some_and(|other| id < other) {
                    *next = Some(id);
                }
            }
        }
        tree
    }
}
