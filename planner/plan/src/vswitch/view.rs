//! The view of one neighbour: its own inputs, and the prefixes of the users behind each output. It
//! shows no other routers, no links, no other neighbours and no load.

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::Serialize;

use crate::hints::alto::tag;
use crate::input::Users;
use crate::network::Network;
use crate::topology::RouterId;
use crate::vswitch::Map;

/// The vSwitch as one provider sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct View {
    /// The name of the provider.
    pub provider: String,
    /// The routers where the provider is connected, which it knows.
    pub inputs: Vec<String>,
    /// The outputs, in the order of their numbers from 0.
    pub outputs: Vec<OutputView>,
}

/// An output: a group of users.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutputView {
    /// The number of the output.
    pub output: u32,
    /// The prefixes of the users.
    pub prefixes: Vec<IpNet>,
}

impl View {
    /// Returns a tag that changes with the view, so that a program can say which view it is for.
    pub fn tag(&self) -> String {
        // Every value of this type has a form in JSON.
        tag(&serde_json::to_string(self).unwrap_or_default())
    }
}

/// Returns the vSwitch of `map` as the provider with index `provider` sees it.
///
/// `prefixes` has the routers of the users. Users that cannot be reached are in no output. Outputs
/// are numbered by their first prefix, so that a number discloses nothing of the router.
pub fn view(
    network: &Network,
    map: &Map,
    prefixes: &BTreeMap<IpNet, Users>,
    provider: usize,
) -> View {
    let own = &network.providers[provider];
    let outputs = outputs(map, prefixes);
    let outputs =
        outputs.into_iter().zip(0..).map(|((_, prefixes), output)| OutputView { output, prefixes });
    View {
        provider: own.name.clone(),
        inputs: own
            .entries
            .iter()
            .map(|e| network.topology.routers()[e.router.index()].name.clone())
            .collect(),
        outputs: outputs.collect(),
    }
}

/// Returns the boundary routers in the order of the outputs' numbers, each with its prefixes.
pub(crate) fn outputs(map: &Map, prefixes: &BTreeMap<IpNet, Users>) -> Vec<(RouterId, Vec<IpNet>)> {
    let mut groups: BTreeMap<RouterId, Vec<IpNet>> = BTreeMap::new();
    for (prefix, users) in prefixes {
        if let Some(boundary) = map.boundary[users.router.index()] {
            groups.entry(boundary).or_default().push(*prefix);
        }
    }
    let mut outputs: Vec<_> = groups.into_iter().collect();
    outputs.sort_by(|a, b| a.1.cmp(&b.1));
    outputs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use forebay_units::Rate;

    use super::*;
    use crate::network::{Demand, Entry, Provider};
    use crate::topology::{Link, Router, Topology};
    use crate::vswitch::map;

    /// Entries at the first two of `routers`; the others in a chain behind them, with links of
    /// `mbps`.
    fn network(names: &[&str], mbps: u64) -> Network {
        let routers =
            names.iter().map(|n| Router { name: (*n).to_owned(), serves: true }).collect();
        let link = |(from, to)| Link {
            from: RouterId(from),
            to: RouterId(to),
            capacity: Some(Rate::from_mbps(mbps)),
            metric: 1,
        };
        let links =
            (0..names.len() as u32 - 1).flat_map(|n| [(n, n + 1), (n + 1, n)]).map(link).collect();
        let provider = |name: &str, router| Provider {
            name: name.to_owned(),
            participates: true,
            weight: 1.0,
            entries: vec![Entry { router: RouterId(router), capacity: None }],
        };
        let demand =
            |provider| Demand { provider, entry: 0, egress: RouterId(2), rate: Rate::from_mbps(1) };
        Network {
            topology: Topology::new(String::new(), routers, links, Vec::new()),
            providers: vec![provider("x", 0), provider("y", 1)],
            demands: vec![demand(0), demand(1)],
            avoided: BTreeSet::new(),
        }
    }

    #[test]
    fn a_view_discloses_only_inputs_and_prefixes() {
        let prefixes: BTreeMap<IpNet, Users> = [
            ("10.1.0.0/16".parse().unwrap(), Users::behind(RouterId(2))),
            ("10.0.0.0/16".parse().unwrap(), Users::behind(RouterId(1))),
        ]
        .into();
        let small = network(&["in-x", "in-y", "secret"], 10);
        let seen = view(&small, &map(&small, 100), &prefixes, 0);
        let text = serde_json::to_string(&seen).unwrap();
        assert_eq!(
            text,
            r#"{"provider":"x","inputs":["in-x"],"outputs":[{"output":0,"prefixes":["10.0.0.0/16"]},{"output":1,"prefixes":["10.1.0.0/16"]}]}"#
        );
        // Another network behind the same entries looks the same.
        let mut other = network(&["in-x", "in-y", "other", "more", "and more"], 99);
        other.demands.pop();
        let other = view(&other, &map(&other, 100), &prefixes, 0);
        assert_eq!((&other, other.tag()), (&seen, seen.tag()));
        // A network with other users does not.
        let fewer = prefixes.into_iter().take(1).collect();
        assert_ne!(view(&small, &map(&small, 100), &fewer, 0).tag(), seen.tag());
    }
}
