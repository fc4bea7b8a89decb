//! Standard output: JSON alone where it was asked for, and readers that end early.

use std::process::{Command, Stdio};

use forebay_test_support::Dir;

fn demo(scratch: &Dir, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-lab"));
    command.args(["demo", "--engine", "sim", "--quick"]).args(more).current_dir(&scratch.0);
    command
}

#[test]
fn json_on_standard_output_is_alone() {
    let scratch = Dir::new("json");
    let output = demo(&scratch, &["--json", "-"]).output().unwrap();
    assert!(output.status.success());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "forebay-demo/1");
    assert!(scratch.0.join("demo/report.html").exists() && !scratch.0.join("-").exists());
}

#[test]
fn a_reader_that_has_ended_is_no_error() {
    for more in [&["--json", "-"][..], &[]] {
        let scratch = Dir::new(if more.is_empty() { "text" } else { "closed" });
        let mut command = demo(&scratch, more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(!said.contains("panicked") && !said.contains("pipe"), "{said}");
        assert!(scratch.0.join("demo/report.html").exists(), "the report is written all the same");
    }
}

#[test]
fn tables_fit_80_columns() {
    let scratch = Dir::new("columns");
    let output = demo(&scratch, &[]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Forebay SFQ"));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
