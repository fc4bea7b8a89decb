//! Reads the load of links from JSON: an array of `{"from": ROUTER, "to": ROUTER, "carried":
//! RATE}`.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_config::{ConfigError, RateValue};
use forebay_units::Rate;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::input::{MAX_RATE, json_message};
use crate::topology::{LinkId, MAX_EDGES, RouterId, Topology};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    from: String,
    to: String,
    /// A number of bits per second, or a text with a unit.
    #[serde(borrow)]
    carried: &'a RawValue,
}

/// Returns the load of each link of `topology` from the JSON `text`, in the order of the links;
/// `None` for links that are not in it.
///
/// Several entries for one link, as for parallel links, add up.
///
/// # Errors
/// If the text is not such a file, names a link that does not exist, or has more than
/// [`MAX_EDGES`] entries.
pub fn carried_json(
    file: &Path,
    text: &str,
    topology: &Topology,
) -> Result<Vec<Option<Rate>>, ConfigError> {
    let error = |line: usize, message: String| ConfigError {
        file: file.to_owned(),
        line: Some(line),
        key: String::new(),
        // Quotes from the file may have line breaks, and an error is one line.
        message: message.replace(['\n', '\r'], " "),
    };
    let unread = |first: usize, e: &serde_json::Error| {
        error(first + e.line().saturating_sub(1), json_message(e))
    };
    let parsed: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| unread(1, &e))?;
    if parsed.len() > MAX_EDGES {
        return Err(error(1, format!("has more than {MAX_EDGES} links")));
    }
    let routers = topology.by_name();
    let links: BTreeMap<(RouterId, RouterId), LinkId> =
        topology.links().iter().zip(0..).map(|(l, id)| ((l.from, l.to), LinkId(id))).collect();
    let mut carried: Vec<Option<Rate>> = vec![None; topology.links().len()];
    let (mut line, mut counted) = (1, 0);
    for raw in parsed {
        // Each part is in the text after the one before it.
        let at = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let between = text.as_bytes().get(counted..at).unwrap_or_default();
        line += between.iter().filter(|b| **b == b'\n').count();
        counted = at;
        let counter: Line<'_> = serde_json::from_str(raw.get()).map_err(|e| unread(line, &e))?;
        let link = routers.get(counter.from.as_str()).zip(routers.get(counter.to.as_str()));
        let link = link.and_then(|(from, to)| links.get(&(*from, *to))).ok_or_else(|| {
            let (from, to) = (&counter.from, &counter.to);
            error(line, format!("the topology has no link from {from:?} to {to:?}"))
        })?;
        let rate = rate(counter.carried.get()).ok_or_else(|| {
            let written = counter.carried.get();
            error(
                line,
                format!(
                    "{written} is not a rate below 10^15 bit/s: write bits per second, or a text with a unit, such as \
                     \"10 Gbit/s\""
                ),
            )
        })?;
        let sum = &mut carried[link.index()];
        *sum = Some(Rate::from_bps(sum.map_or(0, Rate::as_bps).saturating_add(rate.as_bps())));
    }
    Ok(carried)
}

/// A rate below [`MAX_RATE`].
fn rate(json: &str) -> Option<Rate> {
    let bps = match serde_json::from_str::<String>(json) {
        Ok(text) => text.parse::<RateValue>().ok()?.0.as_bps() as f64,
        Err(_) => serde_json::from_str::<f64>(json).ok()?,
    };
    (0.0..=MAX_RATE).contains(&bps).then(|| Rate::from_bps_f64(bps.round()))
}

/// Formats the known loads of links as [`carried_json`] reads them.
pub fn carried_text(topology: &Topology, carried: &[Option<Rate>]) -> String {
    let name = |id: RouterId| topology.routers()[id.index()].name.as_str();
    let known = topology.links().iter().zip(carried).filter_map(|(l, rate)| Some((l, (*rate)?)));
    let lines: Vec<_> = known
        .map(|(link, rate)| {
            let (from, to) = (name(link.from), name(link.to));
            let line = serde_json::json!({"from": from, "to": to, "carried": rate.as_bps()});
            line.to_string()
        })
        .collect();
    format!("[{}]\n", lines.join(",\n "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::input;

    fn topology() -> Topology {
        let text = r#"{"directed": true, "nodes": [{"id": 0, "label": "a"}, {"id": 1, "label": "b \"x\", y"}],
            "links": [{"source": 0, "target": 1, "capacity": "10 Mbit/s"}, {"source": 1, "target": 0}]}"#;
        input::topology("t.json".as_ref(), text).unwrap()
    }

    fn read(text: &str) -> Result<Vec<Option<Rate>>, String> {
        carried_json("l.json".as_ref(), text, &topology()).map_err(|e| e.to_string())
    }

    #[test]
    fn numbers_units_and_parallel_links() {
        let text = r#"[{"from": "a", "to": "b \"x\", y", "carried": 2e6},
            {"from": "a", "to": "b \"x\", y", "carried": "3 Mbit/s"}]"#;
        assert_eq!(read(text).unwrap(), [Some(Rate::from_mbps(5)), None]);
        assert_eq!(read("[]").unwrap(), [None, None]);
    }

    #[test]
    fn errors_name_their_line() {
        let line = |to: &str, rate: &str| {
            format!("[\n\n{{\"from\": \"a\", \"to\": \"{to}\",\n\"carried\": {rate}}}]")
        };
        let cases = [
            (line("c", "1"), "l.json:3: the topology has no link from \"a\" to \"c\""),
            (line("a", "1"), "l.json:3: the topology has no link from \"a\" to \"a\""),
            ("[\n{\"from\": 5}]".to_owned(), "l.json:2: invalid type: integer `5`"),
            ("[\n1]".to_owned(), "l.json:2: invalid type"),
            ("[{\"from\": \"a\"}]".to_owned(), "l.json:1: missing field"),
            ("\n{}".to_owned(), "l.json:2: invalid type"),
            (String::new(), "l.json:1: ends early: is the file complete?"),
        ];
        for (text, expected) in cases {
            let error = read(&text).unwrap_err();
            assert!(error.starts_with(expected), "{error}, not {expected}");
        }
        for rate in ["-1", "1e18", "\"fast\"", "true", "null", "\"10000000000 Gbit/s\""] {
            let error = read(&line("b \\\"x\\\", y", rate)).unwrap_err();
            assert!(error.contains("is not a rate below 10^15 bit/s"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(rates in proptest::collection::vec(
            proptest::option::of(0..1_000_000_000_000_000u64), 2,
        )) {
            let rates: Vec<_> = rates.into_iter().map(|r| r.map(Rate::from_bps)).collect();
            prop_assert_eq!(read(&carried_text(&topology(), &rates)).unwrap(), rates);
        }

        /// A mutated file is read, or an error names one of its lines.
        #[test]
        fn a_damaged_text_is_read_or_refused(at in 0usize..90, with in "[\\[\\]{}:,\"0-9eE.\n-]{0,3}") {
            let good = carried_text(&topology(), &[Some(Rate::from_mbps(1)), Some(Rate::from_mbps(2))]);
            let at = at.min(good.len());
            let text = format!("{}{with}{}", &good[..at], &good[(at + 1).min(good.len())..]);
            if let Err(e) = carried_json("l.json".as_ref(), &text, &topology()) {
                prop_assert!(e.line.is_some_and(|l| (1..=text.lines().count() + 1).contains(&l)), "{}", e);
            }
        }
    }
}
