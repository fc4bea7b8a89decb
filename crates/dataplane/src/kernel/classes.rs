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
        let mut ports: Vec<_> = rules.iter().flat_map(|r| &r.ports).copied().collect();
        ports.sort_unstable();
        ports.dedup();
        let mut prefixes: Vec<_> =
            rules.iter().flat_map(|r| &r.prefixes).map(IpNet::trunc).collect();
        if prefixes.iter().any(covers_ipv4) {
            prefixes.push(IpNet::V4(Ipv4Net::default()));
        }
        prefixes.sort();
        prefixes.dedup();
        let covered = |p: &IpNet| bits(&|r| r.prefixes.iter().any(|q| q.contains(p)));
        Self {
            dscp: std::array::from_fn(|d| {
                bits(&|r| r.dscp.is_empty() || r.dscp.contains(&(d as u8)))
            }),
            any_port: bits(&|r| r.ports.is_empty()),
            any_prefix: bits(&|r| r.prefixes.is_empty()),
            last: rules.len() as u8,
            ports: ports.iter().map(|p| (*p, bits(&|r| r.ports.contains(p)))).collect(),
            prefixes: prefixes.iter().map(|p| (*p, covered(p))).collect(),
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

#[cfg(test)]
mod tests {
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
}
