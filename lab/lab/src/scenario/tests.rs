use std::path::Path as FilePath;

use forebay_control::ControllerKind;
use forebay_sim::{Capacity, Loss, Pattern};
use forebay_units::{Bytes, Nanos, Rate};

use super::*;
use crate::workload::Arrivals;

mod faults;
mod paths;
mod traffic;

const MINIMAL: &str = r#"name = "x"
duration = "10 s"
[path]
rate = "96 Mbit/s"
rtt = "50 ms"
queue = { kind = "fifo", limit = "2 bdp" }
[[traffic]]
name = "bulk"
kind = "bulk"
[[arm]]
name = "status_quo"
sendbox = "forward"
"#;

fn error(text: &str) -> String {
    parse(FilePath::new("x.toml"), text).unwrap_err().to_string()
}

#[test]
fn the_demo_is_as_described() {
    let demo = parse(FilePath::new("demo.toml"), DEMO).unwrap();
    assert_eq!((demo.seeds.as_slice(), demo.cells.len()), (&[1][..], 1));
    let cell = &demo.cells[0];
    assert_eq!(cell.path, Path { rate: Rate::from_mbps(96), rtt: Nanos::from_millis(50) });
    assert_eq!(cell.measured(), Nanos::from_secs(5)..Nanos::from_secs(45));
    let TrafficKind::Requests { requests, .. } = &cell.traffic[0].kind else { panic!("requests") };
    assert_eq!((requests.load_bps, requests.connections), (48_000_000, 200));
    assert_eq!((requests.max_size, requests.balanced), (20_000_000, true));
    requests.schedule(1, 0, cell.length(), cell.measured()).unwrap();
    let cubic = Transport::Tcp(Congestion::Cubic);
    assert_eq!(cell.traffic[1].kind, TrafficKind::Bulk { flows: 1, transport: cubic });
    let arms: Vec<_> = cell.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(arms, ["status_quo", "in_network_sfq", "forebay_sfq", "forebay_fifo"]);
    let bottleneck: Vec<_> = cell.arms.iter().map(|arm| arm.queue.kind).collect();
    assert_eq!(bottleneck, [QueueKind::Fifo, QueueKind::Sfq, QueueKind::Fifo, QueueKind::Fifo]);
    assert_eq!(cell.arms[0].queue.limit_bytes(&cell.path), Bytes(1_200_000));
    assert_eq!(cell.arms[0].sendbox, Sendbox::Forward);
    assert!(matches!(cell.arms[2].sendbox, Sendbox::Bundle(b) if b.queue.kind == QueueKind::Sfq));
}

#[test]
fn a_grid_is_a_cross_product() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/bundler/estimates.toml");
    let estimates = load(FilePath::new(file)).unwrap();
    let paths: Vec<_> = estimates.cells.iter().map(|cell| cell.path.to_string()).collect();
    assert_eq!(paths.len(), 9);
    assert_eq!((paths[0].as_str(), paths[8].as_str()), ("24 Mbit/s, 20 ms", "96 Mbit/s, 100 ms"));
    for cell in &estimates.cells {
        let TrafficKind::Requests { requests, .. } = &cell.traffic[1].kind else { panic!() };
        assert_eq!(requests.load_bps, cell.path.rate.as_bps() / 4, "a share follows the rate");
    }
}

#[test]
fn other_axes_label_their_cells() {
    let text = MINIMAL
        .replace("queue = { kind = \"fifo\", limit = \"2 bdp\" }", "")
        .replace("kind = \"bulk\"", "kind = \"bulk\"\nwindow = 90")
        + r#"[grid]
queue = [{ kind = "fifo", limit = "1 bdp" }, { kind = "codel", limit = "1 MB", by = "kernel", ecn = true }]
flows = [1, 10]
congestion = ["reno", "fixed"]
"#;
    let cells = parse(FilePath::new("x.toml"), &text).unwrap().cells;
    let names: Vec<_> = cells.iter().map(Scenario::cell).collect();
    assert_eq!(names.len(), 8);
    assert_eq!(names[0], "96 Mbit/s, 50 ms, reno, 1 flow, fifo 1 bdp");
    assert_eq!(names[7], "96 Mbit/s, 50 ms, fixed, 10 flows, codel 1000000 B with ecn by kernel");
    let bulk =
        |flows, congestion| TrafficKind::Bulk { flows, transport: Transport::Tcp(congestion) };
    assert_eq!(cells[0].traffic[0].kind, bulk(1, Congestion::Reno));
    assert_eq!(cells[7].traffic[0].kind, bulk(10, Congestion::Fixed { window: 90 }));
    assert_eq!((cells[7].arms[0].queue.by, cells[7].arms[0].queue.ecn), (Maker::Kernel, true));
    assert_eq!((cells[0].arms[0].queue.by, cells[0].arms[0].queue.ecn), (Maker::Forebay, false));
}

#[test]
fn a_bundle_has_the_controller_that_its_arm_names() {
    let with = |rest: &str| {
        let table = format!("{{ policy = \"sfq\", limit = \"9 packets\"{rest} }}");
        let text = MINIMAL.replace("\"forward\"", &table);
        let mut cells = parse(FilePath::new("x.toml"), &text).map_err(|e| e.to_string())?.cells;
        let Sendbox::Bundle(bundle) = cells.remove(0).arms[0].sendbox else { panic!("a bundle") };
        Ok::<_, String>(bundle.controller)
    };
    assert_eq!(with(""), Ok(ControllerKind::Forebay));
    for kind in ControllerKind::ALL {
        assert_eq!(with(&format!(", controller = \"{kind}\"")), Ok(kind));
    }
    let said = with(", controller = \"vegas\"").unwrap_err();
    assert!(said.contains("x.toml:12: arm.sendbox.controller: unknown variant `vegas`"), "{said}");
}

const L4S: &str = r#"name = "x"
duration = "9 s"
[path]
rate = "40 Mbit/s"
rtt = "5 ms"
queue = { kind = "dualpi2", profile = "paper", limit = "40000 packets" }
[grid]
mix = [[1, 1], [1, 10]]
rtts = [["5 ms", "5 ms"], ["5 ms", "100 ms"]]
load = ["50 Mbit/s"]
[[traffic]]
name = "l4s"
kind = "bulk"
congestion = "dctcp_exact"
ecn = "ect1"
[[traffic]]
name = "udp"
kind = "cbr"
ecn = "ect1"
[[traffic]]
name = "classic"
kind = "bulk"
ecn = "ect0"
[[arm]]
name = "a"
sendbox = "forward"
[[arm]]
name = "fq"
sendbox = "forward"
queue = { kind = "fq_codel", l4s_threshold = "1 ms", limit = "1000 packets" }
"#;

#[test]
fn defaults_are_filled_in() {
    let cell = parse(FilePath::new("x.toml"), MINIMAL).unwrap().cells.remove(0);
    assert_eq!((cell.ip, cell.warmup, cell.cooldown), (IpVersion::V4, Nanos::ZERO, Nanos::ZERO));
    let bulk = &cell.traffic[0];
    assert_eq!((bulk.start, bulk.stop), (Nanos::ZERO, Nanos::from_secs(10)));
    assert_eq!(bulk.from, Origin::Site(0));
}

#[test]
fn all_kinds_of_traffic_are_read() {
    let text = MINIMAL.to_owned()
        + r#"[[traffic]]
name = "quic"
kind = "bulk"
transport = "udp"
flows = 2
from = "cross"
start = "2 s"
stop = "8 s"
[[traffic]]
name = "loops"
kind = "udp_rr"
flows = 10
[[traffic]]
name = "cbr"
kind = "cbr"
rate = "50 %"
size = "1000 B"
"#;
    let cell = parse(FilePath::new("x.toml"), &text).unwrap().cells.remove(0);
    let kinds: Vec<_> = cell.traffic.iter().skip(1).map(|t| t.kind.clone()).collect();
    assert_eq!(
        kinds,
        [
            TrafficKind::Bulk { flows: 2, transport: Transport::Udp },
            TrafficKind::UdpRr { flows: 10 },
            TrafficKind::Datagrams(Pattern::Constant {
                rate: Rate::from_mbps(48),
                size: Bytes(1000),
            }),
        ]
    );
    assert_eq!(cell.traffic[1].from, Origin::Cross);
    assert_eq!(cell.traffic[1].stop, Nanos::from_secs(8));
}

#[test]
fn many_flows_or_a_long_run_keep_figures() {
    let with = |records: &str, duration: &str, flows: u32| {
        let text = MINIMAL.replace("\"10 s\"", &format!("\"{duration}\""));
        let text = text.replace("kind = \"bulk\"", &format!("kind = \"bulk\"\nflows = {flows}"));
        parse("x.toml".as_ref(), &format!("{records}\n{text}"))
    };
    let said =
        |given: Result<Experiment, forebay_config::ConfigError>| given.unwrap_err().to_string();
    assert_eq!(
        said(with("", "21 s", 100_000)),
        "x.toml:8: traffic.flows: 100000 flows for 21.000 s have 21000000 states, one every \
         100.000 ms, 20000000 are allowed: say records = \"figures\", which keeps none"
    );
    let long = said(with("", "14400 s", 1));
    assert!(long.contains("packets, 100000000 are allowed"), "{long}");
    let figures = "records = \"figures\"";
    for (duration, flows) in [("21 s", 100_000), ("14400 s", 1)] {
        let made = with(figures, duration, flows).unwrap();
        assert_eq!(made.cells[0].records, Records::Figures);
        assert_eq!(made.cells[0].flows(), u64::from(flows));
    }
}

/// Each change of the minimal file with the expected error.
#[test]
fn invalid_experiments_are_refused() {
    let bulk = "kind = \"bulk\"";
    let cases = [
        ("\"96 Mbit/s\"", "\"0 Mbit/s\"", "x.toml:4: path.rate: must be above zero"),
        ("\"50 ms\"", "\"50 s\"", "x.toml:5: path.rtt: must be at most 2 s"),
        ("rtt = \"50 ms\"\n", "", "x.toml:3: path.rtt: missing: give rtt here or in [grid]"),
        (
            "[[traffic]]",
            "[grid]\nrtt = [\"1 ms\"]\n[[traffic]]",
            "x.toml:5: path.rtt: stands here and in [grid]: remove one",
        ),
        (
            "\"96 Mbit/s\"",
            "\"1000000 Gbit/s\"",
            "x.toml:4: path.rate: 10.000 s at 1000000000.000 Mbit/s are 825627476882 packets, \
             100000000 are allowed: lower the rate or the duration, or in the simulator say \
             records = \"figures\"",
        ),
        ("\"10 s\"", "\"0 s\"", "x.toml:2: duration: must be above zero"),
        (
            "name = \"x\"",
            "name = \"a b\"",
            "x.toml:1: name: must be 1 to 40 letters, digits, '-' or '_'",
        ),
        ("name = \"x\"", "name = \"x\"\nip = 5", "x.toml:2: ip: must be 4 or 6"),
        (
            "name = \"x\"",
            "name = \"x\"\nseeds = [1, 1]",
            "x.toml:2: seeds: must hold at least one seed, and none twice",
        ),
        (
            "\"2 bdp\"",
            "\"1 kB\"",
            "x.toml:6: path.queue.limit: is 1000 B here (96 Mbit/s, 50 ms): it must hold 1 to \
             1000000 packets",
        ),
        (
            "\"forward\"",
            "\"froward\"",
            "x.toml:12: arm.sendbox: invalid value: string \"froward\", expected \"forward\" or a \
             table such as { policy = \"sfq\", limit = \"2000 packets\" }",
        ),
        (
            "\"forward\"",
            "{ policy = \"sfq\", limit = \"0 packets\" }",
            "x.toml:12: arm.sendbox.limit: is 0 B here (96 Mbit/s, 50 ms): it must hold 1 to \
             1000000 packets",
        ),
        (
            "[[arm]]",
            "[[arm]]\nname = \"status_quo\"\nsendbox = \"forward\"\n[[arm]]",
            "x.toml:14: arm.name: \"status_quo\" stands twice: names must differ",
        ),
        (
            bulk,
            "kind = \"bulk\"\nload = \"1 Mbit/s\"",
            "x.toml:10: traffic.load: not a key of \"bulk\" traffic, which has: flows, transport, \
             congestion, window, ecn, rtt",
        ),
        (bulk, "kind = \"bulk\"\nflows = 0", "x.toml:10: traffic.flows: must be 1 to 100000"),
        (
            bulk,
            "kind = \"bulk\"\nflows = 100000\n[[traffic]]\nname = \"rr\"\nkind = \"udp_rr\"",
            "x.toml:11: traffic.flows: 100001 flows of all traffic, 100000 are allowed",
        ),
        (
            "name = \"x\"",
            "name = \"x\"\nrecords = \"none\"",
            "x.toml:2: records: unknown variant `none`, expected `all` or `figures`",
        ),
        (
            bulk,
            "kind = \"bulk\"\nstop = \"11 s\"",
            "x.toml:10: traffic.stop: traffic must start before it stops, within the run of 10.000 s",
        ),
        (
            bulk,
            "kind = \"requests\"",
            "x.toml:7: traffic.load: missing: this traffic needs it, as \"48 Mbit/s\" or \"50 %\"",
        ),
        (
            bulk,
            "kind = \"requests\"\nload = \"101 %\"",
            "x.toml:7: traffic.load: the requests offer 96.960 Mbit/s to a path of 96.000 Mbit/s: \
             at most the path's rate is allowed",
        ),
        (
            bulk,
            "kind = \"requests\"\nload = \"x %\"",
            "x.toml:10: traffic.load: \"x %\" is not a share such as \"50 %\"",
        ),
        (
            bulk,
            "kind = \"requests\"\nload = \"50 %\"\nsizes = \"none.csv\"",
            "x.toml:11: traffic.sizes: none.csv: cannot be read: No such file or directory (os error 2)",
        ),
        (
            bulk,
            "kind = \"requests\"\nload = \"50 %\"\nsizes = \"/dev/zero\"",
            "x.toml:11: traffic.sizes: /dev/zero: is no regular file: copy what it holds into one",
        ),
        (
            bulk,
            "kind = \"requests\"\nload = \"50 %\"\nmax_size = \"0 B\"",
            "x.toml:11: traffic.max_size: is below every size of the distribution: raise it",
        ),
        (
            bulk,
            "kind = \"cbr\"\nrate = \"2 Gbit/s\"",
            "x.toml:10: traffic.rate: is 2000.000 Mbit/s: must be above zero and at most ten times \
             96.000 Mbit/s",
        ),
        (
            bulk,
            "kind = \"bulk\"\ntransport = \"udp\"\ncongestion = \"bbr\"",
            "x.toml:11: traffic.congestion: over UDP there is \"prague\", or nothing: remove it",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(MINIMAL.contains(from), "{from}");
        assert_eq!(error(&MINIMAL.replacen(from, to, 1)), expected);
    }
    let (head, _) = MINIMAL.split_once("[[arm]]").unwrap();
    assert_eq!(error(head), "x.toml:1: arm: missing: an experiment needs at least one [[arm]]");
}

#[test]
fn a_program_of_others_takes_the_sendboxs_place() {
    let own = |arm: &str| {
        let text = format!("{DEMO}[[arm]]\nname = \"others\"\n{arm}\n");
        parse("/bin/demo.toml".as_ref(), &text)
    };
    let arm = own(r#"program = ["sh", "-c", "true"]"#).unwrap().cells[0].arms.pop().unwrap();
    assert_eq!(arm.sendbox, Sendbox::Forward);
    assert!(arm.program[0].starts_with('/') && arm.program[1..] == ["-c", "true"], "{arm:?}");
    for (wrong, says) in [
        ("program = []", "arm.program: needs the path of a program"),
        (r#"program = ["no-such-program"]"#, "no-such-program: No such file"),
        ("program = [\"sh\"]\nsendbox = \"forward\"", "arm.sendbox: `program` stands in"),
    ] {
        let error = own(wrong).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn bounds_of_a_bundles_rate_are_read_and_checked() {
    let own = "policy = \"fifo\", limit = \"1000 packets\"";
    assert!(L4S.contains("[[arm]]"));
    let with = |rates: &str| {
        let arm = format!("[[arm]]\nname = \"box\"\nsendbox = {{ {own}{rates} }}\n");
        format!("{L4S}\n{arm}")
    };
    let bounds = |rates: &str| {
        let cell = parse("x.toml".as_ref(), &with(rates)).unwrap().cells.remove(0);
        let Sendbox::Bundle(bundle) = cell.arms[2].sendbox else { panic!("a bundle") };
        (bundle.min_rate.map(Rate::as_bps), bundle.max_rate.map(Rate::as_bps))
    };
    assert_eq!(bounds(""), (None, None));
    assert_eq!(bounds(", max_rate = \"9 Mbit/s\""), (None, Some(9_000_000)));
    let both = ", min_rate = \"1 Mbit/s\", max_rate = \"1 Mbit/s\"";
    assert_eq!(bounds(both), (Some(1_000_000), Some(1_000_000)));
    for (rates, expected) in [
        (", max_rate = \"0 bit/s\"", "arm.sendbox.max_rate: a rate of zero stops the bundle"),
        (", max_rate = \"400 kbit/s\"", "arm.sendbox.max_rate: is below min_rate (500.000 kbit/s)"),
        (", min_rate = \"0 bit/s\"", "arm.sendbox.min_rate: a rate of zero stops the bundle"),
        (", min_rate = \"200 Gbit/s\"", "arm.sendbox.min_rate: is above max_rate"),
    ] {
        let said = error(&with(rates));
        assert!(said.contains(expected), "{said}");
    }
}
