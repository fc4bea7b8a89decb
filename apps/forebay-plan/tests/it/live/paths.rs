//! `forebay plan paths` as a process: whoever is killed, no route stays.

use std::process::{Child, Command, Stdio};

use forebay_serve::token::Hash;
use forebay_test_support::Dir;
use forebay_test_support::process::until;
use forebay_test_support::{Need, has_root, skip};

const TOPOLOGY: &str = r#"{"directed": false,
"nodes": [{"id": 1, "label": "in"}, {"id": 2, "label": "left"}, {"id": 3, "label": "right"}, {"id": 4, "label": "out"}],
"links": [{"source": 1, "target": 2, "capacity": "10 Mbit/s"}, {"source": 2, "target": 4, "capacity": "10 Mbit/s"},
{"source": 1, "target": 3, "capacity": "10 Mbit/s", "metric": 2}, {"source": 3, "target": 4, "capacity": "10 Mbit/s", "metric": 2}]}"#;

fn ip(arguments: &str) -> Option<String> {
    let out = Command::new("ip").args(arguments.split_whitespace()).output().unwrap();
    out.status.success().then(|| String::from_utf8(out.stdout).unwrap())
}

/// A namespace, with the processes in it.
struct Place {
    name: String,
    running: Vec<Child>,
}

impl Drop for Place {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = ip(&format!("netns del {}", self.name));
    }
}

impl Place {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.name, env!("CARGO_BIN_EXE_forebay-plan")])
            .args(arguments);
        command
    }

    /// Starts a process; returns its number.
    fn start(&mut self, arguments: &[&str]) -> usize {
        let mut command = self.command(arguments);
        self.running.push(command.stdout(Stdio::null()).spawn().unwrap());
        self.running.len() - 1
    }

    /// Kills a process with SIGKILL, as `ip netns exec` becomes its command.
    fn kill(&mut self, number: usize) {
        self.running[number].kill().unwrap();
        self.running[number].wait().unwrap();
    }

    fn ours(&self) -> usize {
        let count = |what: &str| {
            let text = ip(&format!("-n {} {what} show protocol 228", self.name)).unwrap();
            text.lines().filter(|line| !line.starts_with(char::is_whitespace)).count()
        };
        count("route") + count("-6 route") + count("nexthop")
    }

    fn wait_for(&self, what: &str, count: usize) {
        until(&format!("{what}: {count} routes and objects"), || self.ours() == count);
    }
}

#[test]
fn whoever_is_killed_no_route_stays() {
    if !has_root() {
        return;
    }
    let name = format!("fb-paths-{}", std::process::id());
    let mut place = Place { name, running: Vec::new() };
    assert!(ip(&format!("netns add {}", place.name)).is_some());
    for line in
        ["link set lo up", "-6 route add fc00:3::/64 dev lo", "-6 route add fc00:4::/64 dev lo"]
    {
        assert!(ip(&format!("-n {} {line}", place.name)).is_some(), "{line}");
    }
    let probe = "-6 route add fc00:9::1/128 encap seg6 mode encap segs fc00:3::1 dev lo";
    if ip(&format!("-n {} {probe}", place.name)).is_none() {
        skip(Need::Kernel, "this one has no SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL)");
        return;
    }
    let dir = Dir::new("paths-kill");
    let hash = |token: &str| Hash::of(token.as_bytes()).to_string();
    let service = format!(
        "[serve]\nlisten = [\"127.0.0.1:8480\"]\nstate = \"s.db\"\ntopology = \"t.json\"\n\
         providers = \"p.toml\"\nprefixes = \"x.csv\"\ndemands = \"d.csv\"\n\
         [operator]\ntoken = \"{}\"\n[routers]\ntoken = \"{}\"\n",
        hash("operator"),
        hash("routers")
    );
    dir.file("t.json", TOPOLOGY, 0o644);
    let providers = "[[provider]]\nname = \"video\"\nentry = [{ router = \"in\" }]\n";
    dir.file("p.toml", providers, 0o644);
    dir.file("x.csv", "prefix,router\n192.0.2.0/24,out\n2001:db8:1::/48,out\n", 0o644);
    dir.file("d.csv", "provider,entry,router,demand\nvideo,in,out,15 Mbit/s\n", 0o644);
    dir.file("token", "routers", 0o600);
    let client = "url = \"http://127.0.0.1:8480\"\ntoken = \"token\"\nname = \"in\"\n\
                  [[router]]\nname = \"right\"\nend = \"fc00:3::1\"\n\
                  [[router]]\nname = \"out\"\nend_dt6 = \"fc00:4::6\"\nend_dt4 = \"fc00:4::4\"\n";
    let (service, client) =
        (dir.file("c.toml", &service, 0o644), dir.file("i.toml", client, 0o644));
    let serve = ["serve", "--config", service.to_str().unwrap()];
    let paths = ["paths", "--config", client.to_str().unwrap()];
    let watch = [&paths[..], &["--watch"]].concat();

    let serving = place.start(&serve);
    let watching = place.start(&watch);
    // Two paths and a group for each family, and two routes.
    place.wait_for("the paths", 8);
    let dry = place.command(&paths).output().unwrap();
    let text = String::from_utf8(dry.stdout).unwrap();
    assert!(text.starts_with("0 changes; 2 routes in round 1."), "{text}");
    let second = place.command(&watch).output().unwrap();
    let text = String::from_utf8(second.stderr).unwrap();
    assert!(text.contains("is in use by another running forebay process"), "{text}");

    // The client dies, and its supervisor cleans up.
    place.kill(watching);
    place.wait_for("the supervisor", 0);
    let dry = place.command(&[&paths[..], &["--json", "-"]].concat()).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&dry.stdout).unwrap();
    assert_eq!(value["changes"].as_array().unwrap().len(), 8, "{value}");

    // The service dies.
    let watching = place.start(&watch);
    place.wait_for("the paths again", 8);
    place.kill(serving);
    place.wait_for("silence", 0);

    // It comes back, and then the client is asked to end.
    place.start(&serve);
    place.wait_for("the paths of the new service", 8);
    let stopped = Command::new("kill").arg(place.running[watching].id().to_string()).status();
    assert!(stopped.unwrap().success());
    assert!(place.running[watching].wait().unwrap().success());
    assert_eq!(place.ours(), 0);
}
