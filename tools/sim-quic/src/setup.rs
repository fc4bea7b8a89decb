//! The configuration of `quinn-proto` and `rustls` for repeatable runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forebay_sim::Random;
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig, ServerConfig, TimeSource,
    TransportConfig,
};
use ring::{hkdf, hmac};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;

use crate::identity::identity;
use crate::key_exchange::Public;
use crate::randomness::{Seeded, fill};

/// The length of connection ids.
const ID_LEN: usize = 8;
/// The wall clock of all simulations in seconds of Unix time, the start of 2025. It does not
/// advance: certificates and address tokens of a run do not age.
const TODAY: Duration = Duration::from_secs(1_735_689_600);

/// The reason why a QUIC endpoint cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The certificate is refused.
    #[error("the certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The configuration of TLS is refused.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The cipher suite of initial packets is missing.
    #[error("TLS: {0}")]
    Suite(#[from] NoInitialCipherSuite),
}

/// The wall clock of all simulations.
#[derive(Debug)]
struct Today;

impl TimeProvider for Today {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(TODAY))
    }
}

impl TimeSource for Today {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + TODAY
    }
}

/// Connection ids that follow from the seed of their endpoint.
struct Ids(Random);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut id = [0; ID_LEN];
        fill(&mut self.0, &mut id);
        ConnectionId::new(&id)
    }

    fn cid_len(&self) -> usize {
        ID_LEN
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        kx_groups: vec![&Public],
        secure_random: &Seeded,
        ..rustls::crypto::ring::default_provider()
    })
}

/// Returns 32 random bytes.
fn key(random: &mut Random) -> [u8; 32] {
    let mut key = [0; 32];
    fill(random, &mut key);
    key
}

/// Returns the configuration of an endpoint, whose random numbers follow from `random`.
pub(crate) fn endpoint(random: &mut Random) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &key(random))));
    config.rng_seed(Some(key(random)));
    let ids = Random::new(random.bits(), 0);
    config.cid_generator(move || Box::new(Ids(ids.clone())));
    config
}

/// Returns the configuration of a client's connections.
pub(crate) fn client(
    random: &mut Random,
    transport: TransportConfig,
) -> Result<ClientConfig, SetupError> {
    let mut roots = RootCertStore::empty();
    roots.add(identity()?.0)?;
    let tls = rustls::ClientConfig::builder_with_details(provider(), Arc::new(Today))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let first = Ids(Random::new(random.bits(), 0)).generate_cid();
    config.initial_dst_cid_provider(Arc::new(move || first));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Returns the configuration of a server's connections.
pub(crate) fn server(
    random: &mut Random,
    transport: TransportConfig,
) -> Result<ServerConfig, SetupError> {
    let (certificate, private) = identity()?;
    let tls = rustls::ServerConfig::builder_with_details(provider(), Arc::new(Today))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(private))?;
    let tokens = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&key(random));
    let crypto = QuicServerConfig::try_from(tls)?;
    let mut config = ServerConfig::new(Arc::new(crypto), Arc::new(tokens));
    config.time_source(Arc::new(Today));
    config.transport_config(Arc::new(transport));
    Ok(config)
}
