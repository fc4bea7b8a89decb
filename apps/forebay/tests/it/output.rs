//! Standard output: readers that end early.

use std::process::{Command, Stdio};

use forebay_test_support::Dir;

/// Returns a pipe whose reader has ended.
fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

#[test]
fn commands_whose_output_nobody_reads_end_with_their_own_status() {
    let dir = Dir::new("fc");
    let (key, file) = (dir.0.join("key"), dir.file("link.toml", "[link]\n", 0o644));
    for (arguments, expected) in [
        (["keygen", key.to_str().unwrap()], 0),
        (["check", file.to_str().unwrap()], 2),
        (["doctor", "--json"], -1),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        let command = command.args(arguments).stdout(closed()).stderr(closed());
        let status = command.status().unwrap().code().unwrap();
        // The doctor's verdict depends on the machine.
        let fits = if expected < 0 { status < 2 } else { status == expected };
        assert!(fits, "{arguments:?}: {status}");
    }
}
