//! Tests the commands that other programs run: `forebay lab`, `demo`, `stack` and `plan`, and the
//! check of an experiment.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use forebay_test_support::Dir;
use forebay_test_support::process::program;

/// Returns a copy of the program without another one beside it.
fn alone(dir: &Dir) -> PathBuf {
    let copy = dir.path().join("forebay");
    fs::copy(env!("CARGO_BIN_EXE_forebay"), &copy).unwrap();
    copy
}

fn text(octets: Vec<u8>) -> String {
    String::from_utf8(octets).unwrap()
}

#[test]
fn a_missing_program_is_named_with_what_to_install() {
    let dir = Dir::new("other-missing");
    let forebay = alone(&dir);
    let experiment = dir.file("x.toml", "[path]\nrate = \"1 Mbit/s\"\n", 0o644);
    let experiment = experiment.to_str().unwrap();
    for (arguments, package) in [
        (&["lab", "run", "--help"][..], "forebay-lab"),
        (&["demo", "--quick"], "forebay-lab"),
        (&["stack"], "forebay-lab"),
        (&["check", experiment], "forebay-lab"),
        (&["plan", "solve"], "forebay-plan"),
    ] {
        let Output { status, stdout, stderr } =
            Command::new(&forebay).args(arguments).env("PATH", "").output().unwrap();
        let said = text(stderr);
        assert_eq!((status.code(), stdout.len()), (Some(2), 0), "{said}");
        assert!(said.starts_with("forebay: ") && said.lines().count() == 1, "{said}");
        assert!(said.contains(&format!("install the package {package}")), "{said}");
    }
}

#[test]
fn arguments_and_exit_status_pass_unchanged() {
    let dir = Dir::new("other-script");
    let forebay = alone(&dir);
    for name in ["forebay-lab", "forebay-plan"] {
        dir.file(name, "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n", 0o755);
    }
    for (arguments, expected) in [
        (
            &["lab", "run", "a b", "--set", "x=-1", "--", "-v"][..],
            "<run><a b><--set><x=-1><--><-v>",
        ),
        (&["-v", "lab", "--help"], "<-v><--help>"),
        (&["lab", "run", "-vv"], "<run><-vv>"),
        (&["demo", "--version", "-h"], "<demo><--version><-h>"),
        (&["stack", "--flows=1,2"], "<stack><--flows=1,2>"),
        (&["plan", "demo", "--isps", "2"], "<demo><--isps><2>"),
        (&["plan", ""], "<>"),
    ] {
        let output = Command::new(&forebay).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert_eq!(text(output.stdout), expected, "{arguments:?}");
    }
}

#[test]
fn the_other_program_shows_the_command_as_it_was_called() {
    for (name, arguments, usage) in [
        ("forebay-lab", &["lab", "run", "--help"][..], "Usage: forebay lab run "),
        ("forebay-lab", &["demo", "--help"], "Usage: forebay demo "),
        ("forebay-plan", &["plan", "--help"], "Usage: forebay plan "),
    ] {
        program(name);
        let output = Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().unwrap();
        let shown = text(output.stdout);
        assert!(output.status.success() && shown.contains(usage), "{shown}");
    }
    let dir = Dir::new("other-check");
    let file = dir.file("x.toml", "[path]\nrate = 3\n", 0o644);
    let forebay = || Command::new(env!("CARGO_BIN_EXE_forebay"));
    let output = forebay().arg("check").arg(file).output().unwrap();
    let said = text(output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("forebay: ") && said.contains("x.toml:"), "{said}");
    let experiment = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/bundler/sites.toml");
    let output = forebay().args(["check", experiment]).output().unwrap();
    assert!(text(output.stdout).contains("valid experiment of "), "{:?}", output.status);
}
