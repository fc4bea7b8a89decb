//! Reads stored runs from arbitrary files: an accepted run can be written, read again unchanged,
//! and analysed.
#![no_main]

use forebay_lab::analysis::Analysis;
use forebay_lab::results::store::{parse, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let path = "fuzz.jsonl".as_ref();
    let Ok(run) = parse(path, file) else { return };
    let mut written = Vec::new();
    write(&mut written, &run).expect("memory takes it");
    let again = parse(path, written.as_slice()).expect("what was written is read");
    assert_eq!(again, run);
    let _ = Analysis::of(&run);
});
