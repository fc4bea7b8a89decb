//! Reads results of other tools, JSON or crusader's own format, from arbitrary files: an accepted
//! result has runs that can be analysed.
#![no_main]

use forebay_lab::analysis::Analysis;
use forebay_lab::results::external::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let Ok(runs) = parse("fuzz.crr".as_ref(), file) else { return };
    assert!(runs.iter().any(|run| !run.progress.is_empty() || !run.round_trips.is_empty()));
    for run in &runs {
        let _ = Analysis::of(run);
    }
});
