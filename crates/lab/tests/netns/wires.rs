//! Wires that vary, lose and reorder: the emulator carries out what the simulator's code decides.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;

use forebay_lab::engine::{Engine, Interrupt, Job};
use forebay_lab::netns::Netns;
use forebay_lab::results::Run;
use forebay_lab::scenario::{self, Maker, Scenario};
use forebay_records::packet_log::Fate;
use forebay_units::Nanos;

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

/// The kernel's queues are paced at a constant rate, and the message says so.
pub(crate) fn what_the_engine_lacks_is_named() {
    let steps = "rate = \"40 Mbit/s\"\nrtt = \"10 ms\"\n\
                 steps = [{ at = \"500 ms\", rate = \"10 Mbit/s\" }]";
    let mut varying = scenario(steps, PING);
    varying.arms[0].queue.by = Maker::Kernel;
    let ways = scenario("rate = \"40 Mbit/s\"\nrtt = \"10 ms\"\nways = 2", PING);
    let mut late = scenario("rate = \"40 Mbit/s\"\nrtt = \"10 ms\"", PING);
    late.arms[0].start = Nanos::from_millis(500);
    for (scenario, says) in [
        (varying, "(`trace`, `steps`)"),
        (ways, "(`ways`, `[[path.way]]`)"),
        (late, "(`start` of [[arm]])"),
    ] {
        let job = Job { scenario: &scenario, arm: &scenario.arms[0], seed: 1 };
        let error = Netns::default().check(&job).unwrap_err().to_string();
        assert!(error.contains(says) && error.contains("--engine sim"), "{error}");
    }
}
