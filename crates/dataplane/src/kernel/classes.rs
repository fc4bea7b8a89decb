//! Which class of its bundle a packet is in, as tables that a few lookups answer from.
//!
//! A class has lists, and a packet fits if it is in each list that is not empty. The tables hold, for
//! every value of a field, the classes that it is welcome in, as bits: what remains after a logical
//! *and* are the classes that fit.

use ipnet::{IpNet, Ipv4Net};

use crate::bundles::covers_ipv4;

/// The classes that a bundle may have: bits of a byte.
pub const MAX_CLASSES: usize = 8;

/// What a class takes. Every list that is not empty must have something that fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRule {
    /// Differentiated services code points (RFC 2474), of 6 bits.
    pub dscp: Vec<u8>,
    /// Source or destination ports.
    pub ports: Vec<u16>,
    /// Prefixes of the source or of the destination.
    pub prefixes: Vec<IpNet>,
}

/// The tables of one bundle.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tables {
    /// For each code point the classes that take it.
    pub(super) dscp: [u8; 64],
    /// The classes that take any port, or any address.
    pub(super) any_port: u8,
    pub(super) any_prefix: u8,
    /// The class of what fits nowhere.
    pub(super) last: u8,
    /// The classes that take a port that is listed.
    pub(super) ports: Vec<(u16, u8)>,
    /// The classes that take an address whose longest prefix in this list is this.
    pub(super) prefixes: Vec<(IpNet, u8)>,
}

impl Tables {
    /// Of the classes, in order, without the last, which takes the rest.
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

    /// `struct classes` of bpf/egress.bpf.c.
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
    fn a_longer_prefix_is_welcome_where_a_shorter_one_is() {
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
