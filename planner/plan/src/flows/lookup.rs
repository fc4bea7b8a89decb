//! The longest prefix of an address.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;

/// Prefixes by length, the longest first, each family's apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookup {
    v4: Vec<(u8, HashMap<u32, u32>)>,
    v6: Vec<(u8, HashMap<u128, u32>)>,
}

fn mask(bits: u128, length: u8) -> u128 {
    bits & !u128::MAX.checked_shr(u32::from(length)).unwrap_or(0)
}

fn short(bits: u32, length: u8) -> u32 {
    bits & !u32::MAX.checked_shr(u32::from(length)).unwrap_or(0)
}

impl Lookup {
    /// Of prefixes, each with its number.
    pub(crate) fn new<'a>(prefixes: impl IntoIterator<Item = (&'a IpNet, u32)>) -> Self {
        let mut v4: BTreeMap<u8, HashMap<u32, u32>> = BTreeMap::new();
        let mut v6: BTreeMap<u8, HashMap<u128, u32>> = BTreeMap::new();
        for (prefix, number) in prefixes {
            match prefix {
                IpNet::V4(p) => {
                    v4.entry(p.prefix_len()).or_default().insert(p.network().to_bits(), number)
                }
                IpNet::V6(p) => {
                    v6.entry(p.prefix_len()).or_default().insert(p.network().to_bits(), number)
                }
            };
        }
        Self { v4: v4.into_iter().rev().collect(), v6: v6.into_iter().rev().collect() }
    }

    /// The number of the longest prefix that has `address` in it.
    pub(crate) fn longest(&self, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(a) => self
                .v4
                .iter()
                .find_map(|(length, all)| all.get(&short(a.to_bits(), *length)).copied()),
            IpAddr::V6(a) => self
                .v6
                .iter()
                .find_map(|(length, all)| all.get(&mask(a.to_bits(), *length)).copied()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn by_hand() {
        let prefixes = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.0.7/32", "2001:db8::/32"];
        let prefixes = prefixes.map(|p| p.parse::<IpNet>().unwrap());
        let lookup = Lookup::new(prefixes.iter().zip(0..));
        let of = |address: &str| lookup.longest(address.parse().unwrap());
        assert_eq!((of("192.0.2.1"), of("10.2.0.1"), of("10.1.0.6")), (Some(0), Some(1), Some(2)));
        assert_eq!((of("10.1.0.7"), of("2001:db8::1"), of("2001:db9::")), (Some(3), Some(4), None));
        assert_eq!(Lookup::default().longest("::1".parse().unwrap()), None);
    }

    proptest! {
        /// Against looking at all of them. Few bits vary, so that prefixes are inside one another.
        #[test]
        fn as_the_slow_way(
            prefixes in prop::collection::btree_set((any::<bool>(), 0_u128..16, 0_u8..=6), 0..20),
            address in (any::<bool>(), 0_u128..64),
        ) {
            let net = |(six, bits, length): (bool, u128, u8)| {
                let whole = if six {
                    IpNet::new(std::net::Ipv6Addr::from_bits(bits << 124).into(), length)
                } else {
                    IpNet::new(std::net::Ipv4Addr::from_bits((bits << 28) as u32).into(), length)
                };
                whole.unwrap().trunc()
            };
            let prefixes: std::collections::BTreeSet<IpNet> = prefixes.into_iter().map(net).collect();
            let address: IpAddr = match address {
                (true, bits) => std::net::Ipv6Addr::from_bits(bits << 122).into(),
                (false, bits) => std::net::Ipv4Addr::from_bits((bits << 26) as u32).into(),
            };
            let slow = prefixes.iter().zip(0..).filter(|(p, _)| p.contains(&address));
            let slow = slow.max_by_key(|(p, _)| p.prefix_len()).map(|(_, n)| n);
            prop_assert_eq!(Lookup::new(prefixes.iter().zip(0..)).longest(address), slow);
        }
    }
}
