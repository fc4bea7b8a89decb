//! The classes of a bundle as tables, in which a few lookups find the class of a packet.
//!
//! A class has lists, and a packet fits if it is in each list that is not empty. The tables have,
//! for every value of a field, the classes that accept it, as bits. The logical *and* of a packet's
//! entries has the classes that fit.

use ipnet::{IpNet, Ipv4Net};

use crate::bundles::covers_ipv4;

/// The largest number of classes of a bundle: the bits of a byte.
pub const MAX_CLASSES: usize = 8;

/// The packets of a class. A packet must fit every list that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRule {
    /// Differentiated services code points (RFC 2474), of 6 bits.
    pub dscp: Vec<u8>,
    /// The source or destination ports.
    pub ports: Vec<u16>,
    /// The prefixes of the source or destination address.
    pub prefixes: Vec<IpNet>,
}

/// The tables of one bundle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tables {
    /// The classes that accept each code point.
    pub(super) dscp: [u8; 64],
    /// The classes that accept any port.
    pub(super) any_port: u8,
    /// The classes that accept any address.
    pub(super) any_prefix: u8,
    /// The class of packets that fit no other.
    pub(super) last: u8,
    /// The classes that accept each listed port.
    pub(super) ports: Vec<(u16, u8)>,
    /// The classes that accept an address whose longest prefix in this list is the given one.
    pub(super) prefixes: Vec<(IpNet, u8)>,
}

impl Tables {
    /// Computes the tables of the classes, in order and without the last, which takes the rest.
    pub(super) fn new(rules: &[ClassRule]) -> Self {
        let all = rules.iter().zip(0_u32..);
        let bits = |fits: &dyn Fn(&ClassRule) -> bool| {
            all.clone().filter(|(rule, _)| fits(rule)).fold(0_u8, |bits, (_, i)| bits | 1 << i)
        };
        let mut ports = listed(rules, |rule| rule.ports.iter().copied());
        let mut prefixes = listed(rules, |rule| rule.prefixes.iter().map(IpNet::trunc));
        if prefixes.iter().any(|(prefix, _)| covers_ipv4(prefix)) {
            prefixes.push((IpNet::V4(Ipv4Net::default()), 0));
        }
        merge(&mut ports);
        merge(&mut prefixes);
        // A prefix is in the order behind those that contain it.
        let mut outer: Vec<(IpNet, u8)> = Vec::new();
        for (prefix, bits) in &mut prefixes {
            while outer.last().is_some_and(|(outer, _)| !outer.contains(&*prefix)) {
                outer.pop();
            }
            *bits |= outer.last().map_or(0, |(_, bits)| *bits);
            outer.push((*prefix, *bits));
        }
        Self {
            dscp: std::array::from_fn(|d| {
                bits(&|r| r.dscp.is_empty() || r.dscp.contains(&(d as u8)))
            }),
            any_port: bits(&|r| r.ports.is_empty()),
            any_prefix: bits(&|r| r.prefixes.is_empty()),
            last: rules.len() as u8,
            ports,
            prefixes,
        }
    }

    /// Encodes `struct classes` of bpf/egress.bpf.c.
    pub(super) fn to_bytes(&self) -> [u8; 67] {
        let mut bytes = [0; 67];
        bytes[..64].copy_from_slice(&self.dscp);
        bytes[64..].copy_from_slice(&[self.any_port, self.any_prefix, self.last]);
        bytes
    }
}

/// Returns what the rules list, each with the bit of its class.
fn listed<'a, T, L>(rules: &'a [ClassRule], list: impl Fn(&'a ClassRule) -> L) -> Vec<(T, u8)>
where
    L: Iterator<Item = T>,
{
    let classes = rules.iter().zip(0_u32..);
    classes.flat_map(|(rule, class)| list(rule).map(move |listed| (listed, 1 << class))).collect()
}

/// Sorts a table, and gives equal entries the bits of all of them.
fn merge<T: Ord>(table: &mut Vec<(T, u8)>) {
    table.sort_unstable();
    table.dedup_by(|next, kept| {
        let is_equal = next.0 == kept.0;
        if is_equal {
            kept.1 |= next.1;
        }
        is_equal
    });
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn classes_that_accept_a_prefix_accept_longer_ones() {
        let rule = |prefixes: &[&str], ports: &[u16]| ClassRule {
            dscp: vec![],
            ports: ports.to_vec(),
            prefixes: prefixes.iter().map(|p| p.parse().unwrap()).collect(),
        };
        let tables = Tables::new(&[rule(&["10.1.2.0/24"], &[53]), rule(&["10.0.0.0/8"], &[])]);
        let expected = [("10.0.0.0/8", 0b10), ("10.1.2.0/24", 0b11)];
        assert_eq!(tables.prefixes, expected.map(|(p, bits)| (p.parse().unwrap(), bits)));
        assert_eq!(tables.ports, [(53, 0b01)]);
        assert_eq!((tables.any_port, tables.any_prefix, tables.last), (0b10, 0, 2));
        assert_eq!(tables.dscp, [0b11; 64]);
    }

    fn any_prefix() -> impl Strategy<Value = IpNet> {
        // Few different bits, so that prefixes contain each other.
        prop_oneof![
            (any::<u8>(), 0..=8_u8)
                .prop_map(|(bits, len)| IpNet::new([bits, 0, 0, 0].into(), len).unwrap()),
            (any::<u16>(), 0..=16_u8).prop_map(|(bits, len)| IpNet::new(
                [bits, 0, 0, 0, 0, 0, 0, 0].into(),
                len
            )
            .unwrap()),
        ]
    }

    proptest! {
        /// The tables are what their fields' descriptions say.
        #[test]
        fn tables_have_the_classes_of_every_entry(
            lists in vec((vec(0..20_u16, 0..5), vec(any_prefix(), 0..12)), 0..MAX_CLASSES),
        ) {
            let rules: Vec<_> = lists
                .into_iter()
                .map(|(ports, prefixes)| ClassRule { dscp: vec![], ports, prefixes })
                .collect();
            let tables = Tables::new(&rules);
            let bits = |accepts: &dyn Fn(&ClassRule) -> bool| {
                (0..rules.len()).filter(|i| accepts(&rules[*i])).fold(0, |bits, i| bits | 1 << i)
            };
            for (port, classes) in &tables.ports {
                prop_assert_eq!(*classes, bits(&|r| r.ports.contains(port)));
            }
            for (prefix, classes) in &tables.prefixes {
                let accepts = |r: &ClassRule| r.prefixes.iter().any(|p| p.contains(prefix));
                prop_assert_eq!(*classes, bits(&accepts), "{}", prefix);
            }
            let ports: std::collections::BTreeSet<_> = rules.iter().flat_map(|r| &r.ports).collect();
            prop_assert!(tables.ports.iter().map(|(port, _)| port).eq(ports));
            let mut prefixes: std::collections::BTreeSet<_> =
                rules.iter().flat_map(|r| &r.prefixes).map(IpNet::trunc).collect();
            if prefixes.iter().any(covers_ipv4) {
                prefixes.insert(IpNet::V4(Ipv4Net::default()));
            }
            prop_assert!(tables.prefixes.iter().map(|(prefix, _)| *prefix).eq(prefixes));
        }
    }
}
