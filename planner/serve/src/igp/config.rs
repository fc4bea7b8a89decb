//! The configuration of the routers whose metrics are changed: a TOML file. Relative paths start
//! at its directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_config::{ConfigError, DurationValue, Source, Spanned};
use serde::Deserialize;

/// The most routers, which is the most of a network.
const MAX_ROUTERS: usize = forebay_plan::topology::MAX_ROUTERS;
/// The most links of a router.
const MAX_LINKS: usize = 4096;
/// The longest time after a change, in milliseconds.
const MAX_SETTLE: u64 = 600_000;
/// The usual half-life of damping, in seconds: with one change an hour the penalty stays below
/// twice that of a change.
const HALF_LIFE: u64 = 3600;
/// The half-lives of damping that may be set, in seconds.
const HALF_LIVES: std::ops::RangeInclusive<u64> = 1..=86_400;
/// The usual time after a change, in milliseconds, with OSPF.
const SETTLE: u64 = 2000;
/// The usual time after a change, in milliseconds, with IS-IS: FRR makes a router's LSP at most
/// every 30 seconds (`lsp-gen-interval`), so that the second change of a router may wait for long.
const SETTLE_ISIS: u64 = 32_000;
/// The longest name of an interface: `IFNAMSIZ` of Linux without the last octet.
const MAX_NAME: usize = 15;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    journal: PathBuf,
    #[serde(default)]
    igp: IgpName,
    level: Option<Spanned<u8>>,
    settle: Option<Spanned<DurationValue>>,
    half_life: Option<Spanned<DurationValue>>,
    router: Vec<Spanned<RouterTable>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum IgpName {
    #[default]
    Ospf,
    Isis,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouterTable {
    name: Spanned<String>,
    vtysh: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    quoted: bool,
    ospf6: Option<Spanned<bool>>,
    link: Vec<Spanned<LinkTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    to: Spanned<String>,
    interface: Spanned<String>,
}

/// The protocol whose metrics are changed, as a router speaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Igp {
    /// OSPFv2 for IPv4, and OSPFv3 for IPv6.
    Ospf {
        /// Whether the router speaks OSPFv3 too, whose metrics are the same then.
        v3: bool,
    },
    /// IS-IS, whose metrics are those of both address families.
    Isis {
        /// The level; `None` for all that an interface has, whose metrics are the same then.
        level: Option<Level>,
    },
}

/// A level of IS-IS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Routing inside an area.
    One,
    /// Routing between areas.
    Two,
}

/// A router with its daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// The command line of vtysh at the router.
    pub vtysh: Vec<String>,
    /// Whether arguments are quoted for a shell, as `ssh` needs it.
    pub quoted: bool,
    /// The protocol whose metrics are changed.
    pub igp: Igp,
    /// The interface towards each neighbour, by its name in the topology.
    pub interfaces: BTreeMap<String, String>,
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The file of the configuration, for errors.
    pub file: PathBuf,
    /// The record of the metrics before the first change.
    pub journal: PathBuf,
    /// The time after a change in which all routers learn of it.
    pub settle: Duration,
    /// The time in which the penalty of changes halves.
    pub half_life: Duration,
    /// The routers, by their names in the topology.
    pub routers: BTreeMap<String, Router>,
}

impl Config {
    /// Reads the configuration file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or a value is invalid.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (file, source) = forebay_config::load::<File>(path)?;
        file.check(&source, path)
    }
}

impl File {
    fn check(self, source: &Source, path: &Path) -> Result<Config, ConfigError> {
        let level = match &self.level {
            None => None,
            Some(level) => {
                let fail = |message| Err(source.error_at(level.span(), "level", message));
                match (self.igp, level.get_ref()) {
                    (IgpName::Ospf, _) => return fail("is of igp = \"isis\": remove it"),
                    (IgpName::Isis, 1) => Some(Level::One),
                    (IgpName::Isis, 2) => Some(Level::Two),
                    _ => return fail("write 1 or 2, or leave it out for both"),
                }
            }
        };
        let settle = match &self.settle {
            None if self.igp == IgpName::Isis => SETTLE_ISIS,
            None => SETTLE,
            Some(value) => {
                let time = value.get_ref().0.0 / 1_000_000;
                if time > MAX_SETTLE {
                    let message = "write at most \"10 min\"";
                    return Err(source.error_at(value.span(), "settle", message));
                }
                time
            }
        };
        let half_life = match &self.half_life {
            None => Duration::from_secs(HALF_LIFE),
            Some(value) => {
                let time = Duration::from_nanos(value.get_ref().0.0);
                if !HALF_LIVES.contains(&time.as_secs()) {
                    let message = "write a time from 1 s to 1440 min";
                    return Err(source.error_at(value.span(), "half_life", message));
                }
                time
            }
        };
        let mut routers = BTreeMap::new();
        for table in &self.router {
            let (span, table) = (table.span(), table.get_ref());
            if routers.len() == MAX_ROUTERS {
                let message = format!("is beyond the limit of {MAX_ROUTERS} routers");
                return Err(source.error_at(span, "router", message));
            }
            let vtysh = match &table.vtysh {
                None => vec!["vtysh".to_owned()],
                Some(words) if words.get_ref().first().is_some_and(|word| !word.is_empty()) => {
                    words.get_ref().clone()
                }
                Some(words) => {
                    let message = "write a command, as in [\"ssh\", \"rome\", \"vtysh\"]";
                    return Err(source.error_at(words.span(), "router.vtysh", message));
                }
            };
            let igp = match (self.igp, &table.ospf6) {
                (IgpName::Ospf, v3) => {
                    Igp::Ospf { v3: v3.as_ref().is_some_and(|v3| *v3.get_ref()) }
                }
                (IgpName::Isis, None) => Igp::Isis { level },
                (IgpName::Isis, Some(ospf6)) => {
                    let message =
                        "is of OSPF: remove it, as IS-IS has one metric for IPv4 and IPv6";
                    return Err(source.error_at(ospf6.span(), "router.ospf6", message));
                }
            };
            let router = Router {
                vtysh,
                quoted: table.quoted,
                igp,
                interfaces: interfaces(source, &table.link)?,
            };
            let name = &table.name;
            if routers.insert(name.get_ref().clone(), router).is_some() {
                return Err(source.error_at(name.span(), "router.name", "occurs twice"));
            }
        }
        Ok(Config {
            file: path.to_owned(),
            journal: path.parent().unwrap_or("".as_ref()).join(&self.journal),
            settle: Duration::from_millis(settle),
            half_life,
            routers,
        })
    }
}

/// Returns the interface towards each neighbour. Each neighbour and each interface occurs once.
fn interfaces(
    source: &Source,
    links: &[Spanned<LinkTable>],
) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut interfaces: BTreeMap<String, String> = BTreeMap::new();
    for link in links {
        let LinkTable { to, interface } = link.get_ref();
        if interfaces.len() == MAX_LINKS {
            let message = format!("is beyond the limit of {MAX_LINKS} links of a router");
            return Err(source.error_at(link.span(), "router.link", message));
        }
        let name = interface.get_ref();
        // The name becomes part of a command line.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._:/-@".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
            let message = format!("{name:?} is no name of an interface");
            return Err(source.error_at(interface.span(), "router.link.interface", message));
        }
        if interfaces.values().any(|other| other == name) {
            let message = "occurs twice at this router: here an interface leads to one neighbour";
            return Err(source.error_at(interface.span(), "router.link.interface", message));
        }
        if interfaces.insert(to.get_ref().clone(), name.clone()).is_some() {
            let message = "occurs twice at this router: parallel links must be one link here";
            return Err(source.error_at(to.span(), "router.link.to", message));
        }
    }
    Ok(interfaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: &str = "journal = \"j\"\n";
    const ROUTER: &str =
        "[[router]]\nname = \"Rome\"\nlink = [{ to = \"Milan\", interface = \"eth0\" }]\n";

    fn parse(text: &str) -> Result<Config, String> {
        let path = Path::new("dir/r.toml");
        let (file, source) =
            forebay_config::parse::<File>(path, text).map_err(|e| e.to_string())?;
        file.check(&source, path).map_err(|e| e.to_string())
    }

    #[test]
    fn defaults_apply() {
        let config = parse(&format!("{START}{ROUTER}")).unwrap();
        assert_eq!((config.settle.as_millis(), config.journal), (2000, "dir/j".into()));
        let rome = &config.routers["Rome"];
        assert_eq!((rome.vtysh.as_slice(), rome.quoted), (&["vtysh".to_owned()][..], false));
        assert_eq!(rome.interfaces["Milan"], "eth0");
        assert_eq!(rome.igp, Igp::Ospf { v3: false });
        let config = parse(&format!("{START}{ROUTER}ospf6 = true\n")).unwrap();
        assert_eq!(config.routers["Rome"].igp, Igp::Ospf { v3: true });
    }

    #[test]
    fn isis_has_its_own_level_and_time_to_settle() {
        for (line, level) in
            [("", None), ("level = 1\n", Some(Level::One)), ("level = 2\n", Some(Level::Two))]
        {
            let config = parse(&format!("{START}igp = \"isis\"\n{line}{ROUTER}")).unwrap();
            assert_eq!(config.routers["Rome"].igp, Igp::Isis { level });
            assert_eq!(config.settle.as_secs(), 32);
        }
        let config = parse(&format!("{START}igp = \"isis\"\nsettle = \"3 s\"\n{ROUTER}")).unwrap();
        assert_eq!(config.settle.as_secs(), 3);
        let config = parse(&format!("{START}igp = \"ospf\"\n{ROUTER}")).unwrap();
        assert_eq!(config.routers["Rome"].igp, Igp::Ospf { v3: false });
    }

    #[test]
    fn errors_name_line_and_key() {
        let link = |to: &str, interface: &str| {
            let links = format!(
                "[{{ to = \"Milan\", interface = \"eth0\" }}, {{ to = \"{to}\", interface = \"{interface}\" }}]"
            );
            format!("{START}[[router]]\nname = \"Rome\"\nlink = {links}\n")
        };
        for (text, expected) in [
            (format!("{START}settle = \"11 min\"\n{ROUTER}"), "2: settle: write at most"),
            (format!("{START}half_life = \"0 s\"\n{ROUTER}"), "2: half_life: write a time from"),
            (format!("{START}{ROUTER}{ROUTER}"), "6: router.name: occurs twice"),
            (format!("{START}{ROUTER}vtysh = []\n"), "5: router.vtysh: write a command"),
            (format!("{START}igp = \"rip\"\n{ROUTER}"), "2: igp: unknown variant `rip`"),
            (format!("{START}level = 2\n{ROUTER}"), "2: level: is of igp = \"isis\""),
            (format!("{START}igp = \"isis\"\nlevel = 3\n{ROUTER}"), "3: level: write 1 or 2"),
            (
                format!("{START}igp = \"isis\"\n{ROUTER}ospf6 = true\n"),
                "6: router.ospf6: is of OSPF: remove it",
            ),
            (link("Oslo", "eth0"), "4: router.link.interface: occurs twice"),
            (link("Milan", "eth1"), "4: router.link.to: occurs twice"),
            (link("Oslo", "eth1; reload"), "4: router.link.interface: \"eth1; reload\" is no"),
            (link("Oslo", "eth-with-a-long-name"), "4: router.link.interface: "),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(
                error.starts_with(&format!("dir/r.toml:{expected}")),
                "{error}, not {expected}"
            );
        }
    }
}
