//! The configuration of the service: a TOML file. Relative paths start at its directory.

mod bmp;
mod clickhouse;
mod flows;
mod kafka;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_config::{ConfigError, DurationValue, RateValue, ShareValue, Source, Spanned};
use forebay_plan::allocate::{Binning, Method, Wba};
use forebay_plan::hints;
use forebay_plan::plan::{self, Scope};
use forebay_units::Rate;
use forebay_web::{HostName, Hosts};
use serde::Deserialize;

use bmp::BmpTable;
pub use bmp::{Bmp, Router as BmpRouter};
pub use clickhouse::Clickhouse;
use clickhouse::ClickhouseTable;
pub use flows::Flows;
use flows::FlowsTable;
pub use forebay_web::tls::Files as Tls;
use kafka::KafkaTable;
pub use kafka::{Kafka, Start};

use crate::damping::Limits;
use crate::token::{Credential, Hash};

/// The most addresses to listen at.
const MAX_ADDRESSES: usize = 16;
/// The most neighbours, which is the most providers of a plan.
const MAX_NEIGHBOURS: usize = forebay_plan::network::MAX_PROVIDERS;
/// The largest share of a link's capacity that plans leave free.
const MAX_RESERVE: f64 = 0.9;
/// The interval of rounds, in seconds.
const INTERVAL: std::ops::RangeInclusive<u64> = 1..=86_400;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    serve: Spanned<ServeTable>,
    operator: Spanned<CredentialTable>,
    routers: Option<Spanned<CredentialTable>>,
    #[serde(default)]
    neighbour: Vec<Spanned<NeighbourTable>>,
    tls: Option<TlsTable>,
    announce: Option<AnnounceTable>,
    damping: Option<Spanned<DampingTable>>,
    flows: Option<Spanned<FlowsTable>>,
    bmp: Option<Spanned<BmpTable>>,
    kafka: Option<Spanned<KafkaTable>>,
    clickhouse: Option<Spanned<ClickhouseTable>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServeTable {
    listen: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    hosts: Vec<Spanned<String>>,
    state: PathBuf,
    topology: PathBuf,
    providers: PathBuf,
    /// The prefixes of users; without it they are learned.
    prefixes: Option<Spanned<PathBuf>>,
    /// The file of demands, read for each round; without it the operator puts them.
    demands: Option<Spanned<PathBuf>>,
    /// The file of link loads, read for each round.
    links: Option<PathBuf>,
    capacity: Option<RateValue>,
    reserve: Option<Spanned<ShareValue>>,
    interval: Option<Spanned<DurationValue>>,
    aggregates: Option<NonZeroUsize>,
    paths: Option<NonZeroUsize>,
    fairness: Option<Fairness>,
    gain: Option<Spanned<ShareValue>>,
    release: Option<ShareValue>,
    /// Whether tokens may cross a network without encryption.
    #[serde(default)]
    cleartext: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fairness {
    Wba,
    Binning,
    None,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CredentialTable {
    token: Option<Spanned<String>>,
    certificate: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NeighbourTable {
    name: Spanned<String>,
    token: Option<Spanned<String>>,
    certificate: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsTable {
    certificate: PathBuf,
    key: PathBuf,
    clients: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnnounceTable {
    journal: PathBuf,
    gobgp: Option<PathBuf>,
    on_exit: Option<After>,
    on_death: Option<After>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DampingTable {
    half_life: Option<DurationValue>,
    suppress: Option<f64>,
    reuse: Option<f64>,
}

/// The files that describe the network.
#[derive(Clone, Debug)]
pub struct Files {
    /// The topology of the network.
    pub topology: PathBuf,
    /// The content providers.
    pub providers: PathBuf,
    /// The prefixes of users, if they are in a file.
    pub prefixes: Option<PathBuf>,
    /// The routers of next hops, if prefixes are learned.
    pub next_hops: Option<PathBuf>,
    /// The demands, if they are in a file.
    pub demands: Option<PathBuf>,
    /// The loads of links, if they are in a file: with them, demands over full links are estimated.
    pub links: Option<PathBuf>,
    /// The exporters of flow records, if demands are measured from these.
    pub exporters: Option<PathBuf>,
    /// The capacity of links for which the topology has none.
    pub capacity: Option<Rate>,
    /// The share of the capacity of each link inside the network that plans leave free, below 1.
    pub reserve: f64,
}

/// What happens to announcements when the service is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum After {
    /// They stay, and the next start continues with them.
    #[default]
    Keep,
    /// They are withdrawn.
    Withdraw,
}

/// How hints are announced.
#[derive(Clone, Debug)]
pub struct Announce {
    /// The journal of announcements.
    pub journal: PathBuf,
    /// The path of GoBGP's command.
    pub gobgp: PathBuf,
    /// What happens to announcements after an orderly stop.
    pub on_exit: After,
    /// What happens to announcements after a crash.
    pub on_death: After,
}

/// A neighbour with access to the service.
#[derive(Clone, Debug)]
pub struct Neighbour {
    /// The name in the file of providers.
    pub name: String,
    /// The credentials that the neighbour has to show.
    pub credential: Credential,
}

/// The whole configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses to listen at.
    pub listen: Vec<SocketAddr>,
    /// The names by which clients may call the service without TLS.
    pub hosts: Hosts,
    /// The path of the database.
    pub state: PathBuf,
    /// The files of the network.
    pub files: Files,
    /// The time between two rounds.
    pub interval: Duration,
    /// The most aggregate flows of a plan.
    pub aggregates: usize,
    /// How hints are computed.
    pub hints: hints::Config,
    /// The credentials that the operator has to show.
    pub operator: Credential,
    /// The credentials that routers have to show to read the paths, if they may.
    pub routers: Option<Credential>,
    /// The neighbours with access to the service.
    pub neighbours: Vec<Neighbour>,
    /// TLS, if it is used.
    pub tls: Option<Tls>,
    /// How hints are announced, if they are.
    pub announce: Option<Announce>,
    /// How often programs may change.
    pub damping: Limits,
    /// How demands are measured from flow records, if they are.
    pub flows: Option<Flows>,
    /// How flow records are read from Kafka, if they are.
    pub kafka: Option<Kafka>,
    /// Where the history is written, if it is.
    pub clickhouse: Option<Clickhouse>,
    /// How routes are learned, if they are.
    pub bmp: Option<Bmp>,
    source: Source,
    spans: Vec<std::ops::Range<usize>>,
}

impl Config {
    /// Reads the configuration file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or a value is invalid.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let (file, source) = forebay_config::load::<File>(path)?;
        file.check(source)
    }

    /// Returns the provider of each neighbour, as an index into `names` of the file of providers.
    ///
    /// # Errors
    /// If a provider does not exist.
    pub fn providers_of(&self, names: &[&str]) -> Result<Vec<u32>, ConfigError> {
        let number = |(neighbour, span): (&Neighbour, &std::ops::Range<usize>)| {
            let found = names.iter().position(|name| *name == neighbour.name);
            found.map(|n| n as u32).ok_or_else(|| {
                let file = self.files.providers.display();
                let message = format!(
                    "{file} has no provider {:?}: add it, or change the name",
                    neighbour.name
                );
                self.source.error_at(span.clone(), "neighbour.name", message)
            })
        };
        self.neighbours.iter().zip(&self.spans).map(number).collect()
    }
}

impl File {
    fn check(self, source: Source) -> Result<Config, ConfigError> {
        let base = source.file().parent().unwrap_or(Path::new("")).to_owned();
        let at = |path: &Path| base.join(path);
        let serve = self.serve.get_ref();
        let mut listen = Vec::new();
        for address in serve.listen.get_ref() {
            let fail = |message: String| source.error_at(address.span(), "serve.listen", message);
            let parsed: SocketAddr = address.get_ref().parse().map_err(|_| {
                fail(
                    "write an address and a port, as in \"127.0.0.1:8480\" or \"[::1]:8480\""
                        .to_owned(),
                )
            })?;
            if self.tls.is_none() && !serve.cleartext && !parsed.ip().is_loopback() {
                return Err(fail(
                    "tokens would cross the network in clear text: set up [tls], or say `cleartext = true` if \
                     something else protects them"
                        .to_owned(),
                ));
            }
            listen.push(parsed);
        }
        if listen.is_empty() || listen.len() > MAX_ADDRESSES {
            let message = format!("write 1 to {MAX_ADDRESSES} addresses");
            return Err(source.error_at(serve.listen.span(), "serve.listen", message));
        }
        let host = |name: &Spanned<String>| {
            let parsed = name.get_ref().parse::<HostName>();
            parsed.map_err(|message| source.error_at(name.span(), "serve.hosts", message))
        };
        let hosts = serve.hosts.iter().map(host).collect::<Result<Vec<_>, _>>()?.into();
        let interval = match &serve.interval {
            None => Duration::from_secs(300),
            Some(value) => {
                let time = Duration::from_nanos(value.get_ref().0.0);
                if !INTERVAL.contains(&time.as_secs()) {
                    let message = "write a time from 1 s to 1440 min";
                    return Err(source.error_at(value.span(), "serve.interval", message));
                }
                time
            }
        };
        let gain = serve.gain.as_ref().map_or(0.005, |g| g.get_ref().0);
        let reserve = match &serve.reserve {
            None => 0.0,
            Some(share) if share.get_ref().0 <= MAX_RESERVE => share.get_ref().0,
            Some(share) => {
                let message = "write at most \"90 %\": plans would have no capacity";
                return Err(source.error_at(share.span(), "serve.reserve", message));
            }
        };
        let release = serve.release.map_or(gain / 5.0, |r| r.0);
        if release >= gain {
            let span = serve.gain.as_ref().map_or(self.serve.span(), Spanned::span);
            let message = "must be above serve.release: hints would alternate";
            return Err(source.error_at(span, "serve.gain", message));
        }
        let bounds = Wba::default();
        let method = match serve.fairness.unwrap_or(Fairness::Wba) {
            Fairness::Wba => Method::Wba(bounds),
            Fairness::Binning => Method::Binning(Binning { bounds, ..Binning::default() }),
            Fairness::None => Method::Most,
        };
        let four = NonZeroUsize::MIN.saturating_add(3);
        let paths = serve.paths.unwrap_or(four);
        let plan = plan::Config { method, scope: Scope::All, sub_flows: None, paths };
        let operator = self.operator.get_ref();
        let authority = self.tls.as_ref().is_some_and(|t| t.clients.is_some());
        let credentials = Credentials { source: &source, authority };
        let operator = credentials.read(
            "operator",
            self.operator.span(),
            operator.token.as_ref(),
            operator.certificate.as_ref(),
        )?;
        let (neighbours, spans) = self.neighbours(&credentials, &operator)?;
        let routers = self.routers(&credentials, &operator, &neighbours)?;
        let announce = self.announce.as_ref().map(|a| Announce {
            journal: at(&a.journal),
            // A name without a directory is searched for in `PATH`.
            gobgp: match &a.gobgp {
                None => PathBuf::from("gobgp"),
                Some(program) if program.components().count() == 1 => program.clone(),
                Some(program) => at(program),
            },
            on_exit: a.on_exit.unwrap_or_default(),
            on_death: a.on_death.unwrap_or_default(),
        });
        let damping = self.damping(&source, interval)?;
        let flows = self.flows(&source, interval)?;
        let kafka = self.kafka(&source)?;
        let clickhouse = self.clickhouse(&source)?;
        let bmp = self.bmp(&source)?;
        Ok(Config {
            listen,
            hosts,
            state: at(&serve.state),
            files: Files {
                topology: at(&serve.topology),
                providers: at(&serve.providers),
                prefixes: serve.prefixes.as_ref().map(|path| at(path.get_ref())),
                next_hops: self.bmp.as_ref().map(|bmp| at(&bmp.get_ref().next_hops)),
                demands: serve.demands.as_ref().map(|path| at(path.get_ref())),
                exporters: self.flows.as_ref().map(|flows| at(&flows.get_ref().exporters)),
                links: serve.links.as_deref().map(at),
                capacity: serve.capacity.map(|c| c.0),
                reserve,
            },
            interval,
            aggregates: serve.aggregates.map_or(5000, NonZeroUsize::get),
            hints: hints::Config { plan, gain, release },
            operator,
            routers,
            neighbours,
            tls: self.tls.as_ref().map(|t| Tls {
                certificate: at(&t.certificate),
                key: at(&t.key),
                clients: t.clients.as_deref().map(at),
            }),
            announce,
            damping,
            flows,
            kafka,
            clickhouse,
            bmp,
            source,
            spans,
        })
    }

    fn neighbours(
        &self,
        credentials: &Credentials<'_>,
        operator: &Credential,
    ) -> Result<(Vec<Neighbour>, Vec<std::ops::Range<usize>>), ConfigError> {
        let (mut neighbours, mut spans): (Vec<Neighbour>, Vec<_>) = Default::default();
        let source = credentials.source;
        for table in &self.neighbour {
            let span = table.span();
            let table = table.get_ref();
            let fail =
                |message: &str| source.error_at(table.name.span(), "neighbour.name", message);
            if neighbours.len() == MAX_NEIGHBOURS {
                return Err(fail("is beyond the limit of 1000 neighbours: remove some"));
            }
            if neighbours.iter().any(|n| n.name == *table.name.get_ref()) {
                return Err(fail("occurs twice"));
            }
            let (token, certificate) = (table.token.as_ref(), table.certificate.as_ref());
            let credential = credentials.read("neighbour", span, token, certificate)?;
            let same = |other: &Credential| is_same(other, &credential);
            if same(operator) || neighbours.iter().any(|n| same(&n.credential)) {
                return Err(fail(
                    "has the token or certificate of another neighbour: give each its own",
                ));
            }
            spans.push(table.name.span());
            neighbours.push(Neighbour { name: table.name.get_ref().clone(), credential });
        }
        Ok((neighbours, spans))
    }

    fn routers(
        &self,
        credentials: &Credentials<'_>,
        operator: &Credential,
        neighbours: &[Neighbour],
    ) -> Result<Option<Credential>, ConfigError> {
        let Some(table) = &self.routers else { return Ok(None) };
        let (span, table) = (table.span(), table.get_ref());
        let (token, certificate) = (table.token.as_ref(), table.certificate.as_ref());
        let credential = credentials.read("routers", span.clone(), token, certificate)?;
        let others = neighbours.iter().map(|n| &n.credential);
        if others.chain([operator]).any(|other| is_same(other, &credential)) {
            let message = "have the token or certificate of another client: give them their own";
            return Err(credentials.source.error_at(span, "routers", message));
        }
        Ok(Some(credential))
    }

    fn damping(&self, source: &Source, interval: Duration) -> Result<Limits, ConfigError> {
        let usual = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
        let mut limits = Limits { half_life: usual, suppress: 3000.0, reuse: 1000.0 };
        let Some(table) = &self.damping else { return Ok(limits) };
        let fail = |key: &str, message: &str| {
            Err(source.error_at(table.span(), format!("damping.{key}"), message))
        };
        let inside = table.get_ref();
        if let Some(value) = inside.half_life {
            limits.half_life = value.0.0 / 1_000_000;
        }
        limits.suppress = inside.suppress.unwrap_or(limits.suppress);
        limits.reuse = inside.reuse.unwrap_or(limits.reuse);
        if !(1..=86_400_000).contains(&limits.half_life) {
            return fail("half_life", "write a time from 1 ms to 1440 min");
        }
        if !(1.0..=1e9).contains(&limits.reuse) {
            return fail("reuse", "write a number from 1 to 10^9 (a change adds 1000)");
        }
        if !(limits.reuse..=1e9).contains(&limits.suppress) || limits.suppress == limits.reuse {
            return fail("suppress", "write a number above damping.reuse, up to 10^9");
        }
        Ok(limits)
    }
}

/// Whether a client that shows one credential could be taken for one with the other.
fn is_same(one: &Credential, other: &Credential) -> bool {
    (one.token.is_some() && one.token == other.token)
        || (one.certificate.is_some() && one.certificate == other.certificate)
}

struct Credentials<'a> {
    source: &'a Source,
    authority: bool,
}

impl Credentials<'_> {
    fn read(
        &self,
        table: &str,
        span: std::ops::Range<usize>,
        token: Option<&Spanned<String>>,
        certificate: Option<&Spanned<String>>,
    ) -> Result<Credential, ConfigError> {
        let hash =
            |key: &str, text: Option<&Spanned<String>>| -> Result<Option<Hash>, ConfigError> {
                let read = text.map(|text| {
                    text.get_ref().parse().map_err(|message: String| {
                        self.source.error_at(text.span(), format!("{table}.{key}"), message)
                    })
                });
                read.transpose()
            };
        let credential = Credential {
            token: hash("token", token)?,
            certificate: hash("certificate", certificate)?,
        };
        if credential.token.is_none() && credential.certificate.is_none() {
            let message = "has no token and no certificate: write the hash of one (`forebay plan token` makes a token)";
            return Err(self.source.error_at(span, format!("{table}.token"), message));
        }
        if let (Some(certificate), false) = (certificate, self.authority) {
            let message = "no client is asked for a certificate: set `clients` in `[tls]` to the file of authorities";
            let key = format!("{table}.certificate");
            return Err(self.source.error_at(certificate.span(), key, message));
        }
        Ok(credential)
    }
}

#[cfg(test)]
mod tests;
