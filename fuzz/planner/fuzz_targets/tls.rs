//! Sends the service's TLS end a handshake of which bytes were changed, or arbitrary bytes. The end
//! never panics, holds a bounded amount, and passes on no text that its client has not sent.
#![no_main]

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use forebay_serve::config::Tls;
use forebay_serve::http::tls::Acceptor;
use libfuzzer_sys::fuzz_target;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

const SERVER: &[u8] = include_bytes!("../../../planner/serve/tests/tls/server.pem");
const KEY: &[u8] = include_bytes!("../../../planner/serve/tests/tls/server.key");
const AUTHORITY: &[u8] = include_bytes!("../../../planner/serve/tests/tls/authority.pem");
/// The request of the client.
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
/// Exchanges of messages; a handshake needs three.
const TURNS: usize = 8;

fn ends() -> &'static (Arc<ServerConfig>, Arc<ClientConfig>) {
    static ENDS: OnceLock<(Arc<ServerConfig>, Arc<ClientConfig>)> = OnceLock::new();
    ENDS.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("fb-fuzz-tls-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&dir).expect("a directory of this process");
        let put = |name: &str, text: &[u8]| {
            let path = dir.join(name);
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            made.and_then(|mut file| file.write_all(text)).expect("a file of this process");
            path
        };
        let files = Tls {
            certificate: put("server.pem", SERVER),
            key: put("server.key", KEY),
            clients: Some(put("authority.pem", AUTHORITY)),
        };
        let server = Arc::clone(Acceptor::new(&files).expect("good files").config());
        remove(&dir);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(AUTHORITY).expect("PEM")).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        (server, Arc::new(client))
    })
}

fn remove(dir: &Path) {
    fs::remove_dir_all(dir).expect("the directory of this process");
}

/// Gives `bytes` to the server and returns the text that comes out; `None` if it ends.
fn feed(server: &mut ServerConnection, mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        if server.read_tls(&mut bytes).ok()? == 0 {
            return None;
        }
        let state = server.process_new_packets().ok()?;
        assert!(state.plaintext_bytes_to_read() <= 1 << 16, "it holds what nobody reads");
        let mut text = vec![0; state.plaintext_bytes_to_read()];
        server.reader().read_exact(&mut text).ok()?;
        out.extend(text);
    }
    Some(out)
}

fuzz_target!(|input: &[u8]| {
    let (server, client) = ends();
    let mut server = ServerConnection::new(Arc::clone(server)).expect("a server");
    let [kind, rest @ ..] = input else { return };
    if kind & 1 == 0 {
        let out = feed(&mut server, rest).unwrap_or_default();
        assert!(out.is_empty(), "text without a handshake");
        return;
    }
    let name = "localhost".try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::clone(client), name).expect("a client");
    client.writer().write_all(REQUEST).expect("it is buffered");
    // Each three bytes change one byte of what the client sends: its place, and the difference.
    let mut changes = rest.chunks_exact(3);
    let mut got = Vec::new();
    for _ in 0..TURNS {
        let mut flight = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut flight).expect("a vector takes all");
        }
        if let Some([high, low, difference]) = changes.next() {
            let place = usize::from(u16::from_be_bytes([*high, *low]));
            if let Some(byte) = flight.get_mut(place) {
                *byte ^= difference;
            }
        }
        let Some(text) = feed(&mut server, &flight) else { break };
        got.extend(text);
        let mut back = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut back).expect("a vector takes all");
        }
        let mut back = &back[..];
        while !back.is_empty() {
            if client.read_tls(&mut back).is_err() || client.process_new_packets().is_err() {
                return;
            }
        }
    }
    assert!(REQUEST.starts_with(&got), "text that its client has not sent");
    if rest.len() < 3 {
        assert_eq!(got, REQUEST, "an unchanged handshake succeeds");
    }
});
