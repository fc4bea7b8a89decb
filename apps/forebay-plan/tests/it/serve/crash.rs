//! Crashes: every change that was answered with 200 survives them.

use std::io::Write;
use std::net::TcpStream;

use forebay_test_support::Dir;
use serde_json::{Value, json};

use super::client::{Server, command, files, read, request, run};

/// Demands close to the measured ones, so that the hints stay.
fn program(number: u64) -> Value {
    json!({"wishes": [{"output": 0, "input": "in1", "demand": 100_000_000 + number}]})
}

/// Kills the service at different moments of a PUT: before it is sent, half sent, sent, and
/// answered.
#[test]
fn an_acknowledged_change_survives_a_kill() {
    let dir = Dir::new("serve-crash");
    files(&dir, "[damping]\nsuppress = 1e9\n");
    let (mut answered, mut sent) = (0, 0);
    let mut server = Server::start(&dir);
    server.round();
    let hints = server.get("video", "/v1/hints");
    for moment in 0..12u64 {
        for _ in 0..3 {
            sent += 1;
            let reply = server.ask("video", "PUT", "/v1/program", &program(sent).to_string());
            assert_eq!(reply.status, 200, "{}", reply.body);
            assert_eq!(reply.json()["version"], sent);
            answered = sent;
        }
        // One more PUT, with the kill during it.
        sent += 1;
        let text =
            request(Some(server.token("video")), "PUT", "/v1/program", &program(sent).to_string());
        let mut stream = TcpStream::connect(server.at[0]).unwrap();
        let cut = match moment % 4 {
            0 => 0,
            1 => text.len() / 2,
            _ => text.len(),
        };
        stream.write_all(&text.as_bytes()[..cut]).unwrap();
        match moment % 4 {
            3 => {
                assert_eq!(read(&mut stream).unwrap().status, 200);
                answered = sent;
            }
            2 => (0..moment * 200).for_each(|_| std::thread::yield_now()),
            _ => {}
        }
        server.crash();
        server = Server::start(&dir);
        let there = server.get("video", "/v1/program");
        let version = there["version"].as_u64().unwrap();
        assert!((answered..=sent).contains(&version), "{version} of {answered} to {sent}");
        assert_eq!(there["program"]["wishes"], program(version)["wishes"]);
        assert_eq!(server.get("video", "/v1/hints"), hints, "hints are there too");
        sent = version;
        answered = version;
    }
}

#[test]
fn a_state_has_one_service_and_errors_are_one_line() {
    let dir = Dir::new("serve-one");
    files(&dir, "");
    let check = run(command(&dir).arg("--check"));
    assert!(check.status.success(), "{check:?}");
    assert!(!dir.0.join("state.db").exists(), "a check touches nothing");
    let server = Server::start(&dir);
    server.round();
    let second = run(&mut command(&dir));
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8(second.stderr).unwrap();
    assert!(error.contains("state.db is in use by another running forebay process"), "{error}");
    assert!(server.stop());
    let config = std::fs::read_to_string(dir.0.join("serve.toml")).unwrap();
    for (from, to, expected) in [
        ("\"video\"", "\"nobody\"", "serve.toml:12: neighbour.name: "),
        ("sha256:", "sha1:", "serve.toml:10: operator.token: write sha256:"),
        ("isp.json", "isp.txt", "isp.txt: "),
        ("127.0.0.1:0", "0.0.0.0:0", "serve.toml:2: serve.listen: tokens would cross the network"),
    ] {
        dir.file("serve.toml", &config.replace(from, to), 0o644);
        for more in [&[][..], &["--check"]] {
            let output = run(command(&dir).args(more));
            let error = String::from_utf8(output.stderr.clone()).unwrap();
            assert_eq!((output.status.code(), error.lines().count()), (Some(2), 1), "{error}");
            assert!(error.contains(expected), "{error}, not {expected}");
        }
    }
}
