//! The table `[bmp]`: routes learned from routers.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use forebay_config::{ConfigError, DurationValue, Source, Spanned};
use forebay_routes::bmp::SESSION_TIMEOUT;
use forebay_routes::table::Limits;
use serde::Deserialize;

use super::{File, MAX_ADDRESSES};

/// The most routers that may have a session.
const MAX_ROUTERS: usize = 256;
/// The most routes that a table may be given room for; each takes some hundred octets.
const MAX_ROUTES: usize = 50_000_000;
/// The times of the table, in seconds.
const TIMES: std::ops::RangeInclusive<u64> = 1..=86_400;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BmpTable {
    listen: Spanned<Vec<Spanned<String>>>,
    pub(super) next_hops: PathBuf,
    router: Spanned<Vec<Spanned<RouterTable>>>,
    routes: Option<Spanned<usize>>,
    hold: Option<Spanned<DurationValue>>,
    silence: Option<Spanned<DurationValue>>,
    settle: Option<Spanned<DurationValue>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouterTable {
    address: Spanned<String>,
    name: Option<String>,
    #[serde(default)]
    optional: bool,
}

/// How routes are learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bmp {
    /// The TCP addresses at which routers connect.
    pub listen: Vec<SocketAddr>,
    /// The routers that may connect.
    pub routers: Vec<Router>,
    /// The room of the table.
    pub limits: Limits,
    /// The time that routes stay after their session was cut, and again after it is back.
    pub hold: Duration,
    /// The longest time without any message of a router.
    pub silence: Duration,
    /// The time after which a session counts as loaded, if the router does not say that it is.
    pub settle: Duration,
}

/// A router that may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// The address that it connects from.
    pub address: IpAddr,
    /// The name for people; by default the address.
    pub name: String,
    /// Whether rounds go on without its routes.
    pub optional: bool,
}

impl File {
    /// Reads the table `[bmp]`.
    pub(super) fn bmp(&self, source: &Source) -> Result<Option<Bmp>, ConfigError> {
        let prefixes = self.serve.get_ref().prefixes.as_ref();
        let Some(table) = &self.bmp else {
            if prefixes.is_none() {
                let message = "write the file of users' prefixes, or learn them with [bmp]";
                return Err(source.error_at(self.serve.span(), "serve.prefixes", message));
            }
            return Ok(None);
        };
        if let Some(prefixes) = prefixes {
            let message = "prefixes are learned by [bmp]: remove one of the two";
            return Err(source.error_at(prefixes.span(), "serve.prefixes", message));
        }
        let table = table.get_ref();
        let mut listen = Vec::new();
        for address in table.listen.get_ref() {
            listen.push(address.get_ref().parse().map_err(|_| {
                let message =
                    "write an address and a port, as in \"0.0.0.0:11019\" or \"[::]:11019\"";
                source.error_at(address.span(), "bmp.listen", message)
            })?);
        }
        if listen.is_empty() || listen.len() > MAX_ADDRESSES {
            let message = format!("write 1 to {MAX_ADDRESSES} addresses");
            return Err(source.error_at(table.listen.span(), "bmp.listen", message));
        }
        let all = table.router.get_ref();
        if all.is_empty() || all.len() > MAX_ROUTERS {
            let message = format!("write 1 to {MAX_ROUTERS} routers");
            return Err(source.error_at(table.router.span(), "bmp.router", message));
        }
        let (mut routers, mut known) = (Vec::new(), BTreeSet::new());
        for router in all {
            let router = router.get_ref();
            let fail = |message: &str| {
                Err(source.error_at(router.address.span(), "bmp.router.address", message))
            };
            let Ok(address) = router.address.get_ref().parse::<IpAddr>() else {
                return fail(
                    "write the address that the router connects from, as in \"192.0.2.1\"",
                );
            };
            let address = address.to_canonical();
            if !known.insert(address) {
                return fail("occurs twice: a router has one session");
            }
            let name = router.name.clone().unwrap_or_else(|| address.to_string());
            if routers.iter().any(|r: &Router| r.name == name) {
                return fail("has the name of another router: give each its own");
            }
            routers.push(Router { address, name, optional: router.optional });
        }
        let mut limits = Limits::default();
        if let Some(routes) = &table.routes {
            if !(1..=MAX_ROUTES).contains(routes.get_ref()) {
                let message = format!("write a number of routes from 1 to {MAX_ROUTES}");
                return Err(source.error_at(routes.span(), "bmp.routes", message));
            }
            limits.routes = *routes.get_ref();
        }
        let time = |key: &str, value: &Option<Spanned<DurationValue>>, usual: Duration| {
            let Some(value) = value else { return Ok(usual) };
            let time = Duration::from_nanos(value.get_ref().0.0);
            if TIMES.contains(&time.as_secs()) {
                return Ok(time);
            }
            let message = "write a time from 1 s to 1440 min";
            Err(source.error_at(value.span(), format!("bmp.{key}"), message))
        };
        let two_minutes = Duration::from_secs(120);
        Ok(Some(Bmp {
            listen,
            routers,
            limits,
            hold: time("hold", &table.hold, two_minutes)?,
            silence: time("silence", &table.silence, SESSION_TIMEOUT)?,
            settle: time("settle", &table.settle, two_minutes)?,
        }))
    }
}
