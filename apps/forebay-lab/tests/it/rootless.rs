//! Tests the program without root's rights.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use forebay_test_support::{Dir, Need, is_root, process, skip};

/// Runs the command without root's rights; reports a skip if there is no way to drop them.
#[track_caller]
fn without_root(dir: &Dir, args: &[&str]) -> Option<Output> {
    // Copies where this user may run them, whatever directory they were built in.
    let program = dir.0.join("forebay-lab");
    fs::copy(env!("CARGO_BIN_EXE_forebay-lab"), &program).unwrap();
    fs::copy(process::program("forebay"), dir.0.join("forebay")).unwrap();
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(&program);
    if is_root() {
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    }
    match command.args(args).current_dir(&dir.0).output() {
        Err(e) => {
            skip(Need::Program, &format!("setpriv: {e}"));
            None
        }
        Ok(output) => Some(output),
    }
}

#[test]
fn without_root_the_demo_is_simulated_and_says_how_to_get_the_real_one() {
    let dir = Dir::new("rootless");
    let Some(output) = without_root(&dir, &["demo", "--quick"]) else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("this is the simulator") && said.contains("run it with sudo"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("Forebay SFQ"));
    assert!(dir.0.join("demo/report.html").exists());
}

#[test]
fn without_root_the_real_engine_says_how_to_get_it() {
    let dir = Dir::new("rootless-netns");
    let Some(output) = without_root(&dir, &["demo", "--engine", "netns"]) else { return };
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty());
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("need root: run it with sudo"), "{said}");
}
