//! TLS with rustls: the certificate of the service, and those of clients if an authority is
//! configured.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_system::private;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::token::Hash;

/// The largest file of a private key in bytes.
const MAX_KEY: u64 = 64 << 10;

/// The files for TLS.
#[derive(Clone, Debug)]
pub struct Files {
    /// The certificate of the service with its chain, in PEM.
    pub certificate: PathBuf,
    /// The private key of the service, in PEM.
    pub key: PathBuf,
    /// The authorities for clients' certificates, in PEM. Without it no client is asked for a
    /// certificate.
    pub clients: Option<PathBuf>,
}

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or has the wrong contents.
    #[error("{path}: {what}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with the file.
        what: String,
    },
    /// The certificate and the key do not match, or their kind is not supported.
    #[error("{path}: {source}")]
    Refused {
        /// The path of the certificate.
        path: PathBuf,
        /// The error of rustls.
        source: rustls::Error,
    },
}

/// Accepts TLS connections.
#[derive(Clone)]
pub struct Acceptor(TlsAcceptor);

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Acceptor {
    /// Creates an acceptor from these files.
    ///
    /// A client may show a certificate, and access depends on its hash. So one authority can serve
    /// all clients.
    ///
    /// # Errors
    /// If a file cannot be read or has the wrong contents.
    pub fn new(files: &Files) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let refused = |source| TlsError::Refused { path: files.certificate.clone(), source };
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(refused)?;
        let builder = match &files.clients {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                let fail = |what: String| TlsError::File { path: path.clone(), what };
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|e| fail(e.to_string()))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()
                        .map_err(|e| fail(e.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = key(&files.key)?;
        let mut server =
            builder.with_single_cert(certificates(&files.certificate)?, key).map_err(refused)?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(server))))
    }

    /// Returns the configuration of rustls, for tests of the handshake without a socket.
    pub fn config(&self) -> &Arc<rustls::ServerConfig> {
        self.0.config()
    }

    /// Completes the handshake of a connection. Returns the hash of the peer's certificate too, if
    /// it has shown one; `None` if the handshake fails.
    pub(super) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Option<(TlsStream<TcpStream>, Option<Hash>)> {
        let stream = self.0.accept(stream).await.ok()?;
        let own = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let hash = own.map(|certificate| Hash::of(certificate));
        Some((stream, hash))
    }
}

/// Returns the configuration of a client that trusts the certificates that `authority` signed, a
/// file in PEM, and shows its `own` certificate with its key if the server asks for one.
///
/// # Errors
/// If a file cannot be read or has the wrong contents.
pub fn client(
    authority: &Path,
    own: Option<(&Path, &Path)>,
) -> Result<Arc<rustls::ClientConfig>, TlsError> {
    let refused = |path: &Path, source| TlsError::Refused { path: path.to_owned(), source };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authority)? {
        roots.add(certificate).map_err(|e| refused(authority, e))?;
    }
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| refused(authority, e))?
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, path)) => builder
            .with_client_auth_cert(certificates(certificate)?, key(path)?)
            .map_err(|e| refused(certificate, e))?,
    };
    Ok(Arc::new(config))
}

/// Reads a private key, which others must not be able to read.
fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let fail = |what: String| TlsError::File { path: path.to_owned(), what };
    let file = private::secret(path).map_err(|e| fail(format!("is no usable key file: {e}")))?;
    PrivateKeyDer::from_pem_reader(file.take(MAX_KEY))
        .map_err(|e| fail(format!("has no private key in PEM: {e}")))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |what: String| TlsError::File { path: path.to_owned(), what };
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let all: Vec<_> = all.map_err(|e| fail(format!("has no certificates in PEM: {e}")))?;
    if all.is_empty() {
        return Err(fail("has no certificates in PEM".to_owned()));
    }
    Ok(all)
}
