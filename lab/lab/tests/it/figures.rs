//! Tests of runs that keep figures instead of records.

use forebay_lab::analysis::{Analysis, Delay, Summary};
use forebay_lab::engine::{Engine, Interrupt, Job};
use forebay_lab::results::Run;
use forebay_lab::runner::{self, Options, RunError};
use forebay_lab::scenario::{Experiment, parse};
use forebay_lab::sim_engine::Sim;

/// All kinds of traffic, with and without L4S, over a DualPI2 and behind a sendbox.
const MIXED: &str = r#"
name = "mixed"
warmup = "2 s"
duration = "5 s"
cooldown = "1 s"
path = { rate = "48 Mbit/s", rtt = "20 ms", queue = { kind = "dualpi2", limit = "1000 packets" } }
[[traffic]]
name = "bulk"
kind = "bulk"
flows = 4
[[traffic]]
name = "l4s"
kind = "bulk"
flows = 2
congestion = "prague"
start = "1 s"
[[traffic]]
name = "web"
kind = "requests"
load = "20 %"
[[traffic]]
name = "loops"
kind = "udp_rr"
flows = 3
[[traffic]]
name = "call"
kind = "cbr"
rate = "1 Mbit/s"
[[arm]]
name = "plain"
sendbox = "forward"
[[arm]]
name = "boxed"
sendbox = { policy = "sfq", limit = "500 packets" }
"#;

fn experiment(text: &str) -> Experiment {
    parse("x.toml".as_ref(), text).unwrap()
}

fn figures(text: &str) -> Experiment {
    experiment(&format!("records = \"figures\"\n{text}"))
}

fn runs(of: &Experiment) -> Vec<Run> {
    let scenario = &of.cells[0];
    let run = |arm| Sim.run(&Job { scenario, arm, seed: 7 }, &Interrupt::default(), &mut |_| {});
    scenario.arms.iter().map(|arm| run(arm).unwrap()).collect()
}

/// Asserts that a delay is the other one within the accuracy of histograms, and rounding.
fn assert_close(what: &str, [ours, exact]: [Option<Delay>; 2]) {
    let (Some(ours), Some(exact)) = (ours, exact) else {
        assert_eq!(ours, exact, "{what}");
        return;
    };
    assert_eq!(ours.packets, exact.packets, "{what}");
    for (ours, exact) in [
        (ours.mean, exact.mean),
        (ours.p50, exact.p50),
        (ours.p90, exact.p90),
        (ours.p99, exact.p99),
    ] {
        assert!((ours - exact).abs() <= 0.002 * exact + 0.0011, "{what}: {ours} is not {exact}");
    }
}

#[test]
fn figures_are_those_of_the_records() {
    for (ours, exact) in runs(&figures(MIXED)).iter().zip(&runs(&experiment(MIXED))) {
        assert!(!exact.bottleneck.is_empty() && !exact.senders.is_empty());
        assert!(ours.bottleneck.is_empty() && ours.sendbox.is_empty() && ours.whose.is_empty());
        assert!(ours.senders.is_empty() && ours.ticks.is_empty() && ours.round_trips.is_empty());
        let [ours, exact] = [ours, exact].map(Analysis::of);
        assert_eq!(ours.course.goodput_mbps, exact.course.goodput_mbps);
        assert_eq!(ours.slowdowns, exact.slowdowns);
        assert_eq!(ours.decisions, exact.decisions);
        let counts = |a: &Analysis| -> Vec<Vec<u64>> {
            [&a.waits.bottleneck.all, &a.waits.sendbox.all, &a.course.round_trips_ms]
                .map(|all| all.spans.iter().map(|s| s.map_or(0, |s| s.packets)).collect())
                .into()
        };
        assert_eq!(counts(&ours), counts(&exact));
        let [ours, exact] = [ours.summary, exact.summary];
        let both = |delay: fn(&Summary) -> Option<Delay>| [delay(&ours), delay(&exact)];
        assert_close("bottleneck", both(|s| s.bottleneck_queue_ms));
        assert_close("sendbox", both(|s| s.sendbox_queue_ms));
        assert_close("l4s", both(|s| s.l4s.unwrap().bottleneck_l4s_ms));
        assert_close("classic", both(|s| s.l4s.unwrap().bottleneck_classic_ms));
        assert_close("l4s at the sendbox", both(|s| s.l4s.unwrap().sendbox_l4s_ms));
        assert_close("classic at the sendbox", both(|s| s.l4s.unwrap().sendbox_classic_ms));
        let signals = |s: &Summary| s.l4s.map(|l| (l.bottleneck_signals, l.sendbox_signals));
        assert_eq!(signals(&ours), signals(&exact));
        let [loops, exact_loops] = [&ours, &exact].map(|s| s.round_trips_ms["loops"]);
        assert_eq!((loops.count, loops.lost), (exact_loops.count, exact_loops.lost));
        // All other figures are equal.
        let rest = |summary: Summary| Summary {
            bottleneck_queue_ms: None,
            sendbox_queue_ms: None,
            l4s: None,
            who_waits: None,
            round_trips_ms: [].into(),
            estimates: None,
            ..summary
        };
        assert_eq!(rest(ours), rest(exact));
    }
}

#[test]
fn the_number_of_records_does_not_grow_with_time() {
    let of = |duration: &str| {
        let text = MIXED.replace("duration = \"5 s\"", &format!("duration = \"{duration}\""));
        // Requests are kept, one by one.
        let text = text.replace("load = \"20 %\"", "load = \"20 %\"\nstop = \"1500 ms\"");
        let run = runs(&figures(&text)).remove(1);
        let tally = run.tally.as_ref().unwrap();
        let spans = [&tally.bottleneck, &tally.sendbox].map(|queue| queue.spans.len());
        (run.progress.len(), run.requests.len(), spans, tally.loop_spans.len())
    };
    let (short, long) = (of("60 s"), of("120 s"));
    assert_eq!(short, long);
    assert_eq!(short.2, [120, 120]);
    assert!(short.0 <= 5 * 121, "{} records of progress", short.0);
}

#[test]
fn runs_without_records_are_not_stored() {
    let dir = std::env::temp_dir().join(format!("fb-figures-{}", std::process::id()));
    let options = Options { keep: Some(&dir), ..Options::default() };
    let (done, result) = runner::run(&Sim, &figures(MIXED), options, &Interrupt::default());
    assert!(done.is_empty() && matches!(result, Err(RunError::NoRecords)));
    assert!(!dir.exists());
}

#[test]
fn many_flows_run_from_a_file() {
    let text = MIXED
        .replace("flows = 4", "flows = 20000")
        .replace("\"5 s\"", "\"500 ms\"")
        .replace("\"2 s\"", "\"0 s\"");
    let run = runs(&figures(&text.replace("start = \"1 s\"", ""))).remove(0);
    let summary = Analysis::of(&run).summary;
    assert!(summary.conservation.ok, "{:?}", summary.conservation);
    // Each flow sends its initial window of ten segments.
    let link = summary.hops.iter().find(|hop| hop.hop == "link").unwrap();
    assert!(link.received > 20_000 * 10, "{link:?}");
}
