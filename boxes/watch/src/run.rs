//! `forebay watch`: reads the boxes every second, and serves the page.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_web::tls::{self, Acceptor, TlsError};
use forebay_web::token::{Credential, Hash};
use forebay_web::{HostName, Stop, listen, serve};

use crate::http::Site;
use crate::recorder::Recorder;
use crate::store::StoreError;

/// The time that boxes have for their answers; the next turn comes after a second.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(800);
/// The charts are sent to listeners every so many seconds, as often as the history is written.
const CHARTS_EVERY: u64 = 10;
/// The longest sleep before the end of the process is noticed, in milliseconds.
const NAP_MS: u64 = 100;

/// How a history is kept and served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The addresses of the page.
    pub listen: Vec<SocketAddr>,
    /// The file of the history.
    pub history: PathBuf,
    /// The hash of the token that clients have to show; `None` lets everyone in.
    pub token: Option<Hash>,
    /// The certificate and key; `None` is HTTP without TLS.
    pub tls: Option<tls::Files>,
    /// The names by which browsers may call the page without TLS.
    pub hosts: Vec<HostName>,
    /// Whether the page may cross a network without TLS.
    pub cleartext: bool,
}

/// Why a history is not kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address can be reached by others, and no token is set.
    #[error(
        "{0} can be reached by others: give --token-hash (`forebay plan token` makes a token and \
         its hash), or listen at 127.0.0.1"
    )]
    NoToken(SocketAddr),
    /// The address can be reached by others, and there is no TLS.
    #[error(
        "{0} can be reached by others, who could read the token: give --certificate and --key, or \
         --cleartext if a proxy or tunnel encrypts"
    )]
    NoTls(SocketAddr),
    /// The history cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The TLS files are invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address cannot be listened at.
    #[error("cannot listen at {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The service has ended.
    #[error("cannot serve: {0}")]
    Serve(io::Error),
}

impl Error {
    /// Returns the exit status: 2 if the arguments or files are wrong, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Store(_) | Self::Serve(_) => 1,
            _ => 2,
        }
    }
}

impl Options {
    /// Checks that nobody can read the page who should not.
    ///
    /// # Errors
    /// If an address can be reached by others without a token or without TLS.
    fn check(&self) -> Result<(), Error> {
        let open = self.listen.iter().find(|address| !address.ip().to_canonical().is_loopback());
        match open {
            Some(address) if self.token.is_none() => Err(Error::NoToken(*address)),
            Some(address) if self.tls.is_none() && !self.cleartext => Err(Error::NoTls(*address)),
            _ => Ok(()),
        }
    }
}

/// Keeps the history of all boxes in this network namespace, and serves its page, until `stop`.
/// `ready` is called with each address once it listens.
///
/// # Errors
/// If it cannot start.
pub fn run(options: &Options, stop: &Stop, ready: impl Fn(SocketAddr)) -> Result<(), Error> {
    options.check()?;
    let acceptor = options.tls.as_ref().map(Acceptor::new).transpose()?;
    let recorder = Recorder::open(&options.history, now() / 1000)?;
    let listeners = listen(&options.listen).map_err(|(at, e)| Error::Listen(at, e))?;
    listeners.iter().filter_map(|listener| listener.local_addr().ok()).for_each(ready);
    let credential = options.token.map(|hash| Credential { token: Some(hash), certificate: None });
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let site = Arc::new(Site::new(recorder, credential, host.trim().to_owned(), now));
    let stopped = AtomicBool::new(false);
    let served = thread::scope(|scope| {
        let (site_, stopped_, end) = (&site, &stopped, stop.at_end());
        scope.spawn(move || {
            let _end = end;
            poll(site_, stopped_);
        });
        let hosts = options.hosts.clone().into();
        let served = serve(Arc::clone(&site), listeners, acceptor, hosts, stop.receiver());
        stopped.store(true, Ordering::Relaxed);
        served
    });
    site.recorder().write(now() / 1000);
    served.map_err(Error::Serve)
}

/// Reads the boxes at each full second.
fn poll(site: &Site, stopped: &AtomicBool) {
    let mut silent = false;
    let mut due = now() / 1000 + 1;
    while !stopped.load(Ordering::Relaxed) {
        let early = (due * 1000).saturating_sub(now());
        if early > 0 {
            // A clock that was set back would make this wait long.
            if early > 2_000 {
                due = now() / 1000 + 1;
            }
            thread::sleep(Duration::from_millis(early.min(NAP_MS)));
            continue;
        }
        match forebay_status::read(ANSWER_TIMEOUT) {
            Ok(answers) => {
                silent = false;
                site.take(answers, due.is_multiple_of(CHARTS_EVERY));
            }
            Err(e) if !silent => {
                silent = true;
                tracing::warn!("the list of boxes cannot be read: {e}");
            }
            Err(_) => {}
        }
        // A turn that took long is followed by one at the next full second.
        due = (due + 1).max(now() / 1000);
    }
}

/// Returns the time in milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_address_needs_a_token_and_tls() {
        let files = tls::Files { certificate: "c".into(), key: "k".into(), clients: None };
        let options = |listen: &str, token: bool, tls: bool, cleartext: bool| Options {
            listen: vec!["127.0.0.1:0".parse().unwrap(), listen.parse().unwrap()],
            history: "h".into(),
            token: token.then(|| Hash::of(b"t")),
            tls: tls.then(|| files.clone()),
            hosts: Vec::new(),
            cleartext,
        };
        for (listen, token, tls, cleartext, expected) in [
            ("127.0.0.2:1", false, false, false, None),
            ("[::1]:1", false, false, false, None),
            ("[::ffff:127.0.0.1]:1", false, false, false, None),
            ("0.0.0.0:1", false, true, false, Some("--token-hash")),
            ("[::]:1", true, false, false, Some("--certificate")),
            ("192.0.2.1:1", true, true, false, None),
            ("192.0.2.1:1", true, false, true, None),
            ("192.0.2.1:1", false, true, true, Some("--token-hash")),
        ] {
            let checked = options(listen, token, tls, cleartext).check();
            let says = checked.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(says.contains(expected.unwrap_or_default()), "{listen}: {says}");
            assert_eq!(says.is_empty(), expected.is_none(), "{listen}: {says}");
        }
    }
}
