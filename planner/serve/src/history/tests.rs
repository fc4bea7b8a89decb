use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::writer::{Database, Failure, RETRY, Step, Writer, write};
use super::*;
use crate::config::Clickhouse;
use crate::neighbour::config::{Access, Url};

fn rows(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|n| format!("{{\"n\":{n}}}"))
}

#[test]
fn rows_leave_in_their_order_by_table() {
    let history = History::default();
    history.add(Table::Rounds, rows(1));
    history.add(Table::Demands, rows(2));
    history.add(Table::Demands, rows(1));
    assert_eq!(history.report().waiting, 4);
    let first = history.next().unwrap();
    assert_eq!((first.table, first.number, first.rows), (Table::Rounds, 0, 1));
    assert_eq!(history.next().unwrap(), first, "it stays until it is done");
    history.done();
    let second = history.next().unwrap();
    assert_eq!((second.number, second.rows), (1, 3));
    assert_eq!(second.body, "{\"n\":0}\n{\"n\":1}\n{\"n\":0}\n");
    // A batch that is being sent does not change, so that it can be sent again.
    history.add(Table::Demands, rows(1));
    assert_eq!(history.next().unwrap(), second);
    history.done();
    assert_eq!(history.next().unwrap().number, 4);
    history.refused("wrong");
    assert!(history.next().is_none());
    let report = history.report();
    assert_eq!((report.rows, report.lost, report.waiting), (4, 1, 0));
    assert_eq!(report.error.as_deref(), Some("wrong"));
}

#[test]
fn the_oldest_rows_are_lost_beyond_the_bound() {
    let history = History { most: 2 * BATCH_OCTETS, ..History::default() };
    let long = "x".repeat(BATCH_OCTETS / 4);
    history.add(Table::Hints, [long.clone()]);
    let sending = history.next().unwrap();
    history.add(Table::Hints, (0..20).map(|_| long.clone()));
    assert_eq!(history.next().unwrap(), sending, "what is being sent is kept");
    let report = history.report();
    assert_eq!(report.lost + report.waiting, 21);
    assert!(report.lost >= 13 && report.waiting >= 3, "{report:?}");
    history.done();
    while history.next().is_some() {
        history.done();
    }
    let report = history.report();
    assert_eq!((report.rows, report.waiting), (21 - report.lost, 0));
    assert_eq!(history.queue().octets, 0);
}

/// Reads a request; returns its path and body.
fn request(stream: &TcpStream) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let path = first.split(' ').nth(1).unwrap().to_owned();
    (path, String::from_utf8(body).unwrap())
}

fn settings(listener: &TcpListener) -> Clickhouse {
    let address = listener.local_addr().unwrap();
    let url = Url { tls: false, host: address.ip().to_string(), port: address.port() };
    let access = Access { url, token: None, authority: None, certificate: None };
    Clickhouse { access, database: "net".to_owned(), user: "forebay".to_owned() }
}

/// Answers requests with these texts, one each; an empty text closes the connection. Returns the
/// requests.
fn serve(listener: &TcpListener, answers: &[&str]) -> Vec<(String, String)> {
    let mut requests = Vec::new();
    for answer in answers {
        let (mut stream, _) = listener.accept().unwrap();
        requests.push(request(&stream));
        stream.write_all(answer.as_bytes()).unwrap();
    }
    requests
}

const GOOD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

#[test]
fn a_batch_is_sent_again_until_the_database_takes_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let database = Database::new(&settings(&listener), 77).unwrap();
    let history = History::default();
    history.add(Table::Rounds, rows(1));
    history.add(Table::Demands, rows(2));
    let begun = Instant::now();
    let mut now = begun;
    let requests = thread::scope(|scope| {
        let answers = scope.spawn(|| {
            // The tables, a failure, no answer, and then all that is sent.
            let bad = "HTTP/1.1 503 Busy\r\n\r\nCode: 202. DB::Exception: Too many queries";
            serve(&listener, &[bad, bad, GOOD, GOOD, GOOD, "", GOOD, GOOD, GOOD, GOOD, GOOD])
        });
        let mut writer = Writer::new(&database, &history, &|| false, now);
        while history.report().rows < 3 {
            match writer.step(now, false) {
                Step::Again => {}
                Step::Wait => now += RETRY,
                Step::End => panic!("{:?}", history.report()),
            }
        }
        assert_eq!(writer.step(now, true), Step::End, "all is written");
        answers.join().unwrap()
    });
    // One second after the first failure, and two after the second.
    assert_eq!(now - begun, Duration::from_secs(3));
    let paths: Vec<&str> = requests.iter().map(|r| r.0.as_str()).collect();
    assert!(requests[0].1.starts_with("CREATE TABLE IF NOT EXISTS forebay_rounds (at "));
    let insert = "/?database=net&wait_end_of_query=1&query=INSERT%20INTO%20forebay_rounds%20FORMAT%20\
                  JSONEachRow&date_time_input_format=best_effort&insert_deduplication_token=77-0";
    assert_eq!((paths[5], paths[9]), (insert, insert), "it has the same token");
    assert_eq!((requests[9].1.as_str(), requests[5].1.as_str()), ("{\"n\":0}\n", "{\"n\":0}\n"));
    let demands = insert.replace("rounds", "demands").replace("77-0", "77-1");
    assert_eq!(paths[10], demands);
    assert_eq!(requests[10].1, "{\"n\":0}\n{\"n\":1}\n");
    let report = history.report();
    assert_eq!((report.up, report.failures, report.lost, report.rows), (true, 2, 0, 3));
}

/// A user that may only insert is refused the tables with 403, or 500 before ClickHouse 26.
#[test]
fn a_user_that_may_only_insert_needs_no_right_to_create() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let database = Database::new(&settings(&listener), 1).unwrap();
    let (history, stop) = (History::default(), AtomicBool::new(true));
    history.add(Table::Rounds, rows(1));
    history.add(Table::Hints, rows(1));
    let denied = "HTTP/1.1 403 Forbidden\r\n\r\nCode: 497. DB::Exception: Not enough privileges";
    let requests = thread::scope(|scope| {
        let answers = scope.spawn(|| serve(&listener, &[denied, GOOD, GOOD]));
        write(&database, &history, &stop);
        answers.join().unwrap()
    });
    assert!(requests[1].0.contains("INSERT%20INTO%20forebay_rounds"), "{requests:?}");
    let report = history.report();
    assert_eq!((report.up, report.rows, report.failures), (true, 2, 0), "{report:?}");

    history.add(Table::Rounds, rows(1));
    let missing = "HTTP/1.1 404 Not Found\r\n\r\nCode: 60. DB::Exception: Unknown table";
    thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &[denied, missing]));
        write(&database, &history, &stop);
    });
    let error = history.report().error.unwrap();
    for cause in ["Unknown table", "cannot be created", "Not enough privileges"] {
        assert!(error.contains(cause), "{error}");
    }
}

#[test]
fn what_the_database_refuses_does_not_hold_up_the_rest() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let database = Database::new(&settings(&listener), 1).unwrap();
    let history = History::default();
    history.add(Table::Rounds, rows(1));
    let batch = history.next().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let parse = "HTTP/1.1 400 Bad Request\r\n\r\nCode: 27. DB::Exception: Cannot parse\r\n";
            serve(
                &listener,
                &[parse, "HTTP/1.1 404 Not Found\r\n\r\nno table", "SSH-2.0\r\n\r\n", GOOD],
            );
        });
        let refused = "the database answered 400: Code: 27. DB::Exception: Cannot parse";
        assert_eq!(database.insert(&batch, &|| false), Err(Failure::Refused(refused.to_owned())));
        let away = |why: &str| Err(Failure::Away(why.to_owned()));
        assert_eq!(database.insert(&batch, &|| false), away("the database answered 404: no table"));
        assert_eq!(
            database.insert(&batch, &|| false),
            away("the answer is no HTTP: is this ClickHouse?")
        );
        assert_eq!(database.insert(&batch, &|| false), Ok(()));
    });
}
