//! Compares the kernel's qdiscs, as policies of a sendbox with `dataplane = "kernel"`, with our own
//! in the same scenario: real TCP in virtual time. It needs a kernel for that.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use forebay_lab::analysis::Analysis;
use forebay_lab::results::{Run, store};
use forebay_test_support::Dir;

use crate::support::lab::has_uml_kernel;

/// Figures of one arm of `experiments/validation/policies.toml`.
#[derive(Debug)]
struct Shown {
    /// Goodput of all backlogged flows together.
    goodput_mbps: f64,
    /// Goodput of the slowest of the four flows over that of the fastest.
    evenness: f64,
    /// Median wait of a small packet beside them, without the path's round-trip time.
    median_wait_ms: f64,
    /// Shares of the estimates of the round-trip time and of the rate that are as accurate as those
    /// of the Bundler prototype.
    estimates: [f64; 2],
}

impl Shown {
    fn of(run: &Run) -> Self {
        let summary = Analysis::of(run).summary;
        let no_violation: [String; 0] = [];
        assert_eq!(summary.conservation.violations, no_violation);
        let mut flows: BTreeMap<u32, u64> = BTreeMap::new();
        let measured = run.progress.iter().filter(|p| p.time > run.start.0);
        for p in measured.filter(|p| p.traffic == "backlogged") {
            *flows.entry(p.flow).or_default() += p.bytes;
        }
        let (least, most) = (flows.values().min().unwrap(), flows.values().max().unwrap());
        let estimates = summary.estimates.unwrap();
        let within = |d: Option<forebay_lab::analysis::Differences>| d.unwrap().within;
        Self {
            goodput_mbps: summary.goodput_by_traffic_mbps["backlogged"],
            evenness: *least as f64 / *most as f64,
            median_wait_ms: summary.round_trips_ms["loop"].p50.unwrap() - summary.base_rtt_ms,
            estimates: [within(estimates.rtt_ms), within(estimates.receive_rate_mbps)],
        }
    }
}

/// Runs a validation scenario with a dataplane and returns the figures of its arms, by name.
fn run(name: &str, dataplane: &str) -> BTreeMap<String, Shown> {
    let dir = Dir::new(&format!("{name}-{dataplane}"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_forebay-lab"))
        .args(["run", "--engine", "uml", "--dataplane", dataplane])
        .arg(root.join(format!("experiments/validation/{name}.toml")))
        .arg("--out")
        .arg(&dir.0)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let runs = store::files(&dir.0).unwrap();
    let runs = runs.iter().map(|file| store::load(file).unwrap());
    runs.map(|run| (run.arm.clone(), Shown::of(&run))).collect()
}

#[test]
fn kernel_qdiscs_are_as_fair_and_as_quick_as_ours() {
    if !has_uml_kernel() {
        return;
    }
    let ours = run("policies", "user");
    let mut kernels = run("policies", "kernel");
    kernels.extend(run("cake", "kernel"));
    println!("ours: {ours:#?}\nthe kernel's: {kernels:#?}");
    for (whose, arms, count) in [("ours", &ours, 4), ("the kernel's", &kernels, 5)] {
        assert_eq!(arms.len(), count);
        for (arm, shown) in arms {
            // The link has 24 Mbit/s, a twentieth of which is headers.
            assert!(shown.goodput_mbps > 21.5, "{whose} {arm}: {shown:?}");
            assert!(shown.estimates.iter().all(|w| *w >= 0.8), "{whose} {arm}: {shown:?}");
        }
        let fifo = &arms["fifo"];
        for (arm, shown) in arms.iter().filter(|(arm, _)| *arm != "fifo") {
            assert!(shown.evenness > 0.85, "{whose} {arm}: {shown:?}");
            // One round of four full packets, and the queue of the bottleneck.
            assert!(shown.median_wait_ms < 6.0, "{whose} {arm}: {shown:?}");
            assert!(shown.median_wait_ms * 1.5 < fifo.median_wait_ms, "{arm}: {shown:?}, {fifo:?}");
        }
    }
}
