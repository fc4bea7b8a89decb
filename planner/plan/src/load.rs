//! The load of the present routing on the links: every demand on the shortest path from its entry.

use std::collections::BTreeMap;

use crate::network::{Demand, Provider};
use crate::paths::{Entering, Tree};
use crate::topology::{RouterId, Topology};

/// Returns the load of each link in bits per second, if nothing is dropped.
pub fn shortest(topology: &Topology, providers: &[Provider], demands: &[Demand]) -> Vec<f64> {
    let mut load = vec![0.0; topology.links().len()];
    let mut to: BTreeMap<RouterId, Vec<&Demand>> = BTreeMap::new();
    for demand in demands {
        to.entry(demand.egress).or_default().push(demand);
    }
    let entering = Entering::of(topology);
    for (target, demands) in to {
        let tree = Tree::to(topology, &entering, target);
        for demand in demands {
            let mut at = providers[demand.provider as usize].entries[demand.entry as usize].router;
            while let Some(link) = tree.next[at.index()] {
                load[link.index()] += demand.rate.as_bps() as f64;
                at = topology.link(link).to;
            }
        }
    }
    load
}
