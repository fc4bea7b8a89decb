//! Wires that vary, lose and reorder: the emulator carries out what the simulator's code decides.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use forebay_lab::engine::{Engine, Interrupt, Job};
use forebay_lab::netns::{Dataplane, Netns};
use forebay_lab::results::Run;
use forebay_lab::scenario::{self, Maker, Scenario, Sendbox};
use forebay_records::packet_log::Fate;
use forebay_units::{Nanos, Rate};

use crate::traces::Traces;

/// Returns a scenario of two seconds with this path, traffic and one bundle.
fn scenario(path: &str, traffic: &str) -> Scenario {
    let sites = traffic.matches("[[site]]").count().max(1);
    let text = format!(
        "name = \"x\"\nsites = {sites}\nwarmup = \"200 ms\"\nduration = \"1800 ms\"\n[path]\n{path}\n\
         queue = {{ kind = \"fifo\", limit = \"200 packets\" }}\n{traffic}\n\
         [[arm]]\nname = \"bundle\"\n\
         sendbox = {{ policy = \"sfq\", limit = \"1000 packets\" }}\n"
    );
    let file = std::env::temp_dir().join("x.toml");
    scenario::parse(&file, &text).unwrap().cells.remove(0)
}

fn cbr(rate: &str) -> String {
    format!("[[traffic]]\nname = \"cbr\"\nkind = \"cbr\"\nrate = \"{rate}\"\nsize = \"1400 B\"\n")
}

const PING: &str = "[[traffic]]\nname = \"ping\"\nkind = \"udp_rr\"\nflows = 4\n";

fn run(scenario: &Scenario) -> Run {
    super::run(scenario, &Interrupt::default()).unwrap()
}

/// The bytes that left the bottleneck, by time in nanoseconds from the start of the run.
fn departures(scenario: &Scenario, run: &Run) -> BTreeMap<u64, u64> {
    let begin = run.start - scenario.warmup;
    let mut bytes = BTreeMap::new();
    for record in run.bottleneck.iter().filter(|r| r.fate == Fate::Sent && r.time >= begin) {
        *bytes.entry((record.time - begin).0).or_default() += record.len.0;
    }
    bytes
}

/// The rate at which bytes left the bottleneck in this part of the run.
fn rate(departures: &BTreeMap<u64, u64>, ms: Range<u64>) -> f64 {
    let seconds = (ms.end - ms.start) as f64 / 1e3;
    let bytes: u64 = departures.range(ms.start * 1_000_000..ms.end * 1_000_000).map(|d| d.1).sum();
    bytes as f64 * 8e-6 / seconds
}

/// Returns the lengths of the answered round trips in milliseconds.
fn round_trips(run: &Run) -> Vec<f64> {
    run.round_trips.iter().filter_map(|r| Some((r.end? - r.start) as f64 / 1e6)).collect()
}

/// The trace lets 80 packets of 1504 bytes pass every 20 ms: 48.1 Mbit/s.
pub(crate) fn a_trace_is_served_in_bursts() {
    const PERIOD: u64 = 20_000_000;
    const CHANCE: u64 = 80 * 1_504;
    let name = format!("fb-burst-{}.trace", std::process::id());
    let file = std::env::temp_dir().join(&name);
    fs::write(&file, "20\n".repeat(80)).unwrap();
    let scenario = scenario(&format!("rtt = \"10 ms\"\ntrace = \"{name}\""), &cbr("64 Mbit/s"));
    fs::remove_file(&file).unwrap();
    let run = run(&scenario);
    let departures = departures(&scenario, &run);
    let outside: Vec<_> = departures.keys().filter(|time| **time % PERIOD != 0).collect();
    assert!(outside.is_empty(), "packets leave only when the trace allows it: {outside:?}");
    // A frame of 1442 bytes counts with 1432, so at most a frame of each burst is left over.
    let full: Vec<_> = (20..90).map(|n| departures.get(&(n * PERIOD)).copied()).collect();
    let expected = CHANCE / 1_432 * 1_442;
    let is_full = |bytes: &u64| (expected - 2 * 1_442..=expected + 2 * 1_442).contains(bytes);
    assert!(full.iter().all(|b| b.as_ref().is_some_and(is_full)), "{expected}: {full:?}");
    let link = &run.hops[1];
    assert!(link.policy_drops > 100 && link.lost == 0, "more is offered than passes: {link:?}");
    let bytes: u64 = run.progress.iter().map(|p| p.bytes).sum();
    let mbps = bytes as f64 * 8e-6 / 2.0;
    // 1400 of 1432 bytes are payload.
    assert!((44.5..48.0).contains(&mbps), "the receiver got {mbps} Mbit/s");
}

/// Steps, an outage and loss.
pub(crate) fn steps_and_loss_are_carried_out() {
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"\nloss = \"20 %\"\nsteps = [\
                { at = \"500 ms\", rate = \"10 Mbit/s\" }, { at = \"1 s\", rate = \"0 bit/s\" }, \
                { at = \"1200 ms\", rate = \"20 Mbit/s\" }]";
    let scenario = scenario(path, &cbr("60 Mbit/s"));
    let run = run(&scenario);
    let departures = departures(&scenario, &run);
    for (ms, expected) in
        [(100..500, 40.0), (500..1_000, 10.0), (1_010..1_200, 0.0), (1_200..1_900, 20.0)]
    {
        let rate = rate(&departures, ms.clone());
        assert!((rate - expected).abs() < 0.5, "{rate} Mbit/s at {ms:?} ms, not {expected}");
    }
    let link = &run.hops[1];
    assert_eq!(link.received, link.sent + link.policy_drops + link.queued + link.lost, "{link:?}");
    let sent: u64 = run.bottleneck.iter().filter(|r| r.fate == Fate::Sent).count() as u64;
    let share = link.lost as f64 / sent as f64;
    // Five standard deviations of 4000 packets or so.
    assert!((0.168..0.232).contains(&share), "{share} of {sent} packets lost");
}

/// Round trips follow a trace of delays and its jitter, and some packets overtake others.
pub(crate) fn delays_vary() {
    let name = format!("fb-delays-{}.delay", std::process::id());
    let file = std::env::temp_dir().join(&name);
    fs::write(&file, "10\n".repeat(100) + &"30\n".repeat(100)).unwrap();
    let path = format!("rate = \"40 Mbit/s\"\ndelay_trace = \"{name}\"");
    let calm = scenario(&path, PING);
    let path = path + "\njitter = { up_to = \"8 ms\", reorders = true }";
    let stormy = scenario(&path, &(PING.to_owned() + &cbr("10 Mbit/s")));
    fs::remove_file(&file).unwrap();
    let trips = round_trips(&run(&calm));
    let near = |rtt: f64| trips.iter().filter(|t| (rtt..rtt + 5.0).contains(*t)).count();
    let (short, long) = (near(20.0), near(60.0));
    assert!(trips.iter().all(|t| *t >= 20.0), "{trips:?}");
    assert!(short > 120 && long > 40 && (short + long) * 10 > trips.len() * 9, "{trips:?}");
    let run = run(&stormy);
    let trips = round_trips(&run);
    let mean = trips.iter().filter(|t| **t < 35.0).sum::<f64>()
        / trips.iter().filter(|t| **t < 35.0).count() as f64;
    assert!((23.0..27.0).contains(&mean), "half of the jitter is added on one way: {mean}");
}

/// A policer drops at once, and a second site's path is longer.
pub(crate) fn a_policer_and_a_longer_path() {
    let path = "rate = \"400 Mbit/s\"\nrtt = \"10 ms\"\n\
                policer = { rate = \"20 Mbit/s\", burst = \"30 kB\" }";
    let scenario = scenario(path, &cbr("30 Mbit/s"));
    let polled = run(&scenario);
    let departures = departures(&scenario, &polled);
    let rate = rate(&departures, 200..1_900);
    assert!((rate - 20.0).abs() < 0.4, "{rate} Mbit/s pass");
    let link = &polled.hops[1];
    assert!(link.policy_drops > 1_000 && link.lost == 0, "{link:?}");
    assert_eq!(link.received, link.sent + link.policy_drops + link.queued, "{link:?}");

    let sites = self::scenario(
        "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"",
        &format!("[[site]]\n[[site]]\nrtt = \"40 ms\"\n{PING}{}", PING.replace("ping", "far"))
            .replacen("name = \"far\"", "name = \"far\"\nsite = 2", 1),
    );
    let run = run(&sites);
    for (name, rtt) in [("ping", 10.0), ("far", 40.0)] {
        let of = run.round_trips.iter().filter(|trip| trip.traffic == name);
        let mut trips: Vec<_> = of.filter_map(|t| Some((t.end? - t.start) as f64 / 1e6)).collect();
        trips.sort_by(f64::total_cmp);
        let median = trips[trips.len() / 2];
        assert!(trips[0] >= rtt && median < rtt + 3.0, "{name}: {trips:?}");
    }
}

/// Frames wait and are lost on the way back.
pub(crate) fn the_way_back_is_slow_and_lossy() {
    // A loop's request of 82 bytes takes 13 ms at 50 kbit/s, and four loops share the way back.
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let slow = scenario(&format!("{path}\nback = {{ rate = \"50 kbit/s\" }}"), PING);
    let slow = run(&slow);
    let trips = round_trips(&slow);
    assert!(trips.len() > 40, "{trips:?}");
    let late = trips.iter().skip(8).filter(|t| **t > 40.0).count();
    assert!(late * 10 > (trips.len() - 8) * 8, "{trips:?}");
    let link = &slow.hops[1];
    assert_eq!(link.received, link.sent + link.policy_drops + link.queued, "{link:?}");
    let lossy = run(&scenario(&format!("{path}\nback = {{ loss = \"30 %\" }}"), PING));
    let link = &lossy.hops[1];
    assert!(link.lost > 0, "{link:?}");
}

/// The sendbox is started again, and its records are those of both lives. The stand-in's bridge
/// forwards while it is stopped.
pub(crate) fn a_sendbox_is_restarted() {
    let fault = "[[fault]]\nprocess = \"sendbox\"\nat = \"600 ms\"\nback = \"1 s\"\n";
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let scenario = scenario(path, &(fault.to_owned() + &cbr("10 Mbit/s")));
    let run = run(&scenario);
    let [record] = &run.faults[..] else { panic!("{:?}", run.faults) };
    let begin = (run.start - scenario.warmup).0;
    let (killed, ready) = (record.killed - begin, record.ready.unwrap() - begin);
    assert_eq!(record.process, "sendbox");
    assert!(killed >= 600_000_000 && ready >= 1_000_000_000, "{record:?}");
    assert_eq!(run.ticks.len(), 2, "the stand-in ticks once in each life");
    let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
    assert_eq!(hops, ["sendbox", "link"]);
    let departures = departures(&scenario, &run);
    assert!(rate(&departures, 200..590) > 9.0 && rate(&departures, 1_500..1_950) > 9.0);
}

/// Two ways of different rates and delays serve what each would serve alone, and flows stay on
/// theirs; by packets, each loop sees both.
pub(crate) fn several_ways_carry_the_path() {
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let ways = "[[path.way]]\nrate = \"10 Mbit/s\"\n[[path.way]]\nrate = \"10 Mbit/s\"\n\
                rtt = \"40 ms\"\n";
    let with = |spread: &str, traffic: &str| {
        // The tables of ways are after the path's keys.
        let mut scenario = scenario(&format!("{path}\n{spread}"), &format!("{ways}{traffic}"));
        scenario.path.rtt = Nanos::from_millis(10);
        scenario
    };
    let udp = "[[traffic]]\nname = \"udp\"\nkind = \"udp_rr\"\nflows = 16\n";
    let by_flow = run(&with("spread = \"flow\"", udp));
    let mut of_flows = BTreeMap::<_, Vec<_>>::new();
    for trip in &by_flow.round_trips {
        let trips = of_flows.entry(trip.flow).or_default();
        trips.extend(trip.end.map(|end| (end - trip.start) as f64 / 1e6));
    }
    let ends: Vec<_> = of_flows
        .values()
        .map(|trips| {
            let (least, most) =
                trips.iter().fold((f64::MAX, 0f64), |(a, b), t| (a.min(*t), b.max(*t)));
            (least, most)
        })
        .collect();
    assert!(ends.iter().all(|(least, _)| *least >= 10.0), "{ends:?}");
    let (long, short): (Vec<_>, Vec<_>) = ends.iter().partition(|(least, _)| *least >= 39.9);
    // Of 16 flows all take the same way once in 32 768 times.
    assert!(!long.is_empty() && !short.is_empty(), "{ends:?}");
    assert!(short.iter().all(|(least, _)| *least < 15.0), "{ends:?}");

    let by_packet = run(&with(
        "spread = \"packet\"",
        "[[traffic]]\nname = \"one\"\n\
                                                     kind = \"udp_rr\"\nflows = 1\n",
    ));
    let trips: Vec<_> = round_trips(&by_packet);
    let far = trips.iter().filter(|trip| **trip >= 40.0).count();
    assert!(far * 5 > trips.len() && far * 5 < trips.len() * 4, "{far} of {}", trips.len());
    let by_packet = run(&with("spread = \"packet\"", &cbr("30 Mbit/s")));
    // Half of 30 Mbit/s goes to each way of 10.
    let departures = departures(&with("", udp), &by_packet);
    let rate = rate(&departures, 300..1_900);
    assert!((rate - 20.0).abs() < 0.4, "{rate} Mbit/s");
    let times: Vec<_> =
        by_packet.bottleneck.iter().filter(|r| r.fate == Fate::Sent).map(|r| r.time).collect();
    assert!(times.is_sorted(), "packets are recorded in the order of departure");
    let link = &by_packet.hops[1];
    assert_eq!(link.received, link.sent + link.policy_drops + link.queued + link.lost, "{link:?}");
}

/// The path's delay changes in the middle, and one traffic's way back is longer from the start.
pub(crate) fn a_route_changes_and_a_traffic_s_way_back_is_longer() {
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let fault = "[[fault]]\nat = \"1 s\"\nrtt = \"50 ms\"\n";
    let changed = scenario(path, &(fault.to_owned() + PING));
    let run = run(&changed);
    let change = (run.start - changed.warmup).0 + 1_000_000_000;
    let mut before = Vec::new();
    for trip in &run.round_trips {
        let Some(end) = trip.end else { continue };
        let (rtt, least) = (end - trip.start, if trip.start >= change { 50 } else { 10 });
        assert!(rtt >= least * 1_000_000, "{trip:?}");
        before.extend((end < change).then_some(rtt));
    }
    // A single one may wait for this machine.
    before.sort_unstable();
    assert!(before[before.len() / 2] < 45_000_000, "{before:?}");
    let after = run.round_trips.iter().filter(|trip| trip.start >= change).count();
    assert!(after > 20, "{after}");

    let bulk = "[[traffic]]\nname = \"tcp\"\nkind = \"bulk\"\nflows = 1\nrtt = \"150 ms\"\n";
    let later = scenario(path, &(bulk.to_owned() + PING));
    let run = self::run(&later);
    // Nothing waits for long at 40 Mbit/s in the first round trip of the transfer, whose ACKs take
    // 145 ms: its first bytes are a window, and the second window comes a round trip later.
    let bytes = |ms: u64| -> u64 {
        let until = (run.start - later.warmup).0 + ms * 1_000_000;
        let own = run.progress.iter().filter(|p| p.traffic == "tcp" && p.time <= until);
        own.map(|p| p.bytes).sum()
    };
    assert!(bytes(100) < 30_000, "{}", bytes(100));
    let pings = round_trips(&run);
    assert!(pings.iter().any(|trip| *trip < 12.0), "others keep the path's: {pings:?}");
}

/// The kernel's queues are paced at a constant rate, boxes share the machine's clock, and messages
/// say so.
pub(crate) fn what_the_engine_lacks_is_named() {
    let plain = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let steps = format!("{plain}\nsteps = [{{ at = \"500 ms\", rate = \"10 Mbit/s\" }}]");
    let mut varying = scenario(&steps, PING);
    varying.arms[0].queue.by = Maker::Kernel;
    let mut ways = scenario(&format!("{plain}\nways = 2"), PING);
    ways.arms[0].queue.by = Maker::Kernel;
    let clock = "[[fault]]\nat = \"1 s\"\nclock = \"sendbox\"\nahead = \"5 s\"\n";
    let clock = scenario(plain, &(clock.to_owned() + PING));
    let sites = format!("[[site]]\nrtt = \"30 ms\"\n{PING}");
    let mut nested = scenario(plain, &sites);
    if let Sendbox::Bundle(own) = nested.arms[0].sendbox {
        nested.arms[0].outer = Some(own);
    }
    let mut late = scenario(plain, PING);
    late.arms[0].start = Nanos::from_millis(500);
    for (scenario, says) in [
        (varying, "with a varying rate (`trace`, `steps`)"),
        (ways, "with several ways"),
        (late, "(`start` of [[arm]])"),
        (nested, "[[site]] does not go with `outer` of [[arm]]"),
        (clock, "(`clock` of [[fault]]), which this scenario asks for: run it with `--engine sim`"),
    ] {
        let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
        let error = Netns::default().check(&job).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
    let mut nested = scenario(plain, PING);
    if let Sendbox::Bundle(own) = nested.arms[0].sendbox {
        nested.arms[0].outer = Some(own);
    }
    let job = Job { scenario: &nested, arm: &nested.arms[0], seed: 1 };
    let error = Netns { dataplane: Dataplane::Kernel }.check(&job).unwrap_err().to_string();
    assert!(error.contains("`outer` of [[arm]] needs sendboxes in user space"), "{error}");
}

/// A pair of boxes around those of two sites: everything passes it, in either version of IP. The
/// first requests may be lost while the stand-ins' bridges come up.
pub(crate) fn boxes_are_around_boxes() {
    for ip in [4, 6] {
        let traffic = format!("{PING}site = 2\n{}", cbr("5 Mbit/s"));
        let text = format!(
            "name = \"x\"\nip = {ip}\nsites = 2\nwarmup = \"200 ms\"\nduration = \"3 s\"\n\
             [path]\nrate = \"40 Mbit/s\"\nrtt = \"10 ms\"\n\
             queue = {{ kind = \"fifo\", limit = \"200 packets\" }}\n{traffic}\n\
             [[arm]]\nname = \"nested\"\n\
             sendbox = {{ policy = \"sfq\", limit = \"1000 packets\" }}\n\
             outer = {{ policy = \"fifo\", limit = \"1000 packets\" }}\n"
        );
        let scenario = scenario::parse("x.toml".as_ref(), &text).unwrap().cells.remove(0);
        let mut traces = Traces::default();
        let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
        let look = &mut |_| traces.look(std::process::id());
        let run = Netns::default().run(&job, &Interrupt::default(), look).unwrap();
        // Two namespaces for each site, four that all share, and three of the outer pair.
        traces.assert_seen_and_gone_with(1, 11);
        let trips = round_trips(&run);
        assert!(!trips.is_empty() && trips.iter().all(|trip| *trip >= 10.0), "{trips:?}");
        assert!(run.progress.iter().any(|p| p.traffic == "cbr" && p.bytes > 0));
        let mut bundles: Vec<_> = run.ticks.iter().map(|tick| tick.bundle.as_str()).collect();
        bundles.sort_unstable();
        assert_eq!(bundles, ["b", "b", "outer"], "the stand-ins tick once each");
        assert!(run.bottleneck.iter().all(|record| record.source == 0), "one port for all sites");
        let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
        assert_eq!(hops, ["sendbox", "sendbox2", "link"]);
    }
}

/// The traffic of each site has the way of its number, and all of it passes one sendbox.
pub(crate) fn sites_take_ways_of_their_own() {
    for ip in [4, 6] {
        let traffic = "[[traffic]]\nname = \"near\"\nkind = \"udp_rr\"\nflows = 2\n\
                       [[traffic]]\nname = \"far\"\nkind = \"udp_rr\"\nflows = 2\nsite = 2\n\
                       [[traffic]]\nname = \"tcp\"\nkind = \"bulk\"\nsite = 2\n\
                       [[traffic]]\nname = \"udp\"\nkind = \"cbr\"\nrate = \"2 Mbit/s\"\nsite = 2\n";
        let text = format!(
            "name = \"x\"\nip = {ip}\nsites = 2\nwarmup = \"200 ms\"\nduration = \"1800 ms\"\n\
             [path]\nrate = \"40 Mbit/s\"\nrtt = \"10 ms\"\nspread = \"site\"\n\
             queue = {{ kind = \"fifo\", limit = \"100 packets\" }}\n\
             [[path.way]]\n[[path.way]]\nrate = \"10 Mbit/s\"\nrtt = \"40 ms\"\n{traffic}\n\
             [[arm]]\nname = \"one\"\n\
             sendbox = {{ policy = \"sfq\", limit = \"1000 packets\" }}\n"
        );
        let scenario = scenario::parse("x.toml".as_ref(), &text).unwrap().cells.remove(0);
        let mut traces = Traces::default();
        let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
        let look = &mut |_| traces.look(std::process::id());
        let run = Netns::default().run(&job, &Interrupt::default(), look).unwrap();
        traces.assert_seen_and_gone_with(1, 6);
        let trips = |name: &str| -> Vec<f64> {
            let own = run.round_trips.iter().filter(|trip| trip.traffic == name);
            own.filter_map(|trip| Some((trip.end? - trip.start) as f64 / 1e6)).collect()
        };
        let (near, far) = (trips("near"), trips("far"));
        assert!(near.iter().any(|trip| *trip < 20.0), "{near:?}");
        assert!(!far.is_empty() && far.iter().all(|trip| *trip >= 40.0), "{far:?}");
        for name in ["tcp", "udp"] {
            assert!(run.progress.iter().any(|p| p.traffic == name && p.bytes > 0), "{name}");
        }
        // The bottleneck of 10 Mbit/s bounds the second site's traffic.
        let bytes: u64 = run.progress.iter().map(|p| p.bytes).sum();
        let most = Rate::from_mbps(10).bytes_in(scenario.length() + Nanos::from_secs(1)).0;
        assert!(bytes < most, "{bytes} B");
        let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
        assert_eq!(hops, ["sendbox", "link"]);
    }
}
