//! What a neighbour accepts as hints and over which sessions, as agreed with it and written in the
//! file of providers.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A BGP community of 32 bits (RFC 1997), or a large community (RFC 8092).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub enum Community {
    /// A community of 32 bits, written `AS:VALUE`.
    Standard(u16, u16),
    /// A large community, written `AS:VALUE:VALUE`.
    Large(u32, u32, u32),
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Standard(global, local) => write!(f, "{global}:{local}"),
            Self::Large(global, first, second) => write!(f, "{global}:{first}:{second}"),
        }
    }
}

impl From<Community> for String {
    fn from(community: Community) -> Self {
        community.to_string()
    }
}

impl FromStr for Community {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let no = || format!("{text:?} is not a community: write it as 64500:120 or 64500:1:20");
        let parts: Vec<&str> = text.split(':').collect();
        let number = |part: &str| part.parse::<u32>().map_err(|_| no());
        let small = |part: &str| part.parse::<u16>().map_err(|_| no());
        match parts.as_slice() {
            [global, local] => Ok(Self::Standard(small(global)?, small(local)?)),
            [global, first, second] => {
                Ok(Self::Large(number(global)?, number(first)?, number(second)?))
            }
            _ => Err(no()),
        }
    }
}

/// What a neighbour accepts. The default is what a network accepts without an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// It reads hints from the service, and needs no BGP for them.
    pub api: bool,
    /// It honours the MED (RFC 4271, section 9.1.2.2 c); many networks do so only by agreement (RFC
    /// 4451, section 2).
    pub med: bool,
    /// It prefers routes with the first community to routes with the second.
    pub communities: Option<(Community, Community)>,
    /// It compares the lengths of AS paths (RFC 4271, section 9.1.2.2 a), as networks usually do.
    pub prepend: bool,
    /// The longest IPv4 prefix that it accepts.
    pub longest_v4: u8,
    /// The longest IPv6 prefix that it accepts.
    pub longest_v6: u8,
    /// The most prefixes that are announced to it for hints.
    pub prefixes: usize,
}

impl Accepts {
    /// The upper limit of `prefixes` in the file of providers.
    pub const MAX_PREFIXES: usize = 100_000;
}

impl Default for Accepts {
    /// Returns what networks commonly accept: /24 and /48 are the usual filters, and a hundred more
    /// prefixes are little in any routing table.
    fn default() -> Self {
        Self {
            api: false,
            med: false,
            communities: None,
            prepend: true,
            longest_v4: 24,
            longest_v6: 48,
            prefixes: 100,
        }
    }
}

/// The BGP attribute that carries a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The prefix is announced at all entries, with the lowest MED at the hinted one.
    Med,
    /// The prefix is announced at all entries, with the community for preferred routes at the
    /// hinted one and the other community elsewhere.
    Community,
    /// More specific prefixes are announced at the hinted entry only. The prefix that they are part
    /// of stays announced at all entries, so that traffic has a path if the entry fails.
    MoreSpecific,
    /// The prefix is announced at all entries, with a longer AS path at those that are not hinted.
    Prepend,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Med => "MED",
            Self::Community => "community",
            Self::MoreSpecific => "more specific",
            Self::Prepend => "prepend",
        })
    }
}

/// What hints need to know of a neighbour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// What the neighbour accepts.
    pub accepts: Accepts,
    /// The neighbour's address in the BGP session at each of its entries, where there is a session.
    pub peers: Vec<Option<IpAddr>>,
    /// The address at which the BGP speaker of each entry takes commands, for `announce`.
    pub speakers: Vec<Option<String>>,
    /// The next hop of routes at each entry, if it is not the speaker itself.
    pub next_hops: Vec<Option<IpAddr>>,
    /// The next hop of IPv6 routes at each entry, for sessions over IPv4 that carry both families.
    pub next_hops_v6: Vec<Option<Ipv6Addr>>,
}

impl Profile {
    /// Returns the next hop at an entry for prefixes of `like`'s family; `None` means the speaker
    /// itself.
    ///
    /// It is `None` too where the file has only an address of the other family: that would need an
    /// extension of the session (RFC 8950).
    pub fn next_hop(&self, entry: usize, like: &IpNet) -> Option<IpAddr> {
        let named = self.next_hops.get(entry).copied().flatten();
        let v6 = || self.next_hops_v6.get(entry).copied().flatten().map(IpAddr::V6);
        match like {
            IpNet::V4(_) => named.filter(IpAddr::is_ipv4),
            IpNet::V6(_) => v6().or(named.filter(IpAddr::is_ipv6)),
        }
    }

    /// Returns the length of the longest prefix of `like`'s family that the neighbour accepts.
    pub fn longest(&self, like: &IpNet) -> u8 {
        match like {
            IpNet::V4(_) => self.accepts.longest_v4,
            IpNet::V6(_) => self.accepts.longest_v6,
        }
    }

    /// Returns the attribute for a hint about `prefix`, and the number of prefixes that are
    /// announced for it; `None` if no attribute is possible.
    ///
    /// `announced` says whether the ISP announces the prefix without hints, and `asn` is the AS
    /// number of the ISP.
    ///
    /// MED and communities come first: they were agreed on, and leave every entry usable. A more
    /// specific prefix always works, but adds to the neighbour's routing table. A longer path comes
    /// last, since its effect depends on the neighbour's own preferences.
    pub fn method(
        &self,
        prefix: &IpNet,
        announced: bool,
        asn: Option<u32>,
    ) -> Option<(Method, usize)> {
        let longest = self.longest(prefix);
        let longer = prefix.prefix_len() + u8::from(announced);
        let fits = prefix.prefix_len() <= longest;
        let sessions = self.peers.iter().any(Option::is_some);
        if !sessions || !fits {
            None
        } else if self.accepts.med {
            Some((Method::Med, 1))
        } else if self.accepts.communities.is_some() {
            Some((Method::Community, 1))
        } else if longer <= longest {
            // Both halves of an announced prefix, or a part as it is.
            Some((Method::MoreSpecific, if announced { 2 } else { 1 }))
        } else if self.accepts.prepend && asn.is_some() {
            Some((Method::Prepend, 1))
        } else {
            None
        }
    }

    /// Whether hints can reach the neighbour at all.
    pub fn can_receive_hints(&self) -> bool {
        self.accepts.api || self.peers.iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communities_are_parsed_and_checked() {
        for text in ["64500:120", "4200000000:1:20"] {
            assert_eq!(text.parse::<Community>().unwrap().to_string(), text);
        }
        for text in ["64500", "70000:1", "1:2:3:4", "a:b", "1:2:4294967296"] {
            assert!(
                text.parse::<Community>().unwrap_err().contains("is not a community"),
                "{text}"
            );
        }
    }

    #[test]
    fn agreed_attributes_come_first_and_prepending_last() {
        let mut profile =
            Profile { peers: vec![Some("192.0.2.1".parse().unwrap())], ..Profile::default() };
        let wide: IpNet = "10.0.0.0/16".parse().unwrap();
        let narrow: IpNet = "10.0.0.0/24".parse().unwrap();
        let of = |profile: &Profile, prefix, announced| profile.method(prefix, announced, Some(1));
        assert_eq!(of(&profile, &wide, true), Some((Method::MoreSpecific, 2)));
        assert_eq!(of(&profile, &wide, false), Some((Method::MoreSpecific, 1)));
        // A /24 cannot be halved for this neighbour; a part that is a /24 need not be.
        assert_eq!(of(&profile, &narrow, true), Some((Method::Prepend, 1)));
        assert_eq!(of(&profile, &narrow, false), Some((Method::MoreSpecific, 1)));
        assert_eq!(profile.method(&narrow, true, None), None);
        let prefer = "64500:120".parse().unwrap();
        profile.accepts.communities = Some((prefer, "64500:80".parse().unwrap()));
        assert_eq!(of(&profile, &wide, true), Some((Method::Community, 1)));
        profile.accepts.med = true;
        assert_eq!(of(&profile, &wide, true), Some((Method::Med, 1)));
        let longest: IpNet = "10.0.0.0/25".parse().unwrap();
        assert_eq!(of(&profile, &longest, false), None);
        profile.peers = vec![None];
        assert_eq!(of(&profile, &wide, true), None);
        assert!(!profile.can_receive_hints());
        profile.accepts.api = true;
        assert!(profile.can_receive_hints());
    }
}
