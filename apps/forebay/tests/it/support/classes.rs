//! Three weighted classes of one bundle, over both dataplanes, and changes of their shares while
//! their queues are full.

use std::time::Instant;

use forebay_records::Status;

use super::weights::{Exactness, HOSTS, Net};
use crate::support::process::{self, Process};
use crate::support::transfer::Transfers;
use crate::support::{PROGRAM, until};

/// The bundle's rate in Mbit/s.
const RATE: f64 = 24.0;
/// The length of a full frame over that of its data.
const ON_WIRE: f64 = 1514.0 / 1448.0;

/// The keys of the shares of the three classes.
type Shares = [&'static str; 3];

/// A sendbox whose bundle has three classes, and their traffic.
struct Classes<'a> {
    net: &'a Net,
    /// The first line of the file's table.
    head: &'static str,
    exactness: Exactness,
    traffic: Vec<Transfers>,
}

impl<'a> Classes<'a> {
    /// Starts a sendbox and traffic of all classes.
    fn start(
        net: &'a Net,
        head: &'static str,
        shares: Shares,
        exactness: Exactness,
    ) -> (Self, Process) {
        let mut classes = Classes { net, head, exactness, traffic: Vec::new() };
        let file = classes.write(shares);
        let valid = net.ask(&format!("check {file}"));
        assert!(valid.contains("valid"), "{valid}");
        let log = net.dir.0.join("log");
        let process = process::start(&net.router, &["sendbox", "--config", &file], &log);
        let traffic = HOSTS[..3].iter().map(|host| Transfers::between(&net.from, &net.to, host, 3));
        classes.traffic = traffic.collect();
        (classes, process)
    }

    /// Writes the file. A class is known by its host, and the last one takes the rest.
    fn write(&self, shares: Shares) -> String {
        let prefixes: Vec<String> = HOSTS[..3].iter().map(|host| format!("{host}/32")).collect();
        let mut text = format!(
            "[sendbox]\n{}\noutside = \"fb-out\"\nlisten = \"10.9.9.1:28316\"\n\
             [[bundle]]\nname = \"p\"\nid = 1\nreceivebox = \"{}:28316\"\n\
             prefixes = {prefixes:?}\nkey_file = \"1.key\"\nceil = \"{RATE} Mbit/s\"\n\
             policy = \"weighted\"\n",
            self.head, HOSTS[0]
        );
        for (class, (prefix, keys)) in prefixes.iter().zip(shares).enumerate() {
            let lists =
                if class < 2 { format!("prefixes = [\"{prefix}\"]\n") } else { String::new() };
            text += &format!(
                "[[bundle.class]]\nname = \"c{class}\"\n{lists}{keys}\n\
                 policy = {{ kind = \"fifo\", limit = \"1250 packets\" }}\n"
            );
        }
        self.net.dir.file("box.toml", &text, 0o644).display().to_string()
    }

    /// Waits until all classes together have received `bytes` more, and returns the rate of each on
    /// the wire in Mbit/s.
    fn rates_of(&self, bytes: u64) -> Vec<f64> {
        let received = || self.traffic.iter().map(Transfers::received);
        let (start, before) = (Instant::now(), received().collect::<Vec<u64>>());
        let mut each = Vec::new();
        until("the classes send", || {
            each = received().zip(&before).map(|(now, then)| now - then).collect();
            each.iter().sum::<u64>() >= bytes
        });
        let rate = |bytes: &u64| *bytes as f64 * ON_WIRE * 8e-6 / start.elapsed().as_secs_f64();
        each.iter().map(rate).collect()
    }

    /// Checks that the classes have these rates in Mbit/s. They depend on what the bundle has,
    /// which is less than its rate where timers are late.
    fn check(&self, what: &str, wanted: impl Fn(f64) -> [f64; 3]) -> Vec<f64> {
        // The queues fill, or adjust to other shares.
        self.rates_of(self.exactness.bytes() / 6);
        let rates = self.rates_of(self.exactness.bytes());
        let all: f64 = rates.iter().sum();
        self.exactness.check_ceiling(what, all, RATE);
        self.exactness.check(what, &rates, &wanted(all));
        rates
    }

    fn status(&self) -> Status {
        let mut all: Vec<Status> = serde_json::from_str(&self.net.ask("status --json")).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    fn reload(&self, shares: Shares) -> String {
        self.write(shares);
        self.net.ask("reload")
    }

    /// Ends the traffic, and checks that what was sent has arrived.
    fn end(self) {
        for transfers in self.traffic {
            transfers.end();
        }
    }

    /// Checks that a change is refused with this text.
    fn refuses(&self, shares: Shares, text: &str) {
        self.write(shares);
        let refused = std::process::Command::new("ip")
            .args(["netns", "exec", &self.net.router.0, PROGRAM, "reload"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(text), "{refused:?}");
    }
}

/// The first class is guaranteed 12 Mbit/s, the second may have 3, and what is left is shared by
/// the weights 1 and 2 of the first and the third.
fn guarantee_and_ceiling(all: f64) -> [f64; 3] {
    let left = all - 15.0;
    [12.0 + left / 3.0, 3.0, left * 2.0 / 3.0]
}

/// The first class has a guarantee in Mbit/s, and all have the same weight.
fn above_guarantee(guarantee: f64, all: f64) -> [f64; 3] {
    let left = (all - guarantee) / 3.0;
    [guarantee + left, left, left]
}

/// Checks the shares of classes in user space.
pub(crate) fn share_in_user_space(exactness: Exactness) {
    let net = &Net::new("uc", false);
    let weights = ["weight = 1", "weight = 2", "weight = 3"];
    let (classes, mut process) = Classes::start(net, "inside = \"fb-in\"", weights, exactness);
    classes.check("weights 1, 2, 3", |all| [1.0, 2.0, 3.0].map(|w| all * w / 6.0));
    let said = classes.reload(["weight = 3", "weight = 2", "weight = 1"]);
    for text in ["class c0 weight 1 to 3", "class c2 weight 3 to 1"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    classes.check("weights 3, 2, 1", |all| [3.0, 2.0, 1.0].map(|w| all * w / 6.0));
    // Twelve are guaranteed. Of the others, the ceiling leaves all but three for weights 1 and 2.
    let said =
        classes.reload(["rate = \"12 Mbit/s\"", "weight = 9\nceil = \"3 Mbit/s\"", "weight = 2"]);
    assert!(said.contains("class c1 ceil none to 3.000 Mbit/s"), "{said}");
    let rates = classes.check("a guarantee and a ceiling", guarantee_and_ceiling);
    exactness.check_ceiling("the class with a ceiling", rates[1], 3.0);
    // Guarantees above the bundle's rate are refused, and nothing changes.
    let above = ["rate = \"12 Mbit/s\"", "rate = \"13 Mbit/s\"", "weight = 2"];
    classes.refuses(above, "add up to 25.000 Mbit/s");
    classes.traffic.iter().for_each(Transfers::go_on);
    let status = classes.status();
    assert_eq!(status.sends[0].dropped, Some(0), "no change lost a packet");
    if let Some(waits) = &status.sends[0].waits {
        let names: Vec<&str> = waits.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["c0", "c1", "c2"]);
    }
    // Without the box no packet passes the wire over AF_PACKET.
    classes.end();
    process.signal(libc::SIGTERM);
}

/// Checks the shares of classes over the kernel's queues.
pub(crate) fn share_over_kernel_queues(exactness: Exactness) {
    let net = &Net::new("kc", true);
    // Twelve are guaranteed. Of the others, the ceiling leaves all but three for weights 1 and 2.
    let first = ["rate = \"12 Mbit/s\"", "weight = 9\nceil = \"3 Mbit/s\"", "weight = 2"];
    let (classes, mut process) = Classes::start(net, "dataplane = \"kernel\"", first, exactness);
    let rates = classes.check("a guarantee and a ceiling", guarantee_and_ceiling);
    exactness.check_ceiling("the class with a ceiling", rates[1], 3.0);
    let said = classes.reload(["rate = \"6 Mbit/s\"", "weight = 1", "weight = 1"]);
    for text in ["class c0 rate 12.000 Mbit/s to 6.000 Mbit/s", "class c1 weight 9 to 1"] {
        assert!(said.contains(text), "{text}: {said}");
    }
    classes.check("half of the guarantee", |all| above_guarantee(6.0, all));
    classes.reload(["weight = 1", "weight = 2", "weight = 3"]);
    classes.check("weights 1, 2, 3", |all| [1.0, 2.0, 3.0].map(|w| all * w / 6.0));
    classes.reload(["rate = \"9 Mbit/s\"", "weight = 1", "weight = 1"]);
    classes.check("a first guarantee", |all| above_guarantee(9.0, all));
    let above = ["rate = \"12 Mbit/s\"", "rate = \"13 Mbit/s\"", "weight = 2"];
    classes.refuses(above, "add up to 25.000 Mbit/s");
    classes.traffic.iter().for_each(Transfers::go_on);
    classes.end();
    process.signal(libc::SIGTERM);
}
