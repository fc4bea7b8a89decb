use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::scenario::{IpVersion, Origin};

/// A namespace of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The hosts of site A.
    SiteA,
    /// Sources that do not pass the sendbox.
    Cross,
    /// The sendbox.
    Sendbox,
    /// The link with the bottleneck.
    Path,
    /// The receivebox.
    Receivebox,
    /// The hosts of site B.
    SiteB,
}

impl Place {
    pub(super) const ALL: [Self; 6] =
        [Self::SiteA, Self::Cross, Self::Sendbox, Self::Path, Self::Receivebox, Self::SiteB];

    /// The namespace's name in the run `id`.
    pub(super) fn namespace(self, id: &str) -> String {
        let suffix = match self {
            Self::SiteA => "a",
            Self::Cross => "x",
            Self::Sendbox => "s",
            Self::Path => "p",
            Self::Receivebox => "r",
            Self::SiteB => "b",
        };
        format!("fb-{id}-{suffix}")
    }

    /// Its part of the subnet and its host in it; the path has no address.
    const fn numbers(self) -> Option<(u8, u8)> {
        match self {
            Self::SiteA => Some((1, 1)),
            Self::SiteB => Some((2, 1)),
            Self::Cross => Some((3, 1)),
            Self::Sendbox => Some((9, 1)),
            Self::Receivebox => Some((9, 2)),
            Self::Path => None,
        }
    }

    /// Its address, the unspecified one for the path.
    pub(super) fn address(self, ip: IpVersion) -> IpAddr {
        match (ip, self.numbers()) {
            (IpVersion::V4, None) => Ipv4Addr::UNSPECIFIED.into(),
            (IpVersion::V6, None) => Ipv6Addr::UNSPECIFIED.into(),
            (IpVersion::V4, Some((site, host))) => Ipv4Addr::new(10, 77, site, host).into(),
            (IpVersion::V6, Some((site, host))) => {
                Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, u16::from(site), u16::from(host)).into()
            }
        }
    }

    /// Its address and `port`.
    pub(super) fn socket(self, ip: IpVersion, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(ip), port)
    }

    /// The prefix of its site.
    pub(super) fn prefix(self, ip: IpVersion) -> String {
        let site = self.numbers().map_or(0, |(site, _)| site);
        match ip {
            IpVersion::V4 => format!("10.77.{site}.0/24"),
            IpVersion::V6 => format!("fd77::{site}:0/112"),
        }
    }
}

impl From<Origin> for Place {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Site(_) => Self::SiteA,
            Origin::Cross => Self::Cross,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_their_prefixes() {
        let b = Place::SiteB;
        assert_eq!(b.socket(IpVersion::V4, 80).to_string(), "10.77.2.1:80");
        assert_eq!(b.prefix(IpVersion::V4), "10.77.2.0/24");
        assert_eq!(b.socket(IpVersion::V6, 80).to_string(), "[fd77::2:1]:80");
        assert_eq!(b.prefix(IpVersion::V6), "fd77::2:0/112");
    }
}
