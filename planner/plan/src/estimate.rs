//! Estimates demands from measured rates.
//!
//! The rate of TCP through a full link does not show the demand, since TCP takes the rate that it
//! gets. So the demand of a flow whose path has a full link is estimated as [`Config::growth`]
//! times the measured rate, until its paths have room or its rate stops rising. Plans that are
//! computed anew with every measurement find the demand in a few rounds, as a sender finds its
//! rate.
//!
//! The load of links is read from a separate file ([`carried_json`]), since interface counters
//! measure it, and not flow records.

mod carried;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use forebay_units::Rate;

use crate::network::{Demand, Network, Provider};
use crate::paths::PathCache;
use crate::topology::{LinkId, RouterId, Topology};

pub use carried::{carried_json, carried_text};

/// When a path is full, and how demand over a full path is estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The utilisation from which a link is full. It is below 1, since counters do not read a whole
    /// number of packets.
    pub full: f64,
    /// The estimated demand over a full link, relative to the measured rate.
    pub growth: f64,
}

impl Default for Config {
    /// Doubling finds any demand in a number of rounds that is logarithmic, and overestimates at
    /// most by two.
    fn default() -> Self {
        Self { full: 0.95, growth: 2.0 }
    }
}

/// Estimates demands from the `measured` ones, which are rates counted at the entries, and from the
/// rate `carried` on each link.
///
/// Traffic inside the network is assumed to use the shortest paths. A link or interconnection
/// without a capacity is never full, and neither is a link that was not counted.
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

/// Formats the demands of `network` as [`crate::input::demands_csv`] reads them, in bits per
/// second.
pub fn csv(network: &Network) -> String {
    csv_of(&network.demands, &network.providers, &network.topology)
}

/// Formats demands as [`crate::input::demands_csv`] reads them, in bits per second.
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

    /// Two entries to one router: `a` carries 10 Mbit/s to it, `b` any rate, and x's
    /// interconnection at `b` has 20 Mbit/s.
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
        // 9.5 of 10 Mbit/s is full, 9.4 is not; traffic of others fills a link too.
        assert_eq!(estimated([4 * mega, mega], [Some(9_500_000), None]), [8 * mega, mega]);
        assert_eq!(estimated([4 * mega, mega], [Some(9_400_000), None]), [4 * mega, mega]);
        // A full interconnection makes a path full; a link that was not counted does not.
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
