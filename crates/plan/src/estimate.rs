//! Demands estimated from what was counted.
//!
//! What TCP sends through a full link says nothing of what it would send: it takes what it gets. So a flow whose way has a
//! full link is taken to want [`Config::growth`] times what is measured, until its ways have room or nothing more comes.
//! A plan that is made again with every measurement finds out in a few rounds, as a sender finds its rate.
//!
//! What links carry is read from a file of its own ([`carried_json`]), since interfaces count it, and not whoever
//! counts flows.

mod carried;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use forebay_units::Rate;

use crate::network::{Demand, Network, Provider};
use crate::paths::PathCache;
use crate::topology::{LinkId, RouterId, Topology};

pub use carried::{carried_json, carried_text};

/// When a way is full, and what is made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// A link that carries this part of its capacity is full. Below 1, since no counter reads a whole number of packets.
    pub full: f64,
    /// What is measured over a full link is taken to be this part of what is wanted.
    pub growth: f64,
}

impl Default for Config {
    /// Doubling finds any demand in as many rounds as it has bits, and asks for no more than twice too much.
    fn default() -> Self {
        Self { full: 0.95, growth: 2.0 }
    }
}

/// What `measured`'s demands, which are rates as they were counted at the entries, are estimated to be, where `carried` is
/// what was counted on each link. Traffic inside is taken to go the shortest ways.
///
/// A link or an interconnection without a capacity is never full; a link that was not counted, neither.
pub fn demands(measured: &Network, carried: &[Option<Rate>], config: &Config) -> Vec<Demand> {
    let topology = &measured.topology;
    let ingress = |d: &Demand| measured.providers[d.provider as usize].entries[d.entry as usize];
    let mut paths = PathCache::new(NonZeroUsize::MIN);
    paths.fill(topology, measured.demands.iter().map(|d| (ingress(d).router, d.egress)));
    let is_full = |capacity: Option<Rate>, rate: f64| {
        capacity.is_some_and(|c| rate >= config.full * c.as_bps() as f64)
    };
    let mut handed_over: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for demand in &measured.demands {
        let key = (demand.provider, demand.entry);
        *handed_over.entry(key).or_default() += demand.rate.as_bps() as f64;
    }
    let link = |id: &LinkId| {
        let rate = carried.get(id.index()).copied().flatten().unwrap_or(Rate::ZERO);
        is_full(topology.link(*id).capacity, rate.as_bps() as f64)
    };
    let estimate = |d: &Demand| {
        let entry = ingress(d);
        let way = paths.get(entry.router, d.egress).first();
        let full = is_full(entry.capacity, handed_over[&(d.provider, d.entry)])
            || way.is_some_and(|way| way.links.iter().any(link));
        let factor = if full { config.growth } else { 1.0 };
        Demand { rate: Rate::from_bps_f64(d.rate.as_bps() as f64 * factor), ..*d }
    };
    measured.demands.iter().map(estimate).collect()
}

/// `network`'s demands as [`crate::input::demands_csv`] reads them, in bits per second.
pub fn csv(network: &Network) -> String {
    csv_of(&network.demands, &network.providers, &network.topology)
}

/// Demands as [`crate::input::demands_csv`] reads them, in bits per second.
pub fn csv_of(demands: &[Demand], providers: &[Provider], topology: &Topology) -> String {
    let mut text = "provider,entry,router,demand\n".to_owned();
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    for demand in demands {
        let provider = &providers[demand.provider as usize];
        let router = |id: RouterId| quoted(&topology.routers()[id.index()].name);
        let entry = provider.entries[demand.entry as usize].router;
        let rate = demand.rate.as_bps();
        text += &format!(
            "{},{},{},{rate}\n",
            quoted(&provider.name),
            router(entry),
            router(demand.egress)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::input;

    /// Two entries to one router: `a` carries 10 Mbit/s to it, `b` any rate, and x's hand-over at `b` 20 Mbit/s.
    fn network(rates: [u64; 2]) -> Network {
        let text = r#"{"directed": true, "nodes": [{"id": 0, "label": "a"}, {"id": 1, "label": "b"}, {"id": 2, "label": "c,d"}],
            "links": [{"source": 0, "target": 2, "capacity": "10 Mbit/s"}, {"source": 1, "target": 2}]}"#;
        let topology = input::topology("t.json".as_ref(), text).unwrap();
        let text = "[[provider]]\nname = \"x \\\"1\\\"\"\nentry = [{ router = \"a\" }, { router = \"b\", capacity = \"20 Mbit/s\" }]";
        let providers = input::providers("p.toml".as_ref(), text, &topology).unwrap().providers;
        let egress = topology.router("c,d").unwrap();
        let demand =
            |(entry, rate)| Demand { provider: 0, entry, egress, rate: Rate::from_bps(rate) };
        let demands = (0..).zip(rates).map(demand).collect();
        Network { topology, providers, demands, avoided: BTreeSet::new() }
    }

    fn estimated(rates: [u64; 2], carried: [Option<u64>; 2]) -> Vec<u64> {
        let carried = carried.map(|c| c.map(Rate::from_bps));
        let demands = demands(&network(rates), &carried, &Config::default());
        demands.iter().map(|d| d.rate.as_bps()).collect()
    }

    #[test]
    fn a_full_way_hides_demand() {
        let mega = 1_000_000;
        // 9.5 of 10 Mbit/s is full, 9.4 is not; others' traffic fills it too.
        assert_eq!(estimated([4 * mega, mega], [Some(9_500_000), None]), [8 * mega, mega]);
        assert_eq!(estimated([4 * mega, mega], [Some(9_400_000), None]), [4 * mega, mega]);
        // A full interconnection is a full way; a link that nobody counted is not.
        assert_eq!(estimated([mega, 19 * mega], [None, Some(19 * mega)]), [mega, 38 * mega]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let network = network([1, 1_000_000_007]);
        let read = input::demands_csv(
            "d.csv".as_ref(),
            &csv(&network),
            &network.providers,
            &network.topology,
        );
        assert_eq!(read.unwrap(), network.demands);
    }
}
