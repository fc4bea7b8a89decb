//! Tests of the simulator engine on a shortened scenario of the demonstration.

use forebay_lab::analysis::Analysis;
use forebay_lab::engine::{Engine, EngineError, Interrupt, Job};
use forebay_lab::results::{Run, Value, store};
use forebay_lab::scenario::{DEMO, Scenario, parse};
use forebay_lab::sim_engine::Sim;
use forebay_records::packet_log::Record;
use forebay_units::{Nanos, Rate};

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

/// Two sites with ways of their own that share nothing get what each way serves, at its delay.
#[test]
fn sites_take_ways_of_their_own() {
    let text = r#"
        name = "ways"
        sites = 2
        warmup = "2 s"
        duration = "4 s"
        [path]
        rate = "24 Mbit/s"
        rtt = "20 ms"
        queue = { kind = "fifo", limit = "1 bdp" }
        spread = "site"
        [[path.way]]
        [[path.way]]
        rate = "12 Mbit/s"
        rtt = "60 ms"
        [[traffic]]
        name = "near"
        kind = "bulk"
        flows = 4
        [[traffic]]
        name = "far"
        kind = "bulk"
        flows = 4
        site = 2
        [[traffic]]
        name = "loops"
        kind = "udp_rr"
        site = 2
        [[arm]]
        name = "forebay"
        sendbox = { policy = "sfq", limit = "1000 packets" }
    "#;
    let scenario = parse("ways.toml".as_ref(), text).unwrap().cells.remove(0);
    let run = run(&scenario, "forebay", 1);
    assert!(Analysis::of(&run).summary.conservation.ok);
    let rate = |name: &str| {
        let own = run.progress.iter().filter(|p| p.traffic == name && p.time > run.start.0);
        own.map(|p| p.bytes).sum::<u64>() as f64 * 8e-6 / 4.0
    };
    let (near, far) = (rate("near"), rate("far"));
    assert!((20.0..24.0).contains(&near) && (10.0..12.0).contains(&far), "{near} {far}");
    let trips = run.round_trips.iter().filter_map(|trip| Some(trip.end? - trip.start));
    let least = trips.min().unwrap();
    assert!((60_000_000..65_000_000).contains(&least), "{least}");
    let mut bundles: Vec<_> = run.ticks.iter().map(|tick| tick.bundle.as_str()).collect();
    bundles.sort_unstable();
    bundles.dedup();
    assert_eq!(bundles, ["b", "b2"]);
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

/// Three classes whose goodput is compared with their shares of the bundle's rate.
#[test]
fn weighted_classes_have_their_shares() {
    let text = |classes: &str| {
        format!(
            r#"
        name = "weights"
        warmup = "4 s"
        duration = "20 s"
        [path]
        rate = "24 Mbit/s"
        rtt = "20 ms"
        queue = {{ kind = "fifo", limit = "2 bdp" }}
        [[arm]]
        name = "weighted"
        sendbox = {{ policy = "weighted", limit = "500 packets", classes = [{classes}] }}
        [[traffic]]
        name = "a"
        kind = "bulk"
        flows = 4
        [[traffic]]
        name = "b"
        kind = "bulk"
        flows = 4
        class = 2
        [[traffic]]
        name = "c"
        kind = "bulk"
        flows = 4
        class = 3
    "#
        )
    };
    let shares = |classes: &str| {
        let scenario = parse("weights.toml".as_ref(), &text(classes)).unwrap().cells.remove(0);
        let summary = Analysis::of(&run(&scenario, "weighted", 1)).summary;
        assert!(summary.conservation.ok, "{:?}", summary.conservation);
        let goodput = ["a", "b", "c"].map(|traffic| summary.goodput_by_traffic_mbps[traffic]);
        let total: f64 = goodput.iter().sum();
        goodput.map(|mbps| mbps / total)
    };
    let near = |classes: &str, wanted: [f64; 3]| {
        let shares = shares(classes);
        for (share, wanted) in shares.iter().zip(wanted) {
            assert!((share / wanted - 1.0).abs() < 0.03, "{classes}: {shares:?}");
        }
    };
    near("{ weight = 1 }, { weight = 2 }, { weight = 3 }", [1.0 / 6.0, 1.0 / 3.0, 0.5]);
    near("{ weight = 3 }, { weight = 2 }, {}", [0.5, 1.0 / 3.0, 1.0 / 6.0]);
    let [a, b, _] = shares(r#"{ rate = "12 Mbit/s" }, { weight = 9, ceil = "3 Mbit/s" }, {}"#);
    assert!(a > 0.5 && b < 3.1 / 23.0, "{a} {b}");
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

/// Returns a scenario of eight seconds with this `[path]`, top level and traffic, and an arm with
/// this last line.
fn bulky(top: &str, path: &str, traffic: &str, arm: &str) -> Scenario {
    let text = format!(
        "name = \"x\"\nduration = \"8 s\"\n{top}\n[path]\n{path}\n\
         {traffic}\n[[arm]]\nname = \"b\"\n\
         sendbox = {{ policy = \"sfq\", limit = \"1000 packets\" }}\n{arm}\n\
         [[arm]]\nname = \"none\"\nsendbox = \"forward\"\n"
    );
    parse("x.toml".as_ref(), &text).unwrap().cells.remove(0)
}

const QUEUE: &str = "queue = { kind = \"fifo\", limit = \"2 bdp\" }";
const BULK: &str = "[[traffic]]\nname = \"bulk\"\nkind = \"bulk\"\n";

/// A policer drops what is above its rate, and no packet waits.
#[test]
fn a_policer_has_no_queue() {
    let path = format!(
        "rate = \"1 Gbit/s\"\nrtt = \"30 ms\"\n{QUEUE}\n\
         policer = {{ rate = \"20 Mbit/s\", burst = \"60 kB\" }}"
    );
    let cbr = "[[traffic]]\nname = \"cbr\"\nkind = \"cbr\"\nrate = \"150 %\"\n";
    let scenario = bulky("", &path, cbr, "");
    assert_eq!(scenario.path.rate, Rate::from_mbps(20), "of which load is a share");
    let summary = Analysis::of(&run(&scenario, "none", 1)).summary;
    assert!(summary.conservation.ok, "{:?}", summary.conservation);
    // 1200 of 1242 bytes are payload.
    let expected = 20.0 * 1_200.0 / 1_242.0;
    assert!((summary.goodput_mbps - expected).abs() < 0.2, "{}", summary.goodput_mbps);
    assert!(summary.bottleneck_queue_ms.unwrap().p99 < 0.05);
    let link = summary.hops.iter().find(|hop| hop.hop == "link").unwrap();
    assert!(link.policy_drops * 2 > link.sent - link.policy_drops, "a third is dropped: {link:?}");
}

/// Each site's round trip is that of its own path, in both directions and for its boxes.
#[test]
fn sites_have_paths_of_their_own() {
    let path = format!("rate = \"40 Mbit/s\"\nrtt = \"20 ms\"\n{QUEUE}");
    let top = "sites = 2";
    let pings = "[[site]]\n[[site]]\nrtt = \"90 ms\"\n\
                 [[traffic]]\nname = \"near\"\nkind = \"udp_rr\"\n\
                 [[traffic]]\nname = \"far\"\nkind = \"udp_rr\"\nsite = 2\n";
    let scenario = bulky(top, &path, pings, "");
    for arm in ["b", "none"] {
        let run = run(&scenario, arm, 1);
        for (name, rtt) in [("near", 20.0), ("far", 90.0)] {
            let of = run.round_trips.iter().filter(|trip| trip.traffic == name);
            let trips: Vec<_> = of.filter_map(|t| Some((t.end? - t.start) as f64 / 1e6)).collect();
            assert!(trips.len() > 50, "{arm} {name}: {trips:?}");
            assert!(trips.iter().all(|t| (rtt..rtt + 1.0).contains(t)), "{arm} {name}: {trips:?}");
        }
    }
    let bulks = BULK.to_owned() + "[[traffic]]\nname = \"far\"\nkind = \"bulk\"\nsite = 2\n";
    let scenario = bulky(top, &path, &format!("[[site]]\n[[site]]\nrtt = \"90 ms\"\n{bulks}"), "");
    let run = run(&scenario, "b", 1);
    for (bundle, rtt) in [("b", 20_000_000), ("b2", 90_000_000)] {
        let ticks = run.ticks.iter().filter(|tick| tick.bundle == bundle);
        let least = ticks.filter_map(|tick| tick.min_rtt).min().unwrap();
        assert!((rtt..rtt + 3_000_000).contains(&least), "{bundle} measures {least} ns");
    }
}

/// Answers wait at the way back's bottleneck, and some of them are lost.
#[test]
fn the_way_back_can_be_slow_and_lossy() {
    let with = |back: &str| {
        let path = format!("rate = \"40 Mbit/s\"\nrtt = \"20 ms\"\n{QUEUE}\n[path.back]\n{back}");
        let scenario = bulky("", &path, BULK, "");
        Analysis::of(&run(&scenario, "none", 1)).summary
    };
    let plain = with("rate = \"1 Gbit/s\"");
    // 40 Mbit/s of data need more than 0.5 Mbit/s of ACKs.
    let slow = with("rate = \"300 kbit/s\"\nlimit = \"100 packets\"");
    assert!(plain.goodput_mbps > 36.0, "{}", plain.goodput_mbps);
    assert!(slow.goodput_mbps < 0.9 * plain.goodput_mbps, "{}", slow.goodput_mbps);
    assert!(slow.conservation.ok, "{:?}", slow.conservation);
    let lossy = with("loss = \"20 %\"");
    let link = lossy.hops.iter().find(|hop| hop.hop == "link").unwrap();
    assert!(link.lost > 1_000, "{link:?}");
    assert!(lossy.goodput_mbps > 20.0, "ACKs are cumulative: {}", lossy.goodput_mbps);
}

/// Until the sendbox starts, the queue stands at the bottleneck; then it moves.
#[test]
fn a_sendbox_starts_into_a_standing_queue() {
    let path = format!("rate = \"40 Mbit/s\"\nrtt = \"20 ms\"\n{QUEUE}");
    let scenario = bulky("", &path, BULK, "start = \"4 s\"");
    let run = run(&scenario, "b", 1);
    assert!(run.ticks.iter().all(|tick| tick.time >= 4_000_000_000), "no tick before the start");
    let mean = |seconds: std::ops::Range<u64>| {
        let within = |r: &&Record| seconds.contains(&(r.time.0 / 1_000_000_000));
        let waits: Vec<_> =
            run.bottleneck.iter().filter(within).map(|r| r.sojourn.as_millis_f64()).collect();
        waits.iter().sum::<f64>() / waits.len() as f64
    };
    let (before, after) = (mean(2..4), mean(6..8));
    assert!(before > 15.0 && after < before / 2.0, "{before} ms before, {after} ms after");
    assert!(Analysis::of(&run).summary.conservation.ok);
}

/// A bottleneck that holds twelve seconds at its new rate delays feedback by as much.
#[test]
fn a_rate_drop_under_a_deep_buffer_does_not_leave_the_bundle_open() {
    let path = "rate = \"20 Mbit/s\"\nrtt = \"40 ms\"\n\
                queue = { kind = \"fifo\", limit = \"2000 packets\" }\n\
                steps = [{ at = \"4 s\", rate = \"2 Mbit/s\" }]";
    let traffic = format!("{BULK}[[traffic]]\nname = \"more\"\nkind = \"bulk\"\nflows = 10\n");
    let mut scenario = bulky("", path, &traffic, "");
    scenario.duration = Nanos::from_secs(60);
    let run = run(&scenario, "b", 1);
    let last = run.ticks.iter().filter(|tick| tick.time >= 50_000_000_000);
    let open = last.clone().filter(|tick| tick.mode == "open").count();
    assert_eq!((open, last.count() > 900), (0, true));
}

/// While the sendbox is dead nothing passes it; then it begins anew.
#[test]
fn a_sendbox_is_restarted() {
    let path = format!("rate = \"40 Mbit/s\"\nrtt = \"20 ms\"\n{QUEUE}");
    let fault = "[[fault]]\nprocess = \"sendbox\"\nat = \"3 s\"\nback = \"3500 ms\"";
    let scenario = bulky("", &path, &format!("{BULK}{fault}"), "");
    let run = run(&scenario, "b", 1);
    let within = |time: u64| (3_000_000_001..3_500_000_000).contains(&time);
    assert!(!run.ticks.iter().any(|tick| within(tick.time)), "a dead box does not tick");
    let passed = run.bottleneck.iter().filter(|r| within(r.time.0)).count();
    assert!(passed < 200, "only what had left the sendbox: {passed}");
    let [record] = &run.faults[..] else { panic!("{:?}", run.faults) };
    assert_eq!((record.process.as_str(), record.killed), ("sendbox", 3_000_000_000));
    assert_eq!(record.ready, Some(3_500_000_000));
    let after = run.bottleneck.iter().filter(|r| r.time.0 > 5_000_000_000);
    let mbps = after.map(|r| r.len.0).sum::<u64>() as f64 * 8e-6 / 3.0;
    assert!(mbps > 30.0, "{mbps}");
    let summary = Analysis::of(&run).summary;
    assert!(summary.conservation.ok, "{:?}", summary.conservation);
    // An arm without a bundle has no sendbox that could die.
    assert!(self::run(&scenario, "none", 1).faults.is_empty());
}
