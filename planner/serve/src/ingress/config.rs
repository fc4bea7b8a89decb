//! The configuration of the client at an ingress router: a TOML file. Relative paths start at its
//! directory.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_config::{ConfigError, DurationValue, Source, Spanned};
use serde::Deserialize;

use crate::damping::Limits;
use crate::neighbour::config::{Access, AccessKeys, access};

/// The most routers with segments, which is the most routers of a network.
const MAX_ROUTERS: usize = forebay_plan::topology::MAX_ROUTERS;
/// The range of times, in milliseconds.
const TIMES: RangeInclusive<u64> = 50..=86_400_000;
/// The numbers of routing protocols that no daemon of Linux has (`/etc/iproute2/rt_protos`).
const PROTOCOLS: RangeInclusive<u8> = 200..=254;
/// The range of metrics. An IPv6 route with the metric 0 would get 1024.
const METRICS: RangeInclusive<u32> = 1..=1_000_000;
/// The range of the first number of nexthop objects.
const FIRST: RangeInclusive<u32> = 1..=4_000_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    url: Spanned<String>,
    token: Option<PathBuf>,
    authority: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    #[serde(default)]
    cleartext: bool,
    name: String,
    every: Option<Spanned<DurationValue>>,
    hold: Option<Spanned<DurationValue>>,
    metric: Option<Spanned<u32>>,
    protocol: Option<Spanned<u8>>,
    first: Option<Spanned<u32>>,
    half_life: Option<Spanned<DurationValue>>,
    router: Vec<Spanned<RouterTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouterTable {
    name: Spanned<String>,
    end: Option<Spanned<String>>,
    end_dt6: Option<Spanned<String>>,
    end_dt4: Option<Spanned<String>>,
}

/// The segments of a router (RFC 8986, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The segment that forwards to the next one: End.
    pub end: Option<Ipv6Addr>,
    /// The segment that decapsulates IPv6: End.DT6, or End.DX6.
    pub end_dt6: Option<Ipv6Addr>,
    /// The segment that decapsulates IPv4: End.DT4, or End.DX4.
    pub end_dt4: Option<Ipv6Addr>,
}

impl Segment {
    /// Returns the addresses of all that it has.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> + use<> {
        [self.end, self.end_dt6, self.end_dt4].into_iter().flatten()
    }
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where the service is.
    pub access: Access,
    /// The name of this router in the topology.
    pub router: String,
    /// The time between two questions.
    pub every: Duration,
    /// The time without an answer after which all routes are removed.
    pub hold: Duration,
    /// The metric of the routes.
    pub metric: u32,
    /// The number of the routing protocol that marks routes and nexthop objects of this program.
    pub protocol: u8,
    /// The first number of nexthop objects.
    pub first: u32,
    /// How often paths may change.
    pub damping: Limits,
    /// The segments of the routers, by name.
    pub segments: BTreeMap<String, Segment>,
}

impl Config {
    /// Reads the configuration file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or a value is invalid.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (file, source) = forebay_config::load::<File>(path)?;
        file.check(&source)
    }

    #[cfg(test)]
    pub(super) fn of_test(router: &str) -> Self {
        let text = format!(
            "url = \"http://[::1]:8480\"\ntoken = \"t\"\nname = \"{router}\"\nrouter = []\n"
        );
        let (file, source) = forebay_config::parse::<File>(Path::new("i.toml"), &text).unwrap();
        file.check(&source).unwrap()
    }
}

/// Returns a number in its range, or the default.
fn number<T: Copy + PartialOrd + std::fmt::Display>(
    source: &Source,
    key: &str,
    value: Option<&Spanned<T>>,
    usual: T,
    range: &RangeInclusive<T>,
) -> Result<T, ConfigError> {
    match value {
        None => Ok(usual),
        Some(value) if range.contains(value.get_ref()) => Ok(*value.get_ref()),
        Some(value) => {
            let message = format!("write a number from {} to {}", range.start(), range.end());
            Err(source.error_at(value.span(), key, message))
        }
    }
}

impl File {
    fn check(self, source: &Source) -> Result<Config, ConfigError> {
        let access = access(
            source,
            AccessKeys {
                url: &self.url,
                token: self.token.as_deref(),
                authority: self.authority.as_deref(),
                certificate: self.certificate.as_deref(),
                key: self.key.as_deref(),
                cleartext: self.cleartext,
            },
        )?;
        let time = |key: &str, value: &Option<Spanned<DurationValue>>, usual: u64| {
            let Some(value) = value else { return Ok(usual) };
            let time = value.get_ref().0.0 / 1_000_000;
            match TIMES.contains(&time) {
                true => Ok(time),
                false => {
                    Err(source.error_at(value.span(), key, "write a time from 50 ms to 1440 min"))
                }
            }
        };
        let (every, hold) = (time("every", &self.every, 250)?, time("hold", &self.hold, 800)?);
        if hold <= every {
            let span = self.hold.as_ref().or(self.every.as_ref());
            let span = span.map_or(self.url.span(), Spanned::span);
            return Err(source.error_at(span, "hold", "must be longer than `every`"));
        }
        let half_life = time("half_life", &self.half_life, 300_000)?;
        let mut segments = BTreeMap::new();
        for table in &self.router {
            let (span, table) = (table.span(), table.get_ref());
            if segments.len() == MAX_ROUTERS {
                return Err(source.error_at(
                    span,
                    "router",
                    "is beyond the limit of 20000 routers",
                ));
            }
            let read = |key: &str, value: &Option<Spanned<String>>| {
                let read = value.as_ref().map(|text| {
                    let address = text.get_ref().parse::<Ipv6Addr>().ok();
                    let good = |a: &Ipv6Addr| !a.is_unspecified() && !a.is_multicast();
                    address.filter(good).ok_or_else(|| {
                        let message = "write the segment's IPv6 address, as in \"fc00:0:2::1\"";
                        source.error_at(text.span(), format!("router.{key}"), message)
                    })
                });
                read.transpose()
            };
            let segment = Segment {
                end: read("end", &table.end)?,
                end_dt6: read("end_dt6", &table.end_dt6)?,
                end_dt4: read("end_dt4", &table.end_dt4)?,
            };
            if segments.insert(table.name.get_ref().clone(), segment).is_some() {
                return Err(source.error_at(table.name.span(), "router.name", "occurs twice"));
            }
        }
        Ok(Config {
            access,
            router: self.name,
            every: Duration::from_millis(every),
            hold: Duration::from_millis(hold),
            metric: number(source, "metric", self.metric.as_ref(), 10, &METRICS)?,
            protocol: number(source, "protocol", self.protocol.as_ref(), 228, &PROTOCOLS)?,
            first: number(source, "first", self.first.as_ref(), 228_000_000, &FIRST)?,
            damping: Limits { half_life, suppress: 3000.0, reuse: 1000.0 },
            segments,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "url = \"http://[::1]:8480\"\ntoken = \"t\"\nname = \"Rome\"\n";
    const ROUTER: &str = "[[router]]\nname = \"Oslo\"\nend = \"fc00:0:2::1\"\n";

    fn parse(text: &str) -> Result<Config, String> {
        let (file, source) = forebay_config::parse::<File>(Path::new("dir/i.toml"), text)
            .map_err(|e| e.to_string())?;
        file.check(&source).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_apply() {
        let config = parse(&format!("{START}{ROUTER}")).unwrap();
        assert_eq!((config.every.as_millis(), config.hold.as_millis()), (250, 800));
        assert_eq!((config.metric, config.protocol, config.first), (10, 228, 228_000_000));
        assert_eq!(config.access.token.as_deref(), Some(Path::new("dir/t")));
        assert_eq!(config.segments["Oslo"].end, Some("fc00:0:2::1".parse().unwrap()));
    }

    #[test]
    fn errors_name_line_and_key() {
        for (text, expected) in [
            (format!("{START}hold = \"100 ms\"\n{ROUTER}"), "4: hold: must be longer than `every`"),
            (format!("{START}every = \"1 ms\"\n{ROUTER}"), "4: every: write a time from 50 ms"),
            (format!("{START}metric = 0\n{ROUTER}"), "4: metric: write a number from 1 to 1000000"),
            (format!("{START}protocol = 186\n{ROUTER}"), "4: protocol: write a number from 200"),
            (format!("{START}{ROUTER}{ROUTER}"), "8: router.name: occurs twice"),
            (
                format!("{START}{}", ROUTER.replace("fc00:0:2::1", "10.0.0.1")),
                "6: router.end: write the segment's IPv6 address",
            ),
            (format!("{START}{}", ROUTER.replace("fc00:0:2::1", "ff02::1")), "6: router.end"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(
                error.starts_with(&format!("dir/i.toml:{expected}")),
                "{error}, not {expected}"
            );
        }
    }
}
