//! Hints as ALTO maps (RFC 7285), for neighbours and tools that read these.
//!
//! The network map has groups of prefixes that share a hint, and the cost map ranks the neighbour's
//! entries for each group. A pair of maps is for one neighbour, and has only its own entries and
//! hints. A prefix without a hint is in no row, which the protocol allows (section 11.2.3).

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::Serialize;
use serde_json::{Value, json};

use crate::hints::Neighbour;
use crate::hints::Profile;
use crate::network::Network;

/// The media type of a network map (RFC 7285, section 11.2.1.1).
pub const NETWORK_MAP: &str = "application/alto-networkmap+json";
/// The media type of a cost map (RFC 7285, section 11.2.3.1).
pub const COST_MAP: &str = "application/alto-costmap+json";
/// The resource that cost maps refer to.
const RESOURCE: &str = "forebay-hints";

/// The two maps of one neighbour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Maps {
    /// The network map, of type [`NETWORK_MAP`].
    pub network_map: Value,
    /// The cost map, of type [`COST_MAP`].
    pub cost_map: Value,
}

/// Returns the maps of `neighbour`, which is provider `number` of the network.
pub fn maps(neighbour: &Neighbour, network: &Network, profile: &Profile, number: usize) -> Maps {
    let entries = &network.providers[number].entries;
    let name = |at: usize| &network.topology.routers()[entries[at].router.index()].name;
    // Prefixes are grouped by entry, since a neighbour may know nothing finer.
    let mut groups: BTreeMap<usize, Vec<IpNet>> = BTreeMap::new();
    for hint in &neighbour.hints {
        if let Some(at) = (0..entries.len()).find(|at| *name(*at) == hint.entry) {
            groups.entry(at).or_default().push(hint.prefix);
        }
    }
    let mut map = serde_json::Map::new();
    for at in 0..entries.len() {
        // A source is identified by the neighbour's own address at the entry.
        let address = profile.peers.get(at).copied().flatten().map(IpNet::from);
        map.insert(input(at), endpoints(address.as_slice()));
    }
    for (at, prefixes) in &groups {
        map.insert(output(*at), endpoints(prefixes));
    }
    let map = Value::Object(map);
    let tag = tag(&map.to_string());
    let mut costs = serde_json::Map::new();
    for at in 0..entries.len() {
        let row = groups.keys().map(|to| (output(*to), json!(if at == *to { 1 } else { 2 })));
        let row: serde_json::Map<String, Value> = row.collect();
        if !row.is_empty() {
            costs.insert(input(at), Value::Object(row));
        }
    }
    Maps {
        network_map: json!({
            "meta": { "vtag": { "resource-id": RESOURCE, "tag": tag } },
            "network-map": map,
        }),
        cost_map: json!({
            "meta": {
                "dependent-vtags": [{ "resource-id": RESOURCE, "tag": tag }],
                "cost-type": { "cost-mode": "ordinal", "cost-metric": "routingcost" },
            },
            "cost-map": costs,
        }),
    }
}

/// Returns the identifier of an entry. Names of routers may have characters that ALTO does not
/// allow (RFC 7285, section 10.1).
fn input(at: usize) -> String {
    format!("entry.{at}")
}

/// Returns the identifier of the group of prefixes that should come in at an entry.
fn output(at: usize) -> String {
    format!("users.{at}")
}

/// Returns a group of addresses by family (RFC 7285, section 10.4.5).
fn endpoints(prefixes: &[IpNet]) -> Value {
    let of = |v4: bool| -> Vec<String> {
        let own = prefixes.iter().filter(|p| matches!(p, IpNet::V4(_)) == v4);
        own.map(ToString::to_string).collect()
    };
    let mut group = serde_json::Map::new();
    for (family, prefixes) in [("ipv4", of(true)), ("ipv6", of(false))] {
        if !prefixes.is_empty() {
            group.insert(family.to_owned(), json!(prefixes));
        }
    }
    Value::Object(group)
}

/// Returns a tag that changes with the map (RFC 7285, section 10.3): FNV-1a of its text, 64 bits.
pub(crate) fn tag(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
