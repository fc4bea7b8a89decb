//! Loads, ways, classes, targets, mixes and the ECN field.

use super::*;

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
