//! SIGTERM is heard whatever a command reads or waits for.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use forebay_test_support::Dir;
use forebay_test_support::process::terminated;

use crate::serve::client::{Server, files};

const PROGRAM: &str = env!("CARGO_BIN_EXE_forebay-plan");

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
    let child = spawn(&["routes", pipe, "--origin", "1"]);
    // This waits until the command reads, and the command then for more than two octets.
    let mut writer = File::options().write(true).open(pipe).unwrap();
    writer.write_all(b"\x1f\x8b").unwrap();
    assert_eq!(terminated(child).status.signal(), Some(libc::SIGTERM));
}

#[test]
fn a_service_that_does_not_answer_keeps_no_client() {
    let dir = Dir::new("signal-client");
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("url = \"http://{}\"\n", service.local_addr().unwrap());
    dir.file("token", "secret", 0o600);
    let config = format!("{url}token = \"token\"\nout = \"hints.json\"\n");
    dir.file("c.toml", &config, 0o644);
    let config = dir.0.join("c.toml");
    let child = spawn(&["neighbour", "--watch", "--config", config.to_str().unwrap()]);
    let (mut asked, _) = service.accept().unwrap();
    assert!(asked.read(&mut [0; 64]).unwrap() > 0);
    let output = terminated(child);
    // It did not wait until the service was late.
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!told.contains("cannot reach"), "{told}");
}

#[test]
fn clients_and_a_database_that_do_not_go_on_keep_no_service() {
    let dir = Dir::new("signal-serve");
    let database = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("[clickhouse]\nurl = \"http://{}\"\n", database.local_addr().unwrap());
    files(&dir, &url);
    let server = Server::start(&dir);
    // Half a request, and a request whose answer is not read.
    let mut half = TcpStream::connect(server.at[0]).unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost: loc").unwrap();
    let mut unread = TcpStream::connect(server.at[1]).unwrap();
    unread.write_all(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    server.round();
    let (mut asked, _) = database.accept().unwrap();
    assert!(asked.read(&mut [0; 64]).unwrap() > 0);
    let (is_orderly, log) = server.stop_and_log();
    assert!(is_orderly, "{log:?}");
    let lost = log.iter().find(|line| line.contains("rows of the history are lost"));
    assert!(lost.is_some_and(|line| line.contains("stopped meanwhile")), "{log:?}");
}
