//! The planner's service (`forebay plan serve`), as the demonstration runs it: its configuration and tokens, and questions
//! to it. It listens at its namespace's own loopback address, so whoever asks is in that namespace: the operator, and the
//! providers as if through a proxy of the ISP's.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::build::Built;
use super::files::{Files, Network, PREFIXES, PROVIDERS, TOPOLOGY, put};
use super::http::{self, Reply};
use forebay_lab::engine::EngineError;
use forebay_lab::netns::exec;

/// Where it listens. Nobody else is in its namespace.
const AT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 8480);

/// What becomes of announcements when the service dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnDeath {
    /// They stay as they are: the last good ones.
    Keep,
    /// They are withdrawn.
    Withdraw,
}

impl OnDeath {
    /// As the configuration has it.
    fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Withdraw => "withdraw",
        }
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who<'a> {
    Operator,
    Provider(&'a str),
}

/// What somebody shows, and what the configuration has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    shown: String,
    hash: String,
}

impl Token {
    /// One of `forebay plan token`.
    fn make() -> Result<Self, EngineError> {
        let own = std::env::current_exe().map_err(EngineError::io("finding this program"))?;
        let text = exec::output(Command::new(own).args(["plan", "token"]), "")?;
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

/// Whom it knows, and where it is.
pub(super) struct Service {
    namespace: Arc<File>,
    operator: Token,
    /// By provider.
    providers: Vec<(String, Token)>,
}

impl Service {
    /// One in the namespace `place`, with new tokens.
    ///
    /// # Errors
    /// If the namespace is not there, or no token can be made.
    pub(super) fn new(network: &Network, built: &Built, place: &str) -> Result<Self, EngineError> {
        let known = network.providers.iter().map(|p| Ok((p.name.clone(), Token::make()?)));
        let providers = known.collect::<Result<_, EngineError>>()?;
        Ok(Self { namespace: built.open(place)?, operator: Token::make()?, providers })
    }

    /// Writes its configuration.
    ///
    /// # Errors
    /// If that cannot be written.
    pub(super) fn configure(
        &self,
        files: &Files,
        gobgp: &Path,
        on_death: OnDeath,
    ) -> Result<(), EngineError> {
        put(&files.config(), &self.config(files, gobgp, on_death))
    }

    /// Rounds are asked for when something was measured, so none is made before the story is over. Paths inside stay as
    /// they are: nothing here would change them.
    fn config(&self, files: &Files, gobgp: &Path, on_death: OnDeath) -> String {
        // A string of JSON is one of TOML.
        let name = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            serde_json::Value::from(name).to_string()
        };
        let gobgp = serde_json::Value::from(gobgp.to_string_lossy());
        let (address, port) = AT;
        let mut text = format!(
            "[serve]\nlisten = [\"{address}:{port}\"]\nstate = \"plan.db\"\ntopology = \"{}\"\nproviders = \"{}\"\n\
             prefixes = \"{}\"\ndemands = {}\nlinks = {}\ninterval = \"1440 min\"\npaths = 1\n\n\
             [operator]\ntoken = \"{}\"\n\n",
            TOPOLOGY.0,
            PROVIDERS.0,
            PREFIXES.0,
            name(&files.demands()),
            name(&files.links()),
            self.operator.hash
        );
        for (provider, token) in &self.providers {
            text +=
                &format!("[[neighbour]]\nname = \"{provider}\"\ntoken = \"{}\"\n\n", token.hash);
        }
        let (journal, on_death) = (name(&files.journal()), on_death.name());
        text + &format!(
            "[announce]\njournal = {journal}\ngobgp = {gobgp}\non_exit = \"withdraw\"\non_death = \"{on_death}\"\n"
        )
    }

    /// Asks something, and waits for the answer.
    ///
    /// # Errors
    /// If nobody answers.
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

    /// Asks something whose answer nobody waits for: it goes when the connection does.
    ///
    /// # Errors
    /// If nobody takes it.
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
    fn a_token_and_its_hash() {
        let token = Token::read("token: abc\nhash:  sha256:def\n").unwrap();
        assert_eq!((token.shown.as_str(), token.hash.as_str()), ("abc", "sha256:def"));
        assert_eq!(Token::read("token: \nhash: x\n"), None);
        assert_eq!(Token::read("hash: x\n"), None);
    }

    #[test]
    fn the_configuration_holds_hashes_and_no_token() {
        let token =
            |name: &str| Token { shown: format!("{name}-shown"), hash: format!("{name}-hash") };
        let service = Service {
            namespace: Arc::new(File::open("/dev/null").unwrap()),
            operator: token("operator"),
            providers: vec![("video".to_owned(), token("video"))],
        };
        let files = Files("/run/x".into());
        let text = service.config(&files, "/usr/bin/go \"bgp\"".as_ref(), OnDeath::Withdraw);
        assert!(text.contains("[operator]\ntoken = \"operator-hash\"\n"), "{text}");
        assert!(text.contains("name = \"video\"\ntoken = \"video-hash\"\n"), "{text}");
        assert!(text.contains("gobgp = \"/usr/bin/go \\\"bgp\\\"\"\n"), "{text}");
        assert!(text.contains("demands = \"demands.csv\"\nlinks = \"links.json\"\n"), "{text}");
        assert!(text.ends_with("on_death = \"withdraw\"\n") && !text.contains("shown"), "{text}");
    }
}
