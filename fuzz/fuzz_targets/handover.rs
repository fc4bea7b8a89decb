//! Reads what another process handed over: an accepted state can be written and read again
//! unchanged, and no input is too deep or too long.
#![no_main]

use forebay_records::Handover;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let Ok(handover) = Handover::parse(text) else { return };
    let written = serde_json::to_vec(&handover).expect("numbers and texts can be written");
    assert_eq!(Handover::parse(&written), Ok(handover));
});
