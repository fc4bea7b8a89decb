//! The routers that a path must be sent through, so that shortest paths between them make the path.
//!
//! A segment list of SRv6 names routers, and the IGP chooses the way to each (RFC 8402, section
//! 3.1). A waypoint is needed wherever the shortest path from the last one leaves the path, or is
//! not the only one.

use std::collections::BTreeMap;

use crate::paths::tree::{Entering, Tree};
use crate::topology::{RouterId, Topology};

/// The most trees of shortest paths that are kept, at 16 bytes for each router.
const MAX_TREES: usize = 512;

/// Finds waypoints in one network.
#[derive(Debug)]
pub struct Waypoints<'a> {
    topology: &'a Topology,
    entering: Entering,
    trees: BTreeMap<RouterId, Tree>,
}

impl<'a> Waypoints<'a> {
    /// Creates a finder for `topology`, whose metrics are those of the IGP.
    pub fn new(topology: &'a Topology) -> Self {
        Self { topology, entering: Entering::of(topology), trees: BTreeMap::new() }
    }

    /// Returns the fewest routers between both ends of `path` that fix it, in order: none if it is
    /// the only shortest path.
    ///
    /// # Errors
    /// The two ends of a link that is not the only shortest path between them.
    pub fn of(&mut self, path: &[RouterId]) -> Result<Vec<RouterId>, (RouterId, RouterId)> {
        let mut found = Vec::new();
        let mut from = 0;
        while from + 1 < path.len() {
            // A part of an only shortest path is one too, so the first failure ends the search.
            let fixed = |to: &usize| self.is_only_shortest(&path[from..=*to]);
            let Some(to) = (from + 1..path.len()).take_while(fixed).last() else {
                return Err((path[from], path[from + 1]));
            };
            found.push(path[to]);
            from = to;
        }
        // The last one is the end of the path.
        found.pop();
        Ok(found)
    }

    /// Whether `path`, of at least two routers, is the only shortest path between its ends.
    fn is_only_shortest(&mut self, path: &[RouterId]) -> bool {
        let Some(&target) = path.last() else { return false };
        let (topology, entering) = (self.topology, &self.entering);
        if self.trees.len() >= MAX_TREES && !self.trees.contains_key(&target) {
            self.trees.clear();
        }
        let tree = self.trees.entry(target).or_insert_with(|| Tree::to(topology, entering, target));
        path.windows(2).all(|hop| {
            let distance = tree.distance[hop[0].index()];
            let mut tight =
                topology.leaving(hop[0]).iter().map(|id| topology.link(*id)).filter(|link| {
                    let rest = tree.distance[link.to.index()];
                    rest.checked_add(u64::from(link.metric)) == Some(distance)
                });
            tight.next().is_some_and(|link| link.to == hop[1]) && tight.next().is_none()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::*;
    use crate::paths::PathCache;
    use crate::topology::{Link, Router};

    fn network(routers: u32, links: &[(u32, u32, u32)]) -> Topology {
        let router = |at: u32| Router { name: format!("r{at}"), serves: true };
        let both = links.iter().flat_map(|&(a, b, metric)| [(a, b, metric), (b, a, metric)]);
        let link = |(from, to, metric)| Link {
            from: RouterId(from),
            to: RouterId(to),
            capacity: None,
            metric,
        };
        Topology::new(
            String::new(),
            (0..routers).map(router).collect(),
            both.map(link).collect(),
            Vec::new(),
        )
    }

    fn of(topology: &Topology, path: &[u32]) -> Result<Vec<u32>, (u32, u32)> {
        let path: Vec<RouterId> = path.iter().copied().map(RouterId).collect();
        let found = Waypoints::new(topology).of(&path);
        found.map(|all| all.into_iter().map(|r| r.0).collect()).map_err(|(a, b)| (a.0, b.0))
    }

    #[test]
    fn a_detour_needs_a_waypoint_and_the_shortest_path_none() {
        // 0 - 1 - 3 is short, 0 - 2 - 3 long.
        let diamond = network(4, &[(0, 1, 1), (1, 3, 1), (0, 2, 2), (2, 3, 2)]);
        assert_eq!(of(&diamond, &[0, 1, 3]), Ok(vec![]));
        assert_eq!(of(&diamond, &[0, 2, 3]), Ok(vec![2]));
        assert_eq!(of(&diamond, &[2, 0, 1, 3]), Ok(vec![0]));
        assert_eq!(of(&diamond, &[0]), Ok(vec![]));
    }

    #[test]
    fn a_path_beside_an_equal_one_needs_a_waypoint() {
        let equal = network(4, &[(0, 1, 1), (1, 3, 1), (0, 2, 1), (2, 3, 1)]);
        assert_eq!(of(&equal, &[0, 1, 3]), Ok(vec![1]));
        assert_eq!(of(&equal, &[0, 2, 3]), Ok(vec![2]));
    }

    #[test]
    fn a_link_that_the_igp_does_not_use_cannot_be_fixed() {
        let long = network(3, &[(0, 1, 1), (1, 2, 1), (0, 2, 5)]);
        assert_eq!(of(&long, &[0, 2]), Err((0, 2)));
        // Nor one beside an equal path.
        let equal = network(3, &[(0, 1, 1), (1, 2, 1), (0, 2, 2)]);
        assert_eq!(of(&equal, &[0, 2]), Err((0, 2)));
    }

    proptest! {
        /// The IGP's only shortest paths between waypoints, one after the other, are the path.
        #[test]
        fn waypoints_make_the_path(
            links in proptest::collection::vec((0u32..7, 0u32..7, 1u32..4), 6..16),
        ) {
            let mut seen = std::collections::BTreeSet::new();
            let links: Vec<_> = links
                .into_iter()
                .filter(|(a, b, _)| a != b && seen.insert((*a.min(b), *a.max(b))))
                .collect();
            let topology = network(7, &links);
            let mut paths = PathCache::new(NonZeroUsize::new(4).unwrap());
            let pairs: Vec<_> =
                topology.ids().flat_map(|a| topology.ids().map(move |b| (a, b))).collect();
            paths.fill(&topology, pairs.iter().copied());
            let mut finder = Waypoints::new(&topology);
            for (from, to) in pairs {
                for path in paths.get(from, to) {
                    let path: Vec<RouterId> = std::iter::once(from)
                        .chain(path.links.iter().map(|l| topology.link(*l).to))
                        .collect();
                    let Ok(waypoints) = finder.of(&path) else { continue };
                    let mut made = vec![from];
                    for next in waypoints.into_iter().chain([to]) {
                        let last = *made.last().unwrap();
                        if last == next { continue; }
                        let all = all_shortest(&topology, last, next);
                        prop_assert_eq!(all.len(), 1, "{:?} to {:?}", last, next);
                        made.extend(&all[0][1..]);
                    }
                    prop_assert_eq!(made, path);
                }
            }
        }
    }

    /// Returns all shortest paths, by trying every simple path.
    fn all_shortest(topology: &Topology, from: RouterId, to: RouterId) -> Vec<Vec<RouterId>> {
        let (mut best, mut found) = (u64::MAX, Vec::new());
        let mut open = vec![(vec![from], 0u64)];
        while let Some((path, length)) = open.pop() {
            let at = *path.last().unwrap();
            if at == to {
                if length < best {
                    (best, found) = (length, Vec::new());
                }
                if length == best {
                    found.push(path);
                }
                continue;
            }
            for id in topology.leaving(at) {
                let link = topology.link(*id);
                if !path.contains(&link.to) {
                    let mut longer = path.clone();
                    longer.push(link.to);
                    open.push((longer, length + u64::from(link.metric)));
                }
            }
        }
        found
    }
}
