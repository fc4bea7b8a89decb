//! Four routers with FRR in namespaces, and what their metrics must do with any protocol.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use forebay_plan::network::{Demand, Entry, Network, Provider};
use forebay_plan::topology::{LinkId, RouterId};
use forebay_serve::igp::config::Config;
use forebay_serve::igp::{How, Made, Session, apply, look, withdraw};
use forebay_test_support::namespace::{Namespace, run, within};
use forebay_test_support::{Need, has_root, skip};
use forebay_units::Rate;

const TIMEOUT: Duration = Duration::from_secs(60);
/// The names of the routers.
pub(crate) const PLACES: [&str; 4] = ["a", "b", "c", "d"];
/// The wires with the metrics of both ends. The way over `b` is the shortest.
const WIRES: [(usize, usize, u32); 4] = [(0, 1, 10), (1, 3, 10), (0, 2, 15), (2, 3, 15)];
const TOPOLOGY: &str = r#"{"directed": false,
"nodes": [{"id": 1, "label": "a"}, {"id": 2, "label": "b"}, {"id": 3, "label": "c"},
{"id": 4, "label": "d"}],
"links": [{"source": 1, "target": 2, "capacity": "50 Mbit/s", "metric": 10},
{"source": 2, "target": 4, "capacity": "50 Mbit/s", "metric": 10},
{"source": 1, "target": 3, "capacity": "100 Mbit/s", "metric": 15},
{"source": 3, "target": 4, "capacity": "100 Mbit/s", "metric": 15}]}"#;
/// The users behind `d`, in both families.
const USERS: [&str; 2] = ["192.0.2.0/24", "2001:db8:1::/64"];

/// Waits until something is so, and fails if it is not for long.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A protocol that the routers speak.
pub(crate) struct Protocol {
    /// The name, which is part of the namespaces' names.
    pub(crate) name: &'static str,
    /// The daemons beside zebra.
    pub(crate) daemons: &'static [&'static str],
    /// Returns the configurations of these daemons at a router.
    pub(crate) configure: fn(usize) -> Vec<String>,
    /// Lines of the file of routers, before the first.
    pub(crate) file: &'static str,
    /// Lines of each router in that file.
    pub(crate) router: &'static str,
}

impl Protocol {
    /// Returns all daemons of a router, in the order of their start.
    fn daemons(&self) -> impl Iterator<Item = &'static str> {
        ["zebra"].into_iter().chain(self.daemons.iter().copied())
    }
}

/// Four routers with FRR in namespaces.
pub(crate) struct Lab {
    /// The directory with the routers' sockets.
    dir: PathBuf,
    protocol: &'static Protocol,
    prefix: String,
    daemons: Vec<(usize, Child)>,
    /// They go with this value, after the daemons.
    _namespaces: Vec<Namespace>,
}

impl Drop for Lab {
    fn drop(&mut self) {
        for (_, daemon) in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Lab {
    /// Starts the routers; `None` if this machine cannot.
    pub(crate) fn start(protocol: &'static Protocol) -> Option<Self> {
        if !has_root() {
            return None;
        }
        if !protocol.daemons().all(|d| program(d).exists())
            || Command::new("vtysh").arg("-h").output().is_err()
        {
            skip(Need::Program, "FRR is not installed; `make test-bgp` installs it");
            return None;
        }
        // Tests of one process run side by side.
        static LABS: AtomicUsize = AtomicUsize::new(0);
        let lab = LABS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("fb-{}{}-{lab}", protocol.name, std::process::id());
        let dir = std::env::temp_dir().join(&prefix);
        fs::create_dir_all(&dir).unwrap();
        let namespaces = PLACES.map(|place| Namespace::new(format!("{prefix}{place}")));
        let daemons = Vec::new();
        let mut lab = Self { dir, protocol, prefix, daemons, _namespaces: namespaces.into() };
        for place in PLACES {
            lab.enter(place, || {
                for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                    fs::write(format!("/proc/sys/net/{key}"), "1").unwrap();
                }
                fs::write("/proc/sys/net/ipv6/conf/default/accept_dad", "0").unwrap();
            });
        }
        for (number, (one, other, _)) in WIRES.iter().enumerate() {
            let (one, other) = (PLACES[*one], PLACES[*other]);
            let (near, far) = (lab.name(one), lab.name(other));
            run(&format!("ip -n {near} link add fb-{other} type veth peer fb-{one} netns {far}"));
            for (name, device, host) in [(&near, other, 0), (&far, one, 1)] {
                run(&format!("ip -n {name} addr add 10.0.{number}.{host}/31 dev fb-{device}"));
                run(&format!("ip -n {name} link set fb-{device} up"));
            }
        }
        let d = lab.name("d");
        run(&format!("ip -n {d} link add fb-users type veth peer fb-host"));
        for words in ["addr add 192.0.2.1/24", "addr add 2001:db8:1::1/64", "link set up"] {
            run(&format!("ip -n {d} {words} dev fb-users"));
        }
        run(&format!("ip -n {d} link set fb-host up"));
        for number in 0..PLACES.len() {
            lab.start_router(number);
        }
        Some(lab)
    }

    fn name(&self, place: &str) -> String {
        format!("{}{place}", self.prefix)
    }

    fn enter<T: Send>(&self, place: &str, f: impl FnOnce() -> T + Send) -> T {
        within(&self.name(place), f)
    }

    /// Starts the daemons of a router.
    fn start_router(&mut self, number: usize) {
        let (place, dir) = (PLACES[number], self.dir.join(PLACES[number]));
        fs::create_dir_all(&dir).unwrap();
        let texts = [vec![String::new()], (self.protocol.configure)(number)].concat();
        for (daemon, text) in self.protocol.daemons().zip(texts) {
            fs::write(dir.join(format!("{daemon}.conf")), text).unwrap();
        }
        // The daemons give up root's rights.
        let owned = Command::new("chown").args(["-R", "frr:frr"]).arg(&dir).status().unwrap();
        assert!(owned.success());
        for daemon in self.protocol.daemons() {
            let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &self.name(place)]).arg(program(daemon));
            command.args(["-u", "frr", "-g", "frr", "-P", "0", "--log", "stdout"]);
            command.args(["-f", &file(&format!("{daemon}.conf")), "-i", &file(daemon)]);
            command.args(["-z", &file("zserv.api"), "--vty_socket", dir.to_str().unwrap()]);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            self.daemons.push((number, command.spawn().unwrap()));
            // The others connect to zebra.
            until(daemon, || dir.join(format!("{daemon}.vty")).exists());
        }
    }

    /// Kills a daemon of a router.
    fn kill(&mut self, number: usize, at: usize) {
        let mut own = self.daemons.iter_mut().filter(|(router, _)| *router == number);
        let (_, daemon) = own.nth(at).unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Kills the daemons of a router that still run, and starts all.
    fn restart(&mut self, number: usize) {
        for at in 0..self.protocol.daemons().count() {
            self.kill(number, at);
        }
        self.daemons.retain(|(router, _)| *router != number);
        for daemon in self.protocol.daemons() {
            let _ = fs::remove_file(self.dir.join(PLACES[number]).join(format!("{daemon}.vty")));
        }
        self.start_router(number);
    }

    /// Runs lines of the shell at a router, which must accept them.
    pub(crate) fn shell(&self, place: &str, lines: &[&str]) -> String {
        let mut command = Command::new("vtysh");
        command.arg("--vty_socket").arg(self.dir.join(place));
        for line in lines {
            command.args(["-c", line]);
        }
        let out = command.output().unwrap();
        assert!(out.status.success(), "{place}: {lines:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// The neighbours to which `a` sends what goes to the users, by family.
    pub(crate) fn ways(&self) -> Vec<String> {
        let next = |(prefix, family): (&str, &str)| {
            let text = run(&format!("ip -n {} -j {family} route show {prefix}", self.name("a")));
            let value: serde_json::Value = serde_json::from_str(text.trim()).unwrap_or_default();
            value[0]["dev"].as_str().unwrap_or("none").to_owned()
        };
        USERS.into_iter().zip(["-4", "-6"]).map(next).collect()
    }

    fn configurations(&self) -> Vec<String> {
        PLACES.iter().map(|place| self.shell(place, &["show running-config"])).collect()
    }

    /// Returns the file of routers.
    pub(crate) fn config(&self) -> Config {
        let mut text = "journal = \"journal\"\nsettle = \"200 ms\"\n".to_owned();
        text += self.protocol.file;
        for (number, place) in PLACES.iter().enumerate() {
            let dir = self.dir.join(place);
            let vtysh = ["vtysh", "--vty_socket", dir.to_str().unwrap()];
            text += &format!("[[router]]\nname = \"{place}\"\nvtysh = {vtysh:?}\n");
            text += self.protocol.router;
            for (to, _) in neighbours(number) {
                let to = PLACES[to];
                text += &format!("[[router.link]]\nto = \"{to}\"\ninterface = \"fb-{to}\"\n");
            }
        }
        let path = self.dir.join("routers.toml");
        fs::write(&path, text).unwrap();
        Config::load(&path).unwrap()
    }
}

/// Debian's directory of the daemons is not in `PATH`.
fn program(daemon: &str) -> PathBuf {
    Path::new("/usr/lib/frr").join(daemon)
}

/// Returns the network of the routers, with traffic that the links to `b` cannot carry.
pub(crate) fn network() -> Network {
    Network {
        topology: forebay_plan::input::topology("t.json".as_ref(), TOPOLOGY).unwrap(),
        providers: vec![Provider {
            name: "video".to_owned(),
            participates: true,
            weight: 1.0,
            entries: vec![Entry { router: RouterId(0), capacity: None }],
        }],
        demands: vec![Demand {
            provider: 0,
            entry: 0,
            egress: RouterId(3),
            rate: Rate::from_mbps(80),
        }],
        avoided: Default::default(),
    }
}

/// Returns the neighbours of a router, with the metric of each link.
pub(crate) fn neighbours(number: usize) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    for (one, other, metric) in WIRES {
        for (from, to) in [(one, other), (other, one)] {
            if from == number {
                found.push((to, metric));
            }
        }
    }
    found
}

/// Metrics that are carried out move routes of real routers. They survive the end of a daemon, and
/// everything is as before when they are withdrawn.
pub(crate) fn metrics_move_routes_and_are_withdrawn(protocol: &'static Protocol) {
    let Some(mut lab) = Lab::start(protocol) else { return };
    until(protocol.name, || lab.ways() == ["fb-b", "fb-b"]);
    let (config, network) = (lab.config(), network());
    let session = Session { config: &config, network: &network };
    let first = lab.configurations();
    // Longer over `b`, in both directions; the other metrics are as they are.
    let metric = |id: u32| {
        let link = network.topology.link(LinkId(id));
        let between = |a, b| (link.from, link.to) == (RouterId(a), RouterId(b));
        if between(0, 1) || between(1, 0) { 40 } else { link.metric }
    };
    let links = network.topology.links().len() as u32;
    let wanted: Vec<(LinkId, u32)> = (0..links).map(|id| (LinkId(id), metric(id))).collect();

    let looked = look(&session, &wanted).unwrap();
    assert_eq!(looked.differing, Vec::<String>::new());
    assert_eq!(session.fullest(&looked.order.before), "the fullest link has 160 % (a - b)");
    assert_eq!(looked.order.steps.len(), 2, "{looked:?}");
    assert_eq!(lab.configurations(), first, "a look changes nothing");

    let mut told = Vec::new();
    let how = How { reason: "a test", anyway: false, now: 0 };
    apply(&session, &looked, how, &|| false, &mut |made: Made| told.push(made.text)).unwrap();
    assert!(told[0].starts_with("a to b (fb-b): 10 to 40; the fullest link has 80 %"), "{told:?}");
    until("the other way", || lab.ways() == ["fb-c", "fb-c"]);
    assert!(look(&session, &wanted).unwrap().order.steps.is_empty(), "nothing is left to do");

    // A router that does not answer ends a look, and nothing changes.
    lab.kill(1, 1);
    let error = look(&session, &wanted).unwrap_err().to_string();
    assert!(error.starts_with("b: "), "{error}");
    let error = withdraw(&session, &|| false, &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("b: "), "{error}");
    lab.restart(1);

    // The router that started again has its stored metric, and the others are brought back.
    until("it answers", || look(&session, &wanted).is_ok());
    let differs = look(&session, &wanted).unwrap().order.steps.len();
    assert_eq!(differs, 1, "the router that started again");
    withdraw(&session, &|| false, &mut |made| told.push(made.text)).unwrap();
    assert!(told.iter().any(|t| t.starts_with("a to b (fb-b): 40 to 10; ")), "{told:?}");
    until("the first way", || lab.ways() == ["fb-b", "fb-b"]);
    assert_eq!(lab.configurations(), first);
}
