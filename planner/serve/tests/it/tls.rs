//! TLS, and neighbours that are known by their certificates. The certificates beside this file are
//! for these tests only.

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_serve::token::Hash;
use forebay_serve::{Error, Stop};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::{Domain, Socket, Type};

const TIMEOUT: Duration = Duration::from_secs(60);

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

struct Running {
    dir: PathBuf,
    at: SocketAddr,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.thread.take().unwrap().join();
        let _ = std::fs::remove_dir_all(&self.dir);
        assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
    }
}

fn config(dir: &Path, at: SocketAddr, key: &str) -> PathBuf {
    std::fs::create_dir_all(dir).unwrap();
    let own = |name: &str| Hash::of(&CertificateDer::from_pem_file(fixture(name)).unwrap());
    let shown = |name: &str| fixture(name).display().to_string();
    let own_key = dir.join(key);
    std::fs::copy(fixture(key), &own_key).unwrap();
    std::fs::set_permissions(&own_key, Permissions::from_mode(0o600)).unwrap();
    let config = format!(
        "[serve]\nlisten = [\"{at}\"]\nstate = \"s.db\"\ntopology = \"t.json\"\nproviders = \"p.toml\"\nprefixes = \"x.csv\"\n\
         demands = \"d.csv\"\n[tls]\ncertificate = \"{}\"\nkey = \"{}\"\nclients = \"{}\"\n[operator]\ntoken = \"{}\"\n\
         [[neighbour]]\nname = \"video\"\ncertificate = \"{}\"\n[[neighbour]]\nname = \"games\"\ncertificate = \"{}\"\n\
         token = \"{}\"\n",
        shown("server.pem"),
        own_key.display(),
        shown("authority.pem"),
        Hash::of(b"operator"),
        own("video.pem"),
        own("games.pem"),
        Hash::of(b"games"),
    );
    for (name, text) in [
        ("c.toml", config.as_str()),
        ("t.json", r#"{"nodes": [{"id": 1, "label": "a"}], "links": []}"#),
        (
            "p.toml",
            "[[provider]]\nname = \"video\"\nentry = [{ router = \"a\" }]\n[[provider]]\nname = \"games\"\nentry = [{ router = \"a\" }]\n",
        ),
        ("x.csv", "prefix,router\n10.0.0.0/8,a\n"),
        ("d.csv", "provider,entry,router,demand\n"),
    ] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    dir.join("c.toml")
}

fn start(name: &str) -> Running {
    let dir = std::env::temp_dir().join(format!("fb-tls-{name}-{}", std::process::id()));
    // A port that is free now.
    let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = config(&dir, at, "server.key");
    let stop = Stop::default();
    let own = stop.clone();
    let thread = std::thread::spawn(move || forebay_serve::run(&config, &own));
    let end = std::time::Instant::now() + TIMEOUT;
    while TcpStream::connect(at).is_err() {
        assert!(!thread.is_finished() && std::time::Instant::now() < end, "it listens");
        std::thread::sleep(Duration::from_millis(10));
    }
    Running { dir, at, stop, thread: Some(thread) }
}

/// The status of an answer, or why there is none.
fn ask(
    at: SocketAddr,
    certificate: Option<&str>,
    token: Option<&str>,
    path: &str,
) -> Result<u16, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(fixture("authority.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = match certificate {
        None => builder.with_no_client_auth(),
        Some(name) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(fixture(&format!("{name}.pem"))).unwrap()],
                PrivateKeyDer::from_pem_file(fixture(&format!("{name}.key"))).unwrap(),
            )
            .unwrap(),
    };
    let client = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let socket = TcpStream::connect(at).map_err(|e| e.to_string())?;
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut stream = StreamOwned::new(client, socket);
    let token = token.map_or(String::new(), |t| format!("authorization: Bearer {t}\r\n"));
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).map_err(|e| e.to_string())?;
    let mut text = String::new();
    let read = stream.read_to_string(&mut text).map_err(|e| e.to_string());
    match text.split_whitespace().nth(1) {
        Some(status) => Ok(status.parse().unwrap()),
        None => Err(format!("{read:?}")),
    }
}

#[test]
fn neighbours_are_known_by_their_certificates() {
    let running = start("known");
    let status = |certificate, token| ask(running.at, certificate, token, "/v1/program").unwrap();
    assert_eq!(status(Some("video"), None), 200);
    assert_eq!(status(None, None), 401);
    // One that needs both: neither alone will do, nor another's.
    assert_eq!(status(Some("games"), None), 401);
    assert_eq!(status(None, Some("games")), 401);
    assert_eq!(status(Some("games"), Some("games")), 200);
    assert_eq!(status(Some("games"), Some("wrong")), 401);
    assert_eq!(status(Some("video"), Some("games")), 200, "as video, which needs no token");
    // The operator has a token, and no certificate is asked of it.
    assert_eq!(ask(running.at, None, Some("operator"), "/operator/state"), Ok(200));
    assert_eq!(ask(running.at, None, None, "/healthz"), Ok(200));
    // A certificate of another authority ends the handshake, or what comes after it (TLS 1.3).
    assert!(ask(running.at, Some("forged"), None, "/v1/program").is_err());
    // Clear text gets no answer.
    let mut plain = TcpStream::connect(running.at).unwrap();
    plain.set_read_timeout(Some(TIMEOUT)).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes);
    assert!(!String::from_utf8_lossy(&bytes).contains("HTTP/1.1 200"));
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let dir = std::env::temp_dir().join(format!("fb-tls-bad-{}", std::process::id()));
    let at = "127.0.0.1:0".parse().unwrap();
    for (key, expected) in
        [("server.pem", "server.pem: has no private key in PEM"), ("video.key", "server.pem: ")]
    {
        let error = forebay_serve::check(&config(&dir, at, key)).unwrap_err();
        assert!(error.to_string().contains(expected) && error.exit_code() == 2, "{error}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

/// Connects from one of this machine's own addresses.
fn connect_from(source: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let source: IpAddr = source.parse().unwrap();
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// Connections that begin neither a handshake nor a request take no place from those that do.
#[test]
fn half_open_connections_of_many_addresses_do_not_keep_others_out() {
    const REQUESTS: usize = 100;
    let running = start("half-open");
    let at = running.at;
    let open = |n: u8| connect_from(&format!("127.0.0.{n}"), at).ok();
    let mut held: Vec<_> = (2..10).flat_map(|n| (0..64).filter_map(move |_| open(n))).collect();
    assert!(held.len() > 400, "{} connections", held.len());
    let mut good = 0;
    for turn in 0..REQUESTS {
        // A place that becomes free is taken again before the next good request.
        held.extend((2..6).filter_map(|n| open(n + (turn % 2) as u8 * 4)));
        good += usize::from(ask(at, None, Some("operator"), "/operator/state") == Ok(200));
        held.drain(..4);
    }
    assert_eq!(good, REQUESTS, "good requests that were answered");
}

#[test]
fn a_key_that_others_can_read_is_refused_and_the_state_is_private() {
    let running = start("modes");
    for file in ["s.db", "s.db-wal"] {
        let mode = std::fs::metadata(running.dir.join(file)).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    let config = running.dir.join("c.toml");
    let key = running.dir.join("server.key");
    std::fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let error = forebay_serve::check(&config).unwrap_err();
    assert!(error.to_string().contains("chmod 600") && error.exit_code() == 2, "{error}");
}
