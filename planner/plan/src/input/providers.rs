//! Reads content providers from TOML, in the style of the boxes' configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use forebay_config::{ConfigError, RateValue, Source, Spanned};
use serde::Deserialize;

use crate::hints::{Accepts, Profile};
use crate::network::{Entry, MAX_ENTRIES, MAX_PROVIDERS, Provider};
use crate::topology::Topology;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The ISP's own AS number, for AS paths.
    asn: Option<Spanned<u32>>,
    provider: Vec<Spanned<ProviderTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderTable {
    name: Spanned<String>,
    #[serde(default = "yes")]
    participates: bool,
    weight: Option<Spanned<f64>>,
    /// The provider's share of all traffic, for the gravity model.
    size: Option<Spanned<f64>>,
    accepts: Option<AcceptsTable>,
    /// The provider's ASes, by which its traffic is known at interfaces of several providers.
    #[serde(default)]
    asns: Vec<Spanned<u32>>,
    entry: Vec<Spanned<EntryTable>>,
}

/// What a neighbour accepts; the defaults are those of [`Accepts::default`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptsTable {
    api: Option<bool>,
    med: Option<bool>,
    communities: Option<CommunitiesTable>,
    prepend: Option<bool>,
    longest_v4: Option<Spanned<u8>>,
    longest_v6: Option<Spanned<u8>>,
    prefixes: Option<Spanned<usize>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommunitiesTable {
    prefer: Spanned<String>,
    avoid: Spanned<String>,
}

impl AcceptsTable {
    fn read(self, source: &Source) -> Result<Accepts, ConfigError> {
        let usual = Accepts::default();
        let within = |key: &str, value: Option<Spanned<u8>>, usual: u8, most: u8| match value {
            Some(value) if *value.get_ref() > most => {
                let message = format!("write a prefix length up to {most}");
                Err(source.error_at(value.span(), format!("provider.accepts.{key}"), message))
            }
            value => Ok(value.map_or(usual, Spanned::into_inner)),
        };
        let community = |key: &str, text: &Spanned<String>| {
            text.get_ref().parse().map_err(|message: String| {
                let key = format!("provider.accepts.communities.{key}");
                source.error_at(text.span(), key, message)
            })
        };
        let communities = match &self.communities {
            Some(both) => {
                let (prefer, avoid) =
                    (community("prefer", &both.prefer)?, community("avoid", &both.avoid)?);
                if prefer == avoid {
                    let key = "provider.accepts.communities.avoid";
                    let message = "is the same as `prefer`: write another community";
                    return Err(source.error_at(both.avoid.span(), key, message));
                }
                Some((prefer, avoid))
            }
            None => None,
        };
        let prefixes = match self.prefixes {
            Some(most) if *most.get_ref() > Accepts::MAX_PREFIXES => {
                let message = format!("write a number up to {}", Accepts::MAX_PREFIXES);
                return Err(source.error_at(most.span(), "provider.accepts.prefixes", message));
            }
            most => most.map_or(usual.prefixes, Spanned::into_inner),
        };
        Ok(Accepts {
            api: self.api.unwrap_or(usual.api),
            med: self.med.unwrap_or(usual.med),
            communities,
            prepend: self.prepend.unwrap_or(usual.prepend),
            longest_v4: within("longest_v4", self.longest_v4, usual.longest_v4, 32)?,
            longest_v6: within("longest_v6", self.longest_v6, usual.longest_v6, 128)?,
            prefixes,
        })
    }
}

fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryTable {
    router: Spanned<String>,
    capacity: Option<RateValue>,
    /// The entry's share of the provider's traffic, for the gravity model.
    share: Option<Spanned<f64>>,
    /// The provider's address in the BGP session at this entry.
    peer: Option<Spanned<String>>,
    /// The next hop, if it is not the speaker.
    next_hop: Option<Spanned<String>>,
    /// The next hop for IPv6 prefixes, where `next_hop` is an IPv4 address.
    next_hop_v6: Option<Spanned<String>>,
    /// The address at which the router's BGP speaker takes commands.
    speaker: Option<Spanned<String>>,
}

/// The providers of a file, with their masses for the gravity model and their profiles for hints.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderFile {
    /// The providers in the order of the file.
    pub providers: Vec<Provider>,
    /// For each provider the mass of each of its entries: `size` times the entry's part of all
    /// `share`s.
    pub masses: Vec<Vec<f64>>,
    /// For each provider what it accepts, and its sessions.
    pub profiles: Vec<Profile>,
    /// The ISP's own AS number, if the file has it.
    pub asn: Option<u32>,
    /// The index of the provider that each AS belongs to.
    pub asns: BTreeMap<u32, u32>,
}

/// The most AS numbers of all providers together.
const MAX_ASNS: usize = 10_000;
/// The range of `weight`, `size` and `share`, narrow enough for sums and ratios of floating-point
/// numbers.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

/// Reads providers from a TOML text; their entries are routers of `topology`.
///
/// # Errors
/// If the text is not such TOML, a router is unknown, a name occurs twice, or a number is out of
/// range.
pub fn providers(
    file: &Path,
    text: &str,
    topology: &Topology,
) -> Result<ProviderFile, ConfigError> {
    let (parsed, source) = forebay_config::parse::<File>(file, text)?;
    let routers = topology.by_name();
    let plausible = |key: &str, value: &Option<Spanned<f64>>| match value {
        None => Ok(1.0),
        Some(value) if PLAUSIBLE.contains(value.get_ref()) => Ok(*value.get_ref()),
        Some(value) => {
            Err(source.error_at(value.span(), key, "write a number from 0.001 to 1000000"))
        }
    };
    let asn = match parsed.asn {
        Some(asn) if *asn.get_ref() == 0 => {
            return Err(source.error_at(asn.span(), "asn", "write the ISP's own AS number"));
        }
        asn => asn.map(Spanned::into_inner),
    };
    let mut out = ProviderFile {
        providers: Vec::new(),
        masses: Vec::new(),
        profiles: Vec::new(),
        asn,
        asns: BTreeMap::new(),
    };
    // A session is with one neighbour, at one router.
    let (mut sessions, mut speakers) = (BTreeSet::new(), BTreeSet::new());
    let mut names = BTreeMap::new();
    if let Some(one_more) = parsed.provider.get(MAX_PROVIDERS) {
        let message =
            format!("there are more than {MAX_PROVIDERS} providers: merge the small ones");
        return Err(source.error_at(one_more.span(), "provider", message));
    }
    for table in parsed.provider {
        let span = table.span();
        let table = table.into_inner();
        let name = table.name.get_ref();
        if name.is_empty() || names.insert(name.clone(), ()).is_some() {
            let message = format!("{name:?} is empty or in use: give each provider its own name");
            return Err(source.error_at(table.name.span(), "provider.name", message));
        }
        if table.entry.is_empty() || table.entry.len() > MAX_ENTRIES {
            let message = format!("write 1 to {MAX_ENTRIES} [[provider.entry]]");
            return Err(source.error_at(span, "provider.entry", message));
        }
        for number in &table.asns {
            let fail = |message| Err(source.error_at(number.span(), "provider.asns", message));
            if *number.get_ref() == 0 || Some(*number.get_ref()) == out.asn {
                return fail("write an AS number of the provider");
            }
            if out.asns.len() == MAX_ASNS {
                return fail("is beyond the limit of 10 000 AS numbers of all providers");
            }
            if out.asns.insert(*number.get_ref(), out.providers.len() as u32).is_some() {
                return fail("occurs twice: an AS belongs to one provider");
            }
        }
        let (mut entries, mut shares, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
        let accepts = match table.accepts {
            Some(accepts) => accepts.read(&source)?,
            None => Accepts::default(),
        };
        let mut profile = Profile { accepts, ..Profile::default() };
        for entry in table.entry {
            let entry = entry.into_inner();
            let router = *routers.get(entry.router.get_ref().as_str()).ok_or_else(|| {
                let message = unknown_router(entry.router.get_ref(), topology);
                source.error_at(entry.router.span(), "provider.entry.router", message)
            })?;
            if !taken.insert(router) {
                let message = "occurs twice: merge the two, with the sum of their capacities";
                return Err(source.error_at(entry.router.span(), "provider.entry.router", message));
            }
            shares.push(plausible("provider.entry.share", &entry.share)?);
            profile.peers.push(match &entry.peer {
                None => None,
                Some(peer) => {
                    let fail =
                        |message| Err(source.error_at(peer.span(), "provider.entry.peer", message));
                    let Ok(address) = peer.get_ref().parse::<IpAddr>() else {
                        return fail("write the neighbour's address in the BGP session");
                    };
                    if !sessions.insert((address, router)) {
                        return fail("is the address of another provider's session at this router");
                    }
                    Some(address)
                }
            });
            profile.next_hops.push(match &entry.next_hop {
                None => None,
                Some(hop) => Some(hop.get_ref().parse::<IpAddr>().map_err(|_| {
                    let message = "write the address of the next hop";
                    source.error_at(hop.span(), "provider.entry.next_hop", message)
                })?),
            });
            profile.next_hops_v6.push(match &entry.next_hop_v6 {
                None => None,
                Some(hop) => Some(hop.get_ref().parse::<Ipv6Addr>().map_err(|_| {
                    let message = "write the IPv6 address of the next hop";
                    source.error_at(hop.span(), "provider.entry.next_hop_v6", message)
                })?),
            });
            if let Some(speaker) = &entry.speaker {
                if entry.peer.is_none() {
                    let message = "needs the `peer` of the entry too";
                    return Err(source.error_at(speaker.span(), "provider.entry.speaker", message));
                }
                let parts = speaker.get_ref().rsplit_once(':');
                let good = |(host, port): (&str, &str)| {
                    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
                    !host.is_empty()
                        && !host.starts_with('-')
                        && host.chars().all(plain)
                        && port.parse::<u16>().is_ok_and(|p| p > 0)
                };
                // Neighbours of different sessions must not get each other's hints.
                if !speakers.insert(speaker.get_ref().clone()) {
                    let message =
                        "is the speaker of another session already: give each session its own";
                    return Err(source.error_at(speaker.span(), "provider.entry.speaker", message));
                }
                if !parts.is_some_and(good) {
                    let message = "write where GoBGP takes commands, as in \"192.0.2.9:50051\"";
                    return Err(source.error_at(speaker.span(), "provider.entry.speaker", message));
                }
            }
            profile.speakers.push(entry.speaker.map(Spanned::into_inner));
            entries.push(Entry { router, capacity: entry.capacity.map(|c| c.0) });
        }
        let size = plausible("provider.size", &table.size)?;
        let all: f64 = shares.iter().sum();
        out.masses.push(shares.iter().map(|s| size * s / all).collect());
        let weight = plausible("provider.weight", &table.weight)?;
        let name = table.name.into_inner();
        out.profiles.push(profile);
        out.providers.push(Provider { name, participates: table.participates, weight, entries });
    }
    Ok(out)
}

/// The length in bytes of the longest name for which another is suggested.
const MAX_MEANT: usize = 256;

/// Returns the error about an unknown router. Duplicate labels are followed by their ids, so it
/// lists these; else it suggests the name that is most alike.
pub(super) fn unknown_router(name: &str, topology: &Topology) -> String {
    let prefix = format!("{name}#");
    let like: Vec<_> = topology
        .routers()
        .iter()
        .filter(|r| r.name.starts_with(&prefix))
        .take(4)
        .map(|r| r.name.as_str())
        .collect();
    match like.is_empty() {
        true => {
            let names = topology.routers().iter().map(|r| r.name.as_str());
            let meant = Some(name).filter(|n| n.len() <= MAX_MEANT);
            match meant.and_then(|name| forebay_config::likeliest(name, names)) {
                Some(meant) => {
                    format!("the topology has no router {name:?}; did you mean {meant:?}?")
                }
                None => format!("the topology has no router {name:?}"),
            }
        }
        false => {
            format!("the topology has several routers {name:?}: write one of {}", like.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_units::Rate;

    use super::*;
    use crate::topology::{Router, RouterId};

    fn parse(text: &str) -> Result<ProviderFile, String> {
        let router = |name: &str| Router { name: name.to_owned(), serves: true };
        let routers = ["A", "B", "C#1", "C#2"].map(router).to_vec();
        let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
        providers("p.toml".as_ref(), text, &topology).map_err(|e| e.to_string())
    }

    #[test]
    fn ases_belong_to_one_provider() {
        let one = |name: &str, asns: &str| {
            format!(
                "[[provider]]\nname = \"{name}\"\nasns = {asns}\nentry = [{{ router = \"A\" }}]\n"
            )
        };
        let file = parse(&(one("x", "[64510, 64511]") + &one("y", "[64520]"))).unwrap();
        assert_eq!(file.asns, [(64510, 0), (64511, 0), (64520, 1)].into());
        let twice = parse(&(one("x", "[64510]") + &one("y", "[64510]"))).unwrap_err();
        assert_eq!(twice, "p.toml:7: provider.asns: occurs twice: an AS belongs to one provider");
        for asns in ["[0]", "[64500]"] {
            let error = parse(&format!("asn = 64500\n{}", one("x", asns))).unwrap_err();
            assert_eq!(error, "p.toml:4: provider.asns: write an AS number of the provider");
        }
    }

    #[test]
    fn providers_with_entries() {
        let text = "[[provider]]\nname = \"x\"\nsize = 3.0\n[[provider.entry]]\nrouter = \"B\"\ncapacity = \"1 Gbit/s\"\nshare = 2.0\n\
                    [[provider.entry]]\nrouter = \"A\"\n[[provider]]\nname = \"y\"\nparticipates = false\nweight = 2.0\n\
                    [[provider.entry]]\nrouter = \"C#2\"\n";
        let file = parse(text).unwrap();
        let x = &file.providers[0];
        assert_eq!(
            (x.name.as_str(), x.participates, x.weight, x.entries.len()),
            ("x", true, 1.0, 2)
        );
        assert_eq!(
            x.entries[0],
            Entry { router: RouterId(1), capacity: Some(Rate::from_mbps(1000)) }
        );
        assert_eq!(file.masses, [vec![2.0, 1.0], vec![1.0]]);
        assert!(!file.providers[1].participates);
    }

    #[test]
    fn what_a_neighbour_heeds() {
        let text = "asn = 64500\n[[provider]]\nname = \"x\"\n[provider.accepts]\nmed = true\nlongest_v4 = 22\nprefixes = 7\n\
                    communities = { prefer = \"64500:120\", avoid = \"64500:80\" }\n\
                    [[provider.entry]]\nrouter = \"A\"\npeer = \"192.0.2.1\"\nspeaker = \"[2001:db8::1]:50051\"\nnext_hop = \"192.0.2.7\"\nnext_hop_v6 = \"2001:db8::7\"\n\
                    [[provider.entry]]\nrouter = \"B\"\n";
        let file = parse(text).unwrap();
        let profile = &file.profiles[0];
        let accepts = &profile.accepts;
        assert_eq!(
            (file.asn, accepts.med, accepts.longest_v4, accepts.prefixes),
            (Some(64500), true, 22, 7)
        );
        assert_eq!((accepts.longest_v6, accepts.api, accepts.prepend), (48, false, true));
        assert_eq!(profile.peers, [Some("192.0.2.1".parse().unwrap()), None]);
        assert_eq!(profile.speakers[0].as_deref(), Some("[2001:db8::1]:50051"));
        assert_eq!(profile.next_hops, [Some("192.0.2.7".parse().unwrap()), None]);
        let hop = |entry, like: &str| {
            profile.next_hop(entry, &like.parse().unwrap()).map(|hop| hop.to_string())
        };
        assert_eq!(hop(0, "10.0.0.0/8").as_deref(), Some("192.0.2.7"));
        assert_eq!(hop(0, "2001:db8::/32").as_deref(), Some("2001:db8::7"));
        assert_eq!((hop(1, "10.0.0.0/8"), hop(2, "10.0.0.0/8")), (None, None));
        let with = |inside: &str| format!("[[provider]]\nname = \"x\"\n{inside}");
        let cases = [
            (
                with("accepts = { longest_v4 = 33 }\nentry = [{ router = \"A\" }]"),
                "p.toml:3: provider.accepts.longest_v4: write a prefix length up to 32",
            ),
            (
                with(
                    "entry = [{ router = \"A\" }]\n[provider.accepts.communities]\nprefer = \"1:2\"\navoid = \"1\"",
                ),
                "p.toml:6: provider.accepts.communities.avoid: \"1\" is not a community: write it as 64500:120 or 64500:1:20",
            ),
            (
                with("[[provider.entry]]\nrouter = \"A\"\npeer = \"here\""),
                "p.toml:5: provider.entry.peer: write the neighbour's address in the BGP session",
            ),
            (
                with(
                    "[[provider.entry]]\nrouter = \"A\"\npeer = \"192.0.2.1\"\nspeaker = \"--help:1\"",
                ),
                "p.toml:6: provider.entry.speaker: write where GoBGP takes commands, as in \"192.0.2.9:50051\"",
            ),
            (
                with(
                    "entry = [{ router = \"A\", peer = \"192.0.2.1\", speaker = \"h:1\" },\n{ router = \"B\", peer = \"192.0.2.2\", speaker = \"h:1\" }]",
                ),
                "p.toml:4: provider.entry.speaker: is the speaker of another session already: give each session its own",
            ),
            (
                with("entry = [{ router = \"A\", next_hop = \"A\" }]"),
                "p.toml:3: provider.entry.next_hop: write the address of the next hop",
            ),
            (
                with("entry = [{ router = \"A\", next_hop_v6 = \"192.0.2.1\" }]"),
                "p.toml:3: provider.entry.next_hop_v6: write the IPv6 address of the next hop",
            ),
            ("asn = 0\nprovider = []".to_owned(), "p.toml:1: asn: write the ISP's own AS number"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn errors_name_line_and_key() {
        let one = |inside: &str| format!("[[provider]]\nname = \"x\"\n{inside}");
        let cases = [
            (
                one("[[provider.entry]]\nrouter = \"Z\""),
                "p.toml:4: provider.entry.router: the topology has no router \"Z\"",
            ),
            (
                one("[[provider.entry]]\nrouter = \"C\""),
                "p.toml:4: provider.entry.router: the topology has several routers \"C\": write one of C#1, C#2",
            ),
            (one("entry = []"), "p.toml:1: provider.entry: write 1 to 1000 [[provider.entry]]"),
            (
                one("weight = 0.0\nentry = [{ router = \"A\" }]"),
                "p.toml:3: provider.weight: write a number from 0.001 to 1000000",
            ),
            (
                one("entry = [{ router = \"A\" },\n{ router = \"A\" }]"),
                "p.toml:4: provider.entry.router: occurs twice: merge the two, with the sum of their capacities",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn the_likeliest_router_is_suggested() {
        let routers = ["Rome", "Oslo"].map(|n| Router { name: n.to_owned(), serves: true });
        let topology = Topology::new(String::new(), routers.to_vec(), Vec::new(), Vec::new());
        for name in ["#Rome", "rome", "Romee"] {
            let said = unknown_router(name, &topology);
            assert_eq!(
                said,
                format!("the topology has no router {name:?}; did you mean \"Rome\"?")
            );
        }
        assert_eq!(unknown_router("Bern", &topology), "the topology has no router \"Bern\"");
    }
}
