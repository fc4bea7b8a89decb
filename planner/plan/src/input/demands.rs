//! Reads demands from CSV or JSON: the rate of a provider through an entry to the users of a
//! router.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_config::ConfigError;
use forebay_units::Rate;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::input::node_link::{Lines, json_error, with_quoted_numbers};
use crate::input::providers::unknown_router;
use crate::input::repetita::demands_repetita;
use crate::input::sndlib::{demands_sndlib, is_sndlib_native};
use crate::input::{MAX_DEMANDS, csv, error, rate, whole_rate, without_mark};
use crate::network::{Demand, Provider};
use crate::topology::{RouterId, Topology};

/// The columns in their order.
const HEADER: &str = "provider,entry,router,demand";

/// Finds providers, entries and routers by name.
struct Names<'a> {
    providers: BTreeMap<&'a str, u32>,
    entries: BTreeMap<(u32, RouterId), u32>,
    routers: BTreeMap<&'a str, RouterId>,
    topology: &'a Topology,
}

impl<'a> Names<'a> {
    fn new(providers: &'a [Provider], topology: &'a Topology) -> Self {
        let entries = providers.iter().zip(0..).flat_map(|(provider, number)| {
            provider.entries.iter().zip(0..).map(move |(entry, at)| ((number, entry.router), at))
        });
        Self {
            providers: providers.iter().zip(0..).map(|(p, n)| (p.name.as_str(), n)).collect(),
            entries: entries.collect(),
            routers: topology.by_name(),
            topology,
        }
    }

    fn demand(
        &self,
        provider: &str,
        entry: &str,
        router: &str,
        rate: Rate,
    ) -> Result<Demand, String> {
        let known = |name: &str| {
            self.routers.get(name).copied().ok_or_else(|| unknown_router(name, self.topology))
        };
        let number = *self
            .providers
            .get(provider)
            .ok_or_else(|| format!("the file of providers does not have {provider:?}"))?;
        let at = known(entry)?;
        let entry = *self.entries.get(&(number, at)).ok_or_else(|| {
            format!("{provider} has no entry at {entry}: add it to the file of providers")
        })?;
        Ok(Demand { provider: number, entry, egress: known(router)?, rate })
    }
}

/// Finds the provider of a demand by its source, for formats without providers.
pub(super) struct Sources<'a> {
    names: Names<'a>,
    providers: &'a [Provider],
    /// The providers with an entry at a router, and the numbers of these entries.
    entries: BTreeMap<RouterId, Vec<(u32, u32)>>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(providers: &'a [Provider], topology: &'a Topology) -> Self {
        let names = Names::new(providers, topology);
        let mut entries: BTreeMap<RouterId, Vec<(u32, u32)>> = BTreeMap::new();
        for ((provider, router), entry) in &names.entries {
            entries.entry(*router).or_default().push((*provider, *entry));
        }
        Self { names, providers, entries }
    }

    /// Returns the router of this name.
    pub(super) fn router(&self, name: &str) -> Result<RouterId, String> {
        let known = self.names.routers.get(name).copied();
        known.ok_or_else(|| unknown_router(name, self.names.topology))
    }

    /// Returns the demand from the entry at `from`, of the only provider that has one there.
    pub(super) fn demand(
        &self,
        from: RouterId,
        egress: RouterId,
        rate: Rate,
    ) -> Result<Demand, String> {
        let router = &self.names.topology.routers()[from.index()].name;
        match self.entries.get(&from).map(Vec::as_slice) {
            Some([(provider, entry)]) => {
                Ok(Demand { provider: *provider, entry: *entry, egress, rate })
            }
            Some([(one, _), (other, _), ..]) => {
                let [one, other] = [one, other].map(|n| &self.providers[*n as usize].name);
                Err(format!(
                    "several providers have an entry at {router}: {one} and {other}; this format \
                     cannot say whose demand it is"
                ))
            }
            _ => Err(format!(
                "no provider has an entry at {router}: add one to the file of providers"
            )),
        }
    }
}

/// Reads demands in the format that the text and the name of its file show: SNDlib, REPETITA, JSON
/// if the name ends in `.json`, or else CSV.
///
/// # Errors
/// If the text is not of that format, or names something unknown.
pub fn demands(
    file: &Path,
    text: &str,
    providers: &[Provider],
    topology: &Topology,
) -> Result<Vec<Demand>, ConfigError> {
    let text = without_mark(text);
    let start = text.trim_start();
    let read = match forebay_input::extension(file) {
        Some("json") => demands_json,
        _ if start.starts_with('<') || is_sndlib_native(start) => demands_sndlib,
        _ if start.starts_with("DEMANDS") => demands_repetita,
        _ => demands_csv,
    };
    read(file, text, providers, topology)
}

/// Reads demands from a CSV text.
///
/// The first line is `provider,entry,router,demand`, and each other line is a demand, in bits per
/// second or with a unit. Names with commas are in double quotes.
///
/// # Errors
/// If a line is not a demand or names something unknown, or there are more than a million.
pub fn demands_csv(
    file: &Path,
    text: &str,
    providers: &[Provider],
    topology: &Topology,
) -> Result<Vec<Demand>, ConfigError> {
    let names = Names::new(providers, topology);
    let mut demands = Vec::new();
    let (_, lines) = csv(file, text, &[HEADER])?;
    for (line, at) in lines {
        let fail = |message: String| error(file, Some(at), message);
        if demands.len() == MAX_DEMANDS {
            return Err(fail(format!(
                "there are more than {MAX_DEMANDS} demands: add up those to the same router"
            )));
        }
        let fields = fields(line)
            .ok_or_else(|| fail("a quote is not closed: close it with \"".to_owned()))?;
        let [provider, entry, router, demand] = fields.as_slice() else {
            return Err(fail(format!("has {} fields, not the four of {HEADER}", fields.len())));
        };
        let rate = rate(demand).map_err(fail)?;
        demands.push(names.demand(provider, entry, router, rate).map_err(fail)?);
    }
    Ok(demands)
}

/// Splits a line of CSV into fields (RFC 4180, section 2); a field cannot span lines.
pub(super) fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let mut field = String::new();
        rest = rest.trim_start();
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut inside = quoted;
            loop {
                let end = inside.find('"')?;
                field.push_str(&inside[..end]);
                inside = &inside[end + 1..];
                // Two quotes stand for one.
                let Some(more) = inside.strip_prefix('"') else { break };
                field.push('"');
                inside = more;
            }
            rest = inside.trim_start();
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            field.push_str(rest[..end].trim_end());
            rest = &rest[end..];
        }
        fields.push(field);
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            // Text after a closing quote becomes a field too many.
            None if rest.trim().is_empty() => return Some(fields),
            None => rest = rest.trim_start(),
        }
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    provider: String,
    entry: String,
    router: String,
    #[serde(borrow)]
    demand: &'a RawValue,
}

/// Reads demands from a JSON text: an array of objects with `provider`, `entry`, `router` and
/// `demand`, as in CSV.
///
/// # Errors
/// As for [`demands_csv`].
pub fn demands_json(
    file: &Path,
    text: &str,
    providers: &[Provider],
    topology: &Topology,
) -> Result<Vec<Demand>, ConfigError> {
    let text = &*with_quoted_numbers(without_mark(text));
    let names = Names::new(providers, topology);
    let parsed: Vec<&RawValue> =
        serde_json::from_str(text).map_err(|e| json_error(file, None, &e))?;
    if parsed.len() > MAX_DEMANDS {
        let message =
            format!("there are more than {MAX_DEMANDS} demands: add up those to the same router");
        return Err(error(file, Some(1), message));
    }
    let mut lines = Lines { text, counted: 0, line: 1 };
    let demands = parsed.into_iter().map(|raw| {
        let at = lines.of(raw.get());
        let line: Line<'_> =
            serde_json::from_str(raw.get()).map_err(|e| json_error(file, Some(at), &e))?;
        let written = line.demand.get();
        let rate = match serde_json::from_str::<String>(written) {
            Ok(text) => rate(&text),
            Err(_) => serde_json::from_str(written)
                .ok()
                .and_then(whole_rate)
                .ok_or_else(|| format!("{written} is not a demand: write bits per second")),
        };
        rate.and_then(|rate| names.demand(&line.provider, &line.entry, &line.router, rate))
            .map_err(|message| error(file, Some(at), message))
    });
    demands.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::network::Entry;
    use crate::topology::Router;

    /// A provider with entries at these routers.
    pub(crate) fn provider(name: &str, routers: &[u32]) -> Provider {
        let entry = |&router: &u32| Entry { router: RouterId(router), capacity: None };
        Provider {
            name: name.to_owned(),
            participates: true,
            weight: 1.0,
            entries: routers.iter().map(entry).collect(),
        }
    }

    fn setting() -> (Vec<Provider>, Topology) {
        let routers =
            ["A", "B", "C, D"].map(|n| Router { name: n.to_owned(), serves: true }).to_vec();
        let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
        (vec![provider("x", &[0]), provider("y", &[2, 0])], topology)
    }

    type Reader = fn(&Path, &str, &[Provider], &Topology) -> Result<Vec<Demand>, ConfigError>;

    fn parse(reader: Reader, text: &str) -> Result<Vec<Demand>, String> {
        let (providers, topology) = setting();
        reader("d".as_ref(), text, &providers, &topology).map_err(|e| e.to_string())
    }

    #[test]
    fn csv_and_json_give_the_same_demands() {
        let csv = "provider,entry,router,demand\n\nx,A,B,2e6\ny , \"C, D\" , \"C, D\", 3 Mbit/s\n";
        let json = r#"[{"provider":"x","entry":"A","router":"B","demand":2e6},
                       {"provider":"y","entry":"C, D","router":"C, D","demand":"3 Mbit/s"}]"#;
        let demand = |provider, egress, mbps| Demand {
            provider,
            entry: 0,
            egress: RouterId(egress),
            rate: Rate::from_mbps(mbps),
        };
        let expected = vec![demand(0, 1, 2), demand(1, 2, 3)];
        assert_eq!(parse(demands_csv, csv).unwrap(), expected);
        assert_eq!(parse(demands_json, json).unwrap(), expected);
    }

    #[test]
    fn errors_name_their_line() {
        let csv = |line: &str| format!("{HEADER}\n{line}\n");
        let cases = [
            (String::new(), "d:1: is empty: it should begin with provider,entry,router,demand"),
            ("a,b\n".to_owned(), "d:1: the first line should be provider,entry,router,demand"),
            (csv("x,A,B"), "d:2: has 3 fields, not the four of provider,entry,router,demand"),
            (csv("x,\"A,B,1"), "d:2: a quote is not closed: close it with \""),
            (csv("z,A,B,1"), "d:2: the file of providers does not have \"z\""),
            (csv("x,B,B,1"), "d:2: x has no entry at B: add it to the file of providers"),
            (csv("x,A,Q,1"), "d:2: the topology has no router \"Q\""),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(demands_csv, &text).unwrap_err(), expected, "{text}");
        }
        for demand in ["-1", "inf", "nan", "1e18", "fast", "10000000000 Gbit/s"] {
            let error = parse(demands_csv, &csv(&format!("x,A,B,{demand}"))).unwrap_err();
            assert!(error.contains("is not a rate below 10^15 bit/s"), "{error}");
        }
        let json =
            "[\n{\"provider\": \"x\", \"entry\": \"A\",\n\"router\": \"B\", \"demand\": true}]";
        assert_eq!(
            parse(demands_json, json).unwrap_err(),
            "d:2: true is not a demand: write bits per second"
        );
        let json =
            "[\n{\"provider\": \"x\", \"entry\": \"A\", \"router\": \"B\", \"demand\": NaN}]";
        let error = parse(demands_json, json).unwrap_err();
        assert!(error.starts_with("d:2: \"NaN\" is not a rate below"), "{error}");
        let json = "[\n{\"provider\": \"x\",\n\"entry\": 5}]";
        assert!(parse(demands_json, json).unwrap_err().starts_with("d:3: invalid type"));
    }
}
