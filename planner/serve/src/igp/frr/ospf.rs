//! The metrics of ospfd and ospf6d, as the shell shows them.

use std::collections::BTreeMap;

use forebay_plan::weights::Range;
use serde_json::Value;

use super::{Frr, Interface, sections};
use crate::command::CommandError;
use crate::igp::metrics::{Instance, Metric};

/// Reads the interfaces with OSPFv2, and their metrics in OSPFv3 if `v3` is set.
///
/// # Errors
/// If the shell fails, or a daemon does not run.
pub(super) fn read(frr: Frr<'_>, v3: bool) -> Result<BTreeMap<String, Interface>, CommandError> {
    let configured = configured(&frr.ask(&["show running-config"])?);
    let mut all: BTreeMap<String, Interface> = BTreeMap::new();
    let v2 = json(frr, "show ip ospf interface json")?;
    let mut take = |instance, found: Vec<(String, Shown)>| {
        for (name, Shown { metric: value, neighbours }) in found {
            let configured = configured.get(&(name.clone(), instance)) == Some(&value);
            let one = all.entry(name).or_insert_with(|| Interface::new(Range::OSPF));
            one.metrics.put(instance, Some(Metric { value, configured }));
            one.neighbours = one.neighbours.max(neighbours);
        }
    };
    take(Instance::Ospf2, shown(&v2["interfaces"]));
    if v3 {
        take(Instance::Ospf3, shown(&json(frr, "show ipv6 ospf6 interface json")?));
    }
    Ok(all)
}

fn json(frr: Frr<'_>, line: &str) -> Result<Value, CommandError> {
    let text = frr.ask(&[line])?;
    serde_json::from_str(&text).map_err(|e| CommandError::Output(frr.name(line), e.to_string()))
}

/// An interface as a daemon shows it.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    metric: u32,
    /// The neighbours on its network; 0 if the daemon does not say.
    neighbours: usize,
}

/// Returns what an object of interfaces has, as `show ip ospf interface json` prints it. Interfaces
/// without a metric, such as loopback interfaces of OSPFv3, are left out.
fn shown(interfaces: &Value) -> Vec<(String, Shown)> {
    let all = interfaces.as_object().into_iter().flatten();
    let one = |(name, value): (&String, &Value)| {
        let metric = u32::try_from(value["cost"].as_u64()?).ok()?;
        let neighbours = value["nbrCount"].as_u64().and_then(|n| usize::try_from(n).ok());
        Some((name.clone(), Shown { metric, neighbours: neighbours.unwrap_or(0) }))
    };
    all.filter_map(one).collect()
}

/// Returns the metrics in a running configuration, by interface and version of OSPF.
fn configured(text: &str) -> BTreeMap<(String, Instance), u32> {
    let mut found = BTreeMap::new();
    for section in sections(text) {
        let ["interface", name, ..] = section.header.as_slice() else { continue };
        for line in &section.lines {
            let (instance, metric) = match line.as_slice() {
                ["ip", "ospf", "cost", metric] => (Instance::Ospf2, metric),
                ["ipv6", "ospf6", "cost", metric] => (Instance::Ospf3, metric),
                _ => continue,
            };
            if let Ok(metric) = metric.parse() {
                found.insert(((*name).to_owned(), instance), metric);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemons_state_is_read() {
        // As FRR 8.4.4 prints it, shortened.
        let v2: Value = serde_json::from_str(
            r#"{"interfaces":{"fb-b":{"ifUp":true,"ospfEnabled":true,"networkType":"POINTOPOINT",
            "cost":33,"nbrCount":1,"nbrAdjacentCount":1}}}"#,
        )
        .unwrap();
        let b = |metric, neighbours| [("fb-b".to_owned(), Shown { metric, neighbours })];
        assert_eq!(shown(&v2["interfaces"]), b(33, 1));
        let v3: Value = serde_json::from_str(
            r#"{"fb-b":{"status":"up","cost":10},"lo":{"status":"up","type":"LOOPBACK"}}"#,
        )
        .unwrap();
        assert_eq!(shown(&v3), b(10, 0));
        let text = "Building configuration...\n\n!\ninterface fb-b\n ip ospf area 0\n ip ospf cost 33\n \
                    ipv6 ospf6 cost 44\nexit\n!\ninterface fb-c\n ip ospf area 0\nexit\n!\n\
                    router ospf\n ospf router-id 10.9.0.1\n ip ospf cost 5\nexit\n!\nend\n";
        let b = |instance| ("fb-b".to_owned(), instance);
        assert_eq!(configured(text), [(b(Instance::Ospf2), 33), (b(Instance::Ospf3), 44)].into());
    }
}
