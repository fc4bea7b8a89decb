//! Compares the file of the topology with what routers report by BMP: their names, the next hops of
//! routes, and with BGP-LS the routers and links of the network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use forebay_plan::topology::{RouterId, Topology};
use forebay_routes::link_state::{Graph, Router};
use serde::Serialize;

/// The most names of each kind that the check has; all are counted.
const NAMED: usize = 100;

/// Names, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Names {
    /// The number of all.
    pub count: usize,
    /// The first of them.
    pub names: Vec<String>,
}

impl Names {
    fn of(all: impl IntoIterator<Item = String>) -> Self {
        let mut found = Self::default();
        for name in all {
            found.count += 1;
            if found.names.len() < NAMED {
                found.names.push(name);
            }
        }
        found
    }
}

/// Where the file of the topology and the reports of routers differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TopologyCheck {
    /// Whether routers report the topology by BGP-LS, so that it could be compared.
    pub link_state: bool,
    /// Routers of the file that nothing shows: no BMP session and no router of BGP-LS has the name,
    /// and no route leads to one of their next hops.
    pub unseen: Names,
    /// Routers that BGP-LS reports and the file does not have, by name and next hop.
    pub unknown: Names,
    /// Links, as pairs of routers, that BGP-LS reports and the file does not have.
    pub links_only_reported: Names,
    /// Links of the file, between routers that BGP-LS reports, that it does not report.
    pub links_only_in_file: Names,
}

impl TopologyCheck {
    /// Compares `topology` with the names of the routers that have a session, the routers that
    /// routes lead to, and `graph`. `next_hops` has the router of each known address.
    pub fn new(
        topology: &Topology,
        sessions: &BTreeSet<&str>,
        used: &BTreeSet<RouterId>,
        graph: &Graph,
        next_hops: &BTreeMap<IpAddr, RouterId>,
    ) -> Self {
        let by_name = topology.by_name();
        let find = |router: &Router| {
            let named = router.name.as_deref().and_then(|name| by_name.get(name)).copied();
            named.or_else(|| router.addresses.iter().find_map(|a| next_hops.get(a)).copied())
        };
        let reported = graph.routers();
        let found: BTreeMap<&[u8], RouterId> =
            reported.iter().filter_map(|(id, r)| Some((&id[..], find(r)?))).collect();
        let seen: BTreeSet<RouterId> = found.values().copied().collect();
        let name = |id: RouterId| topology.routers()[id.index()].name.clone();
        let unseen = topology.ids().filter(|id| {
            let named = sessions.contains(topology.routers()[id.index()].name.as_str());
            !named && !used.contains(id) && !seen.contains(id)
        });
        let unknown = reported.iter().filter(|(id, _)| !found.contains_key(&id[..]));
        let unknown = unknown.map(|(id, router)| {
            let addresses: Vec<_> = router.addresses.iter().map(ToString::to_string).collect();
            let hex = || id.iter().map(|octet| format!("{octet:02x}")).collect();
            router.name.clone().or(addresses.first().cloned()).unwrap_or_else(hex)
        });
        let mut pairs = BTreeSet::new();
        for (from, to) in graph.adjacencies() {
            if let (Some(from), Some(to)) = (found.get(&from[..]), found.get(&to[..])) {
                pairs.insert((*from, *to));
            }
        }
        let in_file: BTreeSet<_> = topology.links().iter().map(|l| (l.from, l.to)).collect();
        let text = |(from, to): &(RouterId, RouterId)| format!("{} - {}", name(*from), name(*to));
        let both = |(from, to): &&(RouterId, RouterId)| seen.contains(from) && seen.contains(to);
        Self {
            link_state: !graph.is_empty(),
            unseen: Names::of(unseen.map(name)),
            unknown: Names::of(unknown),
            links_only_reported: Names::of(pairs.difference(&in_file).map(text)),
            links_only_in_file: Names::of(in_file.difference(&pairs).filter(both).map(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_plan::input;
    use forebay_routes::link_state::{NodeId, Object, Said};
    use forebay_routes::table::{Limits, Table};

    use super::*;

    #[test]
    fn routers_that_nothing_shows_are_named() {
        let text = r#"{"directed": false, "nodes": [{"id": 0, "label": "rome"}, {"id": 1, "label": "oslo"},
            {"id": 2, "label": "bonn"}, {"id": 3, "label": "riga"}],
            "links": [{"source": 0, "target": 1}, {"source": 1, "target": 2}]}"#;
        let topology = input::topology("t.json".as_ref(), text).unwrap();
        let next_hops = [([192, 0, 2, 3].into(), RouterId(2))].into();
        let (sessions, used) = (["rome"].into(), [RouterId(2)].into());
        let graph = Graph::default();
        let check = TopologyCheck::new(&topology, &sessions, &used, &graph, &next_hops);
        let unseen = Names { count: 2, names: vec!["oslo".to_owned(), "riga".to_owned()] };
        assert_eq!(check, TopologyCheck { unseen, ..TopologyCheck::default() });
        // BGP-LS reports rome by name, bonn by an address, a link between them that the file does
        // not have, and a router that it does not have either.
        let mut table = Table::new(Limits::default());
        let peer = table.add_peer("rome", [192, 0, 2, 1].into(), 64500).unwrap();
        let node = |last: u8| NodeId {
            protocol: 3,
            instance: 0,
            descriptors: [last].into(),
            router: [10, 0, 0, last].into(),
        };
        let said = |name: Option<&str>, address: u8| Said {
            name: name.map(str::to_owned),
            addresses: vec![[192, 0, 2, address].into()],
            ..Said::default()
        };
        let mut graph = Graph::default();
        graph.announce(peer, Object::Node(node(1)), &said(Some("rome"), 1));
        graph.announce(peer, Object::Node(node(3)), &said(None, 3));
        graph.announce(peer, Object::Node(node(9)), &said(None, 9));
        let link = |from, to| Object::Link { from, to, descriptors: [].into() };
        graph.announce(peer, link(node(1), node(3)), &Said::default());
        let check = TopologyCheck::new(&topology, &sessions, &used, &graph, &next_hops);
        assert!(check.link_state);
        assert_eq!(check.unseen.names, ["oslo", "riga"]);
        assert_eq!(check.unknown.names, ["10.0.0.9"]);
        assert_eq!(check.links_only_reported.names, ["rome - bonn"]);
        assert_eq!(check.links_only_in_file.count, 0, "oslo is not reported");
        graph.announce(peer, Object::Node(node(2)), &said(Some("oslo"), 2));
        let check = TopologyCheck::new(&topology, &sessions, &used, &graph, &next_hops);
        let missing = ["rome - oslo", "oslo - rome", "oslo - bonn", "bonn - oslo"];
        assert_eq!(check.links_only_in_file.names, missing);
        assert_eq!(check.unseen.names, ["riga"]);
    }
}
