//! Reads metrics of links from CSV, as [`crate::weights::Report::csv`] writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forebay_config::ConfigError;

use crate::input::demands::fields;
use crate::input::providers::unknown_router;
use crate::input::{csv, error};
use crate::topology::{LinkId, RouterId, Topology};
use crate::weights::Range;

/// The columns in their order.
const HEADER: &str = "from,to,present,metric";

/// Reads the metric of each link of `topology` that the CSV `text` has. The column `present` is not
/// used: the routers say what is present.
///
/// # Errors
/// If a line is not a metric from 1 to the highest of `range`, or names a router or link that the
/// topology lacks, a link twice, or one of several parallel links.
pub fn metrics(
    file: &Path,
    text: &str,
    topology: &Topology,
    range: Range,
) -> Result<Vec<(LinkId, u32)>, ConfigError> {
    let routers = topology.by_name();
    let mut links: BTreeMap<(RouterId, RouterId), Vec<LinkId>> = BTreeMap::new();
    for (link, id) in topology.links().iter().zip(0..) {
        links.entry((link.from, link.to)).or_default().push(LinkId(id));
    }
    let (_, lines) = csv(file, text, &[HEADER])?;
    let mut found = BTreeSet::new();
    let mut metrics = Vec::new();
    for (line, at) in lines {
        let fail = |message: String| error(file, Some(at), message);
        let fields = fields(line)
            .ok_or_else(|| fail("a quote is not closed: close it with \"".to_owned()))?;
        let [from, to, _, metric] = fields.as_slice() else {
            return Err(fail(format!("has {} fields, not the four of {HEADER}", fields.len())));
        };
        let known = |name: &str| {
            routers.get(name).copied().ok_or_else(|| fail(unknown_router(name, topology)))
        };
        let link = match links.get(&(known(from)?, known(to)?)).map(Vec::as_slice) {
            Some([link]) => *link,
            Some(_) => {
                return Err(fail(format!("the topology has several links from {from} to {to}")));
            }
            None => return Err(fail(format!("the topology has no link from {from} to {to}"))),
        };
        let metric: Option<u32> = metric.parse().ok().filter(|m| (1..=range.metric).contains(m));
        let metric =
            metric.ok_or_else(|| fail(format!("write a metric from 1 to {}", range.metric)))?;
        if !found.insert(link) {
            return Err(fail(format!("the link from {from} to {to} occurs twice")));
        }
        metrics.push((link, metric));
    }
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPOLOGY: &str = r#"{"directed": false, "nodes": [{"id": 1, "label": "Rome, I"}, {"id": 2, "label": "Oslo"},
        {"id": 3, "label": "Bern"}], "links": [{"source": 1, "target": 2}, {"source": 2, "target": 3}]}"#;

    #[test]
    fn metrics_are_read_and_errors_name_the_line() {
        let topology = crate::input::topology("t.json".as_ref(), TOPOLOGY).unwrap();
        let read_in = |lines: &str, range| {
            let text = format!("{HEADER}\n{lines}");
            metrics("m.csv".as_ref(), &text, &topology, range).map_err(|e| e.to_string())
        };
        let read = |lines: &str| read_in(lines, Range::OSPF);
        let found = read("\"Rome, I\",Oslo,10,25\nOslo,\"Rome, I\",,7\n").unwrap();
        let ends: Vec<_> = found
            .iter()
            .map(|(id, metric)| (topology.link(*id).from.0, topology.link(*id).to.0, *metric))
            .collect();
        assert_eq!(ends, [(0, 1, 25), (1, 0, 7)]);
        for (range, most) in
            [(Range::NARROW, 63), (Range::TRANSITION, 63), (Range::WIDE, 16_777_214)]
        {
            let line = |metric: u32| format!("Oslo,Bern,1,{metric}\n");
            assert_eq!(read_in(&line(most), range).unwrap()[0].1, most);
            let error = read_in(&line(most + 1), range).unwrap_err();
            assert_eq!(error, format!("m.csv:2: write a metric from 1 to {most}"));
        }
        for (lines, expected) in [
            ("Oslo,Bern,1\n", "m.csv:2: has 3 fields"),
            ("Oslo,Bern,1,0\n", "m.csv:2: write a metric from 1 to 65535"),
            ("Oslo,Bern,1,70000\n", "m.csv:2: write a metric"),
            ("Oslo,Bern,1,2\nOslo,Bern,1,2\n", "m.csv:3: the link from Oslo to Bern occurs twice"),
            ("Bern,\"Rome, I\",1,2\n", "m.csv:2: the topology has no link from Bern to Rome, I"),
            ("Oslo,Bonn,1,2\n", "m.csv:2: "),
            ("\"Oslo,Bern,1,2\n", "m.csv:2: a quote is not closed"),
        ] {
            let error = read(lines).unwrap_err();
            assert!(error.starts_with(expected), "{error}, not {expected}");
        }
        let error = metrics("m.csv".as_ref(), "", &topology, Range::OSPF).unwrap_err().to_string();
        assert_eq!(error, format!("m.csv:1: is empty: it should begin with {HEADER}"));
    }
}
