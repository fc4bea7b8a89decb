//! The client at an ingress router, between a running service and the SRv6 of this kernel: packets
//! take the planned paths, and every fault returns them to the IGP's.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_serve::Stop;
use forebay_serve::ingress::config::Config;
use forebay_serve::ingress::linux::Linux;
use forebay_serve::ingress::{Event, look, watch};
use forebay_serve::token::Hash;
use forebay_test_support::namespace::{Namespace, run, within};
use forebay_test_support::{Need, has_root, skip};

const TIMEOUT: Duration = Duration::from_secs(60);
const PLACES: [&str; 6] = ["source", "in", "left", "right", "out", "users"];
/// The wires, with the numbers of their networks.
const WIRES: [(&str, &str, u8); 6] = [
    ("source", "in", 1),
    ("in", "left", 2),
    ("in", "right", 3),
    ("left", "out", 4),
    ("right", "out", 5),
    ("out", "users", 6),
];
/// The way over `left` is the shortest.
const TOPOLOGY: &str = r#"{"directed": false,
"nodes": [{"id": 1, "label": "in"}, {"id": 2, "label": "left", "serves": false}, {"id": 3, "label": "right", "serves": false},
{"id": 4, "label": "out"}],
"links": [{"source": 1, "target": 2, "capacity": "10 Mbit/s"}, {"source": 2, "target": 4, "capacity": "10 Mbit/s"},
{"source": 1, "target": 3, "capacity": "10 Mbit/s", "metric": 2}, {"source": 3, "target": 4, "capacity": "10 Mbit/s", "metric": 2}]}"#;
/// The destinations in each family, over which the kernel spreads paths.
const USERS: u16 = 64;
/// The packets to each.
const PACKETS: usize = 16;
/// More packets than neighbour discovery sends.
const SOME: u64 = 64;

/// Namespaces with two ways from `in` to `out`, and segments at the routers.
struct Network {
    prefix: String,
    /// They go with this value.
    _namespaces: Vec<Namespace>,
}

impl Network {
    /// Returns `None` if this kernel has no SRv6.
    fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("fb-seg{}-{number}-", std::process::id());
        let namespaces = PLACES.map(|place| Namespace::new(format!("{prefix}{place}")));
        let network = Self { prefix, _namespaces: namespaces.into() };
        for place in PLACES {
            network.enter(place, || {
                let set = |key: &str, value| fs::write(format!("/proc/sys/net/{key}"), value);
                set("ipv4/ip_forward", "1").unwrap();
                set("ipv6/conf/all/forwarding", "1").unwrap();
                set("ipv6/conf/default/accept_dad", "0").unwrap();
                let _ = set("ipv6/conf/all/seg6_enabled", "1");
                let _ = set("ipv6/conf/default/seg6_enabled", "1");
            });
        }
        for (one, other, number) in WIRES {
            let far = network.name(other);
            network.ip(one, &format!("link add fb-{other} type veth peer fb-{one} netns {far}"));
            for (place, device, host) in [(one, other, 1), (other, one, 2)] {
                network.ip(place, &format!("addr add 10.0.{number}.{host}/30 dev fb-{device}"));
                network
                    .ip(place, &format!("addr add fd00:{number}::{host}/64 dev fb-{device} nodad"));
                network.ip(place, &format!("link set fb-{device} up"));
            }
        }
        // The routes of an IGP, along the shortest paths.
        for (place, next) in [("source", 1), ("in", 2), ("left", 4), ("right", 5), ("out", 6)] {
            network.ip(place, &format!("route add 192.0.2.0/24 via 10.0.{next}.2 metric 20"));
            network.ip(place, &format!("route add 2001:db8:1::/48 via fd00:{next}::2 metric 20"));
        }
        for (place, locator, next) in [("in", 3, 3), ("in", 4, 2), ("left", 4, 4), ("right", 4, 5)]
        {
            network.ip(place, &format!("route add fc00:{locator}::/64 via fd00:{next}::2"));
        }
        let local = "encap seg6local action";
        let segments = [
            ("right", format!("route add fc00:3::1/128 {local} End dev fb-in")),
            ("out", format!("route add fc00:4::6/128 {local} End.DT6 table main dev fb-left")),
            ("out", format!("route add fc00:4::4/128 {local} End.DX4 nh4 10.0.6.2 dev fb-left")),
        ];
        for (place, route) in segments {
            let there = Command::new("ip")
                .args(["-n", &network.name(place), "-6"])
                .args(route.split_whitespace())
                .output()
                .unwrap();
            if !there.status.success() {
                skip(Need::Kernel, "this one has no SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL)");
                return None;
            }
        }
        for user in 1..=USERS {
            network.ip("users", &format!("addr add 192.0.2.{user}/32 dev lo"));
            network.ip("users", &format!("addr add 2001:db8:1::{user:x}/128 dev lo nodad"));
        }
        Some(network)
    }

    fn name(&self, place: &str) -> String {
        format!("{}{place}", self.prefix)
    }

    fn ip(&self, place: &str, arguments: &str) -> String {
        run(&format!("ip -n {} {arguments}", self.name(place)))
    }

    fn enter<T: Send>(&self, place: &str, f: impl FnOnce() -> T + Send) -> T {
        within(&self.name(place), f)
    }

    fn linux(&self) -> Linux {
        Linux::in_namespace(&self.name("in"))
    }

    /// Returns the packets that came to `right` from `in`.
    fn over_right(&self) -> u64 {
        let text = self.ip("right", "-s -j link show dev fb-in");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        value[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
    }

    /// Sends packets to all users of a family, and waits until all have arrived. Returns those that
    /// came over `right`.
    fn send(&self, v6: bool) -> u64 {
        let before = self.over_right();
        let receiver = self.receiver(v6);
        self.enter("source", || {
            let socket = sender(v6);
            let mut buffer = [0; 200];
            // One after the other, since the kernel drops what exceeds its backlog of a CPU.
            for round in 0..PACKETS {
                for user in 1..=USERS {
                    socket.send_to(&[1; 100], user_address(v6, user)).unwrap();
                }
                for at in 0..USERS {
                    let received = receiver.recv(&mut buffer);
                    assert!(received.is_ok(), "{at} of {USERS} packets arrived in round {round}");
                }
            }
        });
        self.over_right() - before
    }

    /// A socket of the users.
    fn receiver(&self, v6: bool) -> UdpSocket {
        let address = if v6 { "[::]" } else { "0.0.0.0" };
        let port = port(v6);
        // A command that the client has just forked may hold the last socket until it executes.
        let socket = self.enter("users", || {
            let mut bound = None;
            until("the port is free", || {
                bound = UdpSocket::bind(format!("{address}:{port}")).ok();
                bound.is_some()
            });
            bound.unwrap()
        });
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    }
}

/// The port of a family: a socket of IPv6 takes packets of both.
fn port(v6: bool) -> u16 {
    9000 + u16::from(v6)
}

fn sender(v6: bool) -> UdpSocket {
    UdpSocket::bind(if v6 { "[::]:0" } else { "0.0.0.0:0" }).unwrap()
}

fn user_address(v6: bool, user: u16) -> SocketAddr {
    let address: IpAddr = match v6 {
        false => format!("192.0.2.{user}").parse().unwrap(),
        true => format!("2001:db8:1::{user:x}").parse().unwrap(),
    };
    (address, port(v6)).into()
}

fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !so() {
        assert!(Instant::now() < end, "{what}: not within {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A service, and the client's configuration.
struct Running {
    dir: PathBuf,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), forebay_serve::Error>>>,
    path: PathBuf,
}

impl Running {
    /// Starts a service for this demand, whose rounds come every second.
    fn start(name: &str, demand: &str, hold: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("fb-ingress-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        // A port that is free now.
        let at = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let hash = |token: &str| Hash::of(token.as_bytes()).to_string();
        let service = format!(
            "[serve]\nlisten = [\"{at}\"]\nstate = \"s.db\"\ntopology = \"t.json\"\n\
             providers = \"p.toml\"\nprefixes = \"x.csv\"\ndemands = \"d.csv\"\n\
             interval = \"1 s\"\n[operator]\ntoken = \"{}\"\n[routers]\ntoken = \"{}\"\n",
            hash("operator"),
            hash("routers")
        );
        let client = format!(
            "url = \"http://{at}\"\ntoken = \"token\"\nname = \"in\"\nhold = \"{hold}\"\n\
             [[router]]\nname = \"right\"\nend = \"fc00:3::1\"\n\
             [[router]]\nname = \"out\"\nend_dt6 = \"fc00:4::6\"\nend_dt4 = \"fc00:4::4\"\n"
        );
        for (file, text) in [
            ("t.json", TOPOLOGY),
            ("p.toml", "[[provider]]\nname = \"video\"\nentry = [{ router = \"in\" }]\n"),
            ("x.csv", "prefix,router\n192.0.2.0/24,out\n2001:db8:1::/48,out\n"),
            ("c.toml", &service),
            ("i.toml", &client),
            ("token", "routers"),
        ] {
            fs::write(dir.join(file), text).unwrap();
        }
        fs::set_permissions(dir.join("token"), Permissions::from_mode(0o600)).unwrap();
        let (stop, path) = (Stop::default(), dir.join("i.toml"));
        let mut running = Self { dir, stop: stop.clone(), thread: None, path };
        running.demand(demand);
        let config = running.dir.join("c.toml");
        running.thread = Some(thread::spawn(move || forebay_serve::run(&config, &stop)));
        until("the service listens", || TcpStream::connect(at).is_ok());
        running
    }

    fn demand(&self, demand: &str) {
        let text = format!("provider,entry,router,demand\nvideo,in,out,{demand}\n");
        let new = self.dir.join("d.new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.dir.join("d.csv")).unwrap();
    }

    fn config(&self) -> Config {
        Config::load(&self.path).unwrap()
    }

    fn end(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(matches!(ended, Ok(Ok(()))), "{ended:?}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().map(JoinHandle::join);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// A client in a thread, with all that it told.
struct Client {
    stopped: Arc<AtomicBool>,
    told: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    fn start(network: &Network, running: &Running) -> Self {
        let (stopped, told) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (linux, config, path) = (network.linux(), running.config(), running.path.clone());
        let (end, events): (_, Arc<Mutex<Vec<String>>>) = (stopped.clone(), Arc::clone(&told));
        let thread = thread::spawn(move || {
            let mut tell = |event: Event| {
                let text = match event {
                    Event::Done(change) => change.to_string(),
                    Event::Failed(change, why) => format!("cannot {change}: {why}"),
                    Event::Trouble(what) => what,
                };
                events.lock().unwrap().push(text);
            };
            let is_stopped = || end.load(Ordering::Relaxed);
            watch(&path, &config, &linux, false, &is_stopped, &mut tell).unwrap();
        });
        Self { stopped, told, thread: Some(thread) }
    }

    fn told(&self) -> Vec<String> {
        self.told.lock().unwrap().clone()
    }

    fn wait_for(&self, text: &str) {
        until(text, || self.told().iter().any(|line| line.contains(text)));
    }

    fn forget(&self) {
        self.told.lock().unwrap().clear();
    }

    fn stop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Ends what goes on while this is set, also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Everything of the kernel that the client must not touch.
fn others(network: &Network) -> String {
    ["-4 route", "-6 route", "nexthop"].map(|what| network.ip("in", what)).concat()
}

#[test]
fn packets_take_the_planned_paths_and_none_is_lost_when_they_move() {
    if !has_root() {
        return;
    }
    let Some(network) = Network::new() else { return };
    let before = others(&network);
    let running = Running::start("move", "15 Mbit/s", "60 s");
    for v6 in [false, true] {
        assert!(network.send(v6) < SOME, "the IGP's path is over left");
    }
    // A dry run says what would change, and changes nothing.
    let mut looked = None;
    until("the first round", || {
        looked = look(&running.config(), &network.linux()).ok();
        looked.is_some()
    });
    let changes: Vec<String> = looked.unwrap().changes.iter().map(ToString::to_string).collect();
    assert_eq!(changes.len(), 8, "two paths, a group and a route for each family: {changes:?}");
    assert_eq!(others(&network), before);

    let mut client = Client::start(&network, &running);
    client.wait_for("send 2001:db8:1::/48 to group");
    let reason = client.told().pop().unwrap();
    assert!(reason.contains("67 % in - left - out, 33 % in - right - out"), "{reason}");
    for v6 in [false, true] {
        let over = network.send(v6);
        assert!(over > SOME, "{over} packets came over right: {:#?}", client.told());
    }

    // Packets keep coming while the paths move.
    client.forget();
    let moving = AtomicBool::new(true);
    let receivers = [false, true].map(|v6| network.receiver(v6));
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            network.enter("source", || {
                let sockets = [false, true].map(sender);
                // The last packets follow the end, so that receivers that wait see it.
                let mut is_last = false;
                while !is_last {
                    is_last = !moving.load(Ordering::Relaxed);
                    let user = 1 + sent.load(Ordering::Relaxed) as u16 % USERS;
                    for (socket, v6) in sockets.iter().zip([false, true]) {
                        socket.send_to(&[2; 100], user_address(v6, user)).unwrap();
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_micros(500));
                }
            });
        });
        for receiver in &receivers {
            // It ends when all that was sent has arrived.
            scope.spawn(|| {
                let (mut buffer, mut arrived) = ([0; 200], 0);
                while moving.load(Ordering::Relaxed) || arrived < sent.load(Ordering::Relaxed) {
                    let received = receiver.recv(&mut buffer);
                    assert!(received.is_ok(), "{arrived} of {sent:?} packets arrived");
                    arrived += 1;
                }
            });
        }
        let _ends = Ends(&moving);
        running.demand("11.5 Mbit/s");
        client.wait_for("move 192.0.2.0/24 to group");
        client.wait_for("move 2001:db8:1::/48 to group");
        client.wait_for("remove group");
    });
    drop(receivers);

    // Without need for a second path, nothing is steered.
    running.demand("5 Mbit/s");
    client.wait_for("does not plan it");
    assert!(network.send(true) < SOME);
    client.stop();
    assert_eq!(others(&network), before, "nothing stays, and nothing else was touched");
}

#[test]
fn faults_return_traffic_to_the_igp() {
    if !has_root() {
        return;
    }
    let Some(network) = Network::new() else { return };
    let mut running = Running::start("faults", "15 Mbit/s", "10 s");
    let config = running.config();
    let state = || network.linux().read(config.protocol).unwrap();
    let steered = || state().routes.len();

    // What a killed client left behind is not this plan's.
    for line in [
        "-6 nexthop add id 228000000 encap seg6 mode encap segs fc00:4::6 dev lo protocol 228",
        "nexthop add id 228000001 group 228000000,100 protocol 228",
        "-6 route add 2001:db8:2::/48 nhid 228000001 metric 10 protocol 228",
    ] {
        network.ip("in", line);
    }
    // A route and an object of others.
    network.ip("in", "nexthop add id 228000002 via 10.0.2.2 dev fb-left protocol static");
    network.ip("in", "route add 192.0.2.0/24 via 10.0.3.2 metric 10 protocol static");
    let theirs = "192.0.2.0/24 via 10.0.3.2 dev fb-right proto static metric 10";
    let mut client = Client::start(&network, &running);
    client.wait_for("cannot send 192.0.2.0/24");
    client.wait_for("no longer steer 2001:db8:2::/48");
    assert_eq!(steered(), 1, "{:#?}", client.told());
    let has = |text: &str| {
        others(&network).split_whitespace().collect::<Vec<_>>().join(" ").contains(text)
    };
    assert!(has(theirs) && has("id 228000002 via 10.0.2.2"), "{}", others(&network));
    // When they remove it, the plan's route comes.
    network.ip("in", "route del 192.0.2.0/24 metric 10");
    until("both families", || steered() == 2);

    // The IGP loses a router.
    client.forget();
    network.ip("in", "-6 route del fc00:3::/64");
    client.wait_for("no longer steer 192.0.2.0/24 (segment fc00:3::1 cannot be reached)");
    until("nothing is steered", || state().is_empty());
    network.ip("in", "-6 route add fc00:3::/64 via fd00:3::2");
    until("it is back", || steered() == 2);

    // Someone removes a route.
    network.ip("in", "route del 192.0.2.0/24 metric 10");
    until("the route is back", || steered() == 2);

    // The service goes.
    client.forget();
    running.end();
    client.wait_for("no longer steer 192.0.2.0/24 (the service gave no answer for 10000 ms)");
    until("nothing is steered", || state().is_empty());
    assert!(network.send(false) < SOME);
    client.stop();
    assert!(has("id 228000002 via 10.0.2.2"), "{}", others(&network));
    let segments: BTreeSet<_> = ["fc00:3::1", "fd77::1"].map(|s| s.parse().unwrap()).into();
    assert_eq!(network.linux().reachable(&segments).unwrap().len(), 1);
}
