//! Tests of the simulator engine on a shortened scenario of the demonstration.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use forebay_lab::analysis::Analysis;
use forebay_lab::engine::{Engine, EngineError, Interrupt, Job};
use forebay_lab::results::{Run, Value, store};
use forebay_lab::scenario::{DEMO, Scenario, parse};
use forebay_lab::sim_engine::Sim;
use forebay_units::Nanos;

fn demo() -> Scenario {
    let mut demo = parse("demo.toml".as_ref(), DEMO).unwrap();
    let mut scenario = demo.cells.remove(0);
    scenario.warmup = Nanos::from_secs(3);
    scenario.measured_for(Nanos::from_secs(10))
}

fn run(scenario: &Scenario, arm: &str, seed: u64) -> Run {
    let arm = scenario.arms.iter().find(|a| a.name == arm).unwrap();
    Sim.run(&Job { scenario, arm, seed }, &Interrupt::default(), &mut |_| {}).unwrap()
}

#[test]
fn every_arm_accounts_for_its_packets_and_has_the_expected_queues() {
    let scenario = demo();
    let [status_quo, in_network, sfq, fifo] =
        ["status_quo", "in_network_sfq", "forebay_sfq", "forebay_fifo"].map(|arm| {
            let run = run(&scenario, arm, 1);
            assert_eq!(run.ticks.is_empty(), !arm.starts_with("forebay"), "{arm}");
            assert_eq!(run.sendbox.is_empty(), !arm.starts_with("forebay"), "{arm}");
            let summary = Analysis::of(&run).summary;
            assert!(summary.conservation.ok, "{arm}: {:?}", summary.conservation);
            assert!(summary.goodput_mbps > 80.0, "{arm}: {}", summary.goodput_mbps);
            let requests = &summary.requests;
            assert!(requests.offered > 4_000, "{arm}: {requests:?}");
            let unfinished = requests.unfinished;
            assert!(unfinished * 100 < requests.offered, "{arm}: {requests:?}");
            summary
        });
    let wait = |s: &forebay_lab::analysis::Summary| s.bottleneck_queue_ms.as_ref().unwrap().p50;
    let slowdown = |s: &forebay_lab::analysis::Summary| s.slowdown.all.p50.unwrap();
    assert!(wait(&status_quo) > 20.0);
    assert!(slowdown(&status_quo) > 1.4);
    assert!(slowdown(&in_network) < 1.06);
    for moved in [&sfq, &fifo] {
        assert!(wait(moved) < 6.0, "{}", wait(moved));
        assert!(moved.sendbox_queue_ms.is_some() && moved.estimates.is_some());
    }
    assert!(slowdown(&sfq) < 1.15, "{}", slowdown(&sfq));
    assert!(slowdown(&fifo) > slowdown(&sfq));
}

#[test]
fn a_seed_always_gives_the_same_file() {
    let scenario = demo().measured_for(Nanos::from_secs(2));
    let dir = std::env::temp_dir().join(format!("fb-sim-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let stored = |name: &str, seed| {
        let path = dir.join(name);
        store::save(&path, &run(&scenario, "forebay_sfq", seed)).unwrap();
        std::fs::read(&path).unwrap()
    };
    let first = stored("a.jsonl", 5);
    assert!(first.len() > 100_000);
    assert!(first == stored("b.jsonl", 5), "byte for byte");
    assert!(first != stored("c.jsonl", 6));
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn every_kind_of_traffic_is_recorded() {
    let text = r#"
        name = "kinds"
        duration = "2 s"
        cooldown = "150 ms"
        [path]
        rate = "24 Mbit/s"
        rtt = "20 ms"
        queue = { kind = "fq_codel", limit = "1000 packets" }
        [[arm]]
        name = "boxes"
        sendbox = { policy = "fq_codel", limit = "1000 packets" }
        [[traffic]]
        name = "tcp"
        kind = "bulk"
        flows = 2
        congestion = "bbr"
        [[traffic]]
        name = "quic"
        kind = "bulk"
        transport = "udp"
        [[traffic]]
        name = "ping"
        kind = "udp_rr"
        flows = 3
        [[traffic]]
        name = "cross"
        kind = "cbr"
        from = "cross"
        rate = "4 Mbit/s"
        start = "1050 ms"
    "#;
    let experiment = parse("kinds.toml".as_ref(), text).unwrap();
    let run = run(&experiment.cells[0], "boxes", 1);
    let of = |name: &str| run.progress.iter().filter(|p| p.traffic == name).collect::<Vec<_>>();
    let bytes = |name: &str| of(name).iter().map(|p| p.bytes).sum::<u64>();
    assert_eq!(of("tcp").len(), 2 * 22, "21 intervals of 100 ms and a half one, for each flow");
    assert_eq!(of("tcp").last().map(|p| p.time), Some(2_150_000_000));
    assert_eq!(of("cross").first().map(|p| p.time), Some(1_150_000_000));
    assert!(
        bytes("tcp") > 1_000_000 && bytes("quic") > 200_000,
        "{} {}",
        bytes("tcp"),
        bytes("quic")
    );
    assert!((500_000..=550_000).contains(&bytes("cross")), "{}", bytes("cross"));
    let flows: Vec<_> =
        (0..3).map(|f| run.round_trips.iter().filter(|r| r.flow == f).count()).collect();
    assert!(flows.iter().all(|n| (40..105).contains(n)), "{flows:?}");
    assert!(run.bottleneck.iter().any(|r| r.source == 2));
    assert_eq!(run.bundle_source, Some(0));
    assert!(Analysis::of(&run).summary.conservation.ok);
}

#[test]
fn a_dead_receivebox_opens_the_bundle_until_it_restarts() {
    let text = r#"
        name = "dead"
        duration = "12 s"
        [path]
        rate = "24 Mbit/s"
        rtt = "20 ms"
        queue = { kind = "fifo", limit = "2 bdp" }
        [[arm]]
        name = "boxes"
        sendbox = { policy = "sfq", limit = "1000 packets" }
        [[traffic]]
        name = "tcp"
        kind = "bulk"
        [[fault]]
        process = "receivebox"
        at = "4 s"
        back = "7 s"
    "#;
    let experiment = parse("dead.toml".as_ref(), text).unwrap();
    let run = run(&experiment.cells[0], "boxes", 1);
    let mode = |s: f64| {
        let time = Nanos::from_secs_f64(s).0;
        run.ticks.iter().find(|t| t.time >= time).unwrap().mode.clone()
    };
    assert_eq!([3.9, 5.0, 6.9, 9.0].map(mode), ["delay control", "open", "open", "delay control"]);
    let modes: Vec<_> = run.events.iter().filter(|e| e.kind == "mode_changed").collect();
    let reasons: Vec<_> = modes.iter().map(|e| e.values["reason"].clone()).collect();
    let expected = ["measured", "no_feedback", "feedback_returned"];
    assert_eq!(reasons, expected.map(|name| Value::Name(name.to_owned())));
    let Value::Number(silence) = modes[1].values["silence"] else { panic!("{:?}", modes[1]) };
    assert!((4_000_000_000..5_000_000_000).contains(&modes[1].time), "{:?}", modes[1]);
    assert!((500_000_000..1_100_000_000).contains(&silence), "{silence}");
    assert!(run.events.is_sorted_by_key(|e| e.time));
    let faults: Vec<_> = run.faults.iter().map(|f| (f.killed, f.ready)).collect();
    assert_eq!(faults, [(4_000_000_000, Some(7_000_000_000))]);
    assert!(Analysis::of(&run).summary.conservation.ok);
}

#[test]
fn an_interrupt_ends_the_run() {
    let scenario = demo();
    let interrupt = Interrupt::default();
    interrupt.raise();
    let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
    let error = Sim.run(&job, &interrupt, &mut |_| {}).unwrap_err();
    assert!(matches!(error, EngineError::Interrupted));
}

const SITES: &str = r#"name = "sites"
warmup = "3 s"
duration = "6 s"
sites = 2
[path]
rate = "48 Mbit/s"
rtt = "40 ms"
queue = { kind = "fifo", limit = "2 bdp" }
[[path.way]]
rate = "24 Mbit/s"
[[path.way]]
rate = "24 Mbit/s"
[[traffic]]
name = "first"
kind = "bulk"
flows = 4
[[traffic]]
name = "second"
kind = "requests"
site = 2
arrivals = "closed"
connections = 8
max_size = "100 kB"
new_connections = true
[[arm]]
name = "alone"
sendbox = "forward"
[[arm]]
name = "nested"
sendbox = { policy = "sfq", limit = "1000 packets" }
outer = { policy = "fifo", limit = "1000 packets" }
"#;

#[test]
fn sites_parallel_paths_and_nested_boxes_account_for_their_packets() {
    let scenario = parse("sites.toml".as_ref(), SITES).unwrap().cells.remove(0);
    for arm in ["alone", "nested"] {
        let run = run(&scenario, arm, 1);
        let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
        assert_eq!(hops, ["sendbox", "sendbox2", "link"]);
        let summary = Analysis::of(&run).summary;
        assert!(summary.conservation.ok, "{arm}: {:?}", summary.conservation);
        let mut bundles: Vec<_> = run.ticks.iter().map(|tick| tick.bundle.as_str()).collect();
        bundles.sort_unstable();
        bundles.dedup();
        let expected: &[&str] = if arm == "nested" { &["b", "b2", "outer"] } else { &[] };
        assert_eq!(bundles, expected);
        // Eight clients send requests in a closed loop, and all sites make progress.
        let answered = run.requests.iter().filter(|request| request.end.is_some()).count();
        assert!(answered > 100, "{arm}: {answered}");
        let bulk: u64 = run.progress.iter().filter(|p| p.traffic == "first").map(|p| p.bytes).sum();
        assert!(bulk > 5_000_000, "{arm}: {bulk}");
    }
}

#[test]
fn senders_with_ecn_are_marked_and_not_dropped() {
    let text = r#"
        name = "marks"
        duration = "4 s"
        ECN
        [path]
        rate = "24 Mbit/s"
        rtt = "20 ms"
        queue = { kind = "codel", limit = "1000 packets", ecn = true }
        [[arm]]
        name = "plain"
        sendbox = "forward"
        [[traffic]]
        name = "tcp"
        kind = "bulk"
        flows = 2
        congestion = "CONTROL"
    "#;
    let link = |ecn: &str, control: &str| {
        let text = text.replace("ECN", ecn).replace("CONTROL", control);
        let experiment = parse("marks.toml".as_ref(), &text).unwrap();
        let run = run(&experiment.cells[0], "plain", 1);
        let [sendbox, link] = &run.hops[..] else { panic!("{:?}", run.hops) };
        assert_eq!(sendbox.marked, Some(0), "it has no queue");
        (link.marked.unwrap(), link.policy_drops)
    };
    for (ecn, control) in [("ecn = true", "cubic"), ("", "dctcp")] {
        let (marked, dropped) = link(ecn, control);
        assert!(marked > 10 && dropped == 0, "{control}: {marked} marked, {dropped} dropped");
    }
    let (marked, dropped) = link("", "cubic");
    assert!(marked == 0 && dropped > 10, "{marked} marked, {dropped} dropped");
}

#[test]
fn an_urgent_class_is_served_first_and_can_starve_the_others() {
    let text = r#"
        name = "classes"
        warmup = "2 s"
        duration = "5 s"
        [path]
        rate = "24 Mbit/s"
        rtt = "20 ms"
        queue = { kind = "fifo", limit = "2 bdp" }
        [[arm]]
        name = "strict"
        sendbox = { policy = "strict", limit = "500 packets" }
        [[arm]]
        name = "fair"
        sendbox = { policy = "sfq", limit = "500 packets" }
        [[traffic]]
        name = "other"
        kind = "bulk"
        class = 2
        [[traffic]]
        name = "urgent"
        kind = "bulk"
    "#;
    let scenario = parse("classes.toml".as_ref(), text).unwrap().cells.remove(0);
    let shares = |arm: &str| {
        let summary = Analysis::of(&run(&scenario, arm, 1)).summary;
        assert!(summary.conservation.ok, "{arm}: {:?}", summary.conservation);
        ["urgent", "other"].map(|traffic| summary.goodput_by_traffic_mbps[traffic])
    };
    let ([urgent, other], [one, two]) = (shares("strict"), shares("fair"));
    assert!(urgent > 18.0 && other < 3.0, "{urgent} {other}");
    assert!((one - two).abs() < 4.0, "{one} {two}");
}

/// Returns a scenario with this `[path]` and a closed loop of small datagrams.
fn pinged(path: &str) -> Scenario {
    let text = format!(
        "name = \"x\"\nduration = \"4 s\"\n[path]\n{path}\n\
         queue = {{ kind = \"fifo\", limit = \"100 packets\" }}\n\
         [[traffic]]\nname = \"ping\"\nkind = \"udp_rr\"\n\
         [[arm]]\nname = \"none\"\nsendbox = \"forward\"\n"
    );
    parse(&std::env::temp_dir().join("x.toml"), &text).unwrap().cells.remove(0)
}

/// Returns the round trips of a run's closed loops: their starts from the start of the run, and
/// their lengths, in milliseconds.
fn round_trips(run: &Run) -> Vec<(f64, f64)> {
    let trips = run.round_trips.iter().filter_map(|trip| {
        let ms = |ns: u64| ns as f64 / 1e6;
        Some((ms(trip.start), ms(trip.end? - trip.start)))
    });
    trips.collect()
}

/// Both directions take the delay of the time at which a packet is sent.
#[test]
fn round_trips_follow_a_trace_of_delays() {
    let file = std::env::temp_dir().join(format!("fb-sim-{}.delay", std::process::id()));
    // A second of 10 ms each way, then a second of 25 ms.
    std::fs::write(&file, "10\n".repeat(100) + &"25\n".repeat(100)).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let scenario = pinged(&format!("rate = \"100 Mbit/s\"\ndelay_trace = \"{name}\""));
    let trips = round_trips(&run(&scenario, "none", 1));
    for (seconds, rtt) in [(0.0..0.9, 20.0), (1.0..1.9, 50.0), (2.0..2.9, 20.0), (3.0..3.9, 50.0)] {
        let of = trips.iter().filter(|(start, _)| seconds.contains(&(start / 1e3)));
        assert!(of.clone().count() > 15, "{trips:?}");
        assert!(of.clone().all(|(_, took)| (rtt..rtt + 0.1).contains(took)), "{rtt}: {trips:?}");
    }
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_step_to_zero_is_an_outage() {
    let steps = "[{ at = \"1 s\", rate = \"0 bit/s\" }, { at = \"1500 ms\", rate = \"5 Mbit/s\" }]";
    let scenario = pinged(&format!("rate = \"100 Mbit/s\"\nrtt = \"20 ms\"\nsteps = {steps}"));
    let trips = round_trips(&run(&scenario, "none", 1));
    let longest = trips.iter().copied().reduce(|a, b| if a.1 > b.1 { a } else { b }).unwrap();
    assert!(longest.0 < 1_000.0 && (501.0..530.0).contains(&longest.1), "{longest:?}");
}
