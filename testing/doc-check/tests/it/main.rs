//! The comments and the Markdown of this repository keep to the rules, and its crates to the order
//! of folders.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod folders;

use std::process::Command;

#[test]
fn the_repository_keeps_to_the_rules() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let check = Command::new(env!("CARGO_BIN_EXE_doc-check")).current_dir(root).output().unwrap();
    let findings = String::from_utf8(check.stdout).unwrap();
    assert!(check.status.success(), "{findings}{}", String::from_utf8_lossy(&check.stderr));
}
