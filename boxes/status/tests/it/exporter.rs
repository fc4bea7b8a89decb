//! The exporter's answers over HTTP.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use forebay_web::{Hosts, Stop};

struct Running {
    address: SocketAddr,
    stop: Stop,
    thread: JoinHandle<io::Result<()>>,
}

impl Running {
    fn start(address: &str) -> Self {
        let (stop, (send, receive)) = (Stop::default(), mpsc::channel());
        let (address, handle) = (address.parse().unwrap(), stop.clone());
        let thread = thread::spawn(move || {
            let hosts = Hosts::from(vec!["box.example.net".parse().unwrap()]);
            forebay_status::run(address, hosts, &handle, |address| send.send(address).unwrap())
        });
        Self { address: receive.recv().unwrap(), stop, thread }
    }

    /// Returns the whole answer to a request without a body.
    fn ask(&self, method: &str, path: &str) -> String {
        self.ask_as("localhost", method, path)
    }

    /// As [`Self::ask`], of a service with this name.
    fn ask_as(&self, host: &str, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[test]
fn metrics_are_read_with_get_and_head_at_one_path_and_the_server_ends_in_order() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let running = Running::start(address);
        for (method, path, status, contains) in [
            ("GET", "/metrics", "200 OK", "\r\ncontent-type: text/plain; version=0.0.4"),
            ("GET", "/metrics", "200 OK", "# TYPE forebay_up gauge\n"),
            ("HEAD", "/metrics", "200 OK", "\r\n"),
            ("POST", "/metrics", "405 Method Not Allowed", "\r\nallow: GET, HEAD\r\n"),
            ("GET", "/", "404 Not Found", "the metrics are at /metrics"),
        ] {
            let answer = running.ask(method, path);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
            assert!(answer.contains(contains), "{method} {path}: {answer}");
            assert_eq!(answer.ends_with("\r\n\r\n"), method == "HEAD", "{answer}");
        }
        running.stop.stop();
        running.thread.join().unwrap().unwrap();
        assert!(TcpStream::connect(running.address).is_err(), "{address} is free again");
    }
}

#[test]
fn an_address_in_use_is_an_error() {
    let running = Running::start("127.0.0.1:0");
    let second = forebay_status::run(running.address, Hosts::default(), &Stop::default(), |_| ());
    assert_eq!(second.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    running.stop.stop();
    running.thread.join().unwrap().unwrap();
}

#[test]
fn connections_without_a_request_do_not_keep_a_reader_out() {
    let running = Running::start("127.0.0.1:0");
    let idle: Vec<_> = (0..2 * forebay_web::MAX_HALF_OPEN_PER_HOST)
        .map(|_| TcpStream::connect(running.address).unwrap())
        .collect();
    assert!(running.ask("GET", "/metrics").contains("# TYPE forebay_up gauge\n"));
    drop(idle);
    running.stop.stop();
    running.thread.join().unwrap().unwrap();
}

#[test]
fn a_page_whose_name_leads_to_the_exporter_reads_nothing() {
    let running = Running::start("127.0.0.1:0");
    let known = [running.address.to_string(), "box.example.net:9477".to_owned()];
    for host in known {
        let answer = running.ask_as(&host, "GET", "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{host}: {answer}");
    }
    for path in ["/metrics", "/"] {
        let answer = running.ask_as("evil.example:9477", "GET", path);
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    }
    running.stop.stop();
    running.thread.join().unwrap().unwrap();
}
