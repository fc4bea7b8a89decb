//! Reads the prefixes of users, their routers, and their shares of a router's traffic.

use std::collections::BTreeMap;
use std::path::Path;

use forebay_config::ConfigError;
use ipnet::IpNet;

use crate::input::providers::unknown_router;
use crate::input::{MAX_DEMANDS, csv, error};
use crate::topology::{RouterId, Topology};

/// The users of a prefix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Users {
    /// The router of the users.
    pub router: RouterId,
    /// The share of the prefix in the traffic to all users of the router, relative to its other
    /// prefixes.
    pub share: f64,
}

impl Users {
    /// Returns users behind `router` with the same share as those of any other prefix, for prefixes
    /// without a measured share.
    pub fn behind(router: RouterId) -> Self {
        Self { router, share: 1.0 }
    }
}

/// The first line of a file without shares.
const HEADER: &str = "prefix,router";
/// The first line of a file with shares.
const WITH_SHARES: &str = "prefix,router,share";
/// The range of a share, narrow enough for sums and ratios of floating-point numbers.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1e-6..=1e12;

/// Reads prefixes from a CSV text with the columns `prefix`, `router` and optionally `share`: any
/// measure of the prefix's traffic, such as its mean rate.
///
/// # Errors
/// If a line is not a prefix with a router of `topology`, has host bits set, occurs twice, or there
/// are more than a million.
pub fn prefixes(
    file: &Path,
    text: &str,
    topology: &Topology,
) -> Result<BTreeMap<IpNet, Users>, ConfigError> {
    let routers = topology.by_name();
    let (which, lines) = csv(file, text, &[HEADER, WITH_SHARES])?;
    let shares = which == 1;
    let mut found = BTreeMap::new();
    for (line, at) in lines {
        let fail = |message: String| Err(error(file, Some(at), message));
        let Some((prefix, rest)) = line.split_once(',') else {
            return fail(format!("has no comma: the columns are {HEADER}"));
        };
        let (router, share) = match rest.rsplit_once(',') {
            Some((router, share)) if shares => (router, share.trim().parse().ok()),
            None if shares => (rest, None),
            _ => (rest, Some(1.0)),
        };
        let Some(share) = share.filter(|s: &f64| PLAUSIBLE.contains(s)) else {
            return fail("has no valid share: write a number from 0.000001 to 10^12".to_owned());
        };
        let Ok(prefix) = prefix.trim().parse::<IpNet>() else {
            return fail(format!(
                "{:?} is not a prefix: write it as 192.0.2.0/24 or 2001:db8::/32",
                prefix.trim()
            ));
        };
        if prefix != prefix.trunc() {
            return fail(format!(
                "{prefix} has bits set after its length: write {}",
                prefix.trunc()
            ));
        }
        let router = router.trim().trim_matches('"');
        let Some(router) = routers.get(router) else {
            return fail(unknown_router(router, topology));
        };
        if found.len() == MAX_DEMANDS {
            return fail(format!(
                "there are more than {MAX_DEMANDS} prefixes: merge adjacent ones"
            ));
        }
        if found.insert(prefix, Users { router: *router, share }).is_some() {
            return fail(format!("{prefix} occurs twice: write it with one router only"));
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
            ("10.0.0.0/8", "p:2: has no comma: the columns are prefix,router"),
            ("10.0.0.1/8,A", "p:2: 10.0.0.1/8 has bits set after its length: write 10.0.0.0/8"),
            ("ten,A", "p:2: \"ten\" is not a prefix: write it as 192.0.2.0/24 or 2001:db8::/32"),
            ("10.0.0.0/8,B", "p:2: the topology has no router \"B\""),
            (
                "10.0.0.0/8,A\n10.0.0.0/8,A",
                "p:3: 10.0.0.0/8 occurs twice: write it with one router only",
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(parse(line).unwrap_err(), expected);
        }
    }

    #[test]
    fn shares_where_they_are_known() {
        let routers = vec![Router { name: "A, B".to_owned(), serves: true }];
        let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
        let parse = |line: &str| {
            let text = format!("{WITH_SHARES}\n{line}");
            prefixes("p".as_ref(), &text, &topology).map_err(|e| e.to_string())
        };
        let found = parse("10.0.0.0/8,\"A, B\", 2.5\n").unwrap();
        assert_eq!(found.into_values().next().unwrap().share, 2.5);
        for line in ["10.0.0.0/8,x", "10.0.0.0/8,\"A, B\",0", "10.0.0.0/8,\"A, B\",nan"] {
            assert_eq!(
                parse(line).unwrap_err(),
                "p:2: has no valid share: write a number from 0.000001 to 10^12"
            );
        }
    }
}
