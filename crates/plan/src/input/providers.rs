//! Content providers: a TOML file, in the form of the boxes' own configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forebay_config::{ConfigError, RateValue, Spanned};
use serde::Deserialize;

use crate::network::{Entry, MOST_ENTRIES, MOST_PROVIDERS, Provider};
use crate::topology::Topology;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
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
    entry: Vec<Spanned<EntryTable>>,
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
}

/// The providers of a file, and what the gravity model wants to know of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ProviderFile {
    /// The providers.
    pub providers: Vec<Provider>,
    /// For each provider, the mass of each of its entries: `size` times the entry's part of all `share`s.
    pub masses: Vec<Vec<f64>>,
}

/// The range of `weight`, `size` and `share`: wide, and narrow enough that sums and ratios stay numbers.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

/// The providers in a TOML text; their entries are routers of `topology`.
///
/// # Errors
/// If it is no such TOML, a router is not there, a name stands twice, or a number is out of its range.
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
    let mut out = ProviderFile { providers: Vec::new(), masses: Vec::new() };
    let mut names = BTreeMap::new();
    if let Some(one_more) = parsed.provider.get(MOST_PROVIDERS) {
        let message = format!("there are more than {MOST_PROVIDERS}: put the small ones together");
        return Err(source.error_at(one_more.span(), "provider", message));
    }
    for table in parsed.provider {
        let span = table.span();
        let table = table.into_inner();
        let name = table.name.get_ref();
        if name.is_empty() || names.insert(name.clone(), ()).is_some() {
            let message = format!("{name:?} is no name of its own: give each provider another");
            return Err(source.error_at(table.name.span(), "provider.name", message));
        }
        if table.entry.is_empty() || table.entry.len() > MOST_ENTRIES {
            let message = format!("write 1 to {MOST_ENTRIES} [[provider.entry]]");
            return Err(source.error_at(span, "provider.entry", message));
        }
        let (mut entries, mut shares, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
        for entry in table.entry {
            let entry = entry.into_inner();
            let router = *routers.get(entry.router.get_ref().as_str()).ok_or_else(|| {
                let message = unknown_router(entry.router.get_ref(), topology);
                source.error_at(entry.router.span(), "provider.entry.router", message)
            })?;
            if !taken.insert(router) {
                let message = "stands twice: put the capacities of both together";
                return Err(source.error_at(entry.router.span(), "provider.entry.router", message));
            }
            shares.push(plausible("provider.entry.share", &entry.share)?);
            entries.push(Entry { router, capacity: entry.capacity.map(|c| c.0) });
        }
        let size = plausible("provider.size", &table.size)?;
        let all: f64 = shares.iter().sum();
        out.masses.push(shares.iter().map(|s| size * s / all).collect());
        let weight = plausible("provider.weight", &table.weight)?;
        let name = table.name.into_inner();
        out.providers.push(Provider { name, participates: table.participates, weight, entries });
    }
    Ok(out)
}

/// What to say of a router that is not there: labels that stand twice got their ids, which is how to name them.
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
        true => format!("the topology has no router {name:?}"),
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
                "p.toml:4: provider.entry.router: stands twice: put the capacities of both together",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(&text).unwrap_err(), expected, "{text}");
        }
    }
}
