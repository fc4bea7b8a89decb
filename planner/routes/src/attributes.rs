//! The path attributes of a route (RFC 4271, section 4.3).

use std::net::IpAddr;

use ipnet::IpNet;

use crate::Malformed;
use crate::link_state::{self, Object, Said};
use crate::nlri::{Family, prefixes};
use crate::octets::Octets;

/// What a route says besides its prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// The AS path, the neighbour first and the origin last. The members of an `AS_SET` are in it
    /// one by one.
    pub path: Box<[u32]>,
    /// Whether the path ends with an `AS_SET`, so that the origin is not known.
    pub aggregated: bool,
    /// Whether the path begins with an `AS_SET`, so that the neighbour is not known.
    pub begins_with_set: bool,
    /// The members of `AS_SET`s beyond the first one of each: a set counts as one AS in the length
    /// of the path (RFC 4271, section 9.1.2.2).
    pub surplus: u32,
    /// The attribute `ORIGIN`: 0 for IGP, 1 for EGP, 2 for incomplete.
    pub origin_code: u8,
    /// The next hop of the routes.
    pub next_hop: Option<IpAddr>,
    /// The local preference.
    pub local_preference: Option<u32>,
    /// The multi-exit discriminator.
    pub med: Option<u32>,
    /// The communities (RFC 1997).
    pub communities: Box<[u32]>,
    /// The large communities (RFC 8092).
    pub large_communities: Box<[[u32; 3]]>,
}

impl Attributes {
    /// Returns the AS that originated the route, if it is known.
    pub fn origin(&self) -> Option<u32> {
        if self.aggregated { None } else { self.path.last().copied() }
    }

    /// Returns the AS that the route came from, if it is known; `None` is the own one.
    pub fn neighbour(&self) -> Option<u32> {
        if self.begins_with_set { None } else { self.path.first().copied() }
    }

    /// Returns the length of the path as BGP compares it.
    pub fn path_length(&self) -> usize {
        self.path.len().saturating_sub(self.surplus as usize)
    }
}

/// How attributes are encoded where they come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    /// Whether numbers of ASes have two octets in the AS path.
    pub(crate) short_as: bool,
    /// Whether IPv4 and IPv6 prefixes have path identifiers.
    pub(crate) add_path: [bool; 2],
    /// Whether the attributes are those of a dump. Their prefix is in the record, so that
    /// `MP_REACH_NLRI` counts for its next hop only, which is all that it should have (RFC 6396,
    /// section 4.3.4). Quagga and others write it whole.
    pub(crate) of_dump: bool,
}

impl Encoding {
    pub(crate) fn identifiers(&self, family: Family) -> bool {
        self.add_path[usize::from(family == Family::V6)]
    }
}

/// The attributes of a message, with the prefixes that some of them have.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) attributes: Attributes,
    /// The prefixes of `MP_REACH_NLRI`, and their next hop: `NEXT_HOP` is that of other prefixes
    /// (RFC 4760, section 3).
    pub(crate) announced: Vec<(IpNet, u32)>,
    pub(crate) reach_hop: Option<IpAddr>,
    pub(crate) withdrawn: Vec<(IpNet, u32)>,
    /// The objects of BGP-LS that are reported, and those that are withdrawn.
    pub(crate) reported: Vec<Object>,
    pub(crate) unreported: Vec<Object>,
    /// What is said about the reported ones.
    pub(crate) said: Said,
    /// Address families and subsequent ones with routes that are not read.
    pub(crate) other_families: Vec<(u16, u8)>,
    /// The first attribute that is not as it should be. Its routes count as withdrawn (RFC 7606,
    /// section 2).
    pub(crate) error: Option<Malformed>,
}

const ORIGIN: u8 = 1;
const AS_PATH: u8 = 2;
const NEXT_HOP: u8 = 3;
const MED: u8 = 4;
const LOCAL_PREFERENCE: u8 = 5;
const COMMUNITIES: u8 = 8;
const MP_REACH: u8 = 14;
const MP_UNREACH: u8 = 15;
const AS4_PATH: u8 = 17;
const LINK_STATE: u8 = 29;
const LARGE_COMMUNITIES: u8 = 32;
/// The flag of an attribute whose length has two octets.
const EXTENDED_LENGTH: u8 = 0x10;
const AS_SET: u8 = 1;
const AS_SEQUENCE: u8 = 2;

/// Reads all attributes.
///
/// # Errors
/// If the lengths of the attributes do not fit, so that not even their prefixes can be read.
pub(crate) fn decode(mut octets: Octets<'_>, encoding: Encoding) -> Result<Decoded, Malformed> {
    let mut decoded = Decoded::default();
    let mut long_path = None;
    // Of an attribute that occurs twice, the first counts (RFC 7606, section 3).
    let mut seen = [false; 256];
    while !octets.is_empty() {
        let flags = octets.u8()?;
        let kind = octets.u8()?;
        let length = match flags & EXTENDED_LENGTH {
            0 => usize::from(octets.u8()?),
            _ => usize::from(octets.u16()?),
        };
        let value = octets.part(length)?;
        if std::mem::replace(&mut seen[usize::from(kind)], true) {
            continue;
        }
        // Prefixes that cannot be read cannot be withdrawn either.
        match kind {
            MP_REACH => reach(value, encoding, &mut decoded)?,
            MP_UNREACH => unreach(value, encoding, &mut decoded)?,
            LINK_STATE => decoded.said = link_state::said(value).unwrap_or_default(),
            AS4_PATH => long_path = Path::read(value, false).ok(),
            _ => {
                if let Err(error) = attribute(kind, value, encoding, &mut decoded.attributes) {
                    decoded.error.get_or_insert(error);
                }
            }
        }
    }
    if let (true, Some(long)) = (encoding.short_as, long_path) {
        merge(&mut decoded.attributes, &long);
    }
    Ok(decoded)
}

/// Puts the four-octet numbers into a path of two-octet ones (RFC 6793, section 4.2.3).
fn merge(attributes: &mut Attributes, long: &Path) {
    if let Some(before) = attributes.path.len().checked_sub(long.members.len()) {
        let mut path = attributes.path[..before].to_vec();
        path.extend(&long.members);
        attributes.path = path.into();
        attributes.aggregated = long.aggregated;
    }
}

fn attribute(
    kind: u8,
    mut value: Octets<'_>,
    encoding: Encoding,
    attributes: &mut Attributes,
) -> Result<(), Malformed> {
    let wrong = |_| Malformed::Attribute(kind);
    match kind {
        ORIGIN => match value.u8().map_err(wrong)? {
            code @ 0..=2 => attributes.origin_code = code,
            _ => return Err(Malformed::Attribute(kind)),
        },
        AS_PATH => {
            let path = Path::read(value, encoding.short_as)?;
            attributes.path = path.members.into();
            attributes.aggregated = path.aggregated;
            attributes.begins_with_set = path.begins_with_set;
            attributes.surplus = path.surplus;
            return Ok(());
        }
        NEXT_HOP => attributes.next_hop = Some(value.v4().map_err(wrong)?.into()),
        MED => attributes.med = Some(value.u32().map_err(wrong)?),
        LOCAL_PREFERENCE => attributes.local_preference = Some(value.u32().map_err(wrong)?),
        COMMUNITIES => {
            let mut all = Vec::with_capacity(value.0.len() / 4);
            while !value.is_empty() {
                all.push(value.u32().map_err(wrong)?);
            }
            attributes.communities = all.into();
        }
        LARGE_COMMUNITIES => {
            let mut all = Vec::with_capacity(value.0.len() / 12);
            while !value.is_empty() {
                let mut number = || value.u32().map_err(wrong);
                all.push([number()?, number()?, number()?]);
            }
            attributes.large_communities = all.into();
        }
        _ => return Ok(()),
    }
    if value.is_empty() { Ok(()) } else { Err(Malformed::Attribute(kind)) }
}

/// An AS path without the segments of a confederation (RFC 5065), which are not part of it outside.
#[derive(Debug, Default)]
struct Path {
    members: Vec<u32>,
    aggregated: bool,
    begins_with_set: bool,
    surplus: u32,
}

impl Path {
    fn read(mut value: Octets<'_>, short: bool) -> Result<Self, Malformed> {
        let wrong = |_| Malformed::Attribute(AS_PATH);
        let mut path = Self::default();
        while !value.is_empty() {
            let kind = value.u8().map_err(wrong)?;
            let count = value.u8().map_err(wrong)?;
            let is_first = path.members.is_empty();
            for _ in 0..count {
                let number = if short { value.u16().map(u32::from) } else { value.u32() };
                let number = number.map_err(wrong)?;
                if matches!(kind, AS_SET | AS_SEQUENCE) {
                    path.members.push(number);
                    path.aggregated = kind == AS_SET;
                }
            }
            if kind == AS_SET && count > 0 {
                path.surplus += u32::from(count) - 1;
                path.begins_with_set |= is_first;
            }
        }
        Ok(path)
    }
}

fn next_hop(octets: &mut Octets<'_>) -> Result<Option<IpAddr>, Malformed> {
    let length = octets.u8()?;
    let mut value = octets.part(usize::from(length))?;
    // An IPv6 next hop may be followed by a link-local address (RFC 2545, section 3).
    match length {
        4 => value.v4().map(|a| Some(a.into())),
        16 | 32 => value.v6().map(|a| Some(a.into())),
        _ => Ok(None),
    }
}

fn reach(mut value: Octets<'_>, encoding: Encoding, into: &mut Decoded) -> Result<(), Malformed> {
    // A whole attribute begins with the number of the address family, whose first octet is never
    // the length of what follows it.
    let is_abbreviated =
        matches!(value.0, [length, rest @ ..] if rest.len() == usize::from(*length));
    if encoding.of_dump && is_abbreviated {
        into.reach_hop = next_hop(&mut value)?;
        return Ok(());
    }
    let (afi, safi) = (value.u16()?, value.u8()?);
    let hop = next_hop(&mut value)?;
    if encoding.of_dump {
        into.reach_hop = hop;
        return Ok(());
    }
    value.u8()?;
    if let Some(family) = Family::of(afi, safi) {
        into.reach_hop = hop;
        into.announced = prefixes(value, family, encoding.identifiers(family))?;
    } else if (afi, safi) == (link_state::AFI, link_state::SAFI) {
        into.reported = link_state::objects(value)?;
    } else {
        into.other_families.push((afi, safi));
    }
    Ok(())
}

fn unreach(mut value: Octets<'_>, encoding: Encoding, into: &mut Decoded) -> Result<(), Malformed> {
    let (afi, safi) = (value.u16()?, value.u8()?);
    if let Some(family) = Family::of(afi, safi) {
        into.withdrawn = prefixes(value, family, encoding.identifiers(family))?;
    } else if (afi, safi) == (link_state::AFI, link_state::SAFI) {
        into.unreported = link_state::objects(value)?;
    } else if !value.is_empty() {
        into.other_families.push((afi, safi));
    }
    Ok(())
}
