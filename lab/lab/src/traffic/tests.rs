//! Tests of the programs over loopback, with real sockets and both ends in this process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Barrier;
use std::thread;

use forebay_sim::Pattern;
use forebay_system::clock;
use forebay_units::{Bytes, Nanos, Rate};
use serde::de::DeserializeOwned;

use super::agent;
use super::spec::{Event, Role, Spec, Start, Tcp};
use crate::results::{Progress, Request, RoundTrip};
use crate::workload::{Arrivals, Requests, Sizes};

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

fn tcp(congestion: &str) -> Tcp {
    Tcp { congestion: congestion.to_owned(), l4s: false, paced: false }
}

/// Returns a UDP port that was free a moment ago, at `ip`.
fn free(ip: IpAddr) -> SocketAddr {
    UdpSocket::bind((ip, 0)).unwrap().local_addr().unwrap()
}

/// Returns a TCP port; ended connections keep their ports for a while.
fn free_tcp(ip: IpAddr) -> SocketAddr {
    TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap()
}

/// Plays `first`, which is ready before `second` begins, and returns the records of the one that
/// measures.
fn play<T: DeserializeOwned>(name: &str, first: Role, second: Role, millis: u64) -> Vec<T> {
    // The directory of the records and of the progress.
    let dir = std::env::temp_dir().join(format!("fb-traffic-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let output = dir.join("measured");
    let spec = |role| Spec {
        traffic: name.to_owned(),
        seed: 3,
        stream: 1,
        begin: 0,
        stagger: 20_000_000,
        stop: millis * 1_000_000,
        end: millis * 1_000_000,
        output: output.clone(),
        role,
    };
    let (first, second) = (spec(first), spec(second));
    let (first_ready, both_ready) = (Barrier::new(2), Barrier::new(2));
    let start = clock::now().saturating_add(Nanos::from_millis(50));
    thread::scope(|scope| {
        scope.spawn(|| {
            let cue = &mut || {
                first_ready.wait();
                both_ready.wait();
                Ok(start)
            };
            agent::run(&first, cue).unwrap();
        });
        first_ready.wait();
        let cue = &mut || {
            both_ready.wait();
            Ok(start)
        };
        agent::run(&second, cue).unwrap();
    });
    let text = std::fs::read_to_string(&output).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Calls `play` with a time in milliseconds, and with longer ones until its records are enough: on
/// a busy machine little happens in a short time.
fn until_enough<T>(play: impl Fn(u64) -> Vec<T>, is_enough: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut records = play(200);
    for millis in [1_000, 5_000, 25_000] {
        if !is_enough(&records) {
            records = play(millis);
        }
    }
    records
}

/// Returns the bytes that arrived of a flow.
fn bytes_of(records: &[Progress], flow: u32) -> u64 {
    records.iter().filter(|p| p.flow == flow).map(|p| p.bytes).sum()
}

fn requests(arrivals: Arrivals, new_connections: bool) -> Requests {
    Requests {
        load_bps: 40_000_000,
        connections: 5,
        sizes: Sizes::web(),
        max_size: 1_000_000,
        balanced: false,
        arrivals,
        new_connections,
    }
}

/// Returns the outcome of `requests` over `millis` ms.
fn records_of(name: &str, ip: IpAddr, requests: &Requests, millis: u64) -> Vec<Request> {
    let (listen, tcp) = (free_tcp(ip), tcp("reno"));
    let Requests { connections, new_connections, .. } = *requests;
    let server = Role::RequestServer { listen, connections, new_connections, tcp: tcp.clone() };
    let client =
        Role::RequestClient { server: listen, requests: requests.clone(), tcp, measured: (0, 0) };
    play(name, server, client, millis)
}

fn scheduled_over(ip: IpAddr, name: &str, new_connections: bool) {
    let requests = requests(Arrivals::Poisson, new_connections);
    let (length, whole) = (Nanos::from_millis(300), Nanos::ZERO..Nanos::from_millis(300));
    let schedule = requests.schedule(3, 1, length, whole).unwrap();
    let records = records_of(name, ip, &requests, 300);
    assert_eq!(records.len(), schedule.len());
    assert!(records.len() > 50, "{}", records.len());
    for (record, asked) in records.iter().zip(&schedule) {
        assert_eq!((record.connection, record.size), (asked.connection, asked.size));
        assert!(record.end.is_none_or(|end| end >= record.start));
    }
    let answered = records.iter().filter(|r| r.end.is_some()).count();
    assert!(answered > 0, "of {}", records.len());
}

#[test]
fn requests_are_asked_as_scheduled_and_answered() {
    scheduled_over(V4, "requests-v4", false);
    scheduled_over(V6, "requests-v6", false);
    scheduled_over(V4, "requests-new-v4", true);
    scheduled_over(V6, "requests-new-v6", true);
}

#[test]
fn clients_of_a_closed_loop_ask_again_when_they_are_answered() {
    for (name, ip, new_connections) in [("closed", V4, false), ("closed-new", V6, true)] {
        let requests = requests(Arrivals::Closed, new_connections);
        let sizes = requests.closed(3, 1);
        let asked_by = |records: &[Request], client: u32| {
            records.iter().filter(|r| r.connection == client).count()
        };
        let records = until_enough(
            |millis| records_of(name, ip, &requests, millis),
            |records| (0..5).all(|client| asked_by(records, client) > 1),
        );
        assert!(records.iter().map(|r| r.id).eq(0..records.len() as u64), "{name}");
        for client in 0..5 {
            let own: Vec<_> = records.iter().filter(|r| r.connection == client).collect();
            assert!(own.len() > 1, "{name}: {}", own.len());
            // A fast machine answers more of them than there are sizes, which then repeat.
            let dealt = sizes.iter().cycle().skip(client as usize).step_by(5);
            for (pair, size) in own.windows(2).zip(dealt) {
                assert!(pair[0].end.unwrap() <= pair[1].start, "{name}: one at a time");
                assert_eq!(pair[0].size, *size, "{name}");
            }
        }
    }
}

#[test]
fn requests_wait_for_a_connection_of_their_own() {
    let requests = Requests { connections: 1, ..requests(Arrivals::Poisson, true) };
    let answered = |records: &[Request]| records.iter().filter(|r| r.end.is_some()).count();
    let records = until_enough(
        |millis| records_of("one", V4, &requests, millis),
        |records| answered(records) > 1,
    );
    let ends: Vec<_> = records.iter().filter_map(|r| r.end).collect();
    assert!(ends.len() > 1 && ends.is_sorted(), "one after the other: {ends:?}");
    let unanswered = records.iter().skip(ends.len()).all(|r| r.end.is_none());
    assert!(unanswered, "the first that is not answered keeps the connection");
}

#[test]
fn bulk_tcp_arrives_on_every_flow() {
    let listen = free_tcp(V4);
    let source = Role::TcpSource { listen, flows: 3, tcp: tcp("cubic") };
    let sink =
        Role::TcpSink { source: listen, from: vec![listen.ip()], flows: 3, tcp: tcp("cubic") };
    let records: Vec<Progress> = play("tcp", source, sink, 250);
    assert_eq!(records.len(), 9, "100, 200 and 250 ms of three flows");
    for flow in 0..3 {
        assert!(bytes_of(&records, flow) > 0, "flow {flow}");
    }
}

/// Asserts that two flows send more than their initial windows, so that reports came.
fn assert_reports_come(play: impl Fn(u64) -> Vec<Progress>) {
    const WINDOW: u64 = 10 * 1_400;
    let least = |records: &[Progress]| bytes_of(records, 0).min(bytes_of(records, 1));
    let records = until_enough(play, |records| least(records) > WINDOW);
    assert!(least(&records) > WINDOW, "{}", least(&records));
}

#[test]
fn bulk_udp_arrives_over_both_versions() {
    for (ip, name) in [(V4, "udp-v4"), (V6, "udp-v6")] {
        assert_reports_come(|millis| {
            let listen = vec![free(ip), free(ip)];
            let source = Role::UdpSource { sinks: listen.clone() };
            play(name, Role::UdpSink { listen, reports: true }, source, millis)
        });
    }
}

#[test]
fn prague_over_udp_arrives_over_both_versions() {
    for (ip, name) in [(V4, "prague-v4"), (V6, "prague-v6")] {
        assert_reports_come(|millis| {
            let listen = vec![free(ip), free(ip)];
            let source = Role::PragueSource { sinks: listen.clone() };
            play(name, Role::PragueSink { listen }, source, millis)
        });
    }
}

#[test]
fn cbr_sends_its_rate() {
    let listen = free(V4);
    let source = Role::DatagramSource {
        sink: listen,
        pattern: Pattern::Constant { rate: Rate::from_mbps(8), size: Bytes(1_000) },
        l4s: false,
    };
    let sink = Role::UdpSink { listen: vec![listen], reports: false };
    let records: Vec<Progress> = play("cbr", sink, source, 200);
    let bytes: u64 = records.iter().map(|p| p.bytes).sum();
    // One datagram per millisecond for 200 ms; the last ones may arrive too late.
    assert!(bytes <= 200_000 && bytes.is_multiple_of(1_000) && bytes > 0, "{bytes}");
}

#[test]
fn loops_record_round_trips() {
    let of = |records: &[RoundTrip], flow| records.iter().filter(|r| r.flow == flow).count();
    let records = until_enough(
        |millis| {
            let listen = free(V6);
            let loops = Role::UdpLoops { echo: listen, flows: 2 };
            play("loops", Role::UdpEcho { listen }, loops, millis)
        },
        |records: &[RoundTrip]| of(records, 0).min(of(records, 1)) > 1,
    );
    for flow in 0..2 {
        let mut times = records.iter().filter(|r| r.flow == flow).map(|r| (r.start, r.end));
        let first = times.next().unwrap();
        assert!(first.1.unwrap() > first.0);
        assert!(times.next().unwrap().0 >= first.1.unwrap(), "one at a time");
    }
}

#[test]
fn a_taken_address_is_named() {
    let listen = free_tcp(V4);
    let _first = super::sockets::listen(listen, &tcp("cubic")).unwrap();
    let error = super::sockets::listen(listen, &tcp("cubic")).unwrap_err();
    assert!(error.to_string().contains(&listen.to_string()), "{error}");
}

#[test]
fn the_protocol_is_json_lines() {
    assert_eq!(serde_json::to_string(&Event::Ready).unwrap(), r#"{"event":"ready"}"#);
    assert_eq!(
        serde_json::to_string(&Event::Done { late: 7 }).unwrap(),
        r#"{"event":"done","late":7}"#
    );
    let start: Start = serde_json::from_str(r#"{"start": 12}"#).unwrap();
    assert_eq!(start, Start { start: 12 });
    let echo = Role::UdpEcho { listen: SocketAddr::from(([10, 77, 1, 1], 10_000)) };
    let json = serde_json::to_string(&echo).unwrap();
    assert_eq!(json, r#"{"kind":"udp_echo","listen":"10.77.1.1:10000"}"#);
    assert_eq!(serde_json::from_str::<Role>(&json).unwrap(), echo);
}
