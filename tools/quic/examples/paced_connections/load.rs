//! The server, its clients, and one run of an arm.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_quic::paced::{Config, PacedSocket};
use forebay_units::{Bytes as Length, Nanos, Rate};
use quinn::{
    AsyncUdpSocket, ClientConfig, Connection, Endpoint, EndpointConfig, Runtime, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::Error;
use crate::measure::cpu;
use crate::recorder::Recorder;

/// Bytes of a full packet without UDP's and IP's headers: QUIC's least (RFC 9000, section 14).
pub(crate) const PACKET: usize = 1200;
/// Bytes of stream data that fill such a packet, up to a few: the rest is headers of QUIC and of a
/// stream frame, and the tag of encryption.
const DATA: usize = 1160;
/// Size of a socket's buffers, as far as `net.core.rmem_max` and `wmem_max` allow.
const SOCKET_BUFFER: usize = 4 << 20;
/// The largest amount in flight of a connection, which bounds memory.
const WINDOW: u32 = 64 << 10;
/// Number of handshakes at a time.
const HANDSHAKES: usize = 64;
/// Time without packets after which a connection counts as dead.
const IDLE: Duration = Duration::from_secs(30);

/// How the server paces its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// By the egress engine, below quinn.
    Engine,
    /// By a timer for each connection, above quinn.
    Quinn,
}

impl Arm {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Quinn => "quinn",
        }
    }
}

/// The load on the server.
pub(crate) struct Load {
    pub(crate) connections: u32,
    /// The rate of each connection, of UDP payload.
    pub(crate) rate: Rate,
    pub(crate) granularity: Nanos,
    pub(crate) waiting: u8,
    pub(crate) sockets: u32,
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
}

/// The results of a run.
pub(crate) struct Seen {
    pub(crate) seconds: f64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Errors of intervals in seconds, in ascending order.
    pub(crate) errors: Vec<f64>,
    /// Processor time of the server's threads in seconds.
    pub(crate) cpu: f64,
    /// Processor time of the thread that sends, if there is one.
    pub(crate) sender_cpu: f64,
    /// Connections that were not opened, or ended early.
    pub(crate) failed: u32,
    pub(crate) connecting: Duration,
}

/// Runs the load in an arm.
pub(crate) fn run(load: &Load, arm: Arm) -> Result<Seen, Error> {
    let (server_config, client_config) = identity()?;
    let (servers, clients) = (threads("fb-server")?, threads("fb-client")?);
    let (recorder, server) = {
        let _inside = servers.enter();
        let runtime = Arc::new(TokioRuntime);
        let recorder = Recorder::new(runtime.wrap_udp_socket(udp()?)?, load.rate);
        let socket: Arc<dyn AsyncUdpSocket> = match arm {
            Arm::Quinn => recorder.clone(),
            Arm::Engine => {
                let config = Config {
                    rate: load.rate,
                    flows: load.connections + 16,
                    granularity: load.granularity,
                    waiting: load.waiting,
                    // Enough for the packets of a handshake at once.
                    credit: load.rate.time_for(Length(8 * PACKET as u64)),
                    ..Config::default()
                };
                PacedSocket::new(recorder.clone(), &config)?
            }
        };
        let settings = EndpointConfig::default();
        let server =
            Endpoint::new_with_abstract_socket(settings, Some(server_config), socket, runtime)?;
        (recorder, server)
    };
    let every = Duration::from_nanos(load.rate.time_for(Length(PACKET as u64)).0);
    servers.spawn(serve(server.clone(), (arm == Arm::Quinn).then_some(every)));
    let seen = clients.block_on(drive(load, client_config, server.local_addr()?, &recorder));
    server.close(VarInt::from_u32(0), b"");
    drop(server);
    for runtime in [clients, servers] {
        runtime.shutdown_timeout(Duration::from_secs(2));
    }
    seen
}

/// Creates a runtime whose threads have this name.
fn threads(name: &str) -> Result<runtime::Runtime, Error> {
    let mut builder = runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).thread_name(name).enable_all().build()?)
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
        // All full packets have the same length.
        .mtu_discovery_config(None)
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

fn udp() -> Result<UdpSocket, Error> {
    use socket2::{Domain, Protocol, Socket, Type};
    let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_recv_buffer_size(SOCKET_BUFFER)?;
    socket.set_send_buffer_size(SOCKET_BUFFER)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Accepts connections and writes to each: a packet's data in this interval, or all the time.
async fn serve(server: Endpoint, every: Option<Duration>) {
    static PIECE: [u8; DATA] = [0; DATA];
    while let Some(incoming) = server.accept().await {
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            let Ok(mut send) = connection.open_uni().await else { return };
            let mut timer = every.map(|every| {
                let mut timer = interval(every);
                timer.set_missed_tick_behavior(MissedTickBehavior::Burst);
                timer
            });
            loop {
                if let Some(timer) = &mut timer {
                    timer.tick().await;
                }
                if send.write_chunk(Bytes::from_static(&PIECE)).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// Opens all connections, reads from them, and counts.
async fn drive(
    load: &Load,
    config: ClientConfig,
    server: SocketAddr,
    recorder: &Recorder,
) -> Result<Seen, Error> {
    let mut endpoints = Vec::new();
    for _ in 0..load.sockets {
        let runtime = Arc::new(TokioRuntime);
        let mut endpoint = Endpoint::new(EndpointConfig::default(), None, udp()?, runtime)?;
        endpoint.set_default_client_config(config.clone());
        endpoints.push(endpoint);
    }
    let begin = Instant::now();
    let connections = connect(&endpoints, server, load.connections).await?;
    let connecting = begin.elapsed();
    for connection in &connections {
        tokio::spawn(read(connection.clone()));
    }
    sleep(load.warmup).await;
    recorder.take();
    let (before, begin) = (cpu(), Instant::now());
    sleep(load.window).await;
    let mut recorded = recorder.take();
    let (after, seconds) = (cpu(), begin.elapsed().as_secs_f64());
    let used = |name: &str| {
        let at = |cpu: &std::collections::BTreeMap<String, f64>| cpu.get(name).copied();
        at(&after).unwrap_or_default() - at(&before).unwrap_or_default()
    };
    recorded.errors.sort_by(f64::total_cmp);
    let ended = connections.iter().filter(|c| c.close_reason().is_some()).count() as u32;
    let failed = load.connections - connections.len() as u32 + ended;
    for endpoint in &endpoints {
        endpoint.close(VarInt::from_u32(0), b"");
    }
    Ok(Seen {
        seconds,
        packets: recorded.packets,
        bytes: recorded.bytes,
        errors: recorded.errors,
        cpu: used("fb-server") + used("quic-egress"),
        sender_cpu: used("quic-egress"),
        failed,
        connecting,
    })
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

/// Reads everything that comes on a connection.
async fn read(connection: Connection) {
    let Ok(mut receive) = connection.accept_uni().await else { return };
    while let Ok(Some(_)) = receive.read_chunk(usize::MAX, true).await {}
}
