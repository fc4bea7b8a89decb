//! The path between a client and a server, simulated and of the kernel.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use forebay_discipline::{Kind, QueueSpec};
use forebay_sim::{Capacity, LinkConfig, Route, Simulation};
use forebay_sim_quic::quinn_proto::congestion::CubicConfig;
use forebay_sim_quic::quinn_proto::{TransportConfig, VarInt};
use forebay_sim_quic::{Files, Quic, drive};
use forebay_system::clock;
use forebay_test_support::namespace::{Namespace, run, within};
use forebay_units::{Nanos, Rate};

use crate::overload::{Sink, Source};
use crate::record::{Download, Recorded};

/// The longest download.
const MAX_DOWNLOAD: Nanos = Nanos::from_secs(120);
/// The size of the receive buffers of sockets, which the kernel doubles. A process that does not
/// run for 20 ms loses nothing at 1 Gbit/s.
const SOCKET_BUFFER: libc::c_int = 8 << 20;
/// The link goes before the ends, which share its cores: on a path of its own it would not wait.
const LINK_PRIORITY: &str = "20";
const CLIENT: &str = "10.9.6.1:5000";
const SERVER: &str = "10.9.6.2:443";

/// A path with the same rate, delay and queue in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) rate: Rate,
    pub(crate) delay: Nanos,
    /// The size of the queue.
    pub(crate) packets: u32,
    pub(crate) policy: &'static str,
}

impl Path {
    fn queue(&self) -> QueueSpec {
        let kind = Kind::ALL.iter().find(|kind| kind.name() == self.policy).unwrap();
        QueueSpec::of_packets(*kind, self.packets).unwrap()
    }

    fn transport() -> TransportConfig {
        let mut transport = TransportConfig::default();
        // Flow control is no limit.
        transport.stream_receive_window(VarInt::from_u32(64 << 20));
        transport.send_window(64 << 20);
        transport.congestion_controller_factory(Arc::new(CubicConfig::default()));
        transport
    }

    fn client(size: u64) -> Recorded<Quic<forebay_sim_quic::Download>> {
        let download = forebay_sim_quic::Download::new(size);
        let server = SERVER.parse().unwrap();
        Recorded::new(Quic::client(1, Self::transport(), server, download).unwrap())
    }

    fn server() -> Recorded<Quic<Files>> {
        Recorded::new(Quic::server(2, Self::transport(), Files::default()).unwrap())
    }

    /// Downloads `size` bytes in simulated time.
    pub(crate) fn simulate(&self, size: u64) -> Download {
        let mut sim = Simulation::new(1, ());
        let mut route = || {
            let (capacity, delay) = (Capacity::Constant(self.rate), self.delay);
            let queue = Some(self.queue().build().unwrap());
            let link = sim.add_link(LinkConfig { capacity, delay, queue, ..LinkConfig::default() });
            sim.add_route(Route::over(link.unwrap())).unwrap()
        };
        let (there, back) = (route(), route());
        let client = sim.add_endpoint(CLIENT.parse().unwrap(), Self::client(size)).unwrap();
        let server = sim.add_endpoint(SERVER.parse().unwrap(), Self::server()).unwrap();
        sim.join(client, server, there, back).unwrap();
        sim.run_until(MAX_DOWNLOAD);
        let (client, server) = (sim.endpoint(client), sim.endpoint(server));
        let download = client.endpoint.application();
        let took = download.finished.unwrap_or_else(|| panic!("{download:?}"));
        let (sent, received) = (server.sent.clone(), client.received.clone());
        Download { size, took, sent, received }
    }
}

/// Two hosts and the network between them, in network namespaces.
pub(crate) struct Setup {
    client: Namespace,
    server: Namespace,
    _middle: Namespace,
    network: Child,
}

impl Setup {
    pub(crate) fn new(forebay: &str, path: &Path) -> Self {
        let id = std::process::id();
        let [client, middle, server] =
            ["c", "m", "s"].map(|end| Namespace::new(format!("fb-rt{id}-{end}")));
        for (host, number, port) in [(&client, 1, "eth0"), (&server, 2, "eth1")] {
            let (host, middle) = (&host.0, &middle.0);
            let mac = format!("02:00:00:00:06:0{number}");
            run(&format!(
                "ip -n {host} link add eth0 address {mac} type veth peer name {port} netns {middle}"
            ));
            for (place, device) in [(host, "eth0"), (middle, port)] {
                let offloads = "tso off gso off gro off tx off rx off";
                run(&format!("ip netns exec {place} ethtool -K {device} {offloads}"));
                run(&format!("ip -n {place} link set {device} up"));
            }
            run(&format!("ip -n {host} address add 10.9.6.{number}/24 dev eth0"));
            let peer = 3 - number;
            run(&format!(
                "ip -n {host} neigh add 10.9.6.{peer} lladdr 02:00:00:00:06:0{peer} dev eth0"
            ));
        }
        let scenario = format!(
            "simple-p2p --delay={}us --bandwidth={}bps --queue={}",
            path.delay.0 / 1000,
            path.rate.as_bps(),
            path.packets
        );
        let mut network = Command::new("ip")
            .args(["netns", "exec", &middle.0, "chrt", "-r", LINK_PRIORITY, forebay])
            .args(["lab", "interop"])
            .args(["--left", "eth0", "--right", "eth1", "--policy", path.policy, &scenario])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(network.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.contains("ready"), "{ready}");
        Self { client, server, _middle: middle, network }
    }

    fn socket(host: &Namespace, address: &str) -> UdpSocket {
        let address: SocketAddr = address.parse().unwrap();
        within(&host.0, move || {
            let socket = UdpSocket::bind(address).unwrap();
            for option in [libc::SO_RCVBUFFORCE, libc::SO_SNDBUFFORCE] {
                force_buffer(&socket, option);
            }
            socket
        })
    }

    /// Sends full datagrams to the client at `rate` for `time`.
    pub(crate) fn overload(&self, path: &Path, rate: Rate, time: Nanos) -> Download {
        let far = Self::socket(&self.server, SERVER);
        let near = Self::socket(&self.client, CLIENT);
        let start = clock::now();
        let source = thread::spawn(move || {
            let source = Source::new(CLIENT.parse().unwrap(), rate, time);
            let mut source = Recorded::new(source);
            let ended = drive(&far, &mut source, start, MAX_DOWNLOAD, |s| s.endpoint.has_ended());
            assert!(ended.unwrap(), "the sender ends");
            source.sent
        });
        let mut sink = Recorded::new(Sink);
        // The queue and the link are empty after a second.
        let deadline = time + path.delay + Nanos::from_secs(1);
        drive(&near, &mut sink, start, deadline, |_| false).unwrap();
        let size = sink.received.len() as u64;
        Download { size, took: time, sent: source.join().unwrap(), received: sink.received }
    }

    /// Downloads `size` bytes in real time.
    pub(crate) fn measure(&self, path: &Path, size: u64) -> Download {
        // What is left of the run before passes the link first.
        thread::sleep(Duration::from_nanos(4 * path.delay.0));
        let far = Self::socket(&self.server, SERVER);
        let near = Self::socket(&self.client, CLIENT);
        let start = clock::now();
        let server = thread::spawn(move || {
            let mut server = Path::server();
            let mut has_served = false;
            let ended = drive(&far, &mut server, start, MAX_DOWNLOAD, |server| {
                let open = server.endpoint.connections().count();
                has_served |= open > 0;
                has_served && open == 0
            });
            assert!(ended.unwrap(), "the server ends");
            server.sent
        });
        let mut client = Path::client(size);
        let ended = drive(&near, &mut client, start, MAX_DOWNLOAD, |client| {
            let download = client.endpoint.application();
            download.finished.is_some() && client.endpoint.connections().count() == 0
        });
        assert!(ended.unwrap(), "{:?}", client.endpoint.application());
        let begun = client.sent[0].at;
        let took = client.endpoint.application().finished.unwrap().saturating_sub(begun);
        Download { size, took, sent: server.join().unwrap(), received: client.received }
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = self.network.kill();
        let _ = self.network.wait();
    }
}

/// Sets the size of a buffer of a socket beyond the limit of the kernel, as root may.
fn force_buffer(socket: &UdpSocket, option: libc::c_int) {
    use std::os::fd::AsRawFd;
    let size = SOCKET_BUFFER;
    // SAFETY: `size` is an integer that lives through the call, and its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const size).cast(),
            size_of_val(&size) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
}
