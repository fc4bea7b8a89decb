//! The tables of the receivebox's program, which change while it runs.
//!
//! Each prefix has an id while it is in the tables, and each pair of ids may have a bundle. A
//! change writes the pairs of all prefixes, old and new, before any prefix comes or goes. So a
//! packet whose longest prefixes and bundle stay the same finds its bundle at any moment. For an
//! instant another packet may find none, or that of a shorter prefix.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ipnet::IpNet;
use libbpf_rs::{MapCore, Object};

use super::BundleRule;
use super::plan::{Plan, best};
use crate::bpf;
use crate::bundles::{MAX_PREFIXES, trie_key};
use crate::error::Error;

/// The largest number of pairs (`MAX_BUNDLES` in bpf/rules.h).
const MAX_PAIRS: usize = 65_536;

/// What the program's maps have.
#[derive(Debug, Default)]
pub(super) struct Tables {
    sources: Ids,
    destinations: Ids,
    /// The bundle of packets with these longest prefixes: ids of a source and of a destination.
    pairs: HashMap<(u32, u32), u32>,
}

/// The ids of prefixes.
#[derive(Clone, Debug, Default)]
struct Ids(BTreeMap<IpNet, u32>);

impl Ids {
    /// Returns these ids, and new ones for the `wanted` prefixes that have none: the lowest that
    /// are free.
    fn with(&self, wanted: &BTreeSet<IpNet>) -> Self {
        let used: BTreeSet<u32> = self.0.values().copied().collect();
        let mut free = (0..).filter(|id| !used.contains(id));
        let mut all = self.clone();
        for prefix in wanted {
            all.0.entry(*prefix).or_insert_with(|| free.next().unwrap_or_default());
        }
        all
    }

    /// Sets the ids to `all`, and then deletes those of prefixes that are not `wanted`.
    fn set(
        &mut self,
        all: Self,
        wanted: &BTreeSet<IpNet>,
        changes: &mut Vec<Change>,
        change: fn(IpNet, Option<u32>) -> Change,
    ) {
        let new = all.0.iter().filter(|(prefix, _)| !self.0.contains_key(prefix));
        changes.extend(new.map(|(prefix, id)| change(*prefix, Some(*id))));
        let gone = all.0.keys().filter(|prefix| !wanted.contains(prefix));
        changes.extend(gone.map(|prefix| change(*prefix, None)));
        *self = all;
        self.0.retain(|prefix, _| wanted.contains(prefix));
    }
}

/// A change of one entry of a map; `None` deletes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Source(IpNet, Option<u32>),
    Destination(IpNet, Option<u32>),
    Pair((u32, u32), Option<u32>),
}

impl Change {
    /// Makes the change in the maps of `object`.
    pub(super) fn apply(self, object: &Object) -> Result<(), Error> {
        let trie = |name, prefix: &IpNet, id| (name, trie_key(prefix).to_vec(), id);
        let (name, key, value) = match self {
            Self::Source(prefix, id) => trie("sources", &prefix, id),
            Self::Destination(prefix, id) => trie("destinations", &prefix, id),
            Self::Pair((s, d), bundle) => {
                ("pairs", [s.to_ne_bytes(), d.to_ne_bytes()].concat(), bundle)
            }
        };
        let map = bpf::map(object, name)?;
        match value {
            Some(value) => bpf::update(&map, &key, &value.to_ne_bytes()),
            None => map.delete(&key).map_err(|e| Error::bpf("removing an entry of a map", e)),
        }
    }
}

impl Tables {
    /// Computes the changes to `rules`, in the order in which they have to be made, and assumes
    /// that they are made.
    ///
    /// # Errors
    /// If there are too many prefixes; then nothing changes.
    pub(super) fn change(&mut self, rules: &[(usize, &BundleRule)]) -> Result<Vec<Change>, Error> {
        let plan = Plan::new(rules);
        let sources = self.sources.with(&plan.sources);
        let destinations = self.destinations.with(&plan.destinations);
        let mut pairs = HashMap::new();
        for (source, s) in &sources.0 {
            for (destination, d) in &destinations.0 {
                if let Some(bundle) = best(rules, source, destination) {
                    pairs.insert((*s, *d), bundle as u32);
                }
            }
        }
        for (what, given, max) in [
            ("prefixes of sources", sources.0.len(), MAX_PREFIXES),
            ("prefixes of destinations", destinations.0.len(), MAX_PREFIXES),
            ("pairs of prefixes", pairs.len(), MAX_PAIRS),
        ] {
            if given > max {
                return Err(Error::TooMany { what, given, max });
            }
        }
        let mut changes = Vec::new();
        self.set_pairs(pairs, &mut changes);
        self.sources.set(sources, &plan.sources, &mut changes, Change::Source);
        self.destinations.set(destinations, &plan.destinations, &mut changes, Change::Destination);
        let used = |ids: &Ids| ids.0.values().copied().collect::<BTreeSet<u32>>();
        let (sources, destinations) = (used(&self.sources), used(&self.destinations));
        let mut pairs = self.pairs.clone();
        pairs.retain(|(s, d), _| sources.contains(s) && destinations.contains(d));
        self.set_pairs(pairs, &mut changes);
        Ok(changes)
    }

    fn set_pairs(&mut self, pairs: HashMap<(u32, u32), u32>, changes: &mut Vec<Change>) {
        // Deleted pairs go first, to make room.
        let gone = self.pairs.keys().filter(|pair| !pairs.contains_key(pair));
        changes.extend(gone.map(|pair| Change::Pair(*pair, None)));
        let new = pairs.iter().filter(|(pair, bundle)| self.pairs.get(pair) != Some(bundle));
        changes.extend(new.map(|(pair, bundle)| Change::Pair(*pair, Some(*bundle))));
        self.pairs = pairs;
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use forebay_wire::FingerprintKey;
    use proptest::prelude::*;

    use super::*;

    /// The maps as the kernel has them.
    #[derive(Clone, Default)]
    struct Maps {
        sources: BTreeMap<IpNet, u32>,
        destinations: BTreeMap<IpNet, u32>,
        pairs: HashMap<(u32, u32), u32>,
    }

    impl Maps {
        fn make(&mut self, change: Change) {
            fn set<K: Ord>(map: &mut BTreeMap<K, u32>, key: K, value: Option<u32>) {
                match value {
                    Some(value) => drop(map.insert(key, value)),
                    None => assert!(map.remove(&key).is_some(), "there is something to delete"),
                }
            }
            match change {
                Change::Source(prefix, id) => set(&mut self.sources, prefix, id),
                Change::Destination(prefix, id) => set(&mut self.destinations, prefix, id),
                Change::Pair(pair, Some(bundle)) => drop(self.pairs.insert(pair, bundle)),
                Change::Pair(pair, None) => assert!(self.pairs.remove(&pair).is_some()),
            }
        }

        /// The longest prefixes of a packet, and its bundle, as the program finds them.
        fn find(&self, source: IpAddr, destination: IpAddr) -> Option<(IpNet, IpNet, u32)> {
            let longest = |map: &BTreeMap<IpNet, u32>, address: IpAddr| {
                let fits = map.iter().filter(|(prefix, _)| prefix.contains(&address));
                fits.max_by_key(|(p, _)| p.prefix_len()).map(|(prefix, id)| (*prefix, *id))
            };
            let (source, s) = longest(&self.sources, source)?;
            let (destination, d) = longest(&self.destinations, destination)?;
            self.pairs.get(&(s, d)).map(|bundle| (source, destination, *bundle))
        }
    }

    fn prefix() -> impl Strategy<Value = IpNet> {
        // Few addresses and lengths, so that prefixes contain one another.
        (0u8..4, prop::sample::select(vec![0u8, 8, 16, 24]))
            .prop_map(|(host, length)| format!("10.{host}.1.0/{length}").parse::<IpNet>().unwrap())
            .prop_map(|prefix| prefix.trunc())
    }

    fn rules() -> impl Strategy<Value = Vec<(usize, BundleRule)>> {
        let rule = (prop::collection::vec(prefix(), 0..3), prop::collection::vec(prefix(), 1..3))
            .prop_map(|(sources, destinations)| BundleRule {
                sources,
                destinations,
                key: FingerprintKey([0; 2]),
                epoch: 1,
            });
        prop::collection::btree_map(0usize..5, rule, 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        /// A packet whose prefixes and bundle are the same before and after a change finds them at
        /// each moment between.
        #[test]
        fn a_change_has_no_gap(all in prop::collection::vec(rules(), 1..5)) {
            let (mut tables, mut maps) = (Tables::default(), Maps::default());
            let addresses = ["10.0.1.1", "10.1.1.1", "10.2.0.1", "10.3.1.9", "11.1.1.1"];
            let addresses = addresses.map(|address| address.parse::<IpAddr>().unwrap());
            let packets: Vec<_> = addresses
                .iter()
                .flat_map(|source| addresses.iter().map(move |destination| (*source, *destination)))
                .collect();
            for rules in all {
                let rules: Vec<_> = rules.iter().map(|(number, rule)| (*number, rule)).collect();
                let changes = tables.change(&rules).unwrap();
                let mut after = maps.clone();
                changes.iter().for_each(|change| after.make(*change));
                for &(source, destination) in &packets {
                    let single = |ip: IpAddr| IpNet::from(ip);
                    let expected = best(&rules, &single(source), &single(destination));
                    let found = after.find(source, destination).map(|(_, _, bundle)| bundle);
                    prop_assert_eq!(found, expected.map(|bundle| bundle as u32));
                }
                let before = maps.clone();
                for change in changes {
                    maps.make(change);
                    for &(source, destination) in &packets {
                        let of = |maps: &Maps| maps.find(source, destination);
                        if of(&before).is_some() && of(&before) == of(&after) {
                            prop_assert_eq!(of(&maps), of(&after), "{:?}", change);
                        }
                    }
                }
                prop_assert_eq!(tables.change(&rules).unwrap(), [], "nothing differs");
            }
        }
    }
}
