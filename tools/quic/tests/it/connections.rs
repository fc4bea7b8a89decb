//! Real QUIC connections over loopback with both IP versions, through a buffer that is much too
//! small.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use forebay_quic::paced::{self, PacedSocket};
use forebay_quic::{BackpressuredSocket, Config, Mode, Schedule};
use forebay_units::Rate;
use quinn::{
    AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, Runtime, ServerConfig,
    TokioRuntime,
};
use tokio::time::timeout;

const CONNECTIONS: usize = 8;
const BYTES: usize = 60_000;

/// A time limit much longer than any test takes, so that a stall is an error.
const STALL: Duration = Duration::from_secs(120);

fn identity() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let server = ServerConfig::with_single_cert(vec![certificate], key.into()).unwrap();
    (server, ClientConfig::with_root_certificates(Arc::new(roots)).unwrap())
}

struct Host<S> {
    socket: Arc<S>,
    server: Endpoint,
    client: Endpoint,
    address: SocketAddr,
}

/// Starts a server whose sends pass through the socket that `around` makes around its own, and a
/// client.
fn host<S: AsyncUdpSocket>(
    ip: IpAddr,
    around: impl FnOnce(Arc<dyn AsyncUdpSocket>) -> Arc<S>,
) -> Host<S> {
    let (server_config, client_config) = identity();
    let runtime = Arc::new(TokioRuntime);
    let udp = UdpSocket::bind((ip, 0)).unwrap();
    let address = udp.local_addr().unwrap();
    let inner = runtime.wrap_udp_socket(udp).unwrap();
    let socket = around(inner);
    let (abstraction, settings) = (socket.clone(), EndpointConfig::default());
    let server =
        Endpoint::new_with_abstract_socket(settings, Some(server_config), abstraction, runtime);
    let mut client = Endpoint::client((ip, 0).into()).unwrap();
    client.set_default_client_config(client_config);
    Host { socket, server: server.unwrap(), client, address }
}

fn content(connection: u8) -> Vec<u8> {
    (0..BYTES).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ connection).collect()
}

/// Sends each client the content for the one byte that the client sends.
async fn serve(server: Endpoint) {
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                let mut asked = [0];
                receive.read_exact(&mut asked).await.unwrap();
                if send.write_all(&content(asked[0])).await.is_ok() {
                    let _ = send.finish();
                }
            }
        });
    }
}

async fn download(connection: &Connection, name: u8) -> Vec<u8> {
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(&[name]).await.unwrap();
    receive.read_to_end(2 * BYTES).await.unwrap()
}

async fn run(ip: IpAddr, config: Config) -> forebay_quic::Statistics {
    let host = host(ip, |inner| BackpressuredSocket::new(inner, &config).unwrap());
    let is_free = |seen: forebay_quic::Statistics| seen.flows == 0 && seen.backlog == 0;
    all_downloads(host, |socket| is_free(socket.statistics())).await.statistics()
}

async fn run_paced(ip: IpAddr, config: paced::Config) -> paced::Statistics {
    let host = host(ip, |inner| PacedSocket::new(inner, &config).unwrap());
    let is_free =
        |seen: paced::Statistics| seen.flows == 0 && seen.taken == seen.sent + seen.refused;
    all_downloads(host, |socket| is_free(socket.statistics())).await.statistics()
}

/// Downloads over several connections, of which one ends early, until their places are free.
async fn all_downloads<S>(host: Host<S>, is_free: impl Fn(&S) -> bool) -> Arc<S> {
    let Host { socket, server, client, address } = host;
    tokio::spawn(serve(server.clone()));
    let mut downloads = tokio::task::JoinSet::new();
    for name in 0..CONNECTIONS as u8 {
        let client = client.clone();
        downloads.spawn(async move {
            let connection = client.connect(address, "localhost").unwrap().await.unwrap();
            if name == 0 {
                // The connection ends in the middle, with packets in the buffer.
                let (mut send, mut receive) = connection.open_bi().await.unwrap();
                send.write_all(&[name]).await.unwrap();
                receive.read_exact(&mut [0; BYTES / 4]).await.unwrap();
                connection.close(1u32.into(), b"");
                return;
            }
            assert_eq!(download(&connection, name).await, content(name), "of {name}");
        });
    }
    timeout(STALL, async { while downloads.join_next().await.transpose().unwrap().is_some() {} })
        .await
        .expect("all downloads end");
    // The connections time out and free their places.
    client.close(0u32.into(), b"");
    server.close(0u32.into(), b"");
    for endpoint in [&client, &server] {
        timeout(STALL, endpoint.wait_idle()).await.expect("connections end");
    }
    drop((client, server));
    let freed = async {
        while !is_free(&socket) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(STALL, freed).await.expect("ended connections free their places");
    socket
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn config(mode: Mode) -> Config {
    Config { rate: Some(Rate::from_mbps(20)), packets: 8, mode, ..Config::default() }
}

#[test]
fn with_backpressure_nothing_is_lost() {
    for (ip, schedule, segments) in [
        (IpAddr::from(Ipv4Addr::LOCALHOST), Schedule::Fifo, 1),
        (IpAddr::from(Ipv6Addr::LOCALHOST), Schedule::Fair, 10),
    ] {
        let config = Config { schedule, segments, ..config(Mode::Zd) };
        let seen = runtime().block_on(run(ip, config));
        assert_eq!((seen.dropped, seen.refused, seen.unregulated), (0, 0, 0), "{seen:?}");
        assert_eq!(seen.taken, seen.sent);
        assert!(seen.pauses > 0, "the buffer was full: {seen:?}");
    }
}

/// A full queue of the host drops packets in the same way, and QUIC sends the data again.
#[test]
fn without_backpressure_packets_are_dropped() {
    let seen = runtime().block_on(run(Ipv4Addr::LOCALHOST.into(), config(Mode::Drop)));
    assert!(seen.dropped > 0, "{seen:?}");
    assert_eq!((seen.taken, seen.pauses), (seen.sent + seen.dropped, 0));
}

#[test]
fn paced_connections_get_everything() {
    for (ip, flows, segments) in [
        (IpAddr::from(Ipv4Addr::LOCALHOST), 16, 1),
        // The sixth connection and all later ones are not paced.
        (IpAddr::from(Ipv6Addr::LOCALHOST), 5, 10),
    ] {
        let rate = Rate::from_mbps(8);
        let config = paced::Config { rate, flows, segments, ..paced::Config::default() };
        let seen = runtime().block_on(run_paced(ip, config));
        assert_eq!((seen.refused, seen.taken), (0, seen.sent), "{seen:?}");
        assert_eq!(seen.unpaced > 0, flows < CONNECTIONS as u32, "{seen:?}");
        assert!(seen.sent_bytes > 4 * BYTES as u64, "{seen:?}");
    }
}
