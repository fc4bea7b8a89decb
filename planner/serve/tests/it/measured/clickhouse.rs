//! Tests the history at a real ClickHouse, whose address and port the environment variable
//! `FOREBAY_CLICKHOUSE` has, as in `FOREBAY_CLICKHOUSE=127.0.0.1:8123 cargo test -p forebay-serve
//! --test it clickhouse`. The user `default` has no password there, and may create tables in the
//! database `default`.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_serve::config::Clickhouse;
use forebay_serve::history::writer::{Database, Failure, write};
use forebay_serve::history::{Batch, History, Table};
use forebay_serve::neighbour::config::{Access, Url};
use forebay_test_support::{Need, skip};
use serde_json::json;

fn address() -> Option<String> {
    let address = std::env::var("FOREBAY_CLICKHOUSE").ok();
    if address.is_none() {
        skip(Need::Program, "set FOREBAY_CLICKHOUSE to the address and port of a ClickHouse");
    }
    address
}

/// Returns what the database answers to `query`, one value in each line.
fn ask(address: &str, query: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = format!("{query} FORMAT TSV");
    let head = format!(
        "POST /?database=default HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{query}: {answer}");
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    // The lengths of chunks are lines too, if the answer is chunked.
    let chunked = answer.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let lines = body.lines().skip(usize::from(chunked)).map(str::to_owned);
    lines.take_while(|line| !line.is_empty()).collect()
}

fn database(address: &str, start: u64) -> Database {
    let (host, port) = address.rsplit_once(':').unwrap();
    let url = Url { tls: false, host: host.to_owned(), port: port.parse().unwrap() };
    let access = Access { url, token: None, authority: None, certificate: None };
    let settings =
        Clickhouse { access, database: "default".to_owned(), user: "default".to_owned() };
    Database::new(&settings, start).unwrap()
}

#[test]
fn a_real_database_takes_each_row_once_and_refuses_what_is_no_row() {
    let Some(address) = address() else { return };
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let database = database(&address, start);
    // Rounds of this run alone: others have other numbers.
    let (round, at) = (start, "2026-11-28T19:50:00.125Z");
    let history = History::default();
    let good = json!({
        "at": at, "round": round, "took_ms": 140, "demand_bps": 1.5e9, "before_bps": 1e9,
        "after_bps": 1.25e9, "hints": 3, "changed": 1, "error": "",
    });
    let failed = json!({"at": at, "round": round, "error": "no \"demand\":\n\tüber"});
    history.add(Table::Rounds, [good, failed].map(|row| row.to_string()));
    let demand = |n: u32| {
        let row = json!({
            "at": at, "round": round, "provider": "a", "entry": "x", "router": format!("r{n}"),
            "now_bps": n, "after_bps": 0.5,
        });
        row.to_string()
    };
    history.add(Table::Demands, (0..2000).map(demand));
    let hint = json!({
        "at": at, "round": round, "neighbour": "n", "prefix": "2001:db8::/32", "entry": "x",
        "later": 1,
    });
    history.add(Table::Hints, [hint.to_string()]);
    write(&database, &history, &AtomicBool::new(true));
    let report = history.report();
    assert_eq!((report.rows, report.lost, report.failures), (2003, 0, 0), "{report:?}");

    let of = format!("WHERE round = {round}");
    let rounds = format!(
        "SELECT concat(toString(at), ' ', toString(demand_bps), ' ', toString(hints), ' ', error) \
         FROM forebay_rounds {of} ORDER BY hints DESC"
    );
    assert_eq!(
        ask(&address, &rounds),
        [
            "2026-11-28 19:50:00.125 1500000000 3 ",
            r#"2026-11-28 19:50:00.125 0 0 no "demand":\n\tüber"#
        ]
    );
    let demands = format!("SELECT count() FROM forebay_demands {of} AND after_bps = 0.5");
    assert_eq!(ask(&address, &demands), ["2000"]);
    let hints = format!("SELECT prefix FROM forebay_hints {of}");
    assert_eq!(ask(&address, &hints), ["2001:db8::/32"]);

    // A batch whose answer was lost is sent again, and counts once.
    let body = demand(1) + "\n";
    let batch = Batch { table: Table::Demands, number: 5000, rows: 1, body };
    assert_eq!(database.insert(&batch, &|| false), Ok(()));
    assert_eq!(database.insert(&batch, &|| false), Ok(()));
    assert_eq!(ask(&address, &demands), ["2001"]);
    // The tables are there.
    assert_eq!(database.create(&|| false), Ok(()));
    // What is no row is refused for good, and the rest is not written either.
    let body = demand(1) + "\nno JSON\n";
    let wrong = Batch { number: 6000, body, ..batch };
    let refused = database.insert(&wrong, &|| false);
    assert!(matches!(&refused, Err(Failure::Refused(why)) if why.contains("400")), "{refused:?}");
    assert_eq!(ask(&address, &demands), ["2001"]);
}
