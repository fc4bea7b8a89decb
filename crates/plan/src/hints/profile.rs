//! What a neighbour can be told, and how: agreed with each, and written in the file of providers.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// A BGP community: of 32 bits (RFC 1997) or a large one (RFC 8092).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "String")]
pub enum Community {
    /// `AS:VALUE`.
    Standard(u16, u16),
    /// `AS:VALUE:VALUE`.
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
        let no = || format!("{text:?} is no community: write it as 64500:120 or 64500:1:20");
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

/// What a neighbour heeds. The default is what a network heeds that nothing was agreed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepts {
    /// It reads hints from the service, and needs no BGP for them.
    pub api: bool,
    /// It honours MED (RFC 4271, section 9.1.2.2 c), which many ignore unless it was agreed (RFC 4451, section 2).
    pub med: bool,
    /// Routes with the first community are preferred to those with the second.
    pub communities: Option<(Community, Community)>,
    /// It compares the lengths of AS paths (RFC 4271, section 9.1.2.2 a), as is usual.
    pub prepend: bool,
    /// The longest IPv4 prefix that it takes.
    pub longest_v4: u8,
    /// The longest IPv6 prefix that it takes.
    pub longest_v6: u8,
    /// At most so many prefixes are announced to it for the sake of hints.
    pub prefixes: usize,
}

impl Accepts {
    /// The most prefixes that a neighbour can be told to take for hints.
    pub const MOST_PREFIXES: usize = 100_000;
}

impl Default for Accepts {
    /// /24 and /48 are what networks commonly filter at; a hundred prefixes more harm no table.
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

/// How a hint is told by BGP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// At all entries, with the least MED at the one that is hinted.
    Med,
    /// At all entries, with the community for the preferred one or the other.
    Community,
    /// More specific prefixes at the hinted entry only; what they are part of stays announced everywhere, so that
    /// traffic has a way if the entry fails.
    MoreSpecific,
    /// At all entries, with a longer AS path at those that are not hinted.
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

/// A neighbour, as hints see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// What it heeds.
    pub accepts: Accepts,
    /// Its address in the BGP session at each of its entries, where there is one.
    pub peers: Vec<Option<IpAddr>>,
    /// Where the speaker of each entry takes commands, for `announce`.
    pub speakers: Vec<Option<String>>,
    /// Where traffic should be sent at each entry, if not to the speaker itself.
    pub next_hops: Vec<Option<IpAddr>>,
    /// The same for IPv6 prefixes, of a session that is over IPv4 and has both families.
    pub next_hops_v6: Vec<Option<Ipv6Addr>>,
}

impl Profile {
    /// Where traffic to a prefix of `like`'s family should be sent at an entry; `None` is to the speaker itself, which is
    /// so too where the file names an address of the other family only: that would need an extension of the session
    /// (RFC 8950).
    pub fn next_hop(&self, entry: usize, like: &IpNet) -> Option<IpAddr> {
        let named = self.next_hops.get(entry).copied().flatten();
        let v6 = || self.next_hops_v6.get(entry).copied().flatten().map(IpAddr::V6);
        match like {
            IpNet::V4(_) => named.filter(IpAddr::is_ipv4),
            IpNet::V6(_) => v6().or(named.filter(IpAddr::is_ipv6)),
        }
    }

    /// The longest prefix of `like`'s family that it takes.
    pub fn longest(&self, like: &IpNet) -> u8 {
        match like {
            IpNet::V4(_) => self.accepts.longest_v4,
            IpNet::V6(_) => self.accepts.longest_v6,
        }
    }

    /// How it is told that `prefix` should come in at one entry, and how many prefixes are announced for that; `None`
    /// if BGP has no way. `announced` says whether the ISP announces the prefix as it is without hints, and `asn` is
    /// the ISP's.
    ///
    /// MED and communities come first: they were agreed on, and leave every entry usable. A longer match is obeyed by
    /// all, but adds to the neighbour's table. A longer path comes last, since whether it is looked at depends on the
    /// neighbour's own preferences.
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
            // The halves of what is announced, or what is a part already.
            Some((Method::MoreSpecific, if announced { 2 } else { 1 }))
        } else if self.accepts.prepend && asn.is_some() {
            Some((Method::Prepend, 1))
        } else {
            None
        }
    }

    /// Whether there is any way to tell it anything.
    pub fn can_be_told(&self) -> bool {
        self.accepts.api || self.peers.iter().any(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communities() {
        for text in ["64500:120", "4200000000:1:20"] {
            assert_eq!(text.parse::<Community>().unwrap().to_string(), text);
        }
        for text in ["64500", "70000:1", "1:2:3:4", "a:b", "1:2:4294967296"] {
            assert!(text.parse::<Community>().unwrap_err().contains("is no community"), "{text}");
        }
    }

    #[test]
    fn the_way_that_was_agreed_comes_first_and_the_longer_path_last() {
        let mut profile =
            Profile { peers: vec![Some("192.0.2.1".parse().unwrap())], ..Profile::default() };
        let wide: IpNet = "10.0.0.0/16".parse().unwrap();
        let narrow: IpNet = "10.0.0.0/24".parse().unwrap();
        let of = |profile: &Profile, prefix, announced| profile.method(prefix, announced, Some(1));
        assert_eq!(of(&profile, &wide, true), Some((Method::MoreSpecific, 2)));
        assert_eq!(of(&profile, &wide, false), Some((Method::MoreSpecific, 1)));
        // A /24 cannot be halved for it; what is one already needs no halving.
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
        assert!(!profile.can_be_told());
        profile.accepts.api = true;
        assert!(profile.can_be_told());
    }
}
