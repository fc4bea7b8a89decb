//! Wires that vary, lose and reorder: the emulator carries out what the simulator's code decides.
//!
//! A busy machine makes round trips longer and rates lower, so these tests assert bounds on the
//! other side. The module `measured` asserts both.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use forebay_lab::engine::{Engine, Interrupt, Job};
use forebay_lab::netns::Dataplane;
use forebay_lab::results::Run;
use forebay_lab::scenario::{self, Maker, Scenario, Sendbox};
use forebay_records::packet_log::Fate;
use forebay_test_support::traces::Traces;
use forebay_units::{Nanos, Rate};

use crate::with_stand_ins;

/// Returns a scenario of two seconds with this path, traffic and one bundle.
pub(crate) fn scenario(path: &str, traffic: &str) -> Scenario {
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

pub(crate) fn cbr(rate: &str) -> String {
    format!("[[traffic]]\nname = \"cbr\"\nkind = \"cbr\"\nrate = \"{rate}\"\nsize = \"1400 B\"\n")
}

const PING: &str = "[[traffic]]\nname = \"ping\"\nkind = \"udp_rr\"\nflows = 4\n";

pub(crate) fn run(scenario: &Scenario) -> Run {
    super::run(scenario, &Interrupt::default()).unwrap()
}

/// The bytes that left the bottleneck, by time in nanoseconds from the start of the run.
pub(crate) fn departures(scenario: &Scenario, run: &Run) -> BTreeMap<u64, u64> {
    let begin = run.start - scenario.warmup;
    let mut bytes = BTreeMap::new();
    for record in run.bottleneck.iter().filter(|r| r.fate == Fate::Sent && r.time >= begin) {
        *bytes.entry((record.time - begin).0).or_default() += record.len.0;
    }
    bytes
}

/// The rate at which bytes left the bottleneck in this part of the run.
pub(crate) fn rate(departures: &BTreeMap<u64, u64>, ms: Range<u64>) -> f64 {
    let seconds = (ms.end - ms.start) as f64 / 1e3;
    let bytes: u64 = departures.range(ms.start * 1_000_000..ms.end * 1_000_000).map(|d| d.1).sum();
    bytes as f64 * 8e-6 / seconds
}

/// Returns the lengths of the answered round trips in milliseconds.
pub(crate) fn round_trips(run: &Run) -> Vec<f64> {
    run.round_trips.iter().filter_map(|r| Some((r.end? - r.start) as f64 / 1e6)).collect()
}

/// Returns those of one traffic.
pub(crate) fn round_trips_of(run: &Run, traffic: &str) -> Vec<f64> {
    let own = run.round_trips.iter().filter(|trip| trip.traffic == traffic);
    own.filter_map(|trip| Some((trip.end? - trip.start) as f64 / 1e6)).collect()
}

/// Asserts that every packet that came to the link left it, was dropped or is still there.
fn assert_accounted(run: &Run) {
    let link = &run.hops[1];
    let gone = link.sent + link.policy_drops + link.queued + link.lost;
    assert!(link.received == gone && link.received > 0, "{link:?}");
}

/// The time between two chances of the trace of [`bursts`], in nanoseconds.
pub(crate) const PERIOD: u64 = 20_000_000;
/// The bytes of a full burst of [`bursts`]: 80 packets of 1504 bytes. A frame of 1442 bytes counts
/// with 1432, so at most a frame of each burst is left over.
pub(crate) const BURST: u64 = 80 * 1_504 / 1_432 * 1_442;
/// The length of a frame.
pub(crate) const FRAME: u64 = 1_442;

/// Runs 64 Mbit/s over a trace that lets 80 packets pass every 20 ms, which is 48.1 Mbit/s. Returns
/// the run and its departures.
pub(crate) fn bursts() -> (Run, BTreeMap<u64, u64>) {
    let name = format!("fb-burst-{}.trace", std::process::id());
    let file = std::env::temp_dir().join(&name);
    fs::write(&file, "20\n".repeat(80)).unwrap();
    let scenario = scenario(&format!("rtt = \"10 ms\"\ntrace = \"{name}\""), &cbr("64 Mbit/s"));
    fs::remove_file(&file).unwrap();
    let run = run(&scenario);
    let departures = departures(&scenario, &run);
    (run, departures)
}

pub(crate) fn a_trace_is_served_in_bursts() {
    let (run, departures) = bursts();
    let outside: Vec<_> = departures.keys().filter(|time| **time % PERIOD != 0).collect();
    assert!(outside.is_empty(), "packets leave only when the trace allows it: {outside:?}");
    let large: Vec<_> = departures.values().filter(|bytes| **bytes > BURST + 2 * FRAME).collect();
    assert!(!departures.is_empty() && large.is_empty(), "at most {BURST} at once: {large:?}");
    assert_accounted(&run);
    assert_eq!(run.hops[1].lost, 0);
}

/// Runs 60 Mbit/s over a path of 40, 10, 0 and 20 Mbit/s with loss. Returns the run and its
/// departures.
pub(crate) fn steps_and_loss() -> (Run, BTreeMap<u64, u64>) {
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"\nloss = \"20 %\"\nsteps = [\
                { at = \"500 ms\", rate = \"10 Mbit/s\" }, { at = \"1 s\", rate = \"0 bit/s\" }, \
                { at = \"1200 ms\", rate = \"20 Mbit/s\" }]";
    let scenario = scenario(path, &cbr("60 Mbit/s"));
    let run = run(&scenario);
    let departures = departures(&scenario, &run);
    (run, departures)
}

/// The parts of the run of [`steps_and_loss`] in milliseconds, with their rates in Mbit/s.
pub(crate) const STEPS: [(Range<u64>, f64); 4] =
    [(100..500, 40.0), (500..1_000, 10.0), (1_010..1_200, 0.0), (1_200..1_900, 20.0)];

/// No more leaves than each step allows, and nothing during an outage.
pub(crate) fn steps_and_loss_are_carried_out() {
    let (run, departures) = steps_and_loss();
    for (ms, most) in STEPS {
        let rate = rate(&departures, ms.clone());
        assert!(rate < most + 0.5, "{rate} Mbit/s at {ms:?} ms, not {most}");
    }
    assert_accounted(&run);
    let sent = run.bottleneck.iter().filter(|r| r.fate == Fate::Sent).count() as f64;
    let share = run.hops[1].lost as f64 / sent;
    let deviation = (0.2 * 0.8 / sent).sqrt();
    assert!((share - 0.2).abs() < 5.0 * deviation, "{share} of {sent} packets lost");
}

/// Returns scenarios whose round trips take 20 ms for a second, and then 60 ms. The first has only
/// closed loops, and the second also jitter and other packets.
pub(crate) fn varying_delays() -> (Scenario, Scenario) {
    let name = format!("fb-delays-{}.delay", std::process::id());
    let file = std::env::temp_dir().join(&name);
    fs::write(&file, "10\n".repeat(100) + &"30\n".repeat(100)).unwrap();
    let path = format!("rate = \"40 Mbit/s\"\ndelay_trace = \"{name}\"");
    let calm = scenario(&path, PING);
    let path = path + "\njitter = { up_to = \"8 ms\", reorders = true }";
    let stormy = scenario(&path, &(PING.to_owned() + &cbr("10 Mbit/s")));
    fs::remove_file(&file).unwrap();
    (calm, stormy)
}

/// Round trips are as long as the trace of delays says, or longer, with jitter or without.
pub(crate) fn delays_vary() {
    let (calm, stormy) = varying_delays();
    for scenario in [calm, stormy] {
        let run = run(&scenario);
        let change = (run.start - scenario.warmup).0 + 1_000_000_000;
        // The trace begins again after two seconds.
        let ends = change + 1_000_000_000;
        let trips = |late: bool| -> Vec<f64> {
            let own = run.round_trips.iter().filter(|trip| (trip.start >= change) == late);
            let answered = own.filter_map(|trip| Some((trip.start, trip.end?)));
            let in_time = answered.filter(|(_, end)| *end < ends);
            in_time.map(|(start, end)| (end - start) as f64 / 1e6).collect()
        };
        let (before, after) = (trips(false), trips(true));
        assert!(
            before.iter().all(|t| *t >= 20.0) && before.iter().any(|t| *t < 60.0),
            "{before:?}"
        );
        assert!(!after.is_empty() && after.iter().all(|t| *t >= 60.0), "{after:?}");
    }
}

/// Returns scenarios with a policer of 20 Mbit/s, and with two sites of which the second's path is
/// longer.
pub(crate) fn policer_and_sites() -> (Scenario, Scenario) {
    let path = "rate = \"400 Mbit/s\"\nrtt = \"10 ms\"\n\
                policer = { rate = \"20 Mbit/s\", burst = \"30 kB\" }";
    let policed = scenario(path, &cbr("30 Mbit/s"));
    let sites = scenario(
        "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"",
        &format!("[[site]]\n[[site]]\nrtt = \"40 ms\"\n{PING}{}", PING.replace("ping", "far"))
            .replacen("name = \"far\"", "name = \"far\"\nsite = 2", 1),
    );
    (policed, sites)
}

/// The sites of [`policer_and_sites`]: their traffic, and their round trips in milliseconds.
pub(crate) const SITES: [(&str, f64); 2] = [("ping", 10.0), ("far", 40.0)];

/// A policer drops at once, and a second site's path is longer.
pub(crate) fn a_policer_and_a_longer_path() {
    let (policed, sites) = policer_and_sites();
    let run = run(&policed);
    let rate = rate(&departures(&policed, &run), 200..1_900);
    assert!(rate > 0.0 && rate < 20.4, "{rate} Mbit/s pass");
    let link = &run.hops[1];
    assert!(link.policy_drops > 0 && link.lost == 0, "{link:?}");
    assert_accounted(&run);

    let run = self::run(&sites);
    for (name, rtt) in SITES {
        let trips = round_trips_of(&run, name);
        assert!(!trips.is_empty() && trips.iter().all(|trip| *trip >= rtt), "{name}: {trips:?}");
    }
    let near = round_trips_of(&run, "ping");
    assert!(near.iter().any(|trip| *trip < 40.0), "its path is shorter: {near:?}");
}

/// Frames wait and are lost on the way back.
pub(crate) fn the_way_back_is_slow_and_lossy() {
    // A loop's request of 82 bytes takes 13 ms at 50 kbit/s, and four loops share the way back.
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let slow = scenario(&format!("{path}\nback = {{ rate = \"50 kbit/s\" }}"), PING);
    let slow = run(&slow);
    let trips = round_trips(&slow);
    assert!(trips.len() > 12, "{trips:?}");
    let late = trips.iter().skip(8).filter(|t| **t > 40.0).count();
    assert!(late * 10 > (trips.len() - 8) * 8, "{trips:?}");
    assert_accounted(&slow);
    let lossy = run(&scenario(&format!("{path}\nback = {{ loss = \"30 %\" }}"), PING));
    let link = &lossy.hops[1];
    assert!(link.lost > 0, "{link:?}");
}

/// Runs 10 Mbit/s through a sendbox that ends after 600 ms and is started again after a second.
/// The stand-in's bridge forwards while it is stopped.
pub(crate) fn restarted() -> (Scenario, Run) {
    let fault = "[[fault]]\nprocess = \"sendbox\"\nat = \"600 ms\"\nback = \"1 s\"\n";
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let mut scenario = scenario(path, &(fault.to_owned() + &cbr("10 Mbit/s")));
    scenario.duration = Nanos::from_millis(3_800);
    let run = run(&scenario);
    (scenario, run)
}

/// The sendbox is started again, and its records are those of both lives.
pub(crate) fn a_sendbox_is_restarted() {
    let (scenario, run) = restarted();
    let [record] = &run.faults[..] else { panic!("{:?}", run.faults) };
    let begin = (run.start - scenario.warmup).0;
    let (killed, ready) = (record.killed - begin, record.ready.unwrap() - begin);
    assert_eq!(record.process, "sendbox");
    assert!(killed >= 600_000_000 && ready >= 1_000_000_000, "{record:?}");
    assert_eq!(run.ticks.len(), 2, "the stand-in ticks once in each life");
    let hops: Vec<_> = run.hops.iter().map(|hop| hop.hop.as_str()).collect();
    assert_eq!(hops, ["sendbox", "link"]);
    let departures = departures(&scenario, &run);
    assert!(departures.range(..killed).next().is_some(), "{killed}: {departures:?}");
    assert!(departures.range(ready..).next().is_some(), "{ready}: {departures:?}");
}

/// Returns a scenario with two ways of 10 Mbit/s, of which the second is longer.
pub(crate) fn two_ways(spread: &str, traffic: &str) -> Scenario {
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let ways = "[[path.way]]\nrate = \"10 Mbit/s\"\n[[path.way]]\nrate = \"10 Mbit/s\"\n\
                rtt = \"40 ms\"\n";
    // The tables of ways are after the path's keys.
    let spread = format!("{path}\nspread = \"{spread}\"");
    let mut scenario = scenario(&spread, &format!("{ways}{traffic}"));
    scenario.path.rtt = Nanos::from_millis(10);
    scenario
}

/// Returns the shortest round trip of each of 16 flows over two ways, in milliseconds.
pub(crate) fn shortest_of_flows() -> Vec<f64> {
    let udp = "[[traffic]]\nname = \"udp\"\nkind = \"udp_rr\"\nflows = 16\n";
    let run = run(&two_ways("flow", udp));
    let mut of_flows = BTreeMap::<_, f64>::new();
    for trip in &run.round_trips {
        let shortest = of_flows.entry(trip.flow).or_insert(f64::MAX);
        *shortest = trip.end.map_or(*shortest, |end| shortest.min((end - trip.start) as f64 / 1e6));
    }
    of_flows.into_values().collect()
}

/// Two ways of different delays serve no more than each would serve alone, and flows stay on
/// theirs; by packets, each loop sees both.
pub(crate) fn several_ways_carry_the_path() {
    let shortest = shortest_of_flows();
    assert!(shortest.len() == 16 && shortest.iter().all(|trip| *trip >= 10.0), "{shortest:?}");
    // Of 16 flows all take the same way once in 32 768 times.
    let long = shortest.iter().filter(|trip| **trip >= 39.9).count();
    assert!((1..16).contains(&long), "{shortest:?}");

    let one = "[[traffic]]\nname = \"one\"\nkind = \"udp_rr\"\nflows = 1\n";
    let trips = round_trips(&run(&two_ways("packet", one)));
    let far = trips.iter().filter(|trip| **trip >= 40.0).count();
    assert!(far > 0 && far < trips.len(), "{trips:?}");

    let scenario = two_ways("packet", &cbr("30 Mbit/s"));
    let run = run(&scenario);
    let rate = rate(&departures(&scenario, &run), 300..1_900);
    assert!(rate > 0.0 && rate < 20.4, "each way carries 10 Mbit/s: {rate}");
    let sent = run.bottleneck.iter().filter(|record| record.fate == Fate::Sent);
    assert!(sent.is_sorted_by_key(|record| record.time), "records are in the order of departure");
    assert_accounted(&run);
}

/// Returns a scenario whose path becomes 40 ms longer after a second, and one with a transfer whose
/// way back is longer.
pub(crate) fn longer_paths() -> (Scenario, Scenario) {
    let path = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"";
    let fault = "[[fault]]\nat = \"1 s\"\nrtt = \"50 ms\"\n";
    let bulk = "[[traffic]]\nname = \"tcp\"\nkind = \"bulk\"\nflows = 1\nrtt = \"150 ms\"\n";
    (scenario(path, &(fault.to_owned() + PING)), scenario(path, &(bulk.to_owned() + PING)))
}

/// The path's delay changes in the middle, and one traffic's way back is longer from the start.
pub(crate) fn a_route_changes_and_a_traffic_s_way_back_is_longer() {
    let (changed, later) = longer_paths();
    let run = run(&changed);
    let change = (run.start - changed.warmup).0 + 1_000_000_000;
    let (mut before, mut after) = (Vec::new(), 0);
    for trip in &run.round_trips {
        let Some(end) = trip.end else { continue };
        let (rtt, least) = (end - trip.start, if trip.start >= change { 50 } else { 10 });
        assert!(rtt >= least * 1_000_000, "{trip:?}");
        before.extend((end < change).then_some(rtt));
        after += u32::from(trip.start >= change);
    }
    assert!(before.iter().any(|rtt| *rtt < 50_000_000) && after > 0, "{before:?}, {after} after");

    let run = self::run(&later);
    // The ACKs of the transfer take 145 ms: its first bytes are a window, and the second window
    // comes a round trip later.
    let until = (run.start - later.warmup).0 + 100_000_000;
    let early = run.progress.iter().filter(|p| p.traffic == "tcp" && p.time <= until);
    let early: u64 = early.map(|p| p.bytes).sum();
    assert!(early < 30_000, "{early}");
    let pings = round_trips(&run);
    assert!(pings.iter().any(|trip| *trip < 100.0), "others keep the path's: {pings:?}");
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
        let error = with_stand_ins(Dataplane::User).check(&job).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{error}");
    }
    let mut nested = scenario(plain, PING);
    if let Sendbox::Bundle(own) = nested.arms[0].sendbox {
        nested.arms[0].outer = Some(own);
    }
    let job = Job { scenario: &nested, arm: &nested.arms[0], seed: 1 };
    let error = with_stand_ins(Dataplane::Kernel).check(&job).unwrap_err().to_string();
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
        let run = with_stand_ins(Dataplane::User).run(&job, &Interrupt::default(), look).unwrap();
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
        let run = with_stand_ins(Dataplane::User).run(&job, &Interrupt::default(), look).unwrap();
        traces.assert_seen_and_gone_with(1, 6);
        let (near, far) = (round_trips_of(&run, "near"), round_trips_of(&run, "far"));
        assert!(near.iter().any(|trip| *trip < 40.0), "its way is shorter: {near:?}");
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
