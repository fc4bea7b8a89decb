//! Reads the exporters of flow records from TOML, in the style of the file of providers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use forebay_config::{ConfigError, Source, Spanned};
use serde::Deserialize;

use crate::input::providers::unknown_router;
use crate::network::Provider;
use crate::topology::{RouterId, Topology};

/// The most exporters in a file.
pub const MAX_EXPORTERS: usize = 1000;
/// The most interfaces of all exporters together.
pub const MAX_INTERFACES: usize = 100_000;
/// The largest sampling interval, in packets.
const MAX_SAMPLING: u32 = 10_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    exporter: Vec<Spanned<ExporterTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExporterTable {
    address: Spanned<String>,
    router: Option<Spanned<String>>,
    sampling: Option<Spanned<u32>>,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    interface: Vec<Spanned<InterfaceTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceTable {
    index: Spanned<u32>,
    /// The provider; without it the AS of a flow's source tells.
    provider: Option<Spanned<String>>,
    router: Option<Spanned<String>>,
}

/// An entry of a provider, by indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The index of the provider.
    pub provider: u32,
    /// The index of the entry among the provider's.
    pub entry: u32,
}

/// An exporter of flow records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exporter {
    /// The address that its messages come from.
    pub address: IpAddr,
    /// The sampling interval in packets, which overrides what the exporter reports.
    pub sampling: Option<u32>,
    /// Whether demands are measured without the exporter while it is silent.
    pub optional: bool,
    /// The interfaces to providers, by the index in the records; the value is an index into
    /// [`Exporters::places`].
    pub interfaces: BTreeMap<u32, u32>,
    /// The interfaces through which several providers send, such as those to a transit network,
    /// with their routers. The AS of a flow's source tells the provider.
    pub shared: BTreeMap<u32, RouterId>,
}

/// All exporters of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exporters {
    /// The exporters in the order of the file.
    pub exporters: Vec<Exporter>,
    /// The entries of their interfaces; several interfaces may belong to the same entry.
    pub places: Vec<Place>,
    numbers: BTreeMap<IpAddr, u32>,
}

impl Exporters {
    /// Returns an interface without a provider, with the address of its exporter, if there is any.
    pub fn shared(&self) -> Option<(IpAddr, u32)> {
        let mut all = self.exporters.iter();
        all.find_map(|e| e.shared.keys().next().map(|index| (e.address, *index)))
    }

    /// Returns the index of the exporter with this address.
    pub fn number(&self, address: IpAddr) -> Option<u32> {
        self.numbers.get(&address.to_canonical()).copied()
    }
}

/// Reads exporters from a TOML text. Their interfaces are entries of `providers`.
///
/// # Errors
/// If the text is not such TOML, an address or an index occurs twice, or an interface is at no
/// entry.
pub fn exporters(
    file: &Path,
    text: &str,
    providers: &[Provider],
    topology: &Topology,
) -> Result<Exporters, ConfigError> {
    let (parsed, source) = forebay_config::parse::<File>(file, text)?;
    if let Some(one_more) = parsed.exporter.get(MAX_EXPORTERS) {
        let message = format!(
            "there are more than {MAX_EXPORTERS} exporters: remove those without providers"
        );
        return Err(source.error_at(one_more.span(), "exporter", message));
    }
    let names = Names {
        providers: providers
            .iter()
            .zip(0..)
            .map(|(p, number)| (&p.name[..], (number, p)))
            .collect(),
        routers: topology.by_name(),
        topology,
        source: &source,
    };
    let mut out = Exporters::default();
    let mut known: BTreeMap<Place, u32> = BTreeMap::new();
    let mut interfaces = 0;
    for table in parsed.exporter {
        let table = table.into_inner();
        let fail =
            |message: &str| Err(source.error_at(table.address.span(), "exporter.address", message));
        let Ok(address) = table.address.get_ref().parse::<IpAddr>() else {
            return fail("write the address of the exporter, as in \"192.0.2.1\"");
        };
        let address = address.to_canonical();
        if out.numbers.insert(address, out.exporters.len() as u32).is_some() {
            return fail("occurs twice: merge the interfaces of both");
        }
        let sampling = match &table.sampling {
            Some(n) if !(1..=MAX_SAMPLING).contains(n.get_ref()) => {
                let message = format!(
                    "write the sampling interval in packets, from 1 (all) to {MAX_SAMPLING}"
                );
                return Err(source.error_at(n.span(), "exporter.sampling", message));
            }
            sampling => sampling.as_ref().map(|n| *n.get_ref()),
        };
        let (mut own, mut shared) = (BTreeMap::new(), BTreeMap::new());
        for interface in &table.interface {
            let interface = interface.get_ref();
            interfaces += 1;
            if interfaces > MAX_INTERFACES {
                let message = format!(
                    "there are more than {MAX_INTERFACES} interfaces: remove those without providers"
                );
                return Err(source.error_at(interface.index.span(), "exporter.interface", message));
            }
            let router = interface.router.as_ref().or(table.router.as_ref());
            let twice = |source: &Source| {
                let key = "exporter.interface.index";
                source.error_at(interface.index.span(), key, "occurs twice")
            };
            let index = *interface.index.get_ref();
            let Some(provider) = &interface.provider else {
                let at = names.router(router, interface.index.span())?;
                if own.contains_key(&index) || shared.insert(index, at).is_some() {
                    return Err(twice(&source));
                }
                continue;
            };
            let place = names.place(provider, router)?;
            let number = *known.entry(place).or_insert_with(|| {
                out.places.push(place);
                out.places.len() as u32 - 1
            });
            if shared.contains_key(&index) || own.insert(index, number).is_some() {
                return Err(twice(&source));
            }
        }
        let optional = table.optional;
        out.exporters.push(Exporter { address, sampling, optional, interfaces: own, shared });
    }
    Ok(out)
}

struct Names<'a> {
    providers: BTreeMap<&'a str, (u32, &'a Provider)>,
    routers: BTreeMap<&'a str, RouterId>,
    topology: &'a Topology,
    source: &'a Source,
}

impl Names<'_> {
    /// Returns the router of an interface without a provider.
    fn router(
        &self,
        router: Option<&Spanned<String>>,
        interface: std::ops::Range<usize>,
    ) -> Result<RouterId, ConfigError> {
        let Some(router) = router else {
            let message = "has no provider: write its `provider`, or the `router` at which the \
                           providers have entries";
            return Err(self.source.error_at(interface, "exporter.interface.index", message));
        };
        let name = router.get_ref();
        self.routers.get(&name[..]).copied().ok_or_else(|| {
            let message = unknown_router(name, self.topology);
            self.source.error_at(router.span(), "exporter.router", message)
        })
    }

    fn place(
        &self,
        provider: &Spanned<String>,
        router: Option<&Spanned<String>>,
    ) -> Result<Place, ConfigError> {
        let fail = |at: &Spanned<String>, key: &str, message: String| {
            self.source.error_at(at.span(), format!("exporter.{key}"), message)
        };
        let name = provider.get_ref();
        let &(number, known) = self.providers.get(&name[..]).ok_or_else(|| {
            let message = format!("the file of providers does not have {name:?}");
            fail(provider, "interface.provider", message)
        })?;
        let entry = match router {
            Some(router) => {
                let name = router.get_ref();
                let at = self
                    .routers
                    .get(&name[..])
                    .ok_or_else(|| fail(router, "router", unknown_router(name, self.topology)))?;
                known.entries.iter().position(|e| e.router == *at).ok_or_else(|| {
                    let message = format!(
                        "{} has no entry at {name}: add it to the file of providers",
                        known.name
                    );
                    fail(router, "router", message)
                })?
            }
            None if known.entries.len() == 1 => 0,
            None => {
                let message = format!(
                    "{name} has {} entries: write the `router` of this one",
                    known.entries.len()
                );
                return Err(fail(provider, "interface.provider", message));
            }
        };
        Ok(Place { provider: number, entry: entry as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input;
    use crate::topology::Router;

    fn parse(text: &str) -> Result<Exporters, String> {
        let routers = ["A", "B"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
        let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
        let providers = "[[provider]]\nname = \"x\"\nentry = [{ router = \"B\" }, { router = \"A\" }]\n\
                         [[provider]]\nname = \"y\"\nentry = [{ router = \"B\" }]\n";
        let providers = input::providers("p".as_ref(), providers, &topology).unwrap().providers;
        exporters("e.toml".as_ref(), text, &providers, &topology).map_err(|e| e.to_string())
    }

    #[test]
    fn interfaces_are_entries() {
        let text = "[[exporter]]\naddress = \"192.0.2.1\"\nrouter = \"A\"\nsampling = 1000\n\
                    interface = [{ index = 7, provider = \"x\" }, { index = 8, provider = \"y\", router = \"B\" }]\n\
                    [[exporter]]\naddress = \"2001:db8::1\"\noptional = true\n\
                    interface = [{ index = 7, provider = \"y\" }]\n";
        let table = parse(text).unwrap();
        let place = |provider, entry| Place { provider, entry };
        assert_eq!(table.places, [place(0, 1), place(1, 0)]);
        assert_eq!(table.exporters[0].interfaces, [(7, 0), (8, 1)].into());
        assert_eq!(table.exporters[1].interfaces, [(7, 1)].into());
        assert_eq!((table.exporters[0].sampling, table.exporters[1].sampling), (Some(1000), None));
        assert!(!table.exporters[0].optional && table.exporters[1].optional);
        // A socket for both families reports IPv4 addresses mapped to IPv6.
        let number = |address: &str| table.number(address.parse().unwrap());
        assert_eq!((number("::ffff:192.0.2.1"), number("2001:db8::1")), (Some(0), Some(1)));
        assert_eq!(number("192.0.2.2"), None);
    }

    #[test]
    fn interfaces_of_several_providers_are_apart() {
        let text = "[[exporter]]\naddress = \"192.0.2.1\"\nrouter = \"A\"\n\
                    interface = [{ index = 7, provider = \"x\" }, { index = 8, router = \"B\" }]\n";
        let table = parse(text).unwrap();
        assert_eq!(table.exporters[0].interfaces, [(7, 0)].into());
        assert_eq!(table.exporters[0].shared, [(8, RouterId(1))].into());
        assert_eq!(table.shared(), Some(("192.0.2.1".parse().unwrap(), 8)));
    }

    #[test]
    fn errors_name_line_and_key() {
        let one = |inside: &str| format!("[[exporter]]\naddress = \"192.0.2.1\"\n{inside}\n");
        let cases = [
            (
                "[[exporter]]\naddress = \"rome\"\n".to_owned(),
                "2: exporter.address: write the address",
            ),
            (one(&one("")), "4: exporter.address: occurs twice"),
            (one("sampling = 0"), "3: exporter.sampling: write the sampling interval"),
            (
                one("interface = [{ index = 1, provider = \"z\" }]"),
                "3: exporter.interface.provider: the file of providers does not have \"z\"",
            ),
            (
                one("interface = [{ index = 1, provider = \"x\" }]"),
                "3: exporter.interface.provider: x has 2 entries: write the `router`",
            ),
            (
                one("router = \"A\"\ninterface = [{ index = 1, provider = \"y\" }]"),
                "3: exporter.router: y has no entry at A: add it to the file of providers",
            ),
            (
                one("router = \"Q\"\ninterface = [{ index = 1, provider = \"y\" }]"),
                "3: exporter.router: the topology has no router \"Q\"",
            ),
            (
                one(
                    "interface = [{ index = 1, provider = \"y\" },\n{ index = 1, provider = \"y\" }]",
                ),
                "4: exporter.interface.index: occurs twice",
            ),
            (
                one("interface = [{ index = 1 }]"),
                "3: exporter.interface.index: has no provider: write its `provider`, or the `router`",
            ),
            (
                one("router = \"Q\"\ninterface = [{ index = 1 }]"),
                "3: exporter.router: the topology has no router \"Q\"",
            ),
            (
                one(
                    "router = \"B\"\ninterface = [{ index = 1 },\n{ index = 1, provider = \"y\" }]",
                ),
                "5: exporter.interface.index: occurs twice",
            ),
            (one("x = 1"), "3: exporter.x: unknown field"),
        ];
        for (text, expected) in cases {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(&format!("e.toml:{expected}")), "{error}, not {expected}");
        }
    }
}
