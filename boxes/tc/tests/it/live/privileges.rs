//! What the crate says to a process without rights: this test binary is run again as one.

use std::env;
use std::process::Command;

use forebay_tc::{Error, Features};
use forebay_test_support::has_root;

/// What to be, if not a test.
const ROLE: &str = "FB_TC_ROLE";

/// The entry of the other role; as a test it does nothing.
#[test]
fn another_role() {
    if env::var(ROLE).as_deref() != Ok("nobody") {
        return;
    }
    // SAFETY: integers; of this process alone.
    assert_eq!(unsafe { libc::setuid(65_534) }, 0);
    let error = Features::probe().unwrap_err();
    assert!(matches!(error, Error::Permission(_)), "{error}");
    println!("\n{error}");
}

#[test]
fn without_rights_there_is_one_clear_line() {
    if !has_root() {
        return;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "live::privileges::another_role", "--nocapture"])
        .env(ROLE, "nobody")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let expected = "making a network namespace needs root (CAP_NET_ADMIN, and CAP_BPF for programs): run it with sudo";
    // The harness writes lines of its own.
    assert!(said.lines().any(|line| line == expected), "{said}");
}
