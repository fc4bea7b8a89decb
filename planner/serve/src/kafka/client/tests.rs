//! The client at a broker that this test plays.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;

use forebay_plan::flows::relayed::Relay;

use super::*;
use crate::kafka::Connection as State;
use crate::kafka::batch::tests::{batch, gzip, records};

const TOPIC: &str = "flows";

/// Puts octets with their length in front.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes(), text.as_bytes()].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [&(items.len() as i32).to_be_bytes()[..], &items.concat()].concat()
}

fn int(value: i32) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

fn long(value: i64) -> Vec<u8> {
    value.to_be_bytes().to_vec()
}

/// Returns a topic with one partition.
fn topic(partition: &[Vec<u8>]) -> Vec<u8> {
    list(&[[text(TOPIC), list(&[[int(0), partition.concat()].concat()])].concat()])
}

/// A broker with one partition, whose log is a list of batches with the offset behind each.
struct Broker {
    port: u16,
    log: Vec<(i64, Vec<u8>)>,
    oldest: i64,
}

impl Broker {
    /// Returns the answer to a request.
    fn answer(&self, key: i16, body: &[u8]) -> Vec<u8> {
        let high = self.log.last().map_or(0, |(next, _)| *next);
        match key {
            3 => {
                let host = text("127.0.0.1");
                let broker = [int(1), host, int(i32::from(self.port)), text("")].concat();
                let partition = [vec![0, 0], int(0), int(1), list(&[]), list(&[])].concat();
                let topic = [vec![0, 0], text(TOPIC), vec![0], list(&[partition])].concat();
                [int(0), list(&[broker]), text(""), int(1), list(&[topic])].concat()
            }
            2 => {
                let newest = body.ends_with(&(-1_i64).to_be_bytes());
                let offset = if newest { high } else { self.oldest };
                topic(&[vec![0, 0], long(0), long(offset)])
            }
            _ => {
                let offset = body[body.len() - 12..body.len() - 4].try_into().unwrap();
                let offset = i64::from_be_bytes(offset);
                let mut batches = Vec::new();
                for (_, batch) in self.log.iter().filter(|(next, _)| *next > offset) {
                    batches.extend_from_slice(batch);
                }
                let error = if offset < self.oldest { vec![0, 1] } else { vec![0, 0] };
                let length = int(batches.len() as i32);
                let told = [error, long(high), long(high), list(&[]), length, batches];
                [int(0), topic(&told)].concat()
            }
        }
    }

    /// Serves a connection to its end.
    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        loop {
            let mut length = [0; 4];
            stream.read_exact(&mut length)?;
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut request)?;
            let key = i16::from_be_bytes([request[0], request[1]]);
            let answer = [&request[4..8], &self.answer(key, &request[8..])].concat();
            stream.write_all(&int(answer.len() as i32))?;
            stream.write_all(&answer)?;
        }
    }
}

/// Reads the topic from a broker with this log, until `until`; returns what was read.
fn run(
    oldest: i64,
    log: Vec<(i64, Vec<u8>)>,
    until: impl Fn(&Feed) -> bool,
) -> (Arc<Feed>, Vec<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let broker = Broker { port: address.port(), log, oldest };
    let settings = Kafka {
        // Nothing listens at the first one.
        brokers: vec!["127.0.0.1:9".to_owned(), address.to_string()],
        topic: TOPIC.to_owned(),
        relay: Relay::Goflow2,
        start: Start::Earliest,
    };
    let (feed, stop) = (Arc::new(Feed::default()), AtomicBool::new(false));
    let taken = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&taken);
    let take: Take = Arc::new(move |messages| into.lock().unwrap().extend_from_slice(messages));
    thread::scope(|scope| {
        let (broker, stop, feed) = (&broker, &stop, &feed);
        scope.spawn(move || {
            for stream in listener.incoming().take_while(|_| !stop.load(Ordering::Relaxed)) {
                scope.spawn(move || broker.serve(stream.unwrap()));
            }
        });
        let reader = scope.spawn(|| read(&settings, feed, stop, &take));
        while !(until(feed) || reader.is_finished()) {
            thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap().unwrap();
        // It wakes the listener.
        drop(TcpStream::connect(address));
    });
    let taken = taken.lock().unwrap().clone();
    (feed, taken)
}

#[test]
fn poisoned_batches_are_skipped_and_told() {
    let bomb = batch(1, 1, 60_000_000, &gzip(&[0; 1 << 16]));
    let log = vec![
        (1, batch(0, 0, 1, &records(&[b"one"]))),
        (60_000_001, bomb),
        (60_000_003, batch(60_000_001, 1, 2, &gzip(&records(&[b"two", b"three"])))),
    ];
    let (feed, taken) = run(0, log, |feed| feed.next(0) == Some(60_000_003));
    assert_eq!(taken, [&b"one"[..], b"two", b"three"]);
    let report = feed.report();
    assert_eq!((report.refused, report.messages, report.failures), (1, 3, 0));
    let why = report.refusal.unwrap();
    assert!(why.starts_with("the batch at offset 1 of partition 0 has more than "), "{why}");
}

#[test]
fn messages_that_the_broker_has_removed_are_counted() {
    let log = vec![(12, batch(10, 0, 2, &records(&[b"ten", b"eleven"])))];
    let (feed, taken) =
        run(10, log, |feed| feed.next(0) == Some(12) && feed.report().messages == 2);
    assert_eq!(taken, [&b"ten"[..], b"eleven"]);
    assert_eq!((feed.report().refused, feed.report().state), (0, State::Up));
    let lag = feed.report().partitions[&0].lag;
    assert_eq!(lag, 0);
}
