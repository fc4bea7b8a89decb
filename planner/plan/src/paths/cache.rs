//! Keeps paths from one optimisation to the next: demands change every few minutes, the network
//! seldom (section 3.4.3).

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::thread;

use crate::paths::tree::{Entering, Tree};
use crate::paths::yen::{Finder, Path};
use crate::topology::{Link, RouterId, Topology};

/// The most pairs that are kept, at some hundred bytes each.
const MAX_PAIRS: usize = 4_000_000;

/// The k shortest paths of all pairs that were filled.
///
/// The cache belongs to one network. For a network with other links or metrics it starts empty. At
/// more than four million pairs it forgets all and keeps those filled last.
#[derive(Clone, Debug)]
pub struct PathCache {
    k: usize,
    links: Vec<(RouterId, RouterId, u32)>,
    routers: usize,
    paths: BTreeMap<(RouterId, RouterId), Vec<Path>>,
}

fn shape(link: &Link) -> (RouterId, RouterId, u32) {
    (link.from, link.to, link.metric)
}

impl PathCache {
    /// Creates an empty cache for at most `k` paths per pair.
    pub fn new(k: NonZeroUsize) -> Self {
        Self { k: k.get(), links: Vec::new(), routers: 0, paths: BTreeMap::new() }
    }

    /// Returns the most paths of a pair.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Returns the number of pairs with paths.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Computes the paths of all `pairs` of source and target that are missing, on all cores.
    pub fn fill(
        &mut self,
        topology: &Topology,
        pairs: impl IntoIterator<Item = (RouterId, RouterId)>,
    ) {
        let same = self.routers == topology.routers().len()
            && self.links.iter().copied().eq(topology.links().iter().map(shape));
        if !same {
            self.paths.clear();
            self.routers = topology.routers().len();
            self.links = topology.links().iter().map(shape).collect();
        }
        // Pairs are grouped by target, since all sources share its tree.
        let mut wanted: BTreeMap<RouterId, Vec<RouterId>> = BTreeMap::new();
        let mut count = 0;
        for (source, target) in pairs {
            if !self.paths.contains_key(&(source, target)) {
                wanted.entry(target).or_default().push(source);
                count += 1;
            }
        }
        if self.paths.len() + count > MAX_PAIRS {
            self.paths.clear();
        }
        for sources in wanted.values_mut() {
            sources.sort_unstable();
            sources.dedup();
        }
        let wanted: Vec<_> = wanted.into_iter().collect();
        let entering = Entering::of(topology);
        let workers = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = wanted.len().div_ceil(workers).max(1);
        let k = self.k;
        thread::scope(|scope| {
            let work =
                |targets: &[(RouterId, Vec<RouterId>)]| -> Vec<((RouterId, RouterId), Vec<Path>)> {
                    let mut found = Vec::new();
                    for (target, sources) in targets {
                        let tree = Tree::to(topology, &entering, *target);
                        let mut finder = Finder::new(topology, &tree);
                        found.extend(sources.iter().map(|s| ((*s, *target), finder.find(*s, k))));
                    }
                    found
                };
            let workers: Vec<_> =
                wanted.chunks(share).map(|targets| scope.spawn(move || work(targets))).collect();
            for worker in workers {
                match worker.join() {
                    Ok(found) => self.paths.extend(found),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }

    /// Returns the paths from `source` to `target`, shortest first; none if there is no path, or
    /// the pair was not filled.
    pub fn get(&self, source: RouterId, target: RouterId) -> &[Path] {
        self.paths.get(&(source, target)).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Link, Router};

    fn line(metric: u32) -> Topology {
        let routers = ["a", "b"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
        let link = Link { from: RouterId(0), to: RouterId(1), capacity: None, metric };
        Topology::new(String::new(), routers, vec![link], Vec::new())
    }

    #[test]
    fn it_keeps_what_it_found_until_the_network_changes() {
        let mut cache = PathCache::new(NonZeroUsize::MIN);
        let (a, b) = (RouterId(0), RouterId(1));
        cache.fill(&line(1), [(a, b), (a, b), (b, a)]);
        assert_eq!((cache.len(), cache.get(a, b)[0].length, cache.get(b, a).len()), (2, 1, 0));
        cache.fill(&line(1), [(a, a)]);
        assert_eq!(cache.len(), 3);
        cache.fill(&line(5), [(a, b)]);
        assert_eq!((cache.len(), cache.get(a, b)[0].length), (1, 5));
    }
}
