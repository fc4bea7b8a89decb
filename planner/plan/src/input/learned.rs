//! Where users are, as the network's routes tell, instead of a file of prefixes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use forebay_routes::table::{Table, best};
use ipnet::IpNet;

use crate::input::{MAX_DEMANDS, Users};
use crate::topology::RouterId;

/// The prefixes of users that routes tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learned {
    /// The prefixes, with the router behind which each is.
    pub prefixes: BTreeMap<IpNet, Users>,
    /// The number of prefixes at each next hop that is at no known router; `None` is for routes
    /// without a next hop.
    pub unknown: BTreeMap<Option<IpAddr>, usize>,
    /// The number of prefixes beyond a million, which are left out.
    pub left_out: usize,
}

/// Returns the prefixes of `table` that leave the network at a router of `next_hops`.
///
/// A prefix belongs to the router of its best route's next hop: a router's own address where it
/// sets itself as the next hop, or else the address of a neighbour behind it.
pub fn learned(table: &Table, next_hops: &BTreeMap<IpAddr, RouterId>) -> Learned {
    let mut learned = Learned::default();
    for (prefix, routes) in table.iter() {
        let Some(route) = best(routes) else { continue };
        let next_hop = route.attributes.next_hop;
        match next_hop.and_then(|hop| next_hops.get(&hop.to_canonical())) {
            None => *learned.unknown.entry(next_hop).or_default() += 1,
            Some(_) if learned.prefixes.len() == MAX_DEMANDS => learned.left_out += 1,
            Some(router) => {
                learned.prefixes.insert(prefix, Users::behind(*router));
            }
        }
    }
    learned
}

#[cfg(test)]
mod tests {
    use forebay_routes::attributes::Attributes;
    use forebay_routes::table::Limits;

    use super::*;

    #[test]
    fn a_prefix_is_behind_the_next_hop_of_its_best_route() {
        let mut table = Table::new(Limits::default());
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let peers = [1, 2].map(|last| table.add_peer("r", address(last), 64500).unwrap());
        let mut add = |peer: usize, prefix: &str, hop: u8, path: &[u32], preference| {
            let attributes = Attributes {
                path: path.into(),
                next_hop: Some(address(hop)),
                local_preference: preference,
                ..Attributes::default()
            };
            let attributes = table.share(attributes);
            table.announce(peers[peer], prefix.parse().unwrap(), 0, &attributes);
        };
        // The shorter path wins, then the higher preference.
        add(0, "10.0.0.0/8", 1, &[64500, 64510], None);
        add(1, "10.0.0.0/8", 2, &[64510], None);
        add(0, "10.1.0.0/16", 1, &[64500, 64510], Some(200));
        add(1, "10.1.0.0/16", 2, &[64510], None);
        add(0, "10.2.0.0/16", 9, &[64510], None);
        let next_hops = [(address(1), RouterId(0)), (address(2), RouterId(1))].into();
        let learned = learned(&table, &next_hops);
        let found: Vec<_> =
            learned.prefixes.iter().map(|(net, users)| (net.to_string(), users.router.0)).collect();
        assert_eq!(found, [("10.0.0.0/8".to_owned(), 1), ("10.1.0.0/16".to_owned(), 0)]);
        assert_eq!(learned.unknown, [(Some(address(9)), 1)].into());
        assert_eq!(learned.left_out, 0);
    }
}
