//! Where users are: prefixes, and the routers that they are behind.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_config::ConfigError;
use ipnet::IpNet;

use crate::input::providers::unknown_router;
use crate::input::{MOST_DEMANDS, error};
use crate::topology::{RouterId, Topology};

/// The first line.
const HEADER: &str = "prefix,router";

/// The prefixes in a CSV text with the columns `prefix` and `router`.
///
/// # Errors
/// If a line is no prefix with a router of `topology`, has bits set behind its length, stands twice, or there are more
/// than a million.
pub fn prefixes(
    file: &Path,
    text: &str,
    topology: &Topology,
) -> Result<BTreeMap<IpNet, RouterId>, ConfigError> {
    let routers = topology.by_name();
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    if lines.next().is_none_or(|(line, _)| line.trim() != HEADER) {
        return Err(error(file, Some(1), format!("the first line should be {HEADER}")));
    }
    let mut found = BTreeMap::new();
    for (line, at) in lines {
        let fail = |message: String| Err(error(file, Some(at), message));
        let Some((prefix, router)) = line.split_once(',') else {
            return fail(format!("lacks a comma: the columns are {HEADER}"));
        };
        let Ok(prefix) = prefix.trim().parse::<IpNet>() else {
            return fail(format!(
                "{:?} is no prefix: write it as 192.0.2.0/24 or 2001:db8::/32",
                prefix.trim()
            ));
        };
        if prefix != prefix.trunc() {
            return fail(format!(
                "{prefix} has bits set behind its length: write {}",
                prefix.trunc()
            ));
        }
        let router = router.trim().trim_matches('"');
        let Some(router) = routers.get(router) else {
            return fail(unknown_router(router, topology));
        };
        if found.len() == MOST_DEMANDS {
            return fail(format!(
                "there are more than {MOST_DEMANDS} prefixes: put neighbours together"
            ));
        }
        if found.insert(prefix, *router).is_some() {
            return fail(format!("{prefix} stands twice: it can be behind one router only"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Router;

    #[test]
    fn prefixes_and_what_is_none() {
        let routers = vec![Router { name: "A".to_owned(), serves: true }];
        let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
        let parse = |line: &str| {
            let text = format!("{HEADER}\n{line}");
            prefixes("p".as_ref(), &text, &topology).map_err(|e| e.to_string())
        };
        assert_eq!(parse("10.0.0.0/8, A\n2001:db8::/32,\"A\"\n").unwrap().len(), 2);
        let cases = [
            ("10.0.0.0/8", "p:2: lacks a comma: the columns are prefix,router"),
            ("10.0.0.1/8,A", "p:2: 10.0.0.1/8 has bits set behind its length: write 10.0.0.0/8"),
            ("ten,A", "p:2: \"ten\" is no prefix: write it as 192.0.2.0/24 or 2001:db8::/32"),
            ("10.0.0.0/8,B", "p:2: the topology has no router \"B\""),
            (
                "10.0.0.0/8,A\n10.0.0.0/8,A",
                "p:3: 10.0.0.0/8 stands twice: it can be behind one router only",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line).unwrap_err(), expected);
        }
    }
}
