//! Prefixes in BGP messages (RFC 4271, section 4.3), with path identifiers if the session has them
//! (RFC 7911, section 3).

use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::Malformed;
use crate::octets::Octets;

/// An address family whose unicast routes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Returns the family of an AFI and a SAFI; only unicast has one here.
    pub(crate) fn of(afi: u16, safi: u8) -> Option<Self> {
        match (afi, safi) {
            (1, 1) => Some(Self::V4),
            (2, 1) => Some(Self::V6),
            _ => None,
        }
    }
}

/// Reads one prefix: a length in bits, and as many octets as it needs. Bits beyond the length are
/// ignored.
pub(crate) fn prefix(octets: &mut Octets<'_>, family: Family) -> Result<IpNet, Malformed> {
    let bits = octets.u8()?;
    let bytes = octets.take(usize::from(bits).div_ceil(8))?;
    match family {
        Family::V4 if bits <= 32 => {
            let mut address = [0; 4];
            address[..bytes.len()].copy_from_slice(bytes);
            let net = Ipv4Net::new(Ipv4Addr::from(address), bits);
            net.map(|n| IpNet::V4(n.trunc())).map_err(|_| Malformed::PrefixLength)
        }
        Family::V6 if bits <= 128 => {
            let mut address = [0; 16];
            address[..bytes.len()].copy_from_slice(bytes);
            let net = Ipv6Net::new(Ipv6Addr::from(address), bits);
            net.map(|n| IpNet::V6(n.trunc())).map_err(|_| Malformed::PrefixLength)
        }
        _ => Err(Malformed::PrefixLength),
    }
}

/// Reads a prefix whose address is whole, and precedes the length in bits.
pub(crate) fn whole_prefix(octets: &mut Octets<'_>, family: Family) -> Result<IpNet, Malformed> {
    let address = match family {
        Family::V4 => octets.v4()?.into(),
        Family::V6 => octets.v6()?.into(),
    };
    let bits = octets.u8()?;
    IpNet::new(address, bits).map(|net| net.trunc()).map_err(|_| Malformed::PrefixLength)
}

/// Reads all prefixes, each with its path identifier, which is 0 where the session has none.
pub(crate) fn prefixes(
    mut octets: Octets<'_>,
    family: Family,
    add_path: bool,
) -> Result<Vec<(IpNet, u32)>, Malformed> {
    let mut found = Vec::new();
    while !octets.is_empty() {
        let id = if add_path { octets.u32()? } else { 0 };
        found.push((prefix(&mut octets, family)?, id));
    }
    Ok(found)
}
