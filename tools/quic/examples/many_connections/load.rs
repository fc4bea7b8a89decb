//! The server, its clients, and one run of an arm.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_quic::{BackpressuredSocket, Config, Statistics};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use crate::Error;
use crate::measure::{cpu, receive_buffer_errors};

/// Size of a socket's buffers, as far as `net.core.rmem_max` and `wmem_max` allow. It is a tenth of
/// a second at 200 Mbit/s, counted as the kernel counts small packets, so that loopback drops
/// nothing.
const SOCKET_BUFFER: usize = 4 << 20;

/// The largest amount in flight of a connection, which bounds memory: 20 s for 2000 of them at 200
/// Mbit/s.
const WINDOW: u32 = 256 << 10;

/// Number of handshakes at a time.
const HANDSHAKES: usize = 64;

/// Time without packets after which a connection counts as dead.
const IDLE: Duration = Duration::from_secs(30);

/// Time to wait for outstanding requests at the end.
const LATE: Duration = Duration::from_secs(10);

/// The request on a stream.
const ANSWER: usize = 100;

const DOWNLOAD: u8 = b'D';
const REQUEST: u8 = b'R';

/// The load on the server.
pub(crate) struct Load {
    pub(crate) ip: IpAddr,
    pub(crate) connections: u32,
    pub(crate) probes: u32,
    /// Time between two requests of a probe.
    pub(crate) every: Duration,
    pub(crate) sockets: u32,
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
}

/// All counters at one time.
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) egress: Statistics,
    /// Packets over all of the server's connections.
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    /// Bytes of each download.
    pub(crate) read: Vec<u64>,
    pub(crate) cpu: BTreeMap<String, f64>,
    pub(crate) receive_buffer_errors: u64,
}

/// The results of a run.
pub(crate) struct Seen {
    pub(crate) before: Snapshot,
    pub(crate) after: Snapshot,
    /// Response times in milliseconds.
    pub(crate) requests: Vec<f64>,
    pub(crate) unanswered: usize,
    pub(crate) failed: u32,
    pub(crate) connecting: Duration,
}

type Shared<T> = Arc<Mutex<Vec<T>>>;

fn lock<T>(shared: &Shared<T>) -> std::sync::MutexGuard<'_, Vec<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs the load through an egress.
pub(crate) fn run(load: &Load, config: &Config) -> Result<Seen, Error> {
    let (server_config, client_config) = identity()?;
    let (servers, clients) = (threads("fb-server")?, threads("fb-client")?);
    let (socket, server) = {
        let _inside = servers.enter();
        let runtime = Arc::new(TokioRuntime);
        let inner = runtime.wrap_udp_socket(udp(load.ip)?)?;
        let socket = BackpressuredSocket::new(inner, config)?;
        let (settings, below) = (EndpointConfig::default(), socket.clone());
        let server =
            Endpoint::new_with_abstract_socket(settings, Some(server_config), below, runtime)?;
        (socket, server)
    };
    let accepted = Shared::default();
    servers.spawn(serve(server.clone(), accepted.clone()));
    let seen = clients.block_on(drive(load, client_config, server.local_addr()?, || {
        let connections = lock(&accepted);
        let (mut sent, mut lost) = (0, 0);
        for connection in connections.iter() {
            let path = connection.stats().path;
            sent += path.sent_packets;
            lost += path.lost_packets;
        }
        (socket.statistics(), sent, lost)
    }));
    server.close(VarInt::from_u32(0), b"");
    lock(&accepted).clear();
    drop(server);
    for runtime in [clients, servers] {
        runtime.shutdown_timeout(Duration::from_secs(2));
    }
    seen
}

/// Creates a runtime whose threads have this name.
fn threads(name: &str) -> Result<runtime::Runtime, Error> {
    let mut builder = runtime::Builder::new_multi_thread();
    Ok(builder.thread_name(name).enable_all().build()?)
}

fn identity() -> Result<(ServerConfig, ClientConfig), Error> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone())?;
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IDLE.try_into()?))
        .send_window(WINDOW.into())
        .stream_receive_window(WINDOW.into())
        .receive_window((2 * WINDOW).into());
    let transport = Arc::new(transport);
    let mut server = ServerConfig::with_single_cert(vec![certificate], key.into())?;
    server.transport_config(transport.clone());
    let mut client = ClientConfig::with_root_certificates(Arc::new(roots))?;
    client.transport_config(transport);
    Ok((server, client))
}

fn udp(ip: IpAddr) -> Result<UdpSocket, Error> {
    use socket2::{Domain, Protocol, Socket, Type};
    let address = SocketAddr::new(ip, 0);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Accepts connections and answers each stream by its one byte.
async fn serve(server: Endpoint, accepted: Shared<Connection>) {
    while let Some(incoming) = server.accept().await {
        let accepted = accepted.clone();
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            lock(&accepted).push(connection.clone());
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                tokio::spawn(async move {
                    let mut asked = [0];
                    if receive.read_exact(&mut asked).await.is_err() {
                        return;
                    }
                    if asked[0] == REQUEST {
                        if send.write_all(&[0; ANSWER]).await.is_ok() {
                            let _ = send.finish();
                        }
                        return;
                    }
                    static PIECE: [u8; 32 << 10] = [0; 32 << 10];
                    while send.write_chunk(Bytes::from_static(&PIECE)).await.is_ok() {}
                });
            }
        });
    }
}

/// Opens all connections, starts the downloads and requests, and counts.
async fn drive(
    load: &Load,
    config: ClientConfig,
    server: SocketAddr,
    look: impl Fn() -> (Statistics, u64, u64),
) -> Result<Seen, Error> {
    let mut endpoints = Vec::new();
    for _ in 0..load.sockets {
        let runtime = Arc::new(TokioRuntime);
        let mut endpoint = Endpoint::new(EndpointConfig::default(), None, udp(load.ip)?, runtime)?;
        endpoint.set_default_client_config(config.clone());
        endpoints.push(endpoint);
    }
    let begin = Instant::now();
    let all = load.connections + load.probes;
    let mut connections = connect(&endpoints, server, all).await?;
    let connecting = begin.elapsed();
    let mut failed = all - connections.len() as u32;
    let probes = connections.split_off(connections.len().saturating_sub(load.probes as usize));

    let read: Vec<Arc<AtomicU64>> = connections.iter().map(|_| Arc::default()).collect();
    for (connection, read) in connections.iter().zip(&read) {
        tokio::spawn(download(connection.clone(), read.clone()));
    }
    sleep(load.warmup).await;
    let snapshot = || {
        let at = Instant::now();
        let (egress, sent, lost) = look();
        let read = read.iter().map(|n| n.load(Ordering::Relaxed)).collect();
        let receive_buffer_errors = receive_buffer_errors();
        Snapshot { at, egress, sent, lost, read, cpu: cpu(), receive_buffer_errors }
    };
    let before = snapshot();
    let (took, ended) = (Shared::default(), Arc::new(AtomicBool::new(false)));
    let mut asking = JoinSet::new();
    for (index, probe) in probes.iter().enumerate() {
        let first = load.every.mul_f64(index as f64 / probes.len() as f64);
        asking.spawn(ask(probe.clone(), first, load.every, took.clone(), ended.clone()));
    }
    sleep(load.window).await;
    let after = snapshot();
    ended.store(true, Ordering::Relaxed);
    let mut asked = 0;
    while let Some(one) = asking.join_next().await {
        asked += one?;
    }
    let requests = lock(&took).clone();
    for connection in connections.iter().chain(&probes) {
        failed += u32::from(connection.close_reason().is_some());
    }
    for endpoint in &endpoints {
        endpoint.close(VarInt::from_u32(0), b"");
    }
    let unanswered = asked - requests.len();
    Ok(Seen { before, after, requests, unanswered, failed, connecting })
}

/// Opens `count` connections and returns those that succeed.
async fn connect(
    endpoints: &[Endpoint],
    server: SocketAddr,
    count: u32,
) -> Result<Vec<Connection>, Error> {
    let (mut tasks, turns) = (JoinSet::new(), Arc::new(Semaphore::new(HANDSHAKES)));
    for endpoint in endpoints.iter().cycle().take(count as usize) {
        let (endpoint, turns) = (endpoint.clone(), turns.clone());
        tasks.spawn(async move {
            let _turn = turns.acquire().await;
            match endpoint.connect(server, "localhost") {
                Ok(connecting) => connecting.await.ok(),
                Err(_) => None,
            }
        });
    }
    let mut connections = Vec::new();
    while let Some(connection) = tasks.join_next().await {
        connections.extend(connection?);
    }
    Ok(connections)
}

async fn download(connection: Connection, read: Arc<AtomicU64>) {
    let Ok((mut send, mut receive)) = connection.open_bi().await else { return };
    if send.write_all(&[DOWNLOAD]).await.is_err() {
        return;
    }
    while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX, true).await {
        read.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// Sends requests at fixed times, whether or not the last was answered. Returns their number.
async fn ask(
    connection: Connection,
    first: Duration,
    every: Duration,
    took: Shared<f64>,
    ended: Arc<AtomicBool>,
) -> usize {
    let mut next = tokio::time::Instant::now() + first;
    let (mut requests, mut asked) = (JoinSet::new(), 0);
    loop {
        sleep_until(next).await;
        next += every;
        if ended.load(Ordering::Relaxed) {
            break;
        }
        asked += 1;
        let connection = connection.clone();
        requests.spawn(async move {
            let begin = Instant::now();
            request(&connection).await.map(|()| begin.elapsed().as_secs_f64() * 1e3)
        });
    }
    let _ = timeout(LATE, async {
        while let Some(one) = requests.join_next().await {
            lock(&took).extend(one.ok().flatten());
        }
    })
    .await;
    asked
}

/// Sends one request. Returns `None` if the connection ended.
async fn request(connection: &Connection) -> Option<()> {
    let (mut send, mut receive) = connection.open_bi().await.ok()?;
    send.write_all(&[REQUEST]).await.ok()?;
    send.finish().ok()?;
    let answer = receive.read_to_end(ANSWER).await.ok()?;
    (answer.len() == ANSWER).then_some(())
}
