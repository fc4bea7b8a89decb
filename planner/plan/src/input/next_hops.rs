//! Reads which router each next hop of a route belongs to.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use forebay_config::ConfigError;

use crate::input::providers::unknown_router;
use crate::input::{MAX_DEMANDS, csv, error};
use crate::topology::{RouterId, Topology};

const HEADER: &str = "address,router";

/// Reads next hops from a CSV text with the columns `address` and `router`: a router's own address
/// where it sets itself as the next hop, or the address of a neighbour behind it.
///
/// # Errors
/// If a line is not an address with a router of `topology`, an address occurs twice, or there are
/// more than a million.
pub fn next_hops(
    file: &Path,
    text: &str,
    topology: &Topology,
) -> Result<BTreeMap<IpAddr, RouterId>, ConfigError> {
    let routers = topology.by_name();
    let (_, lines) = csv(file, text, &[HEADER])?;
    let mut found = BTreeMap::new();
    for (line, at) in lines {
        let fail = |message: String| Err(error(file, Some(at), message));
        let Some((address, router)) = line.split_once(',') else {
            return fail(format!("has no comma: the columns are {HEADER}"));
        };
        let Ok(address) = address.trim().parse::<IpAddr>() else {
            return fail(format!("{:?} is not an address", address.trim()));
        };
        let router = router.trim().trim_matches('"');
        let Some(router) = routers.get(router) else {
            return fail(unknown_router(router, topology));
        };
        if found.len() == MAX_DEMANDS {
            return fail(format!("there are more than {MAX_DEMANDS} next hops"));
        }
        if found.insert(address.to_canonical(), *router).is_some() {
            return fail(format!("{address} occurs twice: write it with one router only"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Router;

    #[test]
    fn next_hops_and_what_is_none() {
        let routers = vec![Router { name: "A".to_owned(), serves: true }];
        let topology = Topology::new(String::new(), routers, Vec::new(), Vec::new());
        let read = |text: &str| next_hops(Path::new("hops.csv"), text, &topology);
        let good = read("\u{feff}address,router\n192.0.2.1,A\n\n2001:db8::1, \"A\"\n");
        let good = good.expect("it is good");
        assert_eq!(good.len(), 2);
        for (text, message) in [
            ("router,address\n", "hops.csv:1: the first line should be address,router"),
            ("address,router\n192.0.2.1\n", "hops.csv:2: has no comma"),
            ("address,router\n192.0.2.0/24,A\n", "hops.csv:2: \"192.0.2.0/24\" is not an address"),
            ("address,router\n192.0.2.1,A\n192.0.2.1,A\n", "hops.csv:3: 192.0.2.1 occurs twice"),
            ("address,router\n192.0.2.1,B\n", "hops.csv:2: "),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
