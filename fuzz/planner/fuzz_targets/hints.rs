//! Reads stored hints or stored announcements; the first byte chooses which.
#![no_main]

use forebay_plan::hints;
use forebay_plan::hints::announce::Journal;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let lines = 1 + text.lines().count();
    let error = if kind % 2 == 0 {
        match hints::read("h".as_ref(), text) {
            Ok(hints) => {
                // What was read can be written, and read again.
                let again = serde_json::to_string(&hints).expect("what was read is JSON");
                let again = hints::read("h".as_ref(), &again).expect("it was read before");
                assert_eq!(again.neighbours.len(), hints.neighbours.len());
                None
            }
            Err(e) => Some(e),
        }
    } else {
        match Journal::read("j".as_ref(), text) {
            Ok(journal) => {
                let again = Journal::read("j".as_ref(), &journal.text());
                assert_eq!(again.expect("it was read before"), journal);
                None
            }
            Err(e) => Some(e),
        }
    };
    if let Some(error) = error {
        assert!(error.line.is_some_and(|line| (1..=lines + 1).contains(&line)), "{error}");
        assert!(!error.message.is_empty());
    }
});
