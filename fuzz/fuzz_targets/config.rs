//! Parses the boxes' configuration files from arbitrary text: an error is one line that names the
//! file, and an accepted configuration keeps its invariants.
#![no_main]

use std::collections::BTreeSet;
use std::path::Path;

use forebay_box::config::{Configuration, ReceiveboxConfig, SendboxConfig};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // Keys are looked for beside it, where there are none.
    let path = Path::new("/nonexistent/fuzz.toml");
    match SendboxConfig::parse(path, text) {
        Ok(config) => {
            let names: BTreeSet<_> = config.bundles.iter().map(|b| &b.name).collect();
            assert_eq!(names.len(), config.bundles.len());
            assert!(config.bundles.is_empty() || config.listen.is_some());
        }
        Err(e) => assert_one_line(&e),
    }
    match ReceiveboxConfig::parse(path, text) {
        Ok(config) => assert!(config.peers.iter().all(|p| !p.prefixes.is_empty())),
        Err(e) => assert_one_line(&e),
    }
});

fn assert_one_line(error: &impl std::fmt::Display) {
    let said = error.to_string();
    assert!(said.starts_with("/nonexistent/fuzz.toml") && said.lines().count() == 1, "{said:?}");
}
