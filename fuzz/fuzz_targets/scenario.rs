//! Parses scenario files from arbitrary text: an accepted experiment can be run.
#![no_main]

use forebay_lab::engine::jobs;
use forebay_lab::scenario::parse;
use forebay_units::{Bytes, Nanos};
use libfuzzer_sys::fuzz_target;

/// What the documentation promises of a file.
const MAX_RUNS: usize = 10_000;

fuzz_target!(|text: &str| {
    // Files of sizes are looked for beside it, where there are none.
    let Ok(experiment) = parse("/nonexistent/fuzz.toml".as_ref(), text) else { return };
    let runs = jobs(&experiment).count();
    assert!((1..=MAX_RUNS).contains(&runs), "{runs} runs");
    for cell in &experiment.cells {
        assert!(cell.duration > Nanos::ZERO && !cell.arms.is_empty());
        assert!(cell.measured().end <= cell.length());
        for traffic in &cell.traffic {
            assert!(traffic.start < traffic.stop && traffic.stop <= cell.length());
        }
        for arm in &cell.arms {
            assert!(arm.queue.limit_bytes(&cell.path) > Bytes::ZERO);
        }
    }
});
