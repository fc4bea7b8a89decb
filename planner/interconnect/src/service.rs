//! The planner's service (`forebay plan serve`) as the demonstration runs it: configuration, tokens
//! and requests.
//!
//! The service listens at the loopback address of its namespace, so clients are in that namespace:
//! the operator, and the providers as if through a proxy of the ISP.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

use super::blueprint::Blueprint;
use super::build::Built;
use super::daemons::BMP_PORT;
use super::files::{Files, Network, PREFIXES, PROVIDERS, TOPOLOGY, put};
use super::http::{self, Reply};
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;

/// The port of the service.
pub(super) const PORT: u16 = 8480;
/// The address of the service. Its namespace has no other users.
const AT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, PORT);
/// The time in seconds after which the routes of a BMP session count as complete, unless the router
/// says so before.
const SETTLE: u64 = 2;
/// The share of each link that plans leave free, so that shares of connections and not of packets
/// fit too.
const RESERVE: &str = "20 %";

/// What happens to announcements when the service dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDeath {
    /// They stay: the last good ones.
    Keep,
    /// They are withdrawn.
    Withdraw,
}

impl OnDeath {
    /// Returns the name in the configuration.
    fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Withdraw => "withdraw",
        }
    }
}

/// The client of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who<'a> {
    Operator,
    Router,
    Provider(&'a str),
}

/// The token of a client, and its hash in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    shown: String,
    hash: String,
}

impl Token {
    /// Creates a token with `forebay plan token`.
    fn make() -> Result<Self, EngineError> {
        let own = std::env::current_exe().map_err(EngineError::io("finding this program"))?;
        let text = exec::output(Command::new(own).arg("token"), "")?;
        Self::read(&text)
            .ok_or_else(|| EngineError::Unfit(format!("`forebay plan token` said: {text}")))
    }

    fn read(text: &str) -> Option<Self> {
        let word = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            Some(line.trim().to_owned()).filter(|word| !word.is_empty())
        };
        Some(Self { shown: word("token:")?, hash: word("hash:")? })
    }
}

/// How the service learns users' prefixes by BMP instead of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Learns {
    /// The longest time without a message of a session.
    pub(super) silence: Duration,
    /// The time that routes stay after their session was cut.
    pub(super) hold: Duration,
}

/// The service with its clients' tokens and its namespace.
pub(super) struct Service {
    /// How it learns prefixes; `None` for the file.
    pub(super) learns: Option<Learns>,
    namespace: Arc<File>,
    operator: Token,
    routers: Token,
    /// The addresses at which routers reach the service, beside the loopback address.
    at: Vec<IpAddr>,
    /// The tokens by provider.
    providers: Vec<(String, Token)>,
}

impl Service {
    /// Creates a service of an ISP, with new tokens.
    ///
    /// # Errors
    /// If the namespace does not exist, or no token can be created.
    pub(super) fn new(
        network: &Network,
        blueprint: &Blueprint,
        built: &Built,
    ) -> Result<Self, EngineError> {
        let place = &blueprint.ops;
        let known = network.providers.iter().map(|p| Ok((p.name.clone(), Token::make()?)));
        let providers = known.collect::<Result<_, EngineError>>()?;
        let own = blueprint.wires.iter().flatten().filter(|end| end.place == *place);
        let at = own.flat_map(|end| end.addresses.iter().map(IpNet::addr)).collect();
        let (operator, routers) = (Token::make()?, Token::make()?);
        let namespace = built.open(place)?;
        Ok(Self { learns: None, namespace, operator, routers, at, providers })
    }

    /// Returns the token of a provider.
    pub(super) fn token_of(&self, provider: &str) -> &str {
        let own = self.providers.iter().find(|(name, _)| name == provider);
        own.map_or("", |(_, token)| &token.shown)
    }

    /// Returns the token of routers.
    pub(super) fn router_token(&self) -> &str {
        &self.routers.shown
    }

    /// Writes the configuration, with announcements by BGP if `on_death` says what becomes of them.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn configure(
        &self,
        files: &Files,
        gobgp: &Path,
        on_death: Option<OnDeath>,
    ) -> Result<(), EngineError> {
        put(&files.config(), &self.config(files, gobgp, on_death))
    }

    /// Returns the configuration.
    ///
    /// The operator requests each round after a measurement, so the interval is longer than the
    /// story. Routers are on a network of their own, without TLS.
    fn config(&self, files: &Files, gobgp: &Path, on_death: Option<OnDeath>) -> String {
        // A string of JSON is also one of TOML.
        let name = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            serde_json::Value::from(name).to_string()
        };
        let gobgp = serde_json::Value::from(gobgp.to_string_lossy());
        let at = std::iter::once(IpAddr::from(AT.0)).chain(self.at.iter().copied());
        let listen: Vec<String> =
            at.map(|address| format!("\"{}\"", SocketAddr::new(address, PORT))).collect();
        let listen = listen.join(", ");
        let prefixes = match self.learns {
            None => format!("prefixes = \"{PREFIXES}\"\n"),
            Some(_) => String::new(),
        };
        let mut text = format!(
            "[serve]\nlisten = [{listen}]\ncleartext = true\nstate = \"plan.db\"\n\
             topology = \"{}\"\nproviders = \"{}\"\n\
             {prefixes}demands = {}\nlinks = {}\ninterval = \"1440 min\"\n\
             reserve = \"{RESERVE}\"\n\n\
             [operator]\ntoken = \"{}\"\n\n[routers]\ntoken = \"{}\"\n\n",
            TOPOLOGY,
            PROVIDERS,
            name(&files.demands()),
            name(&files.links()),
            self.operator.hash,
            self.routers.hash
        );
        for (provider, token) in &self.providers {
            text +=
                &format!("[[neighbour]]\nname = \"{provider}\"\ntoken = \"{}\"\n\n", token.hash);
        }
        if let Some(Learns { silence, hold }) = self.learns {
            text += &format!(
                "[bmp]\nlisten = [\"{}:{BMP_PORT}\"]\nnext_hops = {}\nsilence = \"{} s\"\n\
                 hold = \"{} s\"\nsettle = \"{SETTLE} s\"\nrouter = [{{ address = \"{}\" }}]\n\n",
                AT.0,
                name(&files.next_hops()),
                silence.as_secs(),
                hold.as_secs(),
                AT.0
            );
        }
        let Some(on_death) = on_death else { return text };
        let (journal, on_death) = (name(&files.journal()), on_death.name());
        text + &format!(
            "[announce]\njournal = {journal}\ngobgp = {gobgp}\non_exit = \"withdraw\"\non_death = \"{on_death}\"\n"
        )
    }

    /// Sends a request and returns the answer.
    ///
    /// # Errors
    /// If there is no answer.
    pub(super) fn ask(
        &self,
        who: Who<'_>,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Reply, EngineError> {
        self.within(|| self.send(who, method, path, body).and_then(http::read))
            .map_err(EngineError::io(format!("asking the service for {path}")))
    }

    /// Sends a request without waiting for the answer, which is lost when the connection is
    /// dropped.
    ///
    /// # Errors
    /// If the service does not take it.
    pub(super) fn begin(
        &self,
        who: Who<'_>,
        method: &str,
        path: &str,
    ) -> Result<TcpStream, EngineError> {
        self.within(|| self.send(who, method, path, ""))
            .map_err(EngineError::io(format!("asking the service for {path}")))
    }

    fn within<T: Send>(&self, f: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        exec::in_namespace(&self.namespace, f)
    }

    fn send(&self, who: Who<'_>, method: &str, path: &str, body: &str) -> io::Result<TcpStream> {
        let token = match who {
            Who::Operator => Some(&self.operator),
            Who::Router => Some(&self.routers),
            Who::Provider(name) => self.providers.iter().find(|p| p.0 == name).map(|p| &p.1),
        };
        let token = token.map_or("", |t| t.shown.as_str());
        http::send(SocketAddr::from(AT), token, method, path, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_and_its_hash_are_parsed() {
        let token = Token::read("token: abc\nhash:  sha256:def\n").unwrap();
        assert_eq!((token.shown.as_str(), token.hash.as_str()), ("abc", "sha256:def"));
        assert_eq!(Token::read("token: \nhash: x\n"), None);
        assert_eq!(Token::read("hash: x\n"), None);
    }

    #[test]
    fn the_configuration_has_hashes_and_no_token() {
        let token =
            |name: &str| Token { shown: format!("{name}-shown"), hash: format!("{name}-hash") };
        let mut service = Service {
            learns: None,
            namespace: Arc::new(File::open("/dev/null").unwrap()),
            operator: token("operator"),
            routers: token("routers"),
            at: vec![[10, 254, 0, 1].into()],
            providers: vec![("video".to_owned(), token("video"))],
        };
        let files = Files("/run/x".into());
        let text = service.config(&files, "/usr/bin/go \"bgp\"".as_ref(), Some(OnDeath::Withdraw));
        assert!(text.contains("[operator]\ntoken = \"operator-hash\"\n"), "{text}");
        assert!(text.contains("[routers]\ntoken = \"routers-hash\"\n"), "{text}");
        assert!(text.contains("listen = [\"127.0.0.1:8480\", \"10.254.0.1:8480\"]\n"), "{text}");
        assert!(text.contains("name = \"video\"\ntoken = \"video-hash\"\n"), "{text}");
        assert!(text.contains("gobgp = \"/usr/bin/go \\\"bgp\\\"\"\n"), "{text}");
        assert!(text.contains("demands = \"demands.csv\"\nlinks = \"links.json\"\n"), "{text}");
        assert!(text.ends_with("on_death = \"withdraw\"\n") && !text.contains("shown"), "{text}");
        assert!(
            text.contains("prefixes = \"prefixes.csv\"\n") && !text.contains("[bmp]"),
            "{text}"
        );
        let second = Duration::from_secs(1);
        service.learns = Some(Learns { silence: 20 * second, hold: 5 * second });
        let text = service.config(&files, "gobgp".as_ref(), None);
        assert!(text.contains("silence = \"20 s\"\nhold = \"5 s\"\n"), "{text}");
        assert!(!text.contains("prefixes =") && !text.contains("[announce]"), "{text}");
    }
}
