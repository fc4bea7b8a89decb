//! Five peers of weights 1 to 5 below a common limit, over both dataplanes, and a change of the
//! weights while their queues are full.

use std::time::Instant;

use forebay_records::Status;
use forebay_test_support::Dir;
use forebay_test_support::namespace::{Namespace, run};

use crate::support::process;
use crate::support::transfer::Transfers;
use crate::support::{PROGRAM, until};

/// The addresses of the peers' hosts.
pub(crate) const HOSTS: [&str; 5] =
    ["10.9.9.11", "10.9.9.12", "10.9.9.13", "10.9.9.14", "10.9.9.15"];
/// How exactly shares are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Exactness {
    /// Of two shares, the one that is to be twice as large is larger: by a second or two of
    /// traffic.
    Order,
    /// Each share is right within 3 %: by ten seconds or more of traffic.
    Percent,
}

impl Exactness {
    /// Returns the bytes of a measurement.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Order => 3_000_000,
            Self::Percent => 40_000_000,
        }
    }

    /// Checks that a rate is not above its ceiling.
    pub(crate) fn check_ceiling(self, what: &str, rate: f64, ceiling: f64) {
        // In a second, a receiver may read what waited for it before.
        let holds = matches!(self, Self::Order) || rate <= ceiling * 1.01;
        assert!(holds, "{what}: {rate}, above {ceiling}");
    }

    /// Checks the rates of bundles or classes against those that are wanted.
    pub(crate) fn check(self, what: &str, rates: &[f64], wanted: &[f64]) {
        let ratios: Vec<f64> = rates.iter().zip(wanted).map(|(rate, w)| rate / w).collect();
        eprintln!("{what}: rates {rates:.3?}, of those wanted {ratios:.4?}");
        let holds = match self {
            Self::Order => {
                let both = || rates.iter().zip(wanted);
                both()
                    .all(|(rate, w)| both().all(|(other, least)| *w < 2.0 * least || rate > other))
            }
            Self::Percent => ratios.iter().all(|r| (r - 1.0).abs() < 0.03),
        };
        assert!(holds, "{what}: {rates:?}, not {wanted:?}");
    }
}

/// Hosts of a site, its box, and the hosts of all peers.
pub(crate) struct Net {
    pub(crate) from: Namespace,
    pub(crate) router: Namespace,
    pub(crate) to: Namespace,
    pub(crate) dir: Dir,
}

impl Net {
    /// Without `routed`, the box is a wire between two ports.
    pub(crate) fn new(name: &str, routed: bool) -> Self {
        let id = std::process::id();
        let [from, router, to] =
            ["a", "r", "b"].map(|n| Namespace::new(format!("fb-{name}{id}-{n}")));
        for (place, port) in [(&from, "fb-in"), (&to, "fb-out")] {
            let (place, router) = (&place.0, &router.0);
            run(&format!("ip -n {place} link add eth0 type veth peer name {port} netns {router}"));
            run(&format!("ip -n {place} link set eth0 up"));
            run(&format!("ip -n {router} link set {port} up"));
            // Over the kernel's queues super-packets stay.
            if !routed {
                let off = "tso off gso off gro off tx off rx off";
                run(&format!("ip netns exec {place} ethtool -K eth0 {off}"));
                run(&format!("ip netns exec {router} ethtool -K {port} {off}"));
            }
        }
        let add = |place: &Namespace, device: &str, address: &str| {
            run(&format!("ip -n {} address add {address} dev {device}", place.0));
        };
        HOSTS.iter().for_each(|host| add(&to, "eth0", &format!("{host}/24")));
        run(&format!("ip -n {} link set lo up", router.0));
        if routed {
            add(&from, "eth0", "10.9.1.2/24");
            add(&router, "fb-in", "10.9.1.1/24");
            add(&router, "fb-out", "10.9.9.1/24");
            run(&format!("ip netns exec {} sysctl -qw net.ipv4.ip_forward=1", router.0));
            run(&format!("ip -n {} route add default via 10.9.1.1", from.0));
            run(&format!("ip -n {} route add default via 10.9.9.1", to.0));
        } else {
            add(&from, "eth0", "10.9.9.2/24");
            add(&router, "lo", "10.9.9.1/32");
        }
        let dir = Dir::new(name);
        for peer in 1..=5 {
            run(&format!("{PROGRAM} keygen {}/{peer}.key", dir.0.display()));
        }
        Self { from, router, to, dir }
    }

    /// Writes a file with `head`, and a table `of` for each peer with its weight.
    fn write(&self, head: &str, of: &str, address: &str, weights: [u32; 5]) -> String {
        let mut text = head.to_owned();
        for (peer, (host, weight)) in (1..).zip(HOSTS.iter().zip(weights)) {
            let id = if of == "bundle" { format!("id = {peer}\n") } else { String::new() };
            text += &format!(
                "[[{of}]]\nname = \"p{peer}\"\n{id}prefixes = [\"{host}/32\"]\n\
                 {address} = \"{host}:28316\"\nkey_file = \"{peer}.key\"\nweight = {weight}\n"
            );
        }
        self.dir.file("box.toml", &text, 0o644).display().to_string()
    }

    pub(crate) fn ask(&self, command: &str) -> String {
        run(&format!("ip netns exec {} {PROGRAM} {command}", self.router.0))
    }

    /// The bytes that each bundle has sent.
    fn sent(&self) -> Vec<u64> {
        let all: Vec<Status> = serde_json::from_str(&self.ask("status --json")).unwrap();
        let [status] = all.as_slice() else { panic!("one process: {}", all.len()) };
        status.sends.iter().map(|send| send.bytes).collect()
    }

    /// Returns the rate of each bundle in bytes per second while all together send `bytes` more.
    ///
    /// It is the slope of the line of least squares through what the bundle has sent at all times.
    /// Between the ends alone, a super-packet of 64 KiB more or less is 2.5 % of what the least of
    /// 15 parts sends.
    fn rates(&self, bytes: u64) -> Vec<f64> {
        let (before, start) = (self.sent(), Instant::now());
        let mut samples: Vec<(f64, Vec<u64>)> = Vec::new();
        until("the bundles send", || {
            let sent = self.sent().iter().zip(&before).map(|(now, then)| now - then).collect();
            samples.push((start.elapsed().as_secs_f64(), sent));
            samples.len() > 2 && samples.last().unwrap().1.iter().sum::<u64>() >= bytes
        });
        let count = samples.len() as f64;
        let middle = samples.iter().map(|(time, _)| time).sum::<f64>() / count;
        let spread: f64 = samples.iter().map(|(time, _)| (time - middle).powi(2)).sum();
        let slope = |bundle: usize| {
            let of = |(time, sent): &(f64, Vec<u64>)| (time - middle) * sent[bundle] as f64;
            samples.iter().map(of).sum::<f64>() / spread
        };
        (0..before.len()).map(slope).collect()
    }

    /// Checks that the bundles share as `weights` say.
    fn check(&self, weights: [u32; 5], exactness: Exactness) {
        // The queues fill, or adjust to other weights.
        self.rates(exactness.bytes() / 8);
        let rates = self.rates(exactness.bytes());
        let part = rates.iter().sum::<f64>() / f64::from(weights.iter().sum::<u32>());
        let wanted = weights.map(|weight| f64::from(weight) * part);
        exactness.check(&format!("weights {weights:?}"), &rates, &wanted);
    }

    /// Runs a box and changes its file, whose head, tables and addresses are given.
    fn run(&self, role: &str, head: &str, of: &str, address: &str, exactness: Exactness) {
        let weights = [1, 2, 3, 4, 5];
        let file = self.write(head, of, address, weights);
        let valid = self.ask(&format!("check {file}"));
        assert!(valid.contains("valid"), "{valid}");
        let log = self.dir.0.join("log");
        let mut process = process::start(&self.router, &[role, "--config", &file], &log);
        let all = HOSTS.map(|host| Transfers::between(&self.from, &self.to, host, 3));
        self.check(weights, exactness);
        let reversed = [5, 4, 3, 2, 1];
        self.write(&head.replace("32 Mbit/s", "40 Mbit/s"), of, address, reversed);
        let applied = self.ask("reload");
        for text in ["max_rate of all: 32.000 Mbit/s to 40.000 Mbit/s", "p1: weight 1 to 5"] {
            assert!(applied.contains(text), "{text}: {applied}");
        }
        self.check(reversed, exactness);
        all.iter().for_each(Transfers::go_on);
        // A guarantee above the limit is refused, and nothing changes.
        let text = std::fs::read_to_string(&file).unwrap();
        self.dir.file("box.toml", &format!("{text}rate = \"41 Mbit/s\"\n"), 0o644);
        let refused = std::process::Command::new("ip")
            .args(["netns", "exec", &self.router.0, PROGRAM, "reload"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("guaranteed"), "{refused:?}");
        self.check(reversed, exactness);
        // Without the box no packet passes the wire over AF_PACKET.
        for transfers in all {
            transfers.end();
        }
        process.signal(libc::SIGTERM);
    }
}

/// Checks the shares of a site's peers over the kernel's queues.
pub(crate) fn share_over_kernel_queues(exactness: Exactness) {
    let net = Net::new("kw", true);
    let head = "[site]\ninterface = \"fb-out\"\nlisten = \"10.9.9.1:28316\"\n\
                max_rate = \"32 Mbit/s\"\n";
    net.run("site", head, "peer", "address", exactness);
}

/// Checks the shares of a sendbox's bundles in user space.
pub(crate) fn share_in_user_space(exactness: Exactness) {
    let net = Net::new("uw", false);
    let head = "[sendbox]\ninside = \"fb-in\"\noutside = \"fb-out\"\n\
                listen = \"10.9.9.1:28316\"\nmax_rate = \"32 Mbit/s\"\n";
    net.run("sendbox", head, "bundle", "receivebox", exactness);
}
