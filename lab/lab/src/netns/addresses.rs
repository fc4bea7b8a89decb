use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::scenario::{IpVersion, Origin};

/// A network namespace of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The hosts of a sending site, counted from zero; the first is site A.
    Site(u8),
    /// Sources of cross traffic, which does not pass a sendbox.
    Cross,
    /// The sendbox of a sending site.
    Sendbox(u8),
    /// The bridge that joins the sites in front of the outer sendbox.
    Hub,
    /// The sendbox around those of the sites.
    OuterSendbox,
    /// The link with the bottleneck.
    Path,
    /// The receivebox of the outer sendbox.
    OuterReceivebox,
    /// The receivebox of site B.
    Receivebox,
    /// The hosts of site B.
    SiteB,
    /// The address at site B to which the traffic of a site goes, where each site has a way of its
    /// own.
    Branch(u8),
}

impl Place {
    /// Returns the places of a network with `sites` sending sites, and a pair of boxes around
    /// theirs if it is `nested`.
    pub(super) fn all(sites: u8, nested: bool) -> impl Iterator<Item = Self> {
        let own = (0..sites).flat_map(|site| [Self::Site(site), Self::Sendbox(site)]);
        let around = [Self::Hub, Self::OuterSendbox, Self::OuterReceivebox];
        let around = around.into_iter().filter(move |_| nested);
        own.chain([Self::Cross, Self::Path, Self::Receivebox, Self::SiteB]).chain(around)
    }

    /// The name of the namespace in the run `id`.
    pub(super) fn namespace(self, id: &str) -> String {
        let suffix = match self {
            Self::Site(site) => numbered("a", site),
            Self::Sendbox(site) => numbered("s", site),
            Self::Cross => "x".to_owned(),
            Self::Hub => "h".to_owned(),
            Self::OuterSendbox => "os".to_owned(),
            Self::Path => "p".to_owned(),
            Self::OuterReceivebox => "or".to_owned(),
            Self::Receivebox => "r".to_owned(),
            Self::SiteB | Self::Branch(_) => "b".to_owned(),
        };
        format!("fb-{id}-{suffix}")
    }

    /// The numbers of its site and host in the subnet; the path and the hub have none.
    const fn numbers(self) -> Option<(u8, u8)> {
        match self {
            Self::Site(0) => Some((1, 1)),
            Self::SiteB => Some((2, 1)),
            Self::Cross => Some((3, 1)),
            Self::Sendbox(0) => Some((9, 1)),
            Self::Receivebox => Some((9, 2)),
            Self::OuterSendbox => Some((9, 3)),
            Self::OuterReceivebox => Some((9, 4)),
            // Numbers after site A's begin where no other place has one.
            Self::Site(site) => Some((10 + site, 1)),
            Self::Sendbox(site) => Some((9, 10 + site)),
            Self::Branch(site) => Some((40 + site, 1)),
            Self::Hub | Self::Path => None,
        }
    }

    /// The IP address; unspecified for the path and the hub.
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

    /// The socket address with `port`.
    pub(super) fn socket(self, ip: IpVersion, port: u16) -> SocketAddr {
        SocketAddr::new(self.address(ip), port)
    }

    /// The prefix of its site.
    pub(super) fn prefix(self, ip: IpVersion) -> String {
        let site = self.numbers().map_or(0, |(site, _)| site);
        match ip {
            IpVersion::V4 => format!("10.77.{site}.0/24"),
            IpVersion::V6 => format!("fd77::{site:x}:0/112"),
        }
    }
}

/// The name `name` at the first site; with the site's number appended at the others.
pub(super) fn numbered(name: &str, site: u8) -> String {
    if site == 0 { name.to_owned() } else { format!("{name}{}", u16::from(site) + 1) }
}

impl From<Origin> for Place {
    fn from(origin: Origin) -> Self {
        match origin {
            // A checked job has no more sites than fit.
            Origin::Site(site) => Self::Site(site as u8),
            Origin::Cross => Self::Cross,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_have_distinct_addresses() {
        let addresses: Vec<_> = Place::all(16, true).map(|p| p.address(IpVersion::V4)).collect();
        let names: Vec<_> = Place::all(16, true).map(|p| p.namespace("1")).collect();
        let branches = (0..16).map(|site| Place::Branch(site).address(IpVersion::V4));
        assert!(branches.into_iter().all(|branch| !addresses.contains(&branch)));
        // The hub and the path have none.
        let addresses: Vec<_> = addresses.into_iter().filter(|a| !a.is_unspecified()).collect();
        for (i, address) in addresses.iter().enumerate() {
            assert!(!addresses[..i].contains(address), "{address}");
        }
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name}");
        }
        assert_eq!(Place::Site(1).namespace("7"), "fb-7-a2");
        assert_eq!(Place::Site(1).prefix(IpVersion::V6), "fd77::b:0/112");
        assert_eq!(Place::Site(1).address(IpVersion::V6).to_string(), "fd77::b:1");
    }

    #[test]
    fn addresses_are_in_their_prefixes() {
        let b = Place::SiteB;
        assert_eq!(b.socket(IpVersion::V4, 80).to_string(), "10.77.2.1:80");
        assert_eq!(b.prefix(IpVersion::V4), "10.77.2.0/24");
        assert_eq!(b.socket(IpVersion::V6, 80).to_string(), "[fd77::2:1]:80");
        assert_eq!(b.prefix(IpVersion::V6), "fd77::2:0/112");
    }
}
