//! The gravity model: traffic between two places is in proportion to the product of their masses
//! (M. Roughan et al., "Experience in Measuring Backbone Traffic Variability", IMW 2002; section
//! 3.5.1).

use forebay_units::Rate;

use crate::input::ProviderFile;
use crate::network::Demand;
use crate::topology::{RouterId, Topology};

/// Returns demands that add up to `total`, except for rounding to bits.
///
/// They go from each entry by its mass to each router that serves users by the number of its links,
/// which is the only known measure of a router's importance.
pub fn gravity(total: Rate, providers: &ProviderFile, topology: &Topology) -> Vec<Demand> {
    let users: Vec<(RouterId, f64)> = topology
        .ids()
        .filter(|r| topology.routers()[r.index()].serves)
        .map(|r| (r, topology.leaving(r).len() as f64))
        .collect();
    let all_users: f64 = users.iter().map(|u| u.1).sum();
    let all_masses: f64 = providers.masses.iter().flatten().sum();
    let mut demands = Vec::new();
    for (masses, provider) in providers.masses.iter().zip(0..) {
        for (mass, entry) in masses.iter().zip(0..) {
            demands.extend(users.iter().filter(|u| u.1 > 0.0).map(|(egress, users)| Demand {
                provider,
                entry,
                egress: *egress,
                rate: total.scaled(mass / all_masses * users / all_users),
            }));
        }
    }
    demands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Entry, Provider};
    use crate::topology::{Link, Router};

    #[test]
    fn demands_are_products_of_masses() {
        let routers =
            ["a", "b", "c"].map(|n| Router { name: n.to_owned(), serves: n != "c" }).to_vec();
        let link =
            |from, to| Link { from: RouterId(from), to: RouterId(to), capacity: None, metric: 1 };
        let topology = Topology::new(
            String::new(),
            routers,
            vec![link(0, 1), link(0, 2), link(1, 0), link(2, 0)],
            Vec::new(),
        );
        let entry = |router| Entry { router: RouterId(router), capacity: None };
        let provider = Provider {
            name: "x".to_owned(),
            participates: true,
            weight: 1.0,
            entries: vec![entry(0), entry(1)],
        };
        let file = ProviderFile {
            providers: vec![provider],
            masses: vec![vec![3.0, 1.0]],
            profiles: Vec::new(),
            asn: None,
            asns: Default::default(),
        };
        let rates: Vec<_> = gravity(Rate::from_bps(1200), &file, &topology)
            .iter()
            .map(|d| (d.entry, d.egress.0, d.rate.as_bps()))
            .collect();
        assert_eq!(rates, [(0, 0, 600), (0, 1, 300), (1, 0, 200), (1, 1, 100)]);
    }
}
