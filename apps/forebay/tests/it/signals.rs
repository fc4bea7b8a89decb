//! SIGTERM is heard whatever a command reads.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use forebay_test_support::Dir;
use forebay_test_support::process::terminated;

use crate::support::PROGRAM;

/// Starts the program with these arguments.
fn spawn(arguments: &[&str]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_pipe_that_never_ends_keeps_no_command() {
    let dir = Dir::new("signal-pipe");
    let pipe = dir.0.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let pipe = pipe.to_str().unwrap();
    let child = spawn(&["l4s", "capture", pipe]);
    // This waits until the command reads, and the command then for more than two octets.
    let mut writer = File::options().write(true).open(pipe).unwrap();
    writer.write_all(b"\x1f\x8b").unwrap();
    assert_eq!(terminated(child).status.signal(), Some(libc::SIGTERM));
}
