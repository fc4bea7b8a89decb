//! Longest-prefix match: from a destination address to a bundle.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

/// A table from prefixes to values. A look-up asks one hash map for each prefix length that occurs,
/// the longest first: a site has a handful.
#[derive(Debug, Default)]
pub(crate) struct PrefixTable<T> {
    v4: Vec<(u8, HashMap<IpNet, T>)>,
    v6: Vec<(u8, HashMap<IpNet, T>)>,
}

impl<T: Copy> PrefixTable<T> {
    pub(crate) fn new(entries: impl IntoIterator<Item = (IpNet, T)>) -> Self {
        let mut table = Self { v4: Vec::new(), v6: Vec::new() };
        for (prefix, value) in entries {
            let lengths = if prefix.addr().is_ipv4() { &mut table.v4 } else { &mut table.v6 };
            let length = prefix.prefix_len();
            let at = lengths.partition_point(|(l, _)| *l > length);
            if lengths.get(at).is_none_or(|(l, _)| *l != length) {
                lengths.insert(at, (length, HashMap::new()));
            }
            lengths[at].1.insert(prefix.trunc(), value);
        }
        table
    }

    /// The value of the longest prefix that covers `address`.
    pub(crate) fn find(&self, address: IpAddr) -> Option<T> {
        let lengths = if address.is_ipv4() { &self.v4 } else { &self.v6 };
        lengths.iter().find_map(|(length, prefixes)| {
            let prefix = IpNet::new(address, *length).ok()?.trunc();
            prefixes.get(&prefix).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longest_prefix_wins() {
        let entry = |p: &str, v| (p.parse::<IpNet>().unwrap(), v);
        let table = PrefixTable::new([
            entry("10.0.0.0/8", 1),
            entry("10.2.0.0/16", 2),
            entry("10.2.3.4/32", 3),
            entry("fd00::/16", 4),
            entry("::/0", 5),
        ]);
        let find = |a: &str| table.find(a.parse().unwrap());
        assert_eq!(find("10.9.9.9"), Some(1));
        assert_eq!(find("10.2.9.9"), Some(2));
        assert_eq!(find("10.2.3.4"), Some(3));
        assert_eq!(find("11.0.0.0"), None, "::/0 is not for IPv4");
        assert_eq!(find("fd00::1"), Some(4));
        assert_eq!(find("2001:db8::1"), Some(5));
    }

    proptest! {
        #[test]
        fn agrees_with_looking_at_every_prefix(
            prefixes in prop::collection::btree_map((any::<u32>(), 0u8..=32), any::<u16>(), 0..40),
            address in any::<u32>(),
            near in any::<prop::sample::Index>(),
        ) {
            let prefixes: Vec<(IpNet, u16)> = prefixes
                .into_iter()
                .map(|((a, l), v)| (IpNet::new(IpAddr::V4(a.into()), l).unwrap().trunc(), v))
                .collect::<HashMap<_, _>>()
                .into_iter()
                .collect();
            let table = PrefixTable::new(prefixes.iter().copied());
            let mut asked = vec![IpAddr::V4(address.into())];
            if !prefixes.is_empty() {
                asked.push(near.get(&prefixes).0.addr());
            }
            for address in asked {
                let naive = prefixes
                    .iter()
                    .filter(|(p, _)| p.contains(&address))
                    .max_by_key(|(p, _)| p.prefix_len())
                    .map(|(_, v)| *v);
                prop_assert_eq!(table.find(address), naive);
            }
        }
    }
}
