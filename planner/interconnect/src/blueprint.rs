//! Derives the namespaces, wires, addresses and routes of the demonstration from the planner's
//! files. Nothing is created here.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroUsize;

use forebay_plan::paths::PathCache;
use forebay_plan::topology::{LinkId, RouterId};
use forebay_units::Rate;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::files::Network;
use forebay_lab::engine::EngineError;

/// The AS number of the first provider; the others follow.
pub(super) const FIRST_ASN: u32 = 64_501;
/// The longest name of a place: interface names have at most 15 bytes and start with `fb-`.
const MAX_NAME: usize = 12;

/// The role of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Router,
    Provider,
    Users,
    Ops,
}

/// An end of a wire between two namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) place: String,
    pub(super) device: String,
    pub(super) addresses: Vec<IpNet>,
    /// The rate limit in this direction.
    pub(super) rate: Option<Rate>,
}

/// A route in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) place: String,
    pub(super) prefix: IpNet,
    pub(super) via: IpAddr,
}

/// A BGP session between the ISP and a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) provider: usize,
    pub(super) entry: usize,
    /// The ISP's router, which is also the provider's name for the session.
    pub(super) router: String,
    /// The addresses of the ISP's end and of the provider's end.
    pub(super) ours: Ipv4Addr,
    pub(super) theirs: Ipv4Addr,
    pub(super) ours_v6: Ipv6Addr,
    /// The address at which the speaker takes commands.
    pub(super) speaker: (Ipv4Addr, u16),
}

/// A provider with its sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) name: String,
    pub(super) asn: u32,
    /// The provider's own prefixes, with the address of its server in each.
    pub(super) own: [(IpNet, IpAddr); 2],
}

/// The speaker of an ISP that reports the routes of a router by BMP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reflector {
    /// The router whose routes it reports.
    pub(super) router: String,
    /// The addresses of the speaker and of the router on the wire between them.
    pub(super) ours: Ipv4Addr,
    pub(super) theirs: Ipv4Addr,
    pub(super) theirs_v6: Ipv6Addr,
}

/// All namespaces with their wires, addresses and routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Blueprint {
    /// The number of the ISP, from 0, which is a part of its own addresses.
    pub(super) number: u8,
    /// What follows the names of its processes and namespaces that every ISP has.
    pub(super) tag: String,
    pub(super) asn: u32,
    /// The namespace of the users.
    pub(super) users_at: String,
    /// The namespace of the planner's service.
    pub(super) ops: String,
    pub(super) places: BTreeMap<String, Role>,
    pub(super) wires: Vec<[End; 2]>,
    pub(super) routes: Vec<Route>,
    pub(super) sessions: Vec<Session>,
    pub(super) senders: Vec<Sender>,
    /// The addresses of users: one in each half of each prefix, so that both halves carry traffic.
    pub(super) users: Vec<IpAddr>,
    /// The interface at which each link of the topology begins.
    pub(super) links: BTreeMap<LinkId, (String, String)>,
}

/// Returns the interface towards a place.
pub(super) fn towards(place: &str) -> String {
    format!("fb-{place}")
}

fn unfit(what: impl Into<String>) -> EngineError {
    EngineError::Unfit(format!("the network of the demonstration: {}", what.into()))
}

fn net(address: IpAddr, v4: u8, v6: u8) -> IpNet {
    // Both lengths are valid for their family.
    match address {
        IpAddr::V4(a) => IpNet::V4(Ipv4Net::new_assert(a, v4)),
        IpAddr::V6(a) => IpNet::V6(Ipv6Net::new_assert(a, v6)),
    }
}

/// Returns the addresses of both ends of an internal wire, by its number.
fn inner(number: usize) -> [[IpAddr; 2]; 2] {
    let low = (2 * number) as u8;
    let v4 = |host: u8| IpAddr::from([100, 65, 0, low + host]);
    let v6 = |host| IpAddr::from([0x2001, 0xdb8, 0xfe, u16::from(low), 0, 0, 0, host]);
    [[v4(0), v6(0)], [v4(1), v6(1)]]
}

/// Returns the other address of a /31 or a /127.
fn other(address: Ipv4Addr) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() ^ 1)
}

fn other_v6(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() ^ 1)
}

impl Blueprint {
    /// Derives the blueprint of `network`, the only ISP.
    ///
    /// # Errors
    /// If a name is too long for an interface, or a session has no address.
    pub(super) fn of(network: &Network) -> Result<Self, EngineError> {
        let names: Vec<_> = network.providers.iter().map(|p| p.name.as_str()).collect();
        Self::numbered(network, 0, &names)
    }

    /// Derives the blueprint of the ISP with this number, where `all` are the providers of all
    /// ISPs.
    ///
    /// # Errors
    /// As [`Blueprint::of`].
    pub(super) fn numbered(
        network: &Network,
        number: u8,
        all: &[&str],
    ) -> Result<Self, EngineError> {
        let tag = if number == 0 { String::new() } else { (number + 1).to_string() };
        let mut out = Self {
            number,
            asn: network.asn,
            users_at: format!("users{tag}"),
            ops: format!("ops{tag}"),
            tag,
            ..Self::default()
        };
        for router in network.topology.routers() {
            out.place(&router.name, Role::Router)?;
        }
        for provider in &network.providers {
            out.place(&provider.name, Role::Provider)?;
            let number = all.iter().position(|name| *name == provider.name);
            let number = number.ok_or_else(|| unfit(format!("no number of {}", provider.name)))?;
            let high = number as u8 * 16;
            let v4 = Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, high), 28);
            let v6 = Ipv6Net::new_assert(
                Ipv6Addr::new(0x2001, 0xdb8, 0xf0 + number as u16, 0, 0, 0, 0, 0),
                48,
            );
            let server = |low: IpNet| match low.network() {
                IpAddr::V4(a) => IpAddr::from(Ipv4Addr::from_bits(a.to_bits() + 1)),
                IpAddr::V6(a) => IpAddr::from(Ipv6Addr::from_bits(a.to_bits() + 1)),
            };
            let own = [IpNet::V4(v4), IpNet::V6(v6)].map(|prefix| (prefix, server(prefix)));
            let asn = FIRST_ASN + number as u32;
            out.senders.push(Sender { name: provider.name.clone(), asn, own });
        }
        out.place(&out.users_at.clone(), Role::Users)?;
        out.place(&out.ops.clone(), Role::Ops)?;
        let gateways = out.wire_links(network)?;
        out.wire_sessions(network)?;
        out.wire_users(network)?;
        out.route(network, &gateways)?;
        Ok(out)
    }

    /// Returns what has to be built for several ISPs, which may share providers.
    pub(super) fn union(all: &[Self]) -> Self {
        let mut out = Self::default();
        for one in all {
            out.places.extend(one.places.clone());
            out.wires.extend(one.wires.iter().cloned());
            out.routes.extend(one.routes.iter().cloned());
            let known = |sender: &&Sender| !out.senders.iter().any(|s| s.name == sender.name);
            let new: Vec<_> = one.senders.iter().filter(known).cloned().collect();
            out.senders.extend(new);
        }
        out
    }

    /// Adds a wire from each provider to the service, for its client.
    pub(super) fn connect_clients(&mut self) {
        for (at, sender) in self.senders.iter().enumerate() {
            let address = |host: u8| IpAddr::from([10, 252, self.number, 2 * at as u8 + host]);
            let end = |place: &str, other: &str, own: IpAddr| End {
                place: place.to_owned(),
                device: towards(other),
                addresses: vec![net(own, 31, 127)],
                rate: None,
            };
            self.wires.push([
                end(&self.ops, &sender.name, address(0)),
                end(&sender.name, &self.ops, address(1)),
            ]);
        }
    }

    /// Adds a wire from the network of the service to a router, for a speaker that reports the
    /// router's routes.
    pub(super) fn connect_reflector(&mut self, router: &str) -> Reflector {
        let v4 = |host: u8| Ipv4Addr::new(10, 253, self.number, host);
        let v6 = |host| Ipv6Addr::new(0x2001, 0xdb8, 0xfc, self.number.into(), 0, 0, 0, host);
        let end = |place: &str, other: &str, host: u8| End {
            place: place.to_owned(),
            device: towards(other),
            addresses: vec![net(v4(host).into(), 31, 127), net(v6(host.into()).into(), 31, 127)],
            rate: None,
        };
        self.wires.push([end(&self.ops, router, 0), end(router, &self.ops, 1)]);
        Reflector { router: router.to_owned(), ours: v4(0), theirs: v4(1), theirs_v6: v6(1) }
    }

    /// Returns the address at which a place reaches the service.
    ///
    /// # Errors
    /// If there is no wire between them.
    pub(super) fn service_for(&self, place: &str) -> Result<IpAddr, EngineError> {
        let is = |[a, b]: &&[End; 2]| a.place == self.ops && b.place == place;
        let wire = self.wires.iter().find(is);
        let address = wire.and_then(|[ops, _]| ops.addresses.first()).map(IpNet::addr);
        address.ok_or_else(|| unfit(format!("{place} cannot reach {}", self.ops)))
    }

    /// Whether a router has this address.
    pub(super) fn is_router(&self, address: IpAddr) -> bool {
        let has = |end: &&End| end.addresses.iter().any(|a| a.addr() == address);
        let place = self.wires.iter().flatten().find(has).map(|end| &end.place);
        place.is_some_and(|place| self.places.get(place) == Some(&Role::Router))
    }

    fn place(&mut self, name: &str, role: Role) -> Result<(), EngineError> {
        let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if name.len() > MAX_NAME || !plain {
            let what = format!(
                "{name:?} is no valid name: write up to {MAX_NAME} small letters or digits"
            );
            return Err(unfit(what));
        }
        match self.places.insert(name.to_owned(), role) {
            None => Ok(()),
            Some(_) => Err(unfit(format!("{name:?} is used for two places: rename one"))),
        }
    }

    /// Adds the internal links. Returns, for each pair of neighbours, the address through which the
    /// first reaches the second.
    fn wire_links(
        &mut self,
        network: &Network,
    ) -> Result<BTreeMap<(RouterId, RouterId), [IpAddr; 2]>, EngineError> {
        let mut gateways = BTreeMap::new();
        let links = network.topology.links();
        for (number, link) in links.iter().enumerate() {
            let (from, to) = (network.router(link.from), network.router(link.to));
            self.links.insert(LinkId(number as u32), (from.to_owned(), towards(to)));
            if link.from > link.to {
                continue;
            }
            let back = links.iter().find(|l| (l.from, l.to) == (link.to, link.from));
            let back = back.ok_or_else(|| unfit("a link has one direction only: give it both"))?;
            let ends = inner(self.wires.len());
            gateways.insert((link.from, link.to), ends[1]);
            gateways.insert((link.to, link.from), ends[0]);
            let end = |place: &str, other: &str, at: [IpAddr; 2], rate| End {
                place: place.to_owned(),
                device: towards(other),
                addresses: at.map(|a| net(a, 31, 127)).to_vec(),
                rate,
            };
            self.wires.push([
                end(from, to, ends[0], link.capacity),
                end(to, from, ends[1], back.capacity),
            ]);
        }
        Ok(gateways)
    }

    fn wire_sessions(&mut self, network: &Network) -> Result<(), EngineError> {
        let mut spoken_to: BTreeMap<String, Ipv4Addr> = BTreeMap::new();
        let providers = network.providers.iter().zip(&network.profiles).enumerate();
        for (number, (provider, profile)) in providers {
            for (at, entry) in provider.entries.iter().enumerate() {
                let router = network.router(entry.router);
                let lacks = |what: &str| unfit(format!("{} at {router}: {what}", provider.name));
                let v4 = |address: Option<IpAddr>| match address {
                    Some(IpAddr::V4(address)) => Some(address),
                    _ => None,
                };
                let theirs = v4(profile.peers[at]).ok_or_else(|| lacks("it has no IPv4 `peer`"))?;
                let ours = v4(profile.next_hops[at])
                    .filter(|ours| *ours == other(theirs))
                    .ok_or_else(|| lacks("`next_hop` and `peer` are not the two of a /31"))?;
                let ours_v6 =
                    profile.next_hops_v6[at].ok_or_else(|| lacks("it has no `next_hop_v6`"))?;
                let speaker = profile.speakers[at].as_deref().and_then(|s| s.parse().ok());
                let speaker: std::net::SocketAddrV4 =
                    speaker.ok_or_else(|| lacks("it has no `speaker` at an IPv4 address"))?;
                let end = |place: &str, other: &str, v4: Ipv4Addr, v6: Ipv6Addr, rate| End {
                    place: place.to_owned(),
                    device: towards(other),
                    addresses: vec![net(v4.into(), 31, 127), net(v6.into(), 31, 127)],
                    rate,
                };
                self.wires.push([
                    end(&provider.name, router, theirs, other_v6(ours_v6), entry.capacity),
                    end(router, &provider.name, ours, ours_v6, entry.capacity),
                ]);
                self.sessions.push(Session {
                    provider: number,
                    entry: at,
                    router: router.to_owned(),
                    ours,
                    theirs,
                    ours_v6,
                    speaker: (*speaker.ip(), speaker.port()),
                });
                spoken_to.insert(router.to_owned(), *speaker.ip());
            }
        }
        // Commands have a network of their own, so that congestion does not cut off the routers.
        for (number, (router, address)) in spoken_to.into_iter().enumerate() {
            let ops = IpAddr::from([10, 254, self.number, number as u8 + 1]);
            let end = |place: &str, other: &str, own: IpAddr| End {
                place: place.to_owned(),
                device: towards(other),
                addresses: vec![net(own, 32, 128)],
                rate: None,
            };
            let route = |place: &str, to: IpAddr| Route {
                place: place.to_owned(),
                prefix: net(to, 32, 128),
                via: to,
            };
            let place = &self.ops;
            self.wires.push([end(place, &router, ops), end(&router, place, address.into())]);
            self.routes.extend([route(place, address.into()), route(&router, ops)]);
        }
        Ok(())
    }

    fn wire_users(&mut self, network: &Network) -> Result<(), EngineError> {
        let mut behind: BTreeMap<RouterId, Vec<IpNet>> = BTreeMap::new();
        for (prefix, users) in &network.prefixes {
            behind.entry(users.router).or_default().push(*prefix);
        }
        for (router, prefixes) in behind {
            let router = network.router(router).to_owned();
            let [ours, theirs] = inner(self.wires.len());
            let mut addresses = theirs.map(|a| net(a, 31, 127)).to_vec();
            for prefix in prefixes {
                let halves = prefix.subnets(prefix.prefix_len() + 1);
                let halves = halves.map_err(|_| unfit(format!("{prefix} cannot be halved")))?;
                for half in halves {
                    let user = match half.network() {
                        IpAddr::V4(a) => IpAddr::from(Ipv4Addr::from_bits(a.to_bits() + 10)),
                        IpAddr::V6(a) => IpAddr::from(Ipv6Addr::from_bits(a.to_bits() + 10)),
                    };
                    self.users.push(user);
                    addresses.push(net(user, 32, 128));
                }
                let via = if matches!(prefix, IpNet::V4(_)) { theirs[0] } else { theirs[1] };
                self.routes.push(Route { place: router.clone(), prefix, via });
            }
            for (family, via) in [("0.0.0.0/0", ours[0]), ("::/0", ours[1])] {
                let prefix = family.parse().map_err(|_| unfit("no default route"))?;
                self.routes.push(Route { place: self.users_at.clone(), prefix, via });
            }
            self.wires.push([
                End {
                    place: router.clone(),
                    device: towards(&self.users_at),
                    addresses: ours.map(|a| net(a, 31, 127)).to_vec(),
                    rate: None,
                },
                End {
                    place: self.users_at.clone(),
                    device: towards(&router),
                    addresses,
                    rate: None,
                },
            ]);
        }
        Ok(())
    }

    /// Adds the internal routes along the planner's shortest paths: prefixes to their routers, and
    /// answers to the first entry of a provider.
    fn route(
        &mut self,
        network: &Network,
        gateways: &BTreeMap<(RouterId, RouterId), [IpAddr; 2]>,
    ) -> Result<(), EngineError> {
        let topology = &network.topology;
        let mut targets: Vec<(IpNet, RouterId)> =
            network.prefixes.iter().map(|(prefix, users)| (*prefix, users.router)).collect();
        for (sender, provider) in self.senders.iter().zip(&network.providers) {
            targets.extend(sender.own.map(|(prefix, _)| (prefix, provider.entries[0].router)));
        }
        let mut paths = PathCache::new(NonZeroUsize::MIN);
        let pairs = topology.ids().flat_map(|from| targets.iter().map(move |(_, to)| (from, *to)));
        paths.fill(topology, pairs);
        for from in topology.ids() {
            for (prefix, to) in &targets {
                let Some(first) = paths.get(from, *to).first().and_then(|p| p.links.first()) else {
                    continue;
                };
                let next = topology.link(*first).to;
                let Some(gateway) = gateways.get(&(from, next)) else { continue };
                let via = gateway[usize::from(matches!(prefix, IpNet::V6(_)))];
                let place = network.router(from).to_owned();
                self.routes.push(Route { place, prefix: *prefix, via });
            }
        }
        for session in self.sessions.iter().filter(|s| s.entry == 0) {
            let v6 = IpAddr::from(other_v6(session.ours_v6));
            for ((prefix, _), via) in
                self.senders[session.provider].own.iter().zip([session.theirs.into(), v6])
            {
                self.routes.push(Route { place: session.router.clone(), prefix: *prefix, via });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blueprint() -> Blueprint {
        Blueprint::of(&Network::carried().unwrap()).unwrap()
    }

    #[test]
    fn the_built_in_network_has_all_places() {
        let b = blueprint();
        let names: Vec<_> = b.places.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "cloud", "core1", "core2", "core3", "core4", "east", "metro", "north", "ops",
                "users", "video", "west"
            ]
        );
        assert_eq!(b.sessions.len(), 6);
        assert_eq!((b.asn, b.senders[0].asn, b.senders[1].asn), (64_500, 64_501, 64_502));
        // Both families have addresses, one in each half.
        assert_eq!(b.users.len(), 8);
        assert!(b.users.contains(&"198.18.1.10".parse().unwrap()));
        assert!(b.users.contains(&"2001:db8:11::a".parse().unwrap()));
        // Each direction of each link is an interface with the link's capacity.
        let network = Network::carried().unwrap();
        for (id, (place, device)) in &b.links {
            let end = b.wires.iter().flatten().find(|e| e.place == *place && e.device == *device);
            assert_eq!(end.unwrap().rate, network.topology.link(*id).capacity);
        }
    }

    #[test]
    fn addresses_are_unique_and_routes_use_neighbours() {
        let b = blueprint();
        let all: Vec<IpAddr> =
            b.wires.iter().flatten().flat_map(|e| &e.addresses).map(IpNet::addr).collect();
        for (at, address) in all.iter().enumerate() {
            // The operator's end has one address per wire, and a router has one for all of its
            // speakers.
            assert!(!all[..at].contains(address), "{address}");
        }
        for route in &b.routes {
            let reached = b.wires.iter().any(|ends| {
                let at = |e: &End| e.addresses.iter().any(|a| a.addr() == route.via);
                ends.iter().any(|e| e.place == route.place) && ends.iter().any(at)
            });
            assert!(reached, "{route:?}");
        }
    }

    #[test]
    fn every_router_has_routes_to_users_and_servers() {
        let b = blueprint();
        for (place, _) in b.places.iter().filter(|(_, role)| **role == Role::Router) {
            let own: Vec<_> = b.routes.iter().filter(|r| r.place == *place).collect();
            for sender in &b.senders {
                for (prefix, _) in sender.own {
                    assert_eq!(own.iter().filter(|r| r.prefix == prefix).count(), 1, "{place}");
                }
            }
            for prefix in Network::carried().unwrap().prefixes.keys() {
                assert_eq!(own.iter().filter(|r| r.prefix == *prefix).count(), 1, "{place}");
            }
        }
    }

    #[test]
    fn an_unusable_network_is_refused() {
        let mut network = Network::carried().unwrap();
        network.profiles[0].next_hops[1] = network.profiles[0].next_hops[0];
        let error = Blueprint::of(&network).unwrap_err().to_string();
        assert!(error.contains("video at north: `next_hop` and `peer` are not the two"), "{error}");
        let mut network = Network::carried().unwrap();
        network.providers[1].name = "core1".to_owned();
        assert!(
            Blueprint::of(&network).unwrap_err().to_string().contains("is used for two places")
        );
    }
}
