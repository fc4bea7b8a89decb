//! A neighbour that flaps, one that floods, and clients without a token do not disturb the others.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use forebay_test_support::Dir;
use forebay_test_support::process::HANG_TIMEOUT;
use serde_json::json;

use super::client::{Reply, Server, ask, files, from, read, request};

fn wish(bps: u64) -> String {
    json!({"wishes": [{"output": 0, "input": "in1", "demand": bps}]}).to_string()
}

#[test]
fn a_neighbour_that_flaps_and_floods_does_not_disturb_another() {
    let dir = Dir::new("serve-flap");
    files(&dir, "");
    let server = Server::start(&dir);
    server.round();
    assert_eq!(server.ask("games", "PUT", "/v1/program", &wish(50_000_000)).status, 200);
    server.round();
    let games = ["/v1/hints", "/v1/program", "/v1/vswitch"].map(|path| server.get("games", path));
    // Invalid programs are refused, and the answer names the field.
    let put = |body: &str| server.ask("video", "PUT", "/v1/program", body);
    let huge = put(&wish(1_000_000_000_000_000_000));
    assert_eq!((huge.status, &huge.json()["error"]["field"]), (400, &json!("wishes[0].demand")));
    let much = put(&wish(2_000_000_000));
    assert_eq!((much.status, &much.json()["error"]["field"]), (422, &json!("wishes[0].demand")));
    let nonsense = put("{\"wishes\": [{\"output\": \"first\"}]}");
    assert_eq!(
        (nonsense.status, &nonsense.json()["error"]["field"]),
        (400, &json!("wishes[0].output"))
    );
    // A neighbour that changes its program too often is damped.
    let replies: Vec<Reply> = (1..8).map(|n| put(&wish(n * 1_000_000))).collect();
    let last = replies.last().unwrap();
    assert_eq!((last.status, &last.json()["error"]["code"]), (429, &json!("damped")));
    assert!(last.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    assert!(replies[0].status == 200, "one change after some nonsense is no flapping");
    // In a burst of requests, those above the rate limit are refused.
    let one = request(Some(server.token("video")), "GET", "/v1/hints", "");
    let more = one.replace("connection: close\r\n", "").repeat(500) + &one;
    let mut stream = TcpStream::connect(server.at[0]).unwrap();
    stream.write_all(more.as_bytes()).unwrap();
    stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    let count = |status: &str| replies.matches(&format!("HTTP/1.1 {status} ")).count();
    assert_eq!(count("200") + count("429"), 501);
    assert!(count("429") > 0 && count("200") >= 20, "{} were answered", count("200"));
    // The other neighbour sees the same hints as before, and its program is accepted.
    let now = ["/v1/hints", "/v1/program", "/v1/vswitch"].map(|path| server.get("games", path));
    assert_eq!(now, games);
    server.round();
    assert_eq!(server.get("games", "/v1/program")["state"], "taken");
    let metrics = server.ask("operator", "GET", "/metrics", "").body;
    assert!(
        metrics.contains("forebay_plan_neighbour_refused_total{neighbour=\"games\"} 0\n"),
        "{metrics}"
    );
    assert!(metrics.contains("method=\"PUT\",path=\"/v1/program\",status=\"429\""), "{metrics}");
}

#[test]
fn connections_of_one_address_do_not_keep_others_out() {
    let dir = Dir::new("serve-slow");
    files(&dir, "");
    let server = Server::start(&dir);
    server.round();
    // Each connection sends half a request and never the rest.
    let mut slow: Vec<TcpStream> = (0..16)
        .map(|_| {
            let mut stream = from("127.0.0.2", server.at[0]).unwrap();
            stream.write_all(b"GET /v1/hints HTTP/1.1\r\nhost: localhost\r\nx-slow: ").unwrap();
            stream
        })
        .collect();
    // Connections are accepted in this order. One more is answered in place of the oldest.
    let mut more = from("127.0.0.2", server.at[0]).unwrap();
    more.write_all(request(None, "GET", "/healthz", "").as_bytes()).unwrap();
    assert_eq!(read(&mut more).unwrap().status, 200);
    slow[0].set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    let oldest = slow[0].read(&mut [0; 16]);
    assert!(matches!(oldest, Ok(0) | Err(_)), "it is closed without a word: {oldest:?}");
    // A client at another address is answered.
    assert_eq!(server.get("video", "/v1/hints")["neighbour"], "video");
    assert_eq!(ask(server.at[1], None, "GET", "/healthz", "").unwrap().status, 200);
    // Slow connections are closed in the end.
    let slowest = slow.pop().unwrap();
    slowest.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
    let mut rest = Vec::new();
    let _ = (&slowest).read_to_end(&mut rest);
}

#[test]
fn a_page_whose_name_leads_to_the_service_reads_nothing() {
    let dir = Dir::new("serve-host");
    files(&dir, "");
    let config = fs::read_to_string(dir.0.join("serve.toml")).unwrap();
    let named = config.replace("state =", "hosts = [\"planner.example.net\"]\nstate =");
    dir.file("serve.toml", &named, 0o644);
    let server = Server::start(&dir);
    let status = |host: &str, path: &str| {
        let request = request(Some(server.token("operator")), "GET", path, "");
        let mut stream = TcpStream::connect(server.at[0]).unwrap();
        stream.write_all(request.replace("localhost", host).as_bytes()).unwrap();
        read(&mut stream).unwrap().status
    };
    for path in ["/operator", "/healthz", "/metrics"] {
        for host in ["127.0.0.1:8480", "[::1]", "planner.example.net", "PLANNER.example.net:8480"] {
            assert_eq!(status(host, path), 200, "{host} {path}");
        }
        assert_eq!(status("evil.example:8480", path), 403, "{path}");
    }
}

#[test]
fn oversized_requests_are_refused_before_they_are_read() {
    let dir = Dir::new("serve-large");
    files(&dir, "");
    let server = Server::start(&dir);
    server.round();
    let token = server.token("video");
    // A Content-Length that is too large is refused before any of the body is sent.
    let mut stream = TcpStream::connect(server.at[0]).unwrap();
    let head = format!(
        "PUT /v1/program HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: 99999999999\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(read(&mut stream).unwrap().status, 413);
    // No length, but chunks without end.
    let mut stream = TcpStream::connect(server.at[0]).unwrap();
    let head = format!(
        "PUT /v1/program HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
    let sent = (0..1000).take_while(|_| stream.write_all(chunk.as_bytes()).is_ok()).count();
    assert!(sent < 1000, "it does not read on for ever");
    // Headers that are too large.
    let mut stream = TcpStream::connect(server.at[0]).unwrap();
    let _ = stream.write_all(
        format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(100_000)).as_bytes(),
    );
    if let Ok(reply) = read(&mut stream) {
        assert_eq!(reply.status, 431);
    }
    // The body of a client without a token is not read either.
    let reply =
        ask(server.at[0], Some("wrong"), "PUT", "/v1/program", &" ".repeat(100_000)).unwrap();
    assert_eq!(reply.status, 401);
    assert_eq!(server.get("video", "/v1/program")["version"], 0);
}

#[test]
fn events_go_to_the_neighbours_that_they_concern() {
    let dir = Dir::new("serve-events");
    files(&dir, "");
    let server = Server::start(&dir);
    server.round();
    let listen = |who: &str| {
        let mut stream = TcpStream::connect(server.at[0]).unwrap();
        stream
            .write_all(request(Some(server.token(who)), "GET", "/v1/events", "").as_bytes())
            .unwrap();
        stream.set_read_timeout(Some(HANG_TIMEOUT)).unwrap();
        stream
    };
    let next = |stream: &mut TcpStream, part: &str| {
        let mut text = String::new();
        let mut byte = [0; 1];
        while !(text.contains(part) && text.ends_with("\n\n")) {
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "{text}");
            text.push(char::from(byte[0]));
        }
        text
    };
    let mut video = listen("video");
    let first = next(&mut video, "data:");
    assert!(first.contains("text/event-stream") && first.contains("\"hints\":1"), "{first}");
    // The same demands change nothing, and other neighbours' programs cause no event.
    server.round();
    assert_eq!(server.ask("games", "PUT", "/v1/program", &wish(1)).status, 200);
    assert_eq!(server.ask("video", "PUT", "/v1/program", "{}").status, 200);
    let second = next(&mut video, "data:");
    assert!(second.contains("\"program\":{\"state\":\"waiting\",\"version\":1}"), "{second}");
    assert!(!second.contains("games"));
    // At most four clients may listen.
    let mut more: Vec<TcpStream> = (0..3).map(|_| listen("video")).collect();
    more.iter_mut().for_each(|stream| drop(next(stream, "data:")));
    assert_eq!(server.ask("video", "GET", "/v1/events", "").status, 429);
    let mut games = listen("games");
    next(&mut games, "data:");
    // An orderly stop ends their streams.
    assert!(server.stop());
    let mut rest = String::new();
    let _ = video.read_to_string(&mut rest);
}
