//! Reads the file of what a box knows of its paths: what is accepted can be written and read again
//! unchanged.
#![no_main]

use forebay_records::KnownPaths;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let Ok(paths) = KnownPaths::parse(file) else { return };
    assert_eq!(KnownPaths::parse(&paths.to_bytes()), Ok(paths));
});
