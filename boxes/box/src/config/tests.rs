use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use forebay_config::{Limit, RateValue, parse};
use forebay_control::{ControllerKind, Detection};
use forebay_discipline::{Discipline, Kind, Profile, QueueOwner, Settings};
use forebay_tc::Features;
use forebay_units::{Bytes, Nanos, Rate};
use serde::Deserialize;

use super::bundle::{BundleTable, check_distinct};
use super::share::check_limit;
use super::*;

mod weighted;

/// A directory with a key, gone when the test is over.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("fb-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        generate_key(&[&path.join("key")]).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Deserialize)]
struct File {
    bundle: Vec<BundleTable>,
}

/// The bundles that `text` describes, or the error without the directory.
fn bundles(dir: &Dir, text: &str) -> Result<Vec<BundleConfig>, String> {
    bundles_of(dir, text, &QueueOwner::Forebay)
}

fn bundles_of(dir: &Dir, text: &str, owner: &QueueOwner) -> Result<Vec<BundleConfig>, String> {
    let listen: SocketAddr = "10.0.0.1:28316".parse().unwrap();
    let read = || -> Result<Vec<_>, ConfigError> {
        let (file, source) = parse::<File>(&dir.0.join("x.toml"), text)?;
        check_distinct(&source, &file.bundle)?;
        file.bundle.into_iter().map(|b| b.check(&source, "bundle", listen, owner, None)).collect()
    };
    read().map_err(|e| e.to_string().replace(&format!("{}/", dir.0.display()), ""))
}

const BUNDLE: &str = r#"[[bundle]]
name = "b"
id = 7
prefixes = ["10.2.0.0/16", "10.9.0.0/24"]
receivebox = "10.2.0.1:28317"
key_file = "key"
"#;

#[test]
fn addresses_that_cannot_work_are_refused() {
    let dir = Dir::new("addresses");
    for (was, is, expected) in [
        ("10.2.0.0/16", "10.2.3.4/16", "4: bundle.prefixes: \"10.2.3.4/16\" has bits beyond"),
        ("10.2.0.0/16", "::ffff:10.2.0.0/112", "4: bundle.prefixes: \"::ffff:10.2.0.0/112\" has"),
        ("10.2.0.0/16", "10.9.0.0/24", "4: bundle.prefixes: 10.9.0.0/24 stands twice"),
        (":28317", "", "5: bundle.receivebox: \"10.2.0.1\" lacks a port"),
        (":28317", ":0", "5: bundle.receivebox: \"10.2.0.1:0\" has no port"),
        ("10.2.0.1", "239.1.1.1", "5: bundle.receivebox: \"239.1.1.1:28317\" is a multicast"),
        ("10.2.0.1", "0.0.0.0", "5: bundle.receivebox: \"0.0.0.0:28317\" is no address of"),
        ("10.2.0.1", "[fe80::1]", "5: bundle.receivebox: \"[fe80::1]:28317\" lacks its"),
        ("10.2.0.1", "[2001:db8::1]", "5: bundle.receivebox: \"[2001:db8::1]:28317\" is no IPv4"),
        ("10.2.0.1", "no_host.invalid", "5: bundle.receivebox: the name \"no_host.invalid\""),
        ("10.2.0.1:28317", "10.0.0.1:28316", "5: bundle.receivebox: 10.0.0.1:28316 is this box"),
        ("id = 7", "id = 70000", "3: bundle.id: "),
        ("prefixes", "prefixs", "4: bundle.prefixs: unknown field `prefixs`"),
    ] {
        let said = bundles(&dir, &BUNDLE.replace(was, is)).unwrap_err();
        assert!(said.starts_with(&format!("x.toml:{expected}")), "{said}");
    }
}

#[test]
fn an_address_of_another_machine_is_not_listened_at() {
    let read = |address: &str| {
        #[derive(Deserialize)]
        struct File {
            listen: Spanned<HostAddress>,
        }
        let text = format!("listen = \"{address}\"\n");
        let (file, source) = parse::<File>(&PathBuf::from("x.toml"), text).unwrap();
        own(&source, "listen", &file.listen).map_err(|e| e.to_string())
    };
    assert!(read("127.0.0.1:28316").is_ok() && read("0.0.0.0:28316").is_ok());
    // RFC 5737 keeps these addresses for documentation.
    let said = read("192.0.2.77:28316").unwrap_err();
    assert_eq!(said, "x.toml:1: listen: this machine has no address 192.0.2.77 (`ip address`)");
}

/// A policy without classes and classifiers.
fn plain(discipline: Discipline) -> Policy {
    Policy { discipline, classes: vec![], classifiers: vec![] }
}

fn policy_of(dir: &Dir, rest: &str) -> Result<Policy, String> {
    Ok(bundles(dir, &format!("{BUNDLE}{rest}"))?.remove(0).policy)
}

#[test]
fn a_bundle_is_read_with_its_defaults() {
    let dir = Dir::new("bundle");
    let bundle = bundles(&dir, BUNDLE).unwrap().remove(0);
    assert_eq!((bundle.name.as_str(), bundle.id), ("b", 7));
    let prefixes: Vec<_> = bundle.prefixes.iter().map(ToString::to_string).collect();
    assert_eq!(prefixes, ["10.2.0.0/16", "10.9.0.0/24"]);
    assert_eq!(bundle.receivebox.to_string(), "10.2.0.1:28317");
    assert_eq!((bundle.min_rate, bundle.max_rate), (None, None));
    assert_eq!(bundle.policy, plain(Kind::Sfq.into()));
}

#[test]
fn policies_are_read() {
    let dir = Dir::new("policies");
    let ms = |n| Some(Nanos::from_millis(n));
    let none = Settings::default();
    let limited = |limit| Settings { limit: Some(limit), ..Settings::default() };
    let cases = [
        ("kind = \"fifo\"", Kind::Fifo, none),
        ("kind = \"fifo\", limit = \"1514 B\"", Kind::Fifo, limited(Limit::Bytes(Bytes(1514)))),
        (
            "kind = \"sfq\", limit = \"100 ms\", perturb = \"60 s\"",
            Kind::Sfq,
            Settings { perturb: ms(60_000), ..limited(Limit::Time(Nanos::from_millis(100))) },
        ),
        ("kind = \"fq_codel\"", Kind::FqCodel, none),
        (
            "kind = \"fq_codel\", limit = \"9 packets\", target = \"2 ms\", interval = \"40 ms\", \
             ecn = false",
            Kind::FqCodel,
            Settings {
                target: ms(2),
                interval: ms(40),
                ecn: Some(false),
                ..limited(Limit::Packets(9))
            },
        ),
        ("kind = \"pie\"", Kind::Pie, none),
        (
            "kind = \"pie\", limit = \"9 packets\", target = \"20 ms\", ecn = false",
            Kind::Pie,
            Settings { target: ms(20), ecn: Some(false), ..limited(Limit::Packets(9)) },
        ),
        ("kind = \"dualpi2\"", Kind::DualPi2, none),
        (
            "kind = \"dualpi2\", profile = \"paper\", limit = \"9 packets\", target = \"20 ms\", \
             coupling = 3",
            Kind::DualPi2,
            Settings {
                profile: Some(Profile::Paper),
                target: ms(20),
                coupling: Some(3.0),
                ..limited(Limit::Packets(9))
            },
        ),
    ];
    for (table, kind, settings) in cases {
        let policy = policy_of(&dir, &format!("policy = {{ {table} }}\n")).unwrap();
        assert_eq!(policy, plain(Discipline { kind, settings }), "{table}");
    }
}

#[test]
fn policies_of_the_kernel_s_are_read_where_it_has_them() {
    use forebay_tc::{CakeDiffserv, CakeFlows, Discipline as Kernel};
    let dir = Dir::new("kernel-policies");
    let ms = |n| Some(Nanos::from_millis(n));
    let cases = [
        ("kind = \"cake\"", Kernel::Cake { memory: None, rtt: None, flows: None, diffserv: None }),
        (
            "kind = \"cake\", limit = \"10 packets\", rtt = \"50 ms\", flows = \"dual-srchost\", \
             diffserv = \"besteffort\"",
            Kernel::Cake {
                memory: Some(Bytes(23_040)),
                rtt: ms(50),
                flows: Some(CakeFlows::DualSrchost),
                diffserv: Some(CakeDiffserv::Besteffort),
            },
        ),
        ("kind = \"fq_pie\"", Kernel::FqPie { limit: None, target: None, ecn: true }),
        (
            "kind = \"fq_pie\", limit = \"15140 B\", target = \"20 ms\", ecn = false",
            Kernel::FqPie { limit: Some(10), target: ms(20), ecn: false },
        ),
    ];
    let has = |kinds: &[&'static str]| QueueOwner::Kernel(Some(Features::of(kinds)));
    let paper = format!("{BUNDLE}policy = {{ kind = \"dualpi2\", profile = \"paper\" }}\n");
    assert!(bundles(&dir, &paper).is_ok());
    assert_eq!(
        bundles_of(&dir, &paper, &has(&["htb", "dualpi2"])).unwrap_err(),
        "x.toml:7: bundle.policy.profile: this goes with `dataplane = \"user\"`: the kernel's has one set \
         of parameters"
    );
    for (table, kernel) in cases {
        let text = format!("{BUNDLE}policy = {{ {table} }}\n");
        for owner in [has(&["htb", kernel.kind()]), QueueOwner::Kernel(None)] {
            let read = bundles_of(&dir, &text, &owner).unwrap().remove(0).policy;
            assert_eq!(read, plain(read.discipline));
            assert_eq!(read.discipline.to_tc(), Some(kernel));
        }
        let said = bundles_of(&dir, &text, &has(&["htb", "pfifo"])).unwrap_err();
        let expected = format!(
            "x.toml:7: bundle.policy.kind: this kernel has no queueing discipline {}: it has pfifo; \
             sfq works on every kernel",
            kernel.kind()
        );
        assert!(said.starts_with(&expected), "{said}");
        let said = bundles(&dir, &text).unwrap_err();
        let expected = format!(
            "x.toml:7: bundle.policy.kind: {} is a queue of the kernel's, which goes with \
             `dataplane = \"kernel\"`",
            kernel.kind()
        );
        assert!(said.starts_with(&expected), "{said}");
    }
    let class = format!(
        "{BUNDLE}policy = {{ kind = \"strict\" }}\n[[bundle.class]]\nname = \"c\"\n\
         policy = {{ kind = \"cake\" }}\n"
    );
    let said = bundles(&dir, &class).unwrap_err();
    assert!(said.starts_with("x.toml:10: bundle.class.policy.kind: cake is a queue"), "{said}");
    // What both have is refused where the kernel has neither it nor a stand-in.
    let pie = format!("{BUNDLE}policy = {{ kind = \"pie\" }}\n");
    let said = bundles_of(&dir, &pie, &has(&["htb", "pfifo"])).unwrap_err();
    assert!(said.starts_with("x.toml:7: bundle.policy.kind: this kernel has no"), "{said}");
    assert!(bundles_of(&dir, BUNDLE, &has(&["htb", "pfifo"])).is_ok(), "classes stand in for sfq");
}

#[test]
fn classes_are_read_in_order() {
    let dir = Dir::new("classes");
    let text = r#"policy = { kind = "strict" }
[[bundle.class]]
name = "voice"
dscp = [46, 34]
ports = [5060]
prefixes = ["10.2.9.0/24"]
vlans = [7]
policy = { kind = "fifo", limit = "50 packets" }
[[bundle.class]]
name = "rest"
"#;
    let policy = policy_of(&dir, text).unwrap();
    assert_eq!(policy.discipline, Kind::Strict.into());
    let voice = Class {
        name: "voice".to_owned(),
        matches: Match {
            dscp: vec![46, 34],
            ports: vec![5060],
            prefixes: vec!["10.2.9.0/24".parse().unwrap()],
            vlans: vec![7],
        },
        policy: Discipline::limited(Kind::Fifo, Some(Limit::Packets(50))),
        share: Share::default(),
    };
    let rest = Class {
        name: "rest".to_owned(),
        matches: Match::default(),
        policy: Kind::Sfq.into(),
        share: Share::default(),
    };
    assert_eq!(policy.classes, [voice, rest]);
}

#[test]
fn classifiers_of_dualpi2_are_read_in_order() {
    let dir = Dir::new("classifiers");
    let text = r#"policy = { kind = "dualpi2", queue_protection = true }
[[bundle.classifier]]
queue = "classic"
prefixes = ["10.2.9.0/24"]
ports = [443]
[[bundle.classifier]]
queue = "low_latency"
dscp = [46, 45]
vlans = [7, 4094]
"#;
    let policy = policy_of(&dir, text).unwrap();
    let prefixes = vec!["10.2.9.0/24".parse().unwrap()];
    let first = Match { prefixes, ports: vec![443], ..Match::default() };
    let second = Match { dscp: vec![46, 45], vlans: vec![7, 4094], ..Match::default() };
    let classifiers = vec![
        Classifier { queue: DualQueue::Classic, matches: first },
        Classifier { queue: DualQueue::LowLatency, matches: second },
    ];
    assert_eq!(policy.classifiers, classifiers);
    assert_eq!(policy.discipline.settings.queue_protection, Some(true));
    let without = policy_of(&dir, "policy = { kind = \"dualpi2\" }\n").unwrap();
    assert_eq!(without, plain(Kind::DualPi2.into()));
}

/// Over the kernel's queues there are no tags to be seen, and its DualPI2 goes by the ECN field.
#[test]
fn what_only_our_queues_can_tell_is_refused_over_the_kernel_s() {
    let dir = Dir::new("kernel-classifiers");
    let kernel = QueueOwner::Kernel(Some(Features::of(&["htb", "dualpi2", "pfifo"])));
    let dualpi2 = |rest: &str| format!("{BUNDLE}policy = {{ kind = \"dualpi2\"{rest} }}\n");
    let classifier = "[[bundle.classifier]]\nqueue = \"low_latency\"\ndscp = [46]\n";
    let vlan = "[[bundle.class]]\nname = \"a\"\nvlans = [7]\n[[bundle.class]]\nname = \"z\"\n";
    for (text, expected) in [
        (dualpi2("") + classifier, "9: bundle.classifier: goes with `dataplane = \"user\"`"),
        (
            dualpi2(", coupling = 3.0"),
            "7: bundle.policy.coupling: this goes with `dataplane = \"user\"`",
        ),
        (
            dualpi2(", base = \"curvy_red\""),
            "7: bundle.policy.base: this goes with `dataplane = \"user\"`",
        ),
        (
            dualpi2(", queue_protection = true"),
            "7: bundle.policy.queue_protection: this goes with `dataplane = \"user\"`",
        ),
        (
            format!("{BUNDLE}policy = {{ kind = \"strict\" }}\n{vlan}"),
            "10: bundle.class.vlans: go with `dataplane = \"user\"`",
        ),
    ] {
        let said = bundles_of(&dir, &text, &kernel).unwrap_err();
        assert!(said.starts_with(&format!("x.toml:{expected}")), "{said}");
        assert!(bundles(&dir, &text).is_ok(), "{text}");
    }
}

#[test]
fn policies_that_cannot_work_are_refused() {
    let dir = Dir::new("refused");
    let class = |keys: &str| {
        format!("policy = {{ kind = \"strict\" }}\n[[bundle.class]]\nname = \"c\"\n{keys}")
    };
    let policy = |table: &str| format!("policy = {{ {table} }}\n");
    let classifier = |kind: &str, keys: &str| {
        format!("policy = {{ kind = \"{kind}\" }}\n[[bundle.classifier]]\n{keys}")
    };
    let cases = [
        (
            policy("kind = \"fifo\", limit = \"0 packets\""),
            "7: bundle.policy.limit: nothing could wait",
        ),
        (policy("kind = \"fifo\", limit = \"0 ms\""), "7: bundle.policy.limit: nothing could wait"),
        (
            policy("kind = \"sfq\", limit = \"1000001 packets\""),
            "7: bundle.policy.limit: more than a million packets",
        ),
        (
            policy("kind = \"fifo\", limit = \"1513 B\""),
            "7: bundle.policy.limit: a full packet, 1514 B, would never get in",
        ),
        (
            policy("kind = \"dualpi2\", l4s_burst = \"0 ms\""),
            "7: bundle.policy.l4s_burst: must be above zero",
        ),
        (
            policy("kind = \"dualpi2\", l4s_burst = \"2 ms\""),
            "7: bundle.policy.l4s_burst: goes with `forebay link`, whose rate is known: a bundle's \
             rate changes",
        ),
        (
            class("policy = { kind = \"dualpi2\", l4s_burst = \"2 ms\" }\n"),
            "7: bundle.policy.l4s_burst: goes with `forebay link`, whose rate is known: a bundle's \
             rate changes",
        ),
        (
            policy("kind = \"dualpi2\", base = \"curvy_red\", target = \"9 ms\""),
            "7: bundle.policy.target: goes with base = \"pi2\"",
        ),
        (
            policy("kind = \"dualpi2\", range = \"90 ms\""),
            "7: bundle.policy.range: goes with base = \"curvy_red\"",
        ),
        (
            policy("kind = \"dualpi2\", base = \"pi2\", min_threshold = \"1 ms\""),
            "7: bundle.policy.min_threshold: goes with base = \"curvy_red\"",
        ),
        (
            policy("kind = \"dualpi2\", base = \"curvy_red\", range = \"0 ms\""),
            "7: bundle.policy.range: must be above zero",
        ),
        (
            policy("kind = \"pie\", base = \"curvy_red\""),
            "7: bundle.policy.base: this goes with kind = \"dualpi2\" only",
        ),
        (
            policy("kind = \"fifo\", perturb = \"1 s\""),
            "7: bundle.policy.perturb: this goes with kind = \"sfq\" only",
        ),
        (
            policy("kind = \"strict\", limit = \"9 packets\""),
            "7: bundle.policy.limit: each class has a limit of its own: set it there",
        ),
        (
            policy("kind = \"sfq\", perturb = \"0 s\""),
            "7: bundle.policy.perturb: must be above zero",
        ),
        (
            policy("kind = \"fq_codel\", target = \"0 ms\""),
            "7: bundle.policy.target: must be above zero",
        ),
        (
            policy("kind = \"fq_codel\", interval = \"5 s\""),
            "7: bundle.policy.interval: must be at most 4 s",
        ),
        (
            policy("kind = \"fq_codel\", target = \"101 ms\""),
            "7: bundle.policy.target: the target is above the interval",
        ),
        (
            policy("kind = \"fq_codel\", interval = \"4 ms\""),
            "7: bundle.policy.interval: the target is above the interval",
        ),
        (
            policy("kind = \"sfq\", target = \"5 ms\""),
            "7: bundle.policy.target: this goes with \"fq_codel\", \"pie\", \"fq_pie\" and \"dualpi2\" only",
        ),
        (
            policy("kind = \"pie\", profile = \"paper\""),
            "7: bundle.policy.profile: this goes with kind = \"dualpi2\" only",
        ),
        (
            policy("kind = \"dualpi2\", target = \"61 s\""),
            "7: bundle.policy.target: must be at most a minute",
        ),
        (
            policy("kind = \"fifo\", ecn = true"),
            "7: bundle.policy.ecn: this goes with \"fq_codel\", \"pie\" and \"fq_pie\" only",
        ),
        (
            policy("kind = \"pie\", interval = \"5 ms\""),
            "7: bundle.policy.interval: this goes with kind = \"fq_codel\" only",
        ),
        (
            policy("kind = \"cake\", target = \"5 ms\""),
            "7: bundle.policy.target: this goes with \"fq_codel\", \"pie\", \"fq_pie\" and \"dualpi2\" only",
        ),
        (
            policy("kind = \"fq_codel\", rtt = \"5 ms\""),
            "7: bundle.policy.rtt: this goes with kind = \"cake\" only",
        ),
        (policy("kind = \"cake\", rtt = \"0 ms\""), "7: bundle.policy.rtt: must be above zero"),
        (
            policy("kind = \"cake\", flows = \"all\""),
            "7: bundle.policy.flows: unknown variant `all`, expected one of `flowblind`, `srchost`, \
             `dsthost`, `hosts`, `flows`, `dual-srchost`, `dual-dsthost`, `triple-isolate`",
        ),
        (
            policy("kind = \"dualpi2\", target = \"61 s\""),
            "7: bundle.policy.target: must be at most a minute",
        ),
        (
            policy("kind = \"pie\", target = \"61 s\""),
            "7: bundle.policy.target: must be at most a minute",
        ),
        (
            "[[bundle.class]]\nname = \"c\"\n".to_owned(),
            "8: bundle.class: classes go with policy = { kind = \"strict\" } or \"weighted\"",
        ),
        (
            classifier("sfq", "queue = \"classic\"\ndscp = [46]\n"),
            "9: bundle.classifier: classifiers go with policy = { kind = \"dualpi2\" } only",
        ),
        (
            classifier("dualpi2", "queue = \"classic\"\n"),
            "9: bundle.classifier: needs dscp, ports, prefixes or vlans: without them it would take \
             everything",
        ),
        (
            classifier("dualpi2", "queue = \"fast\"\ndscp = [46]\n"),
            "9: bundle.classifier.queue: unknown variant `fast`, expected `low_latency` or `classic`",
        ),
        (
            classifier("dualpi2", "queue = \"classic\"\ndscp = [64]\n"),
            "10: bundle.classifier.dscp: 64 is no DSCP: 0 to 63",
        ),
        (
            classifier("dualpi2", "queue = \"classic\"\nvlans = [7, 4095]\n"),
            "10: bundle.classifier.vlans: 4095 is no VLAN: 1 to 4094",
        ),
        (
            policy("kind = \"dualpi2\", coupling = 0.9"),
            "7: bundle.policy.coupling: must be from 1 to 1000",
        ),
        (
            policy("kind = \"pie\", coupling = 2.0"),
            "7: bundle.policy.coupling: this goes with kind = \"dualpi2\" only",
        ),
        (
            policy("kind = \"pie\", queue_protection = true"),
            "7: bundle.policy.queue_protection: this goes with kind = \"dualpi2\" only",
        ),
        (class("dscp = [64]\n"), "10: bundle.class.dscp: 64 is no DSCP: 0 to 63"),
        (
            class("ports = [80]\n"),
            "9: bundle.class: the last class takes what no other takes: it has no dscp, ports, prefixes or vlans",
        ),
        (
            class("policy = { kind = \"strict\" }\n"),
            "10: bundle.class.policy: a class cannot have classes of its own",
        ),
        (
            class("policy = { kind = \"sfq\", limit = \"1 bdp\" }\n"),
            "10: bundle.class.policy.limit: the round trip is not known beforehand: give packets, \
             bytes or a time",
        ),
    ];
    for (text, expected) in cases {
        let said = policy_of(&dir, &text).unwrap_err();
        assert_eq!(said, format!("x.toml:{expected}"), "{text}");
    }
}

#[test]
fn a_controller_is_known_by_its_name() {
    let dir = Dir::new("controller");
    let with =
        |rest: &str| Ok::<_, String>(bundles(&dir, &format!("{BUNDLE}{rest}"))?[0].controller);
    assert_eq!(with(""), Ok(ControllerKind::Forebay));
    for kind in ControllerKind::ALL {
        assert_eq!(with(&format!("controller = \"{kind}\"\n")), Ok(kind));
    }
    let said = with("controller = \"cubic\"\n").unwrap_err();
    assert!(said.starts_with("x.toml:7: bundle.controller: unknown variant `cubic`"), "{said}");
}

#[test]
fn what_is_looked_for_can_be_switched_off() {
    let dir = Dir::new("detection");
    let with = |rest: &str| {
        let bundle = bundles(&dir, &format!("{BUNDLE}{rest}"))?.remove(0);
        Ok::<_, String>((bundle.cross_traffic, bundle.multipath))
    };
    assert_eq!(with(""), Ok((Detection::Ignore, Detection::Detect)));
    let on = with("cross_traffic = \"detect\"\n");
    assert_eq!(on, Ok((Detection::Detect, Detection::Detect)));
    let off = with("cross_traffic = \"detect\"\nmultipath = \"ignore\"\n");
    assert_eq!(off, Ok((Detection::Detect, Detection::Ignore)));
    let said = with("multipath = \"off\"\n").unwrap_err();
    assert!(said.starts_with("x.toml:7: bundle.multipath: unknown variant `off`"), "{said}");
}

#[test]
fn a_guard_needs_the_own_controller_without_detection() {
    let dir = Dir::new("guard");
    let with = |rest: &str| {
        bundles(&dir, &format!("{BUNDLE}{rest}")).map(|mut bundles| bundles.remove(0).guard)
    };
    assert_eq!(with(""), Ok(true));
    assert_eq!(with("guard = true\n"), Ok(true));
    assert_eq!(with("guard = false\n"), Ok(false));
    assert_eq!(with("controller = \"copa\"\n"), Ok(false));
    assert_eq!(with("guard = false\ncontroller = \"copa\"\n"), Ok(false));
    for rest in ["controller = \"copa\"\n", "cross_traffic = \"detect\"\n"] {
        let said = with(&format!("guard = true\n{rest}")).unwrap_err();
        let expected = "x.toml:7: bundle.guard: needs controller = \"forebay\"";
        assert!(said.starts_with(expected), "{said}");
    }
}

/// Also where only one of the two is given: what can be read can be run.
#[test]
fn rates_must_leave_room() {
    let dir = Dir::new("rates");
    let with = |rates: &str| bundles(&dir, &format!("{BUNDLE}{rates}"));
    let good = with("min_rate = \"1 Mbit/s\"\nmax_rate = \"1 Mbit/s\"\n").unwrap().remove(0);
    assert_eq!(
        (good.min_rate, good.max_rate),
        (Some(Rate::from_mbps(1)), Some(Rate::from_mbps(1)))
    );
    for (rates, expected) in [
        ("min_rate = \"0 bit/s\"\n", "7: bundle.min_rate: a rate of zero stops the bundle"),
        ("max_rate = \"0 bit/s\"\n", "7: bundle.max_rate: a rate of zero stops the bundle"),
        (
            "min_rate = \"2 Mbit/s\"\nmax_rate = \"1 Mbit/s\"\n",
            "8: bundle.max_rate: is below min_rate (2.000 Mbit/s)",
        ),
        ("max_rate = \"400 kbit/s\"\n", "7: bundle.max_rate: is below min_rate (500.000 kbit/s)"),
        (
            "min_rate = \"200 Gbit/s\"\n",
            "7: bundle.min_rate: is above max_rate (100000.000 Mbit/s)",
        ),
    ] {
        assert_eq!(with(rates).unwrap_err(), format!("x.toml:{expected}"));
    }
}

#[test]
fn a_receiveboxs_bundle_without_sources_is_warned_about() {
    let peer = |name: &str, sources: &[&str]| PeerConfig {
        name: name.to_owned(),
        id: 1,
        prefixes: vec!["10.2.0.0/16".parse().unwrap()],
        sources: sources.iter().map(|s| s.parse().unwrap()).collect(),
        sendbox: std::net::SocketAddr::from(([192, 0, 2, 1], 28316)).into(),
        key: Key::new([0; 32]),
    };
    let config = ReceiveboxConfig {
        interface: Netdev::find("lo").unwrap(),
        listen: "192.0.2.2:28317".parse().unwrap(),
        peers: vec![peer("open", &[]), peer("closed", &["10.1.0.0/16"])],
    };
    let warnings = config.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("bundle open: without `sources`"), "{warnings:?}");
}

/// Reads bundles below a common limit of 10 Mbit/s, if `limited`.
fn shared(dir: &Dir, text: &str, limited: bool) -> Result<Vec<Share>, String> {
    #[derive(Deserialize)]
    struct Limited {
        max_rate: Spanned<RateValue>,
        bundle: Vec<BundleTable>,
    }
    let listen: SocketAddr = "10.0.0.1:28316".parse().unwrap();
    let read = || -> Result<Vec<_>, ConfigError> {
        let text = format!("max_rate = \"10 Mbit/s\"\n{text}");
        let (file, source) = parse::<Limited>(&dir.0.join("x.toml"), text)?;
        let limit = limited.then_some(file.max_rate.get_ref().0);
        let check =
            |b: BundleTable| b.check(&source, "bundle", listen, &QueueOwner::Forebay, limit);
        let bundles = file.bundle.into_iter().map(check).collect::<Result<Vec<_>, _>>()?;
        check_limit(&source, "sendbox", Some(&file.max_rate), &bundles)?;
        Ok(bundles.into_iter().map(|bundle| bundle.share).collect())
    };
    read().map_err(|e| e.to_string().replace(&format!("{}/", dir.0.display()), ""))
}

#[test]
fn shares_of_a_common_limit_are_read_and_must_fit() {
    let dir = Dir::new("shares");
    let with = |keys: &str, limited| shared(&dir, &format!("{BUNDLE}{keys}"), limited);
    let mbps = |n| Some(Rate::from_mbps(n));
    assert_eq!(with("", true).unwrap(), [Share::default()]);
    let all = with("weight = 100\nrate = \"10 Mbit/s\"\nceil = \"10 Mbit/s\"\n", true).unwrap();
    assert_eq!(all, [Share { weight: 100, rate: mbps(10), ceil: mbps(10) }]);
    let alone = with("ceil = \"3 Mbit/s\"\n", false).unwrap();
    assert_eq!(alone, [Share { ceil: mbps(3), ..Share::default() }]);
    for (keys, limited, expected) in [
        ("weight = 0\n", true, "8: bundle.weight: 0 is no weight: 1 to 100"),
        ("weight = 101\n", true, "8: bundle.weight: 101 is no weight: 1 to 100"),
        (
            "weight = 2\n",
            false,
            "8: bundle.weight: divides a common limit: set max_rate in [sendbox]",
        ),
        (
            "rate = \"1 Mbit/s\"\n",
            false,
            "8: bundle.rate: divides a common limit: set max_rate in [sendbox]",
        ),
        (
            "rate = \"0 bit/s\"\n",
            true,
            "8: bundle.rate: a rate of zero guarantees nothing: remove it",
        ),
        ("ceil = \"0 bit/s\"\n", true, "8: bundle.ceil: a rate of zero stops the bundle"),
        (
            "rate = \"5 Mbit/s\"\nceil = \"4 Mbit/s\"\n",
            true,
            "8: bundle.rate: is above ceil (4.000 Mbit/s)",
        ),
        (
            "rate = \"11 Mbit/s\"\n",
            true,
            "1: sendbox.max_rate: is below the sum of all guaranteed rates (11.000 Mbit/s)",
        ),
    ] {
        assert_eq!(with(keys, limited).unwrap_err(), format!("x.toml:{expected}"));
    }
}
