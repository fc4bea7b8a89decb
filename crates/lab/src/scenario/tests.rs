use std::path::Path as FilePath;

use forebay_control::ControllerKind;
use forebay_sim::{Capacity, Loss, Pattern};
use forebay_units::{Bytes, Nanos, Rate};

use super::*;
use crate::workload::Arrivals;

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

const CONDITIONS: &str = r#"name = "x"
duration = "10 s"
sites = 2
ecn = true
[path]
rate = "96 Mbit/s"
rtt = "50 ms"
queue = { kind = "fifo", limit = "2 bdp" }
steps = [{ at = "4 s", rate = "48 Mbit/s" }]
loss = { begin = "0.1 %", end = "20 %" }
jitter = "2 ms"
spread = "packet"
[[path.way]]
rate = "24 Mbit/s"
[[path.way]]
rtt = "80 ms"
[[phase]]
name = "early"
stop = "3 s"
[[phase]]
name = "late"
[[traffic]]
name = "web"
kind = "requests"
arrivals = "closed"
new_connections = true
connections = 3
phase = "late"
[[traffic]]
name = "film"
kind = "video"
rate = "5 Mbit/s"
site = 2
[[traffic]]
name = "bursts"
kind = "on_off"
rate = "50 %"
on = "200 ms"
[[arm]]
name = "nested"
sendbox = { policy = "sfq", limit = "1000 packets" }
outer = { policy = "fifo", limit = "1 MB" }
"#;

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

const VOCABULARY: &str = r#"name = "x"
duration = "10 s"
[path]
rate = "96 Mbit/s"
rtt = "50 ms"
queue = { kind = "codel", limit = "99 packets", target = "100 ms", interval = "5 ms" }
[grid]
load = ["10 %", "24 Mbit/s"]
ways = [1, 4]
[[traffic]]
name = "web"
kind = "requests"
class = 2
[[traffic]]
name = "own"
kind = "requests"
load = "1 Mbit/s"
[[arm]]
name = "urgent"
sendbox = { policy = "strict", limit = "9 packets" }
"#;

#[test]
fn loads_ways_classes_and_targets_are_read() {
    let cells = parse(FilePath::new("x.toml"), VOCABULARY).unwrap().cells;
    let names: Vec<_> = cells.iter().map(Scenario::cell).collect();
    let path = "96 Mbit/s, 50 ms, load";
    assert_eq!(
        names,
        ["10 %, 1 way", "10 %, 4 ways", "24 Mbit/s, 1 way", "24 Mbit/s, 4 ways"]
            .map(|rest| format!("{path} {rest}"))
    );
    let load = |cell: &Scenario, n: usize| match &cell.traffic[n].kind {
        TrafficKind::Requests { requests, .. } => requests.load_bps,
        other => panic!("{other:?}"),
    };
    assert_eq!((load(&cells[0], 0), load(&cells[3], 0)), (9_600_000, 24_000_000));
    assert_eq!((load(&cells[0], 1), load(&cells[3], 1)), (1_000_000, 1_000_000));
    assert!(cells[0].conditions.ways.is_empty());
    let way = Path { rate: Rate::from_mbps(24), rtt: Nanos::from_millis(50) };
    assert_eq!(cells[1].conditions.ways, [way; 4]);
    assert_eq!((cells[0].classes(), cells[0].traffic[0].class), (2, 1));
    let arm = &cells[0].arms[0];
    assert!(matches!(arm.sendbox, Sendbox::Bundle(b) if b.queue.kind == QueueKind::Strict));
    assert_eq!(arm.queue.to_string(), "codel 99 packets target 100 ms interval 5 ms");
    let one = parse(FilePath::new("x.toml"), MINIMAL).unwrap().cells.remove(0);
    assert_eq!(one.classes(), 1);
}

/// Each change of that file with the expected error.
#[test]
fn invalid_loads_ways_classes_and_targets_are_refused() {
    let cases = [
        (
            "target = \"100 ms\"",
            "target = \"0 s\"",
            "6: path.queue.target: must be above zero, at most 4 s",
        ),
        (
            "interval = \"5 ms\"",
            "interval = \"5 s\"",
            "6: path.queue.interval: must be above zero, at most 4 s",
        ),
        ("\"codel\"", "\"pie\"", "6: path.queue.interval: is not of this kind of queue: remove it"),
        ("\"codel\"", "\"fifo\"", "6: path.queue.target: is not of this kind of queue: remove it"),
        (
            "\"codel\"",
            "\"strict\"",
            "6: path.queue.kind: is a policy of sendboxes: a bottleneck knows no classes",
        ),
        ("[1, 4]", "[0]", "9: path.ways: must be 1 to 64"),
        ("[grid]", "ways = 2\n[grid]", "7: path.ways: stands here and in [grid]: remove one"),
        (
            "[grid]",
            "[[path.way]]\n[grid]",
            "10: path.ways: there are [[path.way]] too: remove one of them",
        ),
        ("class = 2", "class = 0", "13: traffic.class: must be 1, the most urgent, to 8"),
        (
            "class = 2",
            "class = 2\nfrom = \"cross\"",
            "13: traffic.class: cross traffic passes no sendbox: remove it",
        ),
        ("\"24 Mbit/s\"", "\"much\"", "8: traffic.load: "),
    ];
    for (from, to, expected) in cases {
        assert!(VOCABULARY.contains(from), "{from}");
        let said = error(&VOCABULARY.replacen(from, to, 1));
        assert!(said.starts_with(&format!("x.toml:{expected}")), "{said}");
    }
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
fn mixes_round_trips_and_ecn_fields_are_read() {
    let cells = parse("x.toml".as_ref(), L4S).unwrap().cells;
    let labels: Vec<_> = cells.iter().map(|c| in_words(&c.labels)).collect();
    assert_eq!(labels[0], ", load 50 Mbit/s, 1-1 flows, 5-5 ms");
    assert_eq!(labels[3], ", load 50 Mbit/s, 1-10 flows, 5-100 ms");
    let [l4s, udp, classic] = &cells[3].traffic[..] else { panic!("three traffics") };
    let rtt = |t: &Traffic| t.rtt.map(Nanos::as_millis_f64);
    assert_eq!([rtt(l4s), rtt(udp), rtt(classic)], [Some(5.0), None, Some(100.0)]);
    assert!(matches!(classic.kind, TrafficKind::Bulk { flows: 10, .. }));
    assert_eq!([l4s.ecn, classic.ecn], [Some(EcnField::Ect1), Some(EcnField::Ect0)]);
    assert!(matches!(udp.kind, TrafficKind::Datagrams(_)));
    let [dual, fq] = &cells[0].arms[..] else { panic!("two arms") };
    assert_eq!(dual.queue.to_string(), "dualpi2 40000 packets as in the paper");
    assert_eq!(fq.queue.to_string(), "fq_codel 1000 packets l4s above 1 ms");
    let text = L4S.replacen("\"paper\"", "\"paper\", coupling = 1.64", 1);
    let coupled = parse("x.toml".as_ref(), &text).unwrap().cells[0].arms[0].queue;
    assert_eq!(coupled.to_string(), "dualpi2 40000 packets as in the paper k 1.64");
    let text = L4S.replacen("\"paper\"", "\"paper\", l4s_burst = \"2 ms\"", 1);
    let limited = parse("x.toml".as_ref(), &text).unwrap().cells[0].arms[0].queue;
    assert_eq!(limited.to_string(), "dualpi2 40000 packets as in the paper bursts of 2 ms");
}

/// Prague over UDP carries ECT(1).
#[test]
fn prague_over_udp_is_l4s_traffic() {
    let over = |keys: &str| L4S.replacen("congestion = \"dctcp_exact\"\necn = \"ect1\"", keys, 1);
    for keys in [
        "transport = \"udp\"\ncongestion = \"prague\"",
        "transport = \"udp\"\ncongestion = \"prague\"\necn = \"ect1\"",
    ] {
        let cell = parse("x.toml".as_ref(), &over(keys)).unwrap().cells.remove(1);
        assert!(matches!(
            cell.traffic[0].kind,
            TrafficKind::Bulk { flows: 1, transport: Transport::UdpPrague }
        ));
        assert!(cell.traffic[0].is_l4s());
    }
    let said = error(&over("transport = \"udp\"\ncongestion = \"prague\"\necn = \"ect0\""));
    assert!(said.starts_with("x.toml:16: traffic.ecn: Prague says \"ect1\""), "{said}");
}

#[test]
fn invalid_mixes_round_trips_and_ecn_fields_are_refused() {
    let cases = [
        (
            "[1, 10]]",
            "[1]]",
            "8: grid.mix: must have one for each \"bulk\" traffic, of which there are 2",
        ),
        ("[\"5 ms\", \"100 ms\"]]", "[\"5 ms\", \"1 ms\"]]", "9: traffic.rtt: must be 5.000 ms"),
        ("ecn = \"ect0\"", "ecn = \"ect1\"", "23: traffic.ecn: not with congestion = \"cubic\""),
        (
            "\"dctcp_exact\"",
            "\"prague\"\nflows = 2",
            "15: traffic.flows: stands here and in [grid] as `mix`",
        ),
        (
            "profile = \"paper\"",
            "ecn = false",
            "6: path.queue.ecn: dualpi2 always marks: remove it",
        ),
        (
            "profile = \"paper\"",
            "by = \"kernel\"",
            "6: path.queue.kind: only this project's can be had",
        ),
        (
            "kind = \"fq_codel\", l4s",
            "kind = \"sfq\", l4s",
            "30: arm.queue.l4s_threshold: is not of this kind",
        ),
        (
            "\"dualpi2\", profile",
            "\"codel\", profile",
            "6: path.queue.profile: is of this project's pie and dualpi2",
        ),
        (
            "profile = \"paper\"",
            "l4s_burst = \"0 ms\"",
            "6: path.queue.l4s_burst: must be above zero, at most 4 s",
        ),
        (
            "kind = \"fq_codel\", l4s_threshold",
            "kind = \"fq_codel\", l4s_burst",
            "30: arm.queue.l4s_burst: is not of this kind of queue",
        ),
        (
            "profile = \"paper\"",
            "base = \"curvy_red\", target = \"9 ms\"",
            "6: path.queue.target: is not of this kind of queue",
        ),
        (
            "profile = \"paper\"",
            "range = \"90 ms\"",
            "6: path.queue.range: is not of this kind of queue",
        ),
        (
            "kind = \"fq_codel\", l4s_threshold = \"1 ms\"",
            "kind = \"fq_codel\", base = \"curvy_red\"",
            "30: arm.queue.base: is of this project's dualpi2",
        ),
        (
            "profile = \"paper\"",
            "coupling = 0.9",
            "6: path.queue.coupling: is of this project's dualpi2, from 1 to 1000",
        ),
        (
            "kind = \"fq_codel\", l4s_threshold = \"1 ms\"",
            "kind = \"fq_codel\", coupling = 2.0",
            "30: arm.queue.coupling: is of this project's dualpi2",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(L4S.contains(from), "{from}");
        let said = error(&L4S.replacen(from, to, 1));
        assert!(said.starts_with(&format!("x.toml:{expected}")), "{said}");
    }
}

#[test]
fn paths_sites_and_phases_are_read() {
    let mut cell = parse(FilePath::new("x.toml"), CONDITIONS).unwrap().cells.remove(0);
    let ms = Nanos::from_millis;
    let Conditions { capacity, loss, jitter, ways, spread, .. } = &cell.conditions;
    let (fast, slow) = (Rate::from_mbps(96), Rate::from_mbps(48));
    assert_eq!(*capacity, Capacity::Steps(vec![(Nanos::ZERO, fast), (ms(4_000), slow)]));
    assert_eq!(*loss, Loss::Burst { begin: 0.001, end: 0.2 });
    assert_eq!((jitter.up_to, jitter.reorders, *spread), (ms(2), false, Spread::Packet));
    let ways: Vec<_> = ways.iter().map(Path::to_string).collect();
    assert_eq!(ways, ["24 Mbit/s, 50 ms", "96 Mbit/s, 80 ms"]);
    assert_eq!((cell.sites, cell.ecn), (2, true));
    assert_eq!((cell.paced, cell.largest_burst), (false, None));
    let paced = CONDITIONS.replace("ecn = true", "paced = true\nlargest_burst = 1");
    let paced = paced.replace("policy = \"fifo\"", "policy = \"pie\", target = \"5 ms\"");
    let paced = parse(FilePath::new("x.toml"), &paced).unwrap().cells.remove(0);
    assert_eq!((paced.ecn, paced.paced, paced.largest_burst), (false, true, Some(1)));
    assert_eq!(paced.arms[0].outer.map(|b| b.queue.target), Some(Some(ms(5))));
    assert_eq!(cell.phases[1], Phase { name: "late".into(), start: ms(3_000), stop: ms(10_000) });
    let TrafficKind::Requests { requests, .. } = &cell.traffic[0].kind else { panic!("requests") };
    assert_eq!((requests.arrivals, requests.new_connections), (Arrivals::Closed, true));
    assert_eq!((cell.traffic[0].start, cell.traffic[0].stop), (ms(3_000), ms(10_000)));
    assert_eq!(cell.traffic[1].from, Origin::Site(1));
    let size = Bytes(1_200);
    let film = Pattern::Video { rate: Rate::from_mbps(5), fps: 30, size };
    assert_eq!(cell.traffic[1].kind, TrafficKind::Datagrams(film));
    let bursts = Pattern::OnOff { rate: slow, size, on: ms(200), off: ms(1_000) };
    assert_eq!(cell.traffic[2].kind, TrafficKind::Datagrams(bursts));
    assert_eq!(cell.arms[0].outer.unwrap().queue.kind, QueueKind::Fifo);
    cell = cell.measured_for(ms(2_000));
    assert_eq!(cell.phases.len(), 1, "the second would begin after the end");
}

#[test]
fn a_trace_sets_the_rate_of_the_path() {
    let dir = std::env::temp_dir().join(format!("fb-trace-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("cell.trace"), "1\n2\n2\n4\n").unwrap();
    std::fs::write(dir.join("bad.trace"), "1\ntwo\n").unwrap();
    let with = |line: &str| {
        parse(&dir.join("x.toml"), &MINIMAL.replace("rate = \"96 Mbit/s\"", line))
            .map(|mut e| e.cells.remove(0))
    };
    let cell = with("trace = \"cell.trace\"").unwrap();
    assert!(matches!(cell.conditions.capacity, Capacity::Trace(_)));
    assert_eq!(cell.path.rate, Rate::from_bps(4 * 1504 * 8 * 250), "four chances in 4 ms");
    let bad = with("trace = \"bad.trace\"").unwrap_err().to_string();
    assert!(bad.contains("x.toml:4: path.trace:") && bad.contains("bad.trace:2:"), "{bad}");
    let both = with("trace = \"cell.trace\"\nrate = \"1 Mbit/s\"").unwrap_err().to_string();
    assert!(both.contains(":5: path.rate: the trace says"), "{both}");
    assert!(with("trace = \"none\"").is_err());
    let endless = with("trace = \"/dev/zero\"").unwrap_err().to_string();
    let expected =
        "x.toml:4: path.trace: /dev/zero: is no regular file: copy what it holds into one";
    assert!(endless.ends_with(expected), "{endless}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn policers_ways_back_and_paths_of_sites_are_read() {
    let with = |path: &str, rest: &str| {
        let text = MINIMAL.replace("[[traffic]]", &format!("{path}\n[[traffic]]")) + rest;
        parse(FilePath::new("x.toml"), &text).map(|mut e| e.cells.remove(0))
    };
    let policer = "policer = { rate = \"20 Mbit/s\", burst = \"60 kB\" }";
    let cell = with(policer, "").unwrap();
    assert_eq!((cell.path.rate, cell.highest_rate()), (Rate::from_mbps(20), Rate::from_mbps(20)));
    assert_eq!(cell.conditions.capacity, Capacity::Constant(Rate::from_mbps(96)));
    assert_eq!(cell.conditions.policer.unwrap().burst, Bytes(60_000));
    let cell = with("back = { rate = \"1 Mbit/s\", limit = \"20 packets\", loss = \"1 %\" }", "");
    let back =
        Back { rate: Some(Rate::from_mbps(1)), limit: Bytes(20 * 1_514), loss: Loss::Random(0.01) };
    assert_eq!(cell.unwrap().conditions.back, Some(back));
    let cell = with("[[site]]\nrtt = \"70 ms\"\n", "").unwrap();
    assert_eq!(cell.conditions.site_rtts, [Nanos::from_millis(70)]);
    for (path, rest, says) in [
        (
            "policer = { rate = \"0 bit/s\", burst = \"60 kB\" }",
            "",
            "path.policer.rate: must be above",
        ),
        (
            "policer = { rate = \"1 bit/s\", burst = \"1 kB\" }",
            "",
            "path.policer.burst: must be 1514 B",
        ),
        (&format!("ways = 2\n{policer}"), "", "path.policer: is of a path of one way"),
        ("back = {}", "", "path.back: has neither `rate` nor `loss`"),
        ("back = { limit = \"2 packets\" }", "", "path.back.limit: is of the queue at `rate`"),
        ("back = { rate = \"1 Mbit/s\", limit = \"2 B\" }", "", "path.back.limit: is 2 B here"),
        ("back = { rate = \"0 bit/s\" }", "", "path.back.rate: must be above zero"),
        ("back = { loss = \"100 %\" }", "", "path.back.loss: must be below 100 %"),
        ("[[site]]\n[[site]]", "", "site: there are only 1 `sites`"),
        ("[[site]]\nrtt = \"1 ms\"", "", "site.rtt: must be 50"),
        ("[[site]]", "[[fault]]\nat = \"1 s\"\nrtt = \"9 ms\"", "site: says how long"),
        ("", "start = \"1 s\"", "arm.start: is of a sendbox with a bundle"),
    ] {
        let error = with(path, rest).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn sites_may_have_ways_of_their_own() {
    let with = |sites: u32, ways: &str, rest: &str| {
        let text = MINIMAL.replacen("[path]", &format!("sites = {sites}\n[path]"), 1);
        let text = text.replacen("[[traffic]]", &format!("{ways}\n[[traffic]]"), 1) + rest;
        parse(FilePath::new("x.toml"), &text).map(|mut e| e.cells.remove(0))
    };
    let ways =
        "spread = \"site\"\n[[path.way]]\nrate = \"12 Mbit/s\"\n[[path.way]]\nrtt = \"70 ms\"\n";
    let cell = with(2, ways, "").unwrap();
    let Scenario { conditions, path, .. } = &cell;
    assert_eq!(conditions.spread, Spread::Site);
    let rtts = [0, 1].map(|site| conditions.site_rtt(site, path).as_millis_f64());
    assert_eq!(rtts, [50.0, 70.0]);
    assert_eq!(conditions.site_longer(1, path), Nanos::ZERO, "the way itself is longer");
    let cross = "[[traffic]]\nname = \"cross\"\nkind = \"bulk\"\nfrom = \"cross\"\n";
    let outer = "outer = { policy = \"fifo\", limit = \"9 packets\" }";
    for (sites, rest, says) in [
        (3, "", "path.spread: \"site\" needs a [[path.way]] for each site: there are 2 for 3"),
        (2, "[[site]]", "does not go with [[site]]"),
        (2, cross, "does not go with cross traffic"),
        (2, outer, "does not go with `outer` or `link`"),
    ] {
        let error = with(sites, ways, rest).unwrap_err().to_string();
        assert!(error.contains(says) && error.starts_with("x.toml:"), "{error}");
    }
}

#[test]
fn a_trace_of_delays_sets_the_round_trip_time() {
    let dir = std::env::temp_dir().join(format!("fb-delays-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("sky.delay"), "12\n7.5\n30\n").unwrap();
    std::fs::write(dir.join("bad.delay"), "12\n7,5\n").unwrap();
    let with = |line: &str| {
        parse(&dir.join("x.toml"), &MINIMAL.replace("rtt = \"50 ms\"", line))
            .map(|mut e| e.cells.remove(0))
    };
    let sky = "delay_trace = \"sky.delay\"";
    let cell = with(sky).unwrap();
    assert_eq!(cell.path.rtt, Nanos::from_millis(15), "twice the shortest");
    for (line, place, says) in [
        (
            "delay_trace = \"bad.delay\"".to_owned(),
            "x.toml:5: path.delay_trace:",
            "bad.delay:2: `7,5`",
        ),
        ("delay_trace = \"none\"".to_owned(), "x.toml:5: path.delay_trace:", "cannot be read"),
        (format!("{sky}\nrtt = \"50 ms\""), "x.toml:6: path.rtt:", "the delay_trace says"),
        (format!("ways = 2\n{sky}"), "x.toml:6: path.delay_trace:", "of one way"),
    ] {
        let error = with(&line).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(says), "{error}");
    }
    let text =
        MINIMAL.replace("rtt = \"50 ms\"", sky) + "[[fault]]\nat = \"1 s\"\nrtt = \"9 ms\"\n";
    let error = parse(&dir.join("x.toml"), &text).unwrap_err().to_string();
    assert!(error.contains("x.toml:5: path.delay_trace: says how long"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn invalid_values_are_refused_with_their_place() {
    for (from, to, line, what) in [
        ("sites = 2", "sites = 0", 3, "1 to 200"),
        ("site = 2", "site = 3", 33, "1 to 2"),
        ("{ at = \"4 s\"", "{ at = \"0 s\"", 9, "after the step before"),
        ("rate = \"48 Mbit/s\" }", "rate = \"0 Mbit/s\" }", 9, "above zero"),
        ("rate = \"96 Mbit/s\"", "rate = \"900 Gbit/s\"", 6, "packets"),
        ("end = \"20 %\"", "end = \"0 %\"", 10, "never end"),
        ("{ begin = \"0.1 %\", end = \"20 %\" }", "\"100 %\"", 10, "nothing would arrive"),
        ("rate = \"24 Mbit/s\"", "rate = \"0 bit/s\"", 14, "above zero"),
        ("stop = \"3 s\"", "stop = \"30 s\"", 19, "within the run"),
        ("phase = \"late\"", "phase = \"never\"", 28, "no [[phase]]"),
        ("connections = 3", "load = \"1 Mbit/s\"", 27, "closed loop"),
        ("rate = \"5 Mbit/s\"", "rate = \"5 Mbit/s\"\nfps = 0", 33, "1 to 1000"),
        ("on = \"200 ms\"", "on = \"0 s\"", 38, "at least 1 ms"),
        ("policy = \"fifo\"", "policy = \"codel\"", 42, "no policy"),
        ("policy = \"fifo\"", "policy = \"fifo\", target = \"5 ms\"", 42, "not of this kind"),
        ("policy = \"fifo\"", "policy = \"dualpi2\", target = \"5 s\"", 42, "at most 4 s"),
        ("kind = \"fifo\"", "kind = \"cake\"", 8, "only Linux has it"),
        ("kind = \"fifo\"", "kind = \"fifo\", ecn = true", 8, "never marks"),
        ("ecn = true", "largest_burst = 0", 4, "1 to 45 segments"),
    ] {
        assert!(CONDITIONS.contains(from), "{from}");
        let error = error(&CONDITIONS.replacen(from, to, 1));
        assert!(error.starts_with(&format!("x.toml:{line}: ")), "{to}: {error}");
        assert!(error.contains(what) && !error.contains('\n'), "{to}: {error}");
    }
}

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

const TWO_FAULTS: &str = r#"[[fault]]
process = "receivebox"
at = "6 s"
back = "9 s"
[[fault]]
process = "receivebox"
at = "2 s"
back = "5 s"
"#;

#[test]
fn faults_are_ordered_and_cut_with_the_run() {
    let secs = Nanos::from_secs;
    let fault = |at, back: Option<u64>| Fault {
        at: secs(at),
        kind: FaultKind::Killed { process: Process::Receivebox, back: back.map(secs) },
    };
    let text = MINIMAL.to_owned() + TWO_FAULTS;
    let cell = parse(FilePath::new("x.toml"), &text).unwrap().cells.remove(0);
    assert_eq!(cell.faults, [fault(2, Some(5)), fault(6, Some(9))]);
    let cut = |duration| cell.clone().measured_for(secs(duration)).faults;
    assert_eq!(cut(20), cell.faults);
    assert_eq!(cut(9), [fault(2, Some(5)), fault(6, None)], "it would be back when all is over");
    assert_eq!(cut(6), [fault(2, Some(5))]);
}

#[test]
fn invalid_faults_are_refused() {
    let cases = [
        (
            "\"receivebox\"",
            "\"link\"",
            "x.toml:14: fault.process: unknown variant `link`, expected `receivebox` or `sendbox`",
        ),
        ("\"6 s\"", "\"10 s\"", "x.toml:15: fault.at: must be within the run of 10.000 s"),
        (
            "\"9 s\"",
            "\"10 s\"",
            "x.toml:16: fault.back: must be after at = 6.000 s, within the run of 10.000 s",
        ),
        (
            "\"5 s\"",
            "\"2 s\"",
            "x.toml:20: fault.back: must be after at = 2.000 s, within the run of 10.000 s",
        ),
        (
            "back = \"5 s\"\n",
            "",
            "x.toml:15: fault.at: the receivebox is dead then: let another fault bring it `back` before",
        ),
        (
            "\"5 s\"",
            "\"6 s\"",
            "x.toml:15: fault.at: the receivebox is dead then: let another fault bring it `back` before",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(TWO_FAULTS.contains(from), "{from}");
        assert_eq!(error(&(MINIMAL.to_owned() + &TWO_FAULTS.replacen(from, to, 1))), expected);
    }
    let many = "[[fault]]\nprocess = \"receivebox\"\nat = \"1 s\"\n".repeat(101);
    let said = error(&(MINIMAL.to_owned() + &many));
    assert!(said.ends_with("fault: at most 100 faults are allowed"), "{said}");
}

#[test]
fn clocks_jump_routes_change_and_feedback_is_lost() {
    let with = |faults: &str| {
        let text = MINIMAL.replace("[[traffic]]", "feedback_loss = \"30 %\"\n[[traffic]]");
        parse(FilePath::new("x.toml"), &(text + faults)).map(|mut e| e.cells.remove(0))
    };
    let cell = with(
        "[[fault]]\nat = \"4 s\"\nrtt = \"90 ms\"\n[[fault]]\nat = \"2 s\"\nclock = \"receivebox\"\n\
         behind = \"1 s\"\n[[fault]]\nat = \"3 s\"\nclock = \"sendbox\"\nahead = \"5 s\"\n",
    );
    let cell = cell.unwrap();
    assert_eq!(cell.conditions.feedback_loss, 0.3);
    let kinds: Vec<_> = cell.faults.iter().map(|f| f.kind).collect();
    let clock = |of, by| FaultKind::Clock { of, by };
    assert_eq!(
        kinds,
        [
            clock(Clock::Receivebox, -1_000_000_000),
            clock(Clock::Sendbox, 5_000_000_000),
            FaultKind::Route { rtt: Nanos::from_millis(90) },
        ]
    );
    let one = "x.toml:15: fault: give it process, clock or rtt, one of them: a process may come \
               `back`, a clock goes `ahead` or `behind`";
    for (keys, says) in [
        ("", one),
        ("clock = \"sendbox\"\nrtt = \"1 ms\"\n", one),
        ("rtt = \"1 ms\"\nback = \"3 s\"\n", one),
        ("rtt = \"3 s\"\n", "x.toml:16: fault.rtt: must be at most 2 s"),
        (
            "clock = \"receivebox\"\n",
            "x.toml:15: fault.clock: a clock goes `ahead` or `behind`: give one of them",
        ),
        (
            "clock = \"sendbox\"\nbehind = \"1 s\"\n",
            "x.toml:17: fault.behind: the sendbox's clock is monotonic: it only goes `ahead`",
        ),
    ] {
        let said = with(&format!("[[fault]]\nat = \"2 s\"\n{keys}")).unwrap_err().to_string();
        assert_eq!(said, says, "{keys}");
    }
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
