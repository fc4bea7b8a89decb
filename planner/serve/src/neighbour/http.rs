//! Asks a service: one HTTP/1.1 request for each connection, over TLS if the URL says so.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use forebay_web::tls::{TlsError, client};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::Value;

use super::config::{Access, Url};

/// The time for a connection, and for each part of an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The time for a whole answer.
const WHOLE: Duration = Duration::from_secs(60);
/// The interval at which a caller that waits for an answer looks whether it is to stop.
const POLL: Duration = Duration::from_millis(50);
/// The largest answer in bytes: a million hints.
const MAX_ANSWER: u64 = 100_000_000;
/// The longest part of an error that is shown.
const SHOWN: usize = 300;
/// The largest token in bytes.
const MAX_TOKEN: u64 = 300;

/// Why a service gives no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A file for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token cannot be read.
    #[error("{0}: is no usable token: {1}")]
    Token(PathBuf, String),
    /// The service cannot be reached.
    #[error("cannot reach {0}: {1}")]
    Reach(String, io::Error),
    /// The service answered with an error.
    #[error("{path}: the service answered {status}: {message}")]
    Refused {
        /// The path of the request.
        path: String,
        /// The status of the answer.
        status: u16,
        /// What it says, shortened.
        message: String,
    },
    /// The answer cannot be used.
    #[error("{0}")]
    Answer(String),
}

/// A service, with what it needs to know its client.
pub struct Service {
    place: Place,
    token: Option<String>,
    /// Whether the client is to stop, so that an answer is not waited for.
    stopped: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Where a service is, and how it is reached.
#[derive(Clone)]
struct Place {
    url: Url,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Service at {}:{}", self.place.url.host, self.place.url.port)
    }
}

impl Service {
    /// Reads the files that `access` names.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn new(access: &Access) -> Result<Self, FetchError> {
        let url = access.url.clone();
        let token = access.token.as_deref().map(token).transpose()?;
        let tls = match &access.authority {
            Some(authority) if url.tls => {
                let own = access.certificate.as_ref().map(|(c, k)| (c.as_path(), k.as_path()));
                let name = ServerName::try_from(url.host.clone()).map_err(|_| {
                    FetchError::Answer(format!("{:?} is no name of a TLS server", url.host))
                })?;
                Some((client(authority, own)?, name))
            }
            _ => None,
        };
        Ok(Self { place: Place { url, tls }, token, stopped: Box::new(|| false) })
    }

    /// Waits for no answer any more once `stopped` returns true.
    pub fn stop_when(&mut self, stopped: impl Fn() -> bool + Send + Sync + 'static) {
        self.stopped = Box::new(stopped);
    }

    /// Returns the answer to `GET` of `path`.
    ///
    /// # Errors
    /// If there is none, or it is an error.
    pub fn get(&self, path: &str) -> Result<Value, FetchError> {
        self.ask("GET", path, "")
    }

    /// Returns the answer to `PUT` of a JSON `body` at `path`.
    ///
    /// # Errors
    /// If there is none, or it is an error.
    pub fn put(&self, path: &str, body: &str) -> Result<Value, FetchError> {
        self.ask("PUT", path, body)
    }

    /// Returns the token.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value, FetchError> {
        let token = match &self.token {
            Some(token) => format!("authorization: Bearer {token}\r\n"),
            None => String::new(),
        };
        let reached =
            self.exchange_of(method, path, &token, "application/json", body, &self.stopped)?;
        let (status, body) = answer(&reached).map_err(FetchError::Answer)?;
        let value: Result<Value, _> = serde_json::from_slice(body);
        if status == 200 {
            return value.map_err(|e| FetchError::Answer(format!("{path}: is no JSON: {e}")));
        }
        let error = value.as_ref().ok().and_then(|v| v["error"]["message"].as_str());
        let text = error.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned);
        let message = text.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        Err(FetchError::Refused { path: path.to_owned(), status, message })
    }

    /// Sends a request with these header lines, and returns the whole answer with its head. Once
    /// `stopped` returns true, the answer is not waited for.
    pub(crate) fn exchange_of(
        &self,
        method: &str,
        path: &str,
        lines: &str,
        kind: &str,
        body: &str,
        stopped: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, FetchError> {
        let Url { host, port, .. } = &self.place.url;
        let place = format!("{host}:{port}");
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n{lines}\
             content-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let to = self.place.clone();
        unless(stopped, move || to.exchange(&request)).map_err(|e| FetchError::Reach(place, e))
    }
}

/// Returns what `exchange` does on a thread of its own. It may wait for a name, a connection or a
/// slow peer, so that it is left alone once `stopped` returns true.
fn unless(
    stopped: &dyn Fn() -> bool,
    exchange: impl FnOnce() -> io::Result<Vec<u8>> + Send + 'static,
) -> io::Result<Vec<u8>> {
    let (sender, answer) = sync_channel(1);
    thread::Builder::new().spawn(move || sender.send(exchange()))?;
    loop {
        match answer.recv_timeout(POLL) {
            Ok(answer) => return answer,
            Err(RecvTimeoutError::Timeout) if !stopped() => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(io::Error::other("the program was stopped meanwhile"));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that asked has panicked"));
            }
        }
    }
}

impl Place {
    fn exchange(&self, request: &str) -> io::Result<Vec<u8>> {
        let end = Instant::now() + WHOLE;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in (self.url.host.as_str(), self.url.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(TIMEOUT))?;
                    stream.set_write_timeout(Some(TIMEOUT))?;
                    return match &self.tls {
                        None => whole(stream, request, end),
                        Some((config, name)) => {
                            let client = ClientConnection::new(Arc::clone(config), name.clone())
                                .map_err(io::Error::other)?;
                            whole(StreamOwned::new(client, stream), request, end)
                        }
                    };
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }
}

/// Sends a request, and reads the answer to its end.
fn whole(mut stream: impl Read + Write, request: &str, end: Instant) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let (mut all, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return Ok(all),
            Ok(length) => all.extend_from_slice(&piece[..length]),
            // The length of the body tells whether the answer is whole.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(all),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if all.len() as u64 > MAX_ANSWER {
            return Err(io::Error::other("the answer is larger than 100 MB"));
        }
        if Instant::now() > end {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Splits an answer into its status and its body.
fn answer(octets: &[u8]) -> Result<(u16, &[u8]), String> {
    let no_http = || "the answer is no HTTP: is this the service?".to_owned();
    let at = octets.windows(4).position(|w| w == b"\r\n\r\n").ok_or_else(no_http)?;
    let (head, body) = (&octets[..at], &octets[at + 4..]);
    let head = std::str::from_utf8(head).map_err(|_| no_http())?;
    let mut lines = head.split("\r\n");
    let first = lines.next().filter(|line| line.starts_with("HTTP/1.")).ok_or_else(no_http)?;
    let status = first.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(no_http)?;
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: Option<usize> = length.and_then(|(_, value)| value.trim().parse().ok());
    match length {
        Some(length) if length == body.len() => Ok((status, body)),
        _ => Err("the answer is cut off".to_owned()),
    }
}

/// Reads a token from a file that others cannot read.
fn token(path: &Path) -> Result<String, FetchError> {
    let fail = |what: String| FetchError::Token(path.to_owned(), what);
    let file = forebay_system::private::secret(path).map_err(|e| fail(e.to_string()))?;
    let mut text = String::new();
    file.take(MAX_TOKEN).read_to_string(&mut text).map_err(|e| fail(e.to_string()))?;
    let text = text.trim();
    // Anything else could end the header.
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(fail("write one line with the token only".to_owned()));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_does_not_come_is_not_waited_for_after_a_stop() {
        // The kernel accepts the connection, and nobody answers.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let url = Url { tls: false, host: "127.0.0.1".to_owned(), port };
        let place = Place { url, tls: None };
        let mut service = Service { place, token: None, stopped: Box::new(|| false) };
        service.stop_when(|| true);
        let error = service.get("/v1/hints").unwrap_err().to_string();
        assert!(error.ends_with("the program was stopped meanwhile"), "{error}");
    }

    #[test]
    fn answers_are_whole_or_refused() {
        let good = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(answer(good), Ok((200, &b"{}"[..])));
        for end in 0..good.len() {
            assert!(answer(&good[..end]).is_err(), "{end}");
        }
        for wrong in [
            &b"SSH-2.0-x\r\n\r\n"[..],
            b"HTTP/1.1 abc\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{}",
        ] {
            assert!(answer(wrong).is_err());
        }
    }
}
