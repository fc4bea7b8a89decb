//! Tests that bad input gives one clear line on standard error and exit status 2, and changes
//! nothing.

use std::process::{Command, Output};

use forebay_test_support::Dir;

fn forebay_lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay-lab")).args(args).output().unwrap()
}

#[test]
fn arguments_and_files_of_a_study_are_named() {
    let dir = Dir::new("stack");
    let file = dir.file("study.jsonl", "\n{\"kind\":\"none\"}\n", 0o644);
    let (file, out) = (file.to_str().unwrap(), dir.0.join("out"));
    let many: Vec<String> = (1..=301).map(|n| n.to_string()).collect();
    let cases: [(&[&str], &str); 3] = [
        (&["stack", "--from", file, "--out", out.to_str().unwrap()], "study.jsonl: line 2: "),
        (&["stack", "--flows", &many.join(",")], "301 points are more than 300"),
        (&["stack", "--paced", "0%"], "write `off`"),
    ];
    for (args, expected) in cases {
        let output = forebay_lab(args);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty() && !out.exists(), "{output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(expected), "{text}");
    }
}
