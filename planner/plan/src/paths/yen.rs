//! The k shortest loopless paths (J. Y. Yen, "Finding the K Shortest Loopless Paths in a Network",
//! Management Science 17(11), 1971), with two later improvements.
//!
//! A deviation is searched for only after the place where its parent deviated, so that no path is
//! found twice (E. L. Lawler, "A Procedure for Computing the K Best Solutions", Management Science
//! 18(7), 1972).
//!
//! The distances to the target, one tree for all sources, bound each deviation from below, and a
//! deviation is searched for only when its bound is the lowest of all. The tree alone settles most
//! deviations (G. Feng, "Finding k shortest simple paths in directed graphs: A node classification
//! algorithm", Networks 64(1), 2014): where the path down the tree does not meet the prefix, which
//! is nearly always, there is no search at all. Elsewhere A* searches with the same distances.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::paths::tree::{Tree, UNREACHABLE};
use crate::topology::{LinkId, RouterId, Topology};

/// A path without loops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The sum of its links' metrics.
    pub length: u64,
    /// The links in order; none where source and target are the same router.
    pub links: Vec<LinkId>,
}

/// A deviation in the queue: the shortest path that follows `prefix` and then takes none of
/// `barred`.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// The length, or a lower bound of it while `found` is not set. It is compared first.
    length: u64,
    /// Whether the path is known. Of equal lengths, known paths come before bounds.
    searched: bool,
    /// The number of links and the links themselves order paths of equal length.
    hops: usize,
    links: Vec<LinkId>,
    /// The number of `links` that are the parent's: the deviation is at the router after them.
    prefix: usize,
    /// The links that the deviation may not start with, since those paths are known.
    barred: Vec<LinkId>,
}

/// A deviation before its links are written down.
struct Sketch {
    /// The number of links before the deviation.
    at: usize,
    link: LinkId,
    /// The length of the path down the tree.
    length: u64,
    /// Whether the path down the tree returns to the prefix, so that the length is only a bound.
    loops: bool,
}

/// The lengths of the shortest paths known so far, at most k of them.
struct Known {
    k: usize,
    lengths: Vec<u64>,
}

impl Known {
    fn add(&mut self, length: u64) {
        let at = self.lengths.partition_point(|l| *l <= length);
        self.lengths.insert(at, length);
        self.lengths.truncate(self.k);
    }

    /// Returns the length beyond which no path can be among the k shortest.
    fn limit(&self) -> u64 {
        if self.lengths.len() < self.k { u64::MAX } else { self.lengths[self.k - 1] }
    }
}

/// Finds paths to one target, and reuses the memory of its searches.
pub(crate) struct Finder<'a> {
    topology: &'a Topology,
    tree: &'a Tree,
    /// The routers that a search may not enter, by the number of the search.
    closed: Vec<u32>,
    round: u32,
    reached: Vec<(u32, u64, Option<LinkId>)>,
    /// The place of a router on the path that is deviated from, by the number of the round.
    places: Vec<(u32, u32)>,
    /// The first place of that path that a router's way down the tree meets.
    meets: Vec<(u32, u32)>,
    /// Routers whose `meets` is being computed.
    walk: Vec<RouterId>,
    sketches: Vec<Sketch>,
}

/// The place of routers that are not on the path.
const NOWHERE: u32 = u32::MAX;

impl<'a> Finder<'a> {
    /// Creates a finder for the target of `tree`.
    pub(crate) fn new(topology: &'a Topology, tree: &'a Tree) -> Self {
        let routers = topology.routers().len();
        Self {
            topology,
            tree,
            closed: vec![0; routers],
            round: 0,
            reached: vec![(0, 0, None); routers],
            places: vec![(0, NOWHERE); routers],
            meets: vec![(0, NOWHERE); routers],
            walk: Vec::new(),
            sketches: Vec::new(),
        }
    }

    /// Returns at most `k` paths from `source`, shortest first.
    pub(crate) fn find(&mut self, source: RouterId, k: usize) -> Vec<Path> {
        let mut found: Vec<Path> = Vec::new();
        let mut open = BinaryHeap::new();
        if k == 0 || self.tree.distance[source.index()] == UNREACHABLE {
            return found;
        }
        let mut first = Vec::new();
        self.descend(source, &mut first);
        let length = self.tree.distance[source.index()];
        let mut known = Known { k, lengths: vec![length] };
        open.push(Reverse(Candidate {
            length,
            searched: false,
            hops: first.len(),
            links: first,
            prefix: 0,
            barred: Vec::new(),
        }));
        while let Some(Reverse(candidate)) = open.pop() {
            if candidate.searched {
                if let Some(candidate) = self.search(source, candidate, known.limit()) {
                    known.add(candidate.length);
                    open.push(Reverse(candidate));
                }
                continue;
            }
            if found.len() + 1 < k {
                self.deviate(source, &candidate, &mut known, &mut open);
            }
            found.push(Path { length: candidate.length, links: candidate.links });
            if found.len() == k {
                break;
            }
        }
        found
    }

    fn metric(&self, link: LinkId) -> u64 {
        u64::from(self.topology.link(link).metric)
    }

    /// Returns the router where `links` from `source` end.
    fn end(&self, source: RouterId, links: &[LinkId]) -> RouterId {
        links.last().map_or(source, |l| self.topology.link(*l).to)
    }

    /// Adds the path down the tree from `from`.
    fn descend(&self, from: RouterId, links: &mut Vec<LinkId>) {
        let mut at = from;
        while let Some(link) = self.tree.next[at.index()] {
            links.push(link);
            at = self.topology.link(link).to;
        }
    }

    /// Closes the routers of `prefix`, the last included, for the searches that follow.
    fn close(&mut self, source: RouterId, prefix: &[LinkId]) {
        self.round += 1;
        self.closed[source.index()] = self.round;
        for link in prefix {
            self.closed[self.topology.link(*link).to.index()] = self.round;
        }
    }

    /// Returns the place of a router on the path of this round.
    fn place(&self, router: RouterId) -> u32 {
        let (round, place) = self.places[router.index()];
        if round == self.round { place } else { NOWHERE }
    }

    /// Returns the first place of the path of this round on the way from `router` down the tree.
    fn first_met(&mut self, router: RouterId) -> u32 {
        self.walk.clear();
        let mut at = router;
        let mut first = NOWHERE;
        loop {
            let (round, met) = self.meets[at.index()];
            if round == self.round {
                first = met;
                break;
            }
            self.walk.push(at);
            match self.tree.next[at.index()] {
                Some(link) => at = self.topology.link(link).to,
                None => break,
            }
        }
        while let Some(at) = self.walk.pop() {
            first = first.min(self.place(at));
            self.meets[at.index()] = (self.round, first);
        }
        first
    }

    /// Queues the deviations of a path that has become an answer, as far as they can be among the
    /// answers.
    fn deviate(
        &mut self,
        source: RouterId,
        path: &Candidate,
        known: &mut Known,
        open: &mut BinaryHeap<Reverse<Candidate>>,
    ) {
        self.round += 1;
        self.places[source.index()] = (self.round, 0);
        for (link, place) in path.links.iter().zip(1..) {
            self.places[self.topology.link(*link).to.index()] = (self.round, place);
        }
        let mut length: u64 = path.links[..path.prefix].iter().map(|l| self.metric(*l)).sum();
        let mut sketches = std::mem::take(&mut self.sketches);
        sketches.clear();
        for at in path.prefix..path.links.len() {
            // Where its parent deviated, the path's own first link is barred besides the parent's.
            let barred: &[LinkId] = if at == path.prefix { &path.barred } else { &[] };
            let own = path.links[at];
            if let Some((length, link)) = self.bound(own, at, length, barred) {
                let loops = self.first_met(self.topology.link(link).to) <= at as u32;
                if !loops {
                    known.add(length);
                }
                sketches.push(Sketch { at, link, length, loops });
            }
            length += self.metric(own);
        }
        let limit = known.limit();
        for sketch in sketches.iter().filter(|s| s.length <= limit) {
            let mut barred =
                if sketch.at == path.prefix { path.barred.clone() } else { Vec::new() };
            barred.push(path.links[sketch.at]);
            let mut links = path.links[..sketch.at].to_vec();
            if !sketch.loops {
                links.push(sketch.link);
                self.descend(self.topology.link(sketch.link).to, &mut links);
            }
            open.push(Reverse(Candidate {
                length: sketch.length,
                searched: sketch.loops,
                hops: links.len(),
                links,
                prefix: sketch.at,
                barred,
            }));
        }
        self.sketches = sketches;
    }

    /// Returns the best deviation by the tree from the router where `own` leaves the path, after
    /// `at` links of the given `length`: the length of the whole path, and its first link.
    fn bound(
        &self,
        own: LinkId,
        at: usize,
        length: u64,
        barred: &[LinkId],
    ) -> Option<(u64, LinkId)> {
        let spur = self.topology.link(own).from;
        let leaving = self.topology.leaving(spur).iter();
        let best = leaving.filter(|l| **l != own && !barred.contains(l)).filter_map(|&l| {
            let link = self.topology.link(l);
            let rest = self.tree.distance[link.to.index()];
            let open = self.place(link.to) > at as u32 && rest != UNREACHABLE;
            open.then(|| (length + u64::from(link.metric) + rest, l))
        });
        best.min()
    }

    /// Searches for the deviation that `candidate` is a bound of, unless it is longer than `limit`.
    fn search(
        &mut self,
        source: RouterId,
        mut candidate: Candidate,
        limit: u64,
    ) -> Option<Candidate> {
        let before: u64 = candidate.links.iter().map(|l| self.metric(*l)).sum();
        self.close(source, &candidate.links);
        let spur = self.end(source, &candidate.links);
        let round = self.round;
        let mut open = BinaryHeap::new();
        self.reached[spur.index()] = (round, 0, None);
        open.push(Reverse((self.tree.distance[spur.index()], 0, spur)));
        while let Some(Reverse((_, so_far, at))) = open.pop() {
            if so_far > self.reached[at.index()].1 {
                continue;
            }
            if self.tree.distance[at.index()] == 0 && at != spur {
                let mut tail = Vec::new();
                let mut back = at;
                while let Some(link) = self.reached[back.index()].2 {
                    tail.push(link);
                    back = self.topology.link(link).from;
                }
                candidate.length = before + so_far;
                candidate.links.extend(tail.iter().rev());
                candidate.hops = candidate.links.len();
                candidate.searched = false;
                return Some(candidate);
            }
            for &id in self.topology.leaving(at) {
                let link = self.topology.link(id);
                let rest = self.tree.distance[link.to.index()];
                let shut = self.closed[link.to.index()] == round || rest == UNREACHABLE;
                if shut || (at == spur && candidate.barred.contains(&id)) {
                    continue;
                }
                let through = so_far + u64::from(link.metric);
                if before + through + rest > limit {
                    continue;
                }
                let known = &mut self.reached[link.to.index()];
                if known.0 != round || through < known.1 {
                    *known = (round, through, Some(id));
                    open.push(Reverse((through + rest, through, link.to)));
                }
            }
        }
        None
    }
}

/// Returns at most `k` shortest loopless paths from `source` to `target`, shortest first.
///
/// Paths of equal length are ordered by their number of links and then by the links.
/// [`PathCache`](crate::paths::PathCache) is faster for many pairs.
pub fn k_shortest(topology: &Topology, source: RouterId, target: RouterId, k: usize) -> Vec<Path> {
    let tree = Tree::to(topology, &super::tree::Entering::of(topology), target);
    Finder::new(topology, &tree).find(source, k)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::topology::{Link, Router};

    fn network(routers: u32, links: &[(u32, u32, u32)]) -> Topology {
        let names = (0..routers).map(|n| Router { name: n.to_string(), serves: true }).collect();
        let links = links.iter().filter(|(a, b, _)| a != b).map(|&(a, b, metric)| Link {
            from: RouterId(a),
            to: RouterId(b),
            capacity: None,
            metric,
        });
        Topology::new(String::new(), names, links.collect(), Vec::new())
    }

    /// Returns the lengths of all loopless paths by trying all.
    fn all(
        topology: &Topology,
        at: RouterId,
        target: RouterId,
        seen: &mut Vec<RouterId>,
        length: u64,
        out: &mut Vec<u64>,
    ) {
        if at == target {
            out.push(length);
            return;
        }
        seen.push(at);
        for &id in topology.leaving(at) {
            let link = topology.link(id);
            if !seen.contains(&link.to) {
                all(topology, link.to, target, seen, length + u64::from(link.metric), out);
            }
        }
        seen.pop();
    }

    proptest! {
        #[test]
        fn they_are_the_shortest_of_all(
            routers in 2u32..8,
            links in proptest::collection::vec((0u32..8, 0u32..8, 1u32..5), 1..24),
            k in 1usize..12,
        ) {
            let within = |&(a, b, metric): &(u32, u32, u32)| (a % routers, b % routers, metric);
            let mut links: Vec<_> = links.iter().map(within).collect();
            links.sort_unstable();
            links.dedup_by_key(|l| (l.0, l.1));
            let topology = network(routers, &links);
            let (source, target) = (RouterId(0), RouterId(1));
            let mut expected = Vec::new();
            all(&topology, source, target, &mut Vec::new(), 0, &mut expected);
            expected.sort_unstable();
            expected.truncate(k);
            let found = k_shortest(&topology, source, target, k);
            prop_assert_eq!(found.iter().map(|p| p.length).collect::<Vec<_>>(), expected);
            let mut distinct = found.clone();
            distinct.sort();
            distinct.dedup();
            prop_assert_eq!(distinct.len(), found.len());
            for path in &found {
                let mut at = source;
                let mut seen = vec![at];
                for id in &path.links {
                    let link = topology.link(*id);
                    prop_assert_eq!(link.from, at);
                    at = link.to;
                    prop_assert!(!seen.contains(&at), "a loop");
                    seen.push(at);
                }
                prop_assert_eq!(at, target);
                let metrics = path.links.iter().map(|l| u64::from(topology.link(*l).metric));
                prop_assert_eq!(path.length, metrics.sum::<u64>());
            }
        }
    }

    #[test]
    fn a_router_reaches_itself_at_once() {
        let topology = network(2, &[(0, 1, 1), (1, 0, 1)]);
        let found = k_shortest(&topology, RouterId(0), RouterId(0), 3);
        assert_eq!(found, [Path { length: 0, links: Vec::new() }]);
    }
}
