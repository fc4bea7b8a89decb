//! The SRv6 segments of the ISP's routers (RFC 8986): each has a locator and the segment End, and
//! routers with users decapsulate both families.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv6Net};

use super::blueprint::{Blueprint, towards};
use super::files::Network;

/// The segments of a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segments {
    /// The name of the router.
    pub(super) router: String,
    /// The prefix of all its segments, which the IGP announces.
    pub(super) locator: Ipv6Net,
    /// The segment End.
    pub(super) end: Ipv6Addr,
    /// What a router with users has beside it.
    pub(super) users: Option<Decapsulation>,
}

/// The segments that decapsulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decapsulation {
    /// The segment End.DT6.
    pub(super) dt6: Ipv6Addr,
    /// The segment End.DX4, which forwards to `next`.
    pub(super) dx4: Ipv6Addr,
    /// The users' address on the wire to them.
    pub(super) next: IpAddr,
    /// The router's interface to them.
    device: String,
}

/// Returns the segments of all routers, in the order of the topology.
pub(super) fn all(network: &Network, blueprint: &Blueprint) -> Vec<Segments> {
    let routers = network.topology.routers().iter().zip(1..);
    let segments = routers.map(|(router, number)| {
        let address = |host| Ipv6Addr::new(0xfc00, 0, number, 0, 0, 0, 0, host);
        // The route to users behind this very router, not to those behind another.
        let local = |route: &&super::blueprint::Route| {
            let users = network.prefixes.get(&route.prefix);
            route.place == router.name
                && matches!(route.prefix, IpNet::V4(_))
                && users.is_some_and(|users| network.router(users.router) == router.name)
        };
        let next = blueprint.routes.iter().find(local).map(|route| route.via);
        let device = towards(&blueprint.users_at);
        Segments {
            router: router.name.clone(),
            locator: Ipv6Net::new_assert(address(0), 48),
            end: address(1),
            users: next.map(|next| Decapsulation {
                dt6: address(6),
                dx4: address(4),
                next,
                device,
            }),
        }
    });
    segments.collect()
}

impl Segments {
    /// Returns the arguments of `ip -6` that add the segments.
    pub(super) fn commands(&self, device: &str) -> Vec<String> {
        let local = "encap seg6local action";
        let mut lines = vec![format!("route add {}/128 {local} End dev {device}", self.end)];
        if let Some(Decapsulation { dt6, dx4, next, device: users }) = &self.users {
            lines.push(format!("route add {dt6}/128 {local} End.DT6 table main dev {users}"));
            lines.push(format!("route add {dx4}/128 {local} End.DX4 nh4 {next} dev {users}"));
        }
        lines
    }

    /// Returns the router's table in the configuration of `forebay plan paths`.
    pub(super) fn table(&self) -> String {
        let mut text = format!("[[router]]\nname = \"{}\"\nend = \"{}\"\n", self.router, self.end);
        if let Some(Decapsulation { dt6, dx4, .. }) = &self.users {
            text += &format!("end_dt6 = \"{dt6}\"\nend_dt4 = \"{dx4}\"\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_routers_with_users_decapsulate() {
        let network = Network::carried().unwrap();
        let blueprint = Blueprint::of(&network).unwrap();
        let all = all(&network, &blueprint);
        assert_eq!(all.len(), network.topology.routers().len());
        let users: Vec<_> = all.iter().filter(|s| s.users.is_some()).collect();
        assert_eq!(users.iter().map(|s| s.router.as_str()).collect::<Vec<_>>(), ["metro"]);
        let lines = users[0].commands("fb-core2");
        assert_eq!(lines[0], "route add fc00:0:8::1/128 encap seg6local action End dev fb-core2");
        assert!(lines[2].contains("End.DX4 nh4 100.65.0."), "{lines:?}");
        assert!(users[0].table().contains("end_dt4 = \"fc00:0:8::4\"\n"));
        assert!(!all[0].table().contains("end_dt"));
    }
}
