use forebay_records::packet_log::{Fate, Record};
use forebay_units::{Bytes, Nanos, Rate};

use super::*;
use crate::analysis::Analysis;
use crate::results::{HopCounters, Progress, Run};

/// A run of a second whose goodput is `mbps` and whose packets all wait `wait` milliseconds.
fn summary(rate: u64, arm: &str, seed: u64, mbps: u64, wait: u64) -> Summary {
    let record = Record {
        time: Nanos::from_millis(500),
        sojourn: Nanos::from_millis(wait),
        len: Bytes(1514),
        source: 0,
        flow: 0,
        fate: Fate::Sent,
        l4s: false,
        marked: false,
    };
    let progress =
        Progress { traffic: "bulk".into(), flow: 0, time: 1_000_000_000, bytes: mbps * 125_000 };
    Analysis::of(&Run {
        arm: arm.into(),
        seed,
        labels: [("flows".to_owned(), "10".to_owned())].into(),
        end: Nanos::from_secs(1),
        rate: Rate::from_mbps(rate),
        base_rtt: Nanos::from_millis(50),
        progress: vec![progress],
        bottleneck: vec![record],
        hops: vec![HopCounters { hop: "link".into(), ..HopCounters::default() }],
        ..Run::default()
    })
    .summary
}

fn difference(pair: &Pair, measure: Measure) -> &Difference {
    pair.measures.iter().find(|d| d.measure == measure).unwrap()
}

#[test]
fn medians_of_matched_seeds_are_compared() {
    let a: Vec<_> =
        [(1, 80), (2, 90), (3, 70), (9, 10)].map(|(s, m)| summary(96, "x", s, m, 20)).into();
    let b: Vec<_> =
        [(3, 84), (1, 85), (2, 100), (4, 10)].map(|(s, m)| summary(96, "x", s, m, 23)).into();
    let c = compare(&a, &b, &Bands::default());
    assert_eq!((c.only_a, c.only_b, c.pairs.len()), (1, 1, 1));
    let pair = &c.pairs[0];
    assert_eq!(
        (pair.cell.as_str(), &pair.seeds[..]),
        ("96 Mbit/s, 50 ms, 10 flows", &[1, 2, 3][..])
    );
    let throughput = difference(pair, Measure::Throughput);
    assert_eq!(throughput.a, Some(Spread { min: 70.0, median: 80.0, max: 90.0 }));
    assert_eq!(throughput.b, Some(Spread { min: 84.0, median: 85.0, max: 100.0 }));
    assert_eq!((throughput.absolute, throughput.relative), (Some(5.0), Some(0.0625)));
    assert!(!throughput.within, "5 % are allowed");
    assert!(difference(pair, Measure::DelayMean).within, "15 % are 3 ms");
    assert!(!pair.within);
    assert_eq!(c.by_measure["throughput"], Tally { judged: 1, within: 0 });
    assert_eq!(c.by_measure["delay_mean"], Tally { judged: 1, within: 1 });
    assert!(!c.by_measure.contains_key("slowdown_p50"), "neither had requests");
    let wide = compare(&a, &b, &"throughput=10%".parse().unwrap());
    assert!(wide.pairs[0].within);
}

#[test]
fn misses_are_counted_by_axis() {
    let runs = |wait_at_24| {
        [(96, "x", 20), (96, "y", 20), (24, "x", wait_at_24), (24, "y", 20)]
            .map(|(rate, arm, wait)| summary(rate, arm, 1, 10, wait))
    };
    let c = compare(&runs(20), &runs(30), &Bands::default());
    assert_eq!(c.total, Tally { judged: 4, within: 3 });
    assert_eq!(c.total.share(), Some(0.75));
    assert_eq!(c.by_axis["rate"]["24 Mbit/s"], Tally { judged: 2, within: 1 });
    assert_eq!(c.by_axis["arm"]["y"], Tally { judged: 2, within: 2 });
    assert_eq!(c.by_axis["flows"]["10"], Tally { judged: 4, within: 3 });
    let text = text(&c, false);
    assert!(text.contains("3 of 4 pairs are within all their bands (75.0 %)."), "{text}");
    assert_eq!(text.matches("MISS").count(), 2, "mean and 99th percentile: {text}");
    assert!(text.contains("Pairs within, by rate:") && !text.contains("by flows"), "{text}");
    let html = html(&c, "sim", "netns <real>");
    assert!(html.contains("netns &lt;real&gt;") && html.contains("Out of their bands"));
    let markdown = markdown(&c, "sim", "netns");
    assert!(markdown.contains("| 24 Mbit/s | 2 | 1 | 50.0 % |"), "{markdown}");
}

#[test]
fn what_only_one_has_is_a_miss() {
    let (a, mut b) = ([summary(96, "x", 1, 10, 3)], [summary(96, "x", 1, 10, 3)]);
    b[0].bottleneck_queue_ms = None;
    let c = compare(&a, &b, &Bands::default());
    let delay = difference(&c.pairs[0], Measure::DelayMean);
    assert!(!delay.within && delay.b.is_none() && delay.absolute.is_none());
    let any = compare(&a, &b, &"delay=any".parse().unwrap());
    assert!(any.pairs[0].within && !any.by_measure.contains_key("delay_mean"));
}

#[test]
fn nothing_in_common() {
    let c = compare(&[summary(96, "x", 1, 1, 1)], &[summary(96, "y", 1, 1, 1)], &Bands::default());
    assert_eq!((c.only_a, c.only_b, c.total.share()), (1, 1, None));
    assert!(text(&c, false).contains("no run of the same cell, arm and seed"));
    let json = serde_json::to_value(&c).unwrap();
    assert_eq!(json["total"]["judged"], 0);
}

#[test]
fn a_run_that_is_there_twice_is_not_matched_twice() {
    let run = || summary(96, "x", 1, 1, 1);
    let c = compare(&[run(), run()], &[run(), run()], &Bands::default());
    assert_eq!((c.pairs.len(), c.only_a, c.only_b), (1, 1, 1));
}

#[test]
fn stored_runs_and_summaries_are_read_alike() {
    let dir = std::env::temp_dir().join(format!("fb-compare-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let run = Run {
        arm: "x".into(),
        end: Nanos::from_secs(1),
        rate: Rate::from_mbps(96),
        ..Run::default()
    };
    let file = dir.join(crate::results::store::file_name(&run));
    crate::results::store::save(&file, &run).unwrap();
    let summaries = vec![Analysis::of(&run).summary];
    let json = dir.join("all.json");
    std::fs::write(&json, serde_json::to_string(&summaries).unwrap()).unwrap();
    let found = [dir.as_path(), &file, &json].map(|path| load(path).unwrap());
    std::fs::write(&json, "[{}]").unwrap();
    let damaged = load(&json).unwrap_err().to_string();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(found.iter().all(|f| *f == summaries));
    assert!(damaged.contains("line 1: not summaries of runs"), "{damaged}");
    assert!(load(&dir).is_err());
}

#[test]
fn arms_of_one_result_are_held_against_each_other() {
    let runs: Vec<_> =
        [("fifo_forebay", 20), ("fifo_kernel", 23), ("sfq_forebay", 9), ("other", 1)]
            .map(|(arm, wait)| summary(96, arm, 1, 80, wait))
            .into();
    let arms: Arms = "forebay=kernel".parse().unwrap();
    let (a, b) = arms.select(runs.clone(), runs);
    let c = compare(&a, &b, &Bands::default());
    assert_eq!((c.pairs.len(), c.only_a, c.only_b), (1, 1, 0));
    assert_eq!(c.pairs[0].arm, "fifo");
    assert_eq!(difference(&c.pairs[0], Measure::DelayMean).absolute, Some(3.0));
}

#[test]
fn single_runs_are_compared_with_the_other_runs() {
    // Waits in milliseconds, allowed are 15 % or 2 ms.
    let runs = |seeds: &[(u64, u64)]| -> Vec<Summary> {
        seeds.iter().map(|(seed, wait)| summary(96, "x", *seed, 80, *wait)).collect()
    };
    let (a, b) = (runs(&[(1, 20), (4, 21), (5, 30)]), runs(&[(1, 20), (2, 21), (3, 40)]));
    let c = leave_one_out(&a, &b, &Bands::default());
    let pair = &c.pairs[0];
    assert_eq!(pair.seeds, [1, 2, 3, 4, 5], "all seeds count");
    assert!(pair.within, "21 against 21");
    let of_a = Tally { judged: 3, within: 2 };
    // 20 against 30.5, 21 against 30, 40 against 20.5.
    let of_b = Tally { judged: 3, within: 0 };
    assert_eq!(pair.single_runs, Some(SingleRuns { a: of_a, b: of_b }));
    let SingleRuns { a: one_a, b: one_b } = c.single_runs.unwrap();
    assert!((one_a - 2.0 / 3.0).abs() < 1e-9 && one_b == 0.0);
    assert!(
        text(&c, false).contains("in 0.0 of them, and one run of A within those around B in 0.7")
    );
    let markdown = markdown(&c, "sim", "uml");
    assert!(markdown.contains("| 2/3 | 0/3 |"), "{markdown}");

    let close = leave_one_out(&a, &runs(&[(1, 20), (2, 21)]), &Bands::default());
    assert_eq!(close.pairs[0].single_runs.unwrap().b, Tally { judged: 2, within: 2 });
    let one = leave_one_out(&a, &runs(&[(9, 20)]), &Bands::default());
    assert_eq!((one.single_runs, one.pairs.len()), (None, 1), "one run of B predicts nothing");
    assert_eq!(compare(&a, &b, &Bands::default()).pairs[0].seeds, [1]);
    assert_eq!(leave_one_out(&a, &[], &Bands::default()).only_a, 3);
}
