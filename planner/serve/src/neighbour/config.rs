//! The configuration of a provider's client: a TOML file. Relative paths start at its directory.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_config::{ConfigError, DurationValue, Source, Spanned};
use ipnet::IpNet;
use serde::Deserialize;

/// The most entries, which is the most that a provider has.
const MAX_ENTRIES: usize = forebay_plan::network::MAX_ENTRIES;
/// The most prefixes of `accept`.
const MAX_ACCEPTED: usize = 100_000;
/// The times, in seconds.
const TIMES: std::ops::RangeInclusive<u64> = 1..=86_400;

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
    out: PathBuf,
    every: Option<Spanned<DurationValue>>,
    hold: Option<Spanned<DurationValue>>,
    accept: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    entry: Vec<Spanned<EntryTable>>,
    gobgp: Option<Spanned<GobgpTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryTable {
    name: Spanned<String>,
    next_hop: Option<Spanned<String>>,
    next_hop_v6: Option<Spanned<String>>,
    #[serde(default = "yes")]
    usable: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GobgpTable {
    speaker: Spanned<String>,
    journal: PathBuf,
    command: Option<PathBuf>,
}

fn yes() -> bool {
    true
}

/// Where the service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether TLS is used.
    pub tls: bool,
    /// The name or address of the host.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

/// Where a service is, and what a client shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where the service is.
    pub url: Url,
    /// The file with the token.
    pub token: Option<PathBuf>,
    /// The authority of the service's certificate, in PEM.
    pub authority: Option<PathBuf>,
    /// The certificate and the key of the client, in PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// The keys of a file that give access to a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessKeys<'a> {
    pub(crate) url: &'a Spanned<String>,
    pub(crate) token: Option<&'a Path>,
    pub(crate) authority: Option<&'a Path>,
    pub(crate) certificate: Option<&'a Path>,
    pub(crate) key: Option<&'a Path>,
    pub(crate) cleartext: bool,
}

/// An entry into the ISP's network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The ISP's router there, as next hop.
    pub next_hop: Option<IpAddr>,
    /// The next hop for IPv6 prefixes, where the other is an IPv4 address.
    pub next_hop_v6: Option<Ipv6Addr>,
    /// Whether traffic can be sent there at present.
    pub usable: bool,
}

/// How routes are fed to the provider's own GoBGP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gobgp {
    /// The address at which it takes commands.
    pub speaker: String,
    /// The journal of routes.
    pub journal: PathBuf,
    /// The path of its command.
    pub command: PathBuf,
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the service is, and what is shown to it.
    pub access: Access,
    /// The file of hints in force.
    pub out: PathBuf,
    /// The time between two questions.
    pub every: Duration,
    /// The time without an answer after which hints are no longer followed.
    pub hold: Duration,
    /// The prefixes within which hints are followed; `None` for all.
    pub accept: Option<Vec<IpNet>>,
    /// The entries by name; if there are none, all of the service are usable.
    pub entries: BTreeMap<String, Entry>,
    /// How routes are fed to GoBGP, if they are.
    pub gobgp: Option<Gobgp>,
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
}

impl File {
    fn check(self, source: &Source) -> Result<Config, ConfigError> {
        let base = source.file().parent().unwrap_or(Path::new("")).to_owned();
        let at = |path: &Path| base.join(path);
        let fail = |key: &str, span: std::ops::Range<usize>, message: &str| {
            source.error_at(span, key, message)
        };
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
        let accept = match &self.accept {
            None => None,
            Some(all) if all.get_ref().len() > MAX_ACCEPTED => {
                return Err(fail(
                    "accept",
                    all.span(),
                    "has more than 100 000 prefixes: merge some",
                ));
            }
            Some(all) => {
                let read = all.get_ref().iter().map(|text| {
                    let parsed = text.get_ref().parse::<IpNet>().ok();
                    parsed.filter(|net| *net == net.trunc()).ok_or_else(|| {
                        let message = "write a prefix as 192.0.2.0/24 or 2001:db8::/32";
                        source.error_at(text.span(), "accept", message)
                    })
                });
                Some(read.collect::<Result<Vec<_>, _>>()?)
            }
        };
        let time = |key: &str, value: &Option<Spanned<DurationValue>>, usual: u64| {
            let Some(value) = value else { return Ok(Duration::from_secs(usual)) };
            let time = Duration::from_nanos(value.get_ref().0.0);
            match TIMES.contains(&time.as_secs()) {
                true => Ok(time),
                false => Err(fail(key, value.span(), "write a time from 1 s to 1440 min")),
            }
        };
        let (every, hold) = (time("every", &self.every, 60)?, time("hold", &self.hold, 900)?);
        if hold <= every {
            let span = self.hold.as_ref().map_or(self.url.span(), Spanned::span);
            return Err(fail("hold", span, "must be longer than `every`"));
        }
        let mut entries = BTreeMap::new();
        for table in &self.entry {
            let (span, table) = (table.span(), table.get_ref());
            if entries.len() == MAX_ENTRIES {
                return Err(fail("entry", span, "is beyond the limit of 1000 entries"));
            }
            let next_hop = table.next_hop.as_ref().map(|hop| {
                hop.get_ref().parse::<IpAddr>().map_err(|_| {
                    let message = "write the address of the ISP's router at this entry";
                    source.error_at(hop.span(), "entry.next_hop", message)
                })
            });
            let next_hop_v6 = table.next_hop_v6.as_ref().map(|hop| {
                hop.get_ref().parse::<Ipv6Addr>().map_err(|_| {
                    let message = "write the IPv6 address of the ISP's router at this entry";
                    source.error_at(hop.span(), "entry.next_hop_v6", message)
                })
            });
            let (next_hop, next_hop_v6) = (next_hop.transpose()?, next_hop_v6.transpose()?);
            if self.gobgp.is_some() && table.usable && next_hop.is_none() && next_hop_v6.is_none() {
                return Err(fail("entry.next_hop", span, "is needed for GoBGP's routes"));
            }
            let entry = Entry { next_hop, next_hop_v6, usable: table.usable };
            if entries.insert(table.name.get_ref().clone(), entry).is_some() {
                return Err(fail("entry.name", table.name.span(), "occurs twice"));
            }
        }
        let gobgp = match &self.gobgp {
            None => None,
            Some(table) => {
                if entries.is_empty() || accept.is_none() {
                    let message = "needs `accept`, the prefixes that the ISP may give hints for, and \
                                   the next hop of each [[entry]]";
                    return Err(fail("gobgp", table.span(), message));
                }
                let table = table.get_ref();
                if !is_speaker(table.speaker.get_ref()) {
                    let message = "write where GoBGP takes commands, as in \"127.0.0.1:50051\"";
                    return Err(fail("gobgp.speaker", table.speaker.span(), message));
                }
                let command = match &table.command {
                    None => PathBuf::from("gobgp"),
                    Some(name) if name.components().count() == 1 => name.clone(),
                    Some(path) => at(path),
                };
                let speaker = table.speaker.get_ref().clone();
                Some(Gobgp { speaker, journal: at(&table.journal), command })
            }
        };
        Ok(Config { access, out: at(&self.out), every, hold, accept, entries, gobgp })
    }
}

/// Checks the keys that give access to a service.
///
/// # Errors
/// If one is missing or invalid.
pub(crate) fn access(source: &Source, keys: AccessKeys<'_>) -> Result<Access, ConfigError> {
    let base = source.file().parent().unwrap_or(Path::new("")).to_owned();
    let at = |path: &Path| base.join(path);
    let fail = |message: &str| source.error_at(keys.url.span(), "url", message);
    let Some(url) = url(keys.url.get_ref()) else {
        return Err(fail("write where the service is, as in \"https://isp.example:8480\""));
    };
    let local = url.host.parse::<IpAddr>().is_ok_and(|a| a.is_loopback());
    if !url.tls && !local && !keys.cleartext {
        return Err(fail(
            "the token would cross the network in clear text: write https, or say \
             `cleartext = true` if something else protects it",
        ));
    }
    if url.tls && keys.authority.is_none() {
        return Err(fail("needs `authority`, the file of the authority of its certificate"));
    }
    let certificate = match (keys.certificate, keys.key) {
        (Some(certificate), Some(key)) => Some((at(certificate), at(key))),
        (None, None) => None,
        _ => return Err(fail("write both `certificate` and `key`")),
    };
    if keys.token.is_none() && certificate.is_none() {
        return Err(fail("needs a `token`, or a `certificate` with its `key`"));
    }
    let (token, authority) = (keys.token.map(at), keys.authority.map(at));
    Ok(Access { url, token, authority, certificate })
}

/// Reads the URL of a service; `None` if it is none.
pub(crate) fn url(text: &str) -> Option<Url> {
    let (scheme, rest) = text.split_once("://")?;
    let tls = match scheme {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        // An IPv6 address in brackets has colons of its own.
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (rest, if tls { 443 } else { 80 }),
    };
    let host = match host.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']').filter(|a| a.parse::<Ipv6Addr>().is_ok())?,
        None => host,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    let good = !host.is_empty() && host.chars().all(plain);
    good.then(|| Url { tls, host: host.to_owned(), port })
}

/// Whether `text` is a host and a port that are safe as arguments of a command.
fn is_speaker(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    !host.is_empty()
        && !host.starts_with('-')
        && host.chars().all(plain)
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let (file, source) = forebay_config::parse::<File>(Path::new("dir/n.toml"), text)
            .map_err(|e| e.to_string())?;
        file.check(&source).map_err(|e| e.to_string())
    }

    const LOCAL: &str = "url = \"http://[::1]:8480\"\ntoken = \"t\"\nout = \"h.json\"\n";

    #[test]
    fn defaults_apply_and_paths_are_relative_to_the_file() {
        let config = parse(LOCAL).unwrap();
        assert_eq!(config.access.url, Url { tls: false, host: "::1".to_owned(), port: 8480 });
        assert_eq!(config.access.token.as_deref(), Some(Path::new("dir/t")));
        assert_eq!(config.out, Path::new("dir/h.json"));
        assert_eq!((config.every.as_secs(), config.hold.as_secs()), (60, 900));
        let more = "accept = [\"10.0.0.0/8\"]\n[gobgp]\nspeaker = \"127.0.0.1:50051\"\njournal = \"j\"\n\
                    [[entry]]\nname = \"Rome\"\nnext_hop = \"192.0.2.1\"\n";
        let config = parse(&format!("{LOCAL}{more}")).unwrap();
        assert_eq!(config.gobgp.unwrap().command, Path::new("gobgp"));
        assert_eq!(config.entries["Rome"].next_hop, Some("192.0.2.1".parse().unwrap()));
        let of = |text: &str| url(text).map(|u| (u.host, u.port));
        assert_eq!(of("https://isp.example/"), Some(("isp.example".to_owned(), 443)));
        assert_eq!(of("http://[2001:db8::1]"), Some(("2001:db8::1".to_owned(), 80)));
        for wrong in ["isp.example", "ftp://x", "http://", "http://a b", "http://[1]", "http://x:y"]
        {
            assert_eq!(url(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn errors_name_line_and_key() {
        let gobgp = "[gobgp]\nspeaker = \"127.0.0.1:50051\"\njournal = \"j\"\n";
        let cases = [
            (LOCAL.replace("http:", "gopher:"), "1: url: write where the service is"),
            (LOCAL.replace("[::1]", "192.0.2.1"), "1: url: the token would cross the network"),
            (LOCAL.replace("http:", "https:"), "1: url: needs `authority`"),
            (LOCAL.replace("token = \"t\"\n", ""), "1: url: needs a `token`, or a `certificate`"),
            (format!("{LOCAL}key = \"k\"\n"), "1: url: write both `certificate` and `key`"),
            (format!("{LOCAL}every = \"0 s\"\n"), "4: every: write a time from 1 s"),
            (format!("{LOCAL}hold = \"1 min\"\n"), "4: hold: must be longer than `every`"),
            (format!("{LOCAL}accept = [\"10.0.0.1/8\"]\n"), "4: accept: write a prefix"),
            (format!("{LOCAL}{gobgp}"), "4: gobgp: needs `accept`"),
            (
                format!("{LOCAL}{gobgp}[[entry]]\nname = \"Rome\"\n"),
                "7: entry.next_hop: is needed for GoBGP's routes",
            ),
            (
                format!("{LOCAL}[[entry]]\nname = \"Rome\"\n[[entry]]\nname = \"Rome\"\n"),
                "7: entry.name: occurs twice",
            ),
        ];
        for (text, expected) in cases {
            let error = parse(&text).unwrap_err();
            assert!(
                error.starts_with(&format!("dir/n.toml:{expected}")),
                "{error}, not {expected}"
            );
        }
    }
}
