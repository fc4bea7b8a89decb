//! Tests the reader of Kafka at a real broker, which the environment variable `FOREBAY_KAFKA`
//! names, as in `FOREBAY_KAFKA=127.0.0.1:9092 cargo test -p forebay-serve --features kafka --test
//! it kafka`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_plan::flows::relayed::Relay;
use forebay_serve::config::{Kafka, Start};
use forebay_serve::kafka::client::{Take, read};
use forebay_serve::kafka::{Connection, Feed};
use forebay_test_support::{Need, skip};
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::record::Record;
use tokio::runtime::Runtime;

/// The time that a condition may take.
const TIMEOUT: Duration = Duration::from_secs(60);

fn broker() -> Option<String> {
    let broker = std::env::var("FOREBAY_KAFKA").ok();
    if broker.is_none() {
        skip(Need::Program, "set FOREBAY_KAFKA to the address and port of a broker of Kafka");
    }
    broker
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the name of a topic that no other run has, with two partitions.
fn topic(runtime: &Runtime, broker: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let name = format!("forebay-test-{}", since.as_nanos());
    runtime.block_on(async {
        let client = ClientBuilder::new(vec![broker.to_owned()]).build().await.unwrap();
        let controller = client.controller_client().unwrap();
        controller.create_topic(&name, 2, 1, 5000).await.unwrap();
    });
    name
}

/// A batch of messages, and how it is compressed.
type Batch<'a> = (Compression, &'a [&'a [u8]]);

fn write(runtime: &Runtime, broker: &str, topic: &str, partition: i32, batches: &[Batch<'_>]) {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let timestamp = chrono::DateTime::from_timestamp_millis(millis as i64).unwrap();
    let record = |value: &&[u8]| Record {
        key: None,
        value: Some(value.to_vec()),
        headers: Default::default(),
        timestamp,
    };
    runtime.block_on(async {
        let client = ClientBuilder::new(vec![broker.to_owned()]).build().await.unwrap();
        let handling = UnknownTopicHandling::Retry;
        let client = client.partition_client(topic, partition, handling).await.unwrap();
        for (compression, values) in batches {
            let records = values.iter().map(record).collect();
            client.produce(records, *compression).await.unwrap();
        }
    });
}

#[test]
fn all_partitions_are_read_and_reading_goes_on_after_a_break() {
    let Some(broker) = broker() else { return };
    let runtime = runtime();
    let topic = topic(&runtime, &broker);
    let plain = (Compression::NoCompression, &[&b"one"[..], b"two"][..]);
    let packed = [
        (Compression::Gzip, &[&b"three"[..]][..]),
        (Compression::Snappy, &[&b"four"[..]][..]),
        (Compression::Lz4, &[&b"five"[..], b"six"][..]),
    ];
    write(&runtime, &broker, &topic, 0, &[plain]);
    write(&runtime, &broker, &topic, 1, &packed);
    let feed = Arc::new(Feed::default());
    let read_so_far = Arc::new(Mutex::new(Vec::new()));
    let settings = |brokers: &[&str]| Kafka {
        brokers: brokers.iter().map(|b| (*b).to_owned()).collect(),
        topic: topic.clone(),
        relay: Relay::Goflow2,
        start: Start::Earliest,
    };
    let run = |settings: Kafka, until: &mut dyn FnMut(&Feed) -> bool| {
        let stop = AtomicBool::new(false);
        let into = Arc::clone(&read_so_far);
        let take: Take = Arc::new(move |messages| into.lock().unwrap().extend(messages.to_vec()));
        thread::scope(|scope| {
            let reader = scope.spawn(|| read(&settings, &feed, &stop, &take));
            wait_for("the topic is read", || until(&feed));
            stop.store(true, Ordering::Relaxed);
            reader.join().unwrap().unwrap();
        });
    };
    // Nothing listens at this port, which is told and not given up.
    run(settings(&["127.0.0.1:9"]), &mut |feed| feed.report().failures > 0);
    assert_eq!(feed.report().state, Connection::Away);
    run(settings(&[&broker]), &mut |feed| feed.report().messages == 6);
    assert_eq!((feed.report().state, feed.report().error), (Connection::Up, None));
    assert_eq!((feed.next(0), feed.next(1)), (Some(2), Some(4)));
    write(&runtime, &broker, &topic, 0, &[(Compression::NoCompression, &[b"seven"])]);
    run(settings(&[&broker]), &mut |feed| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let lag: u64 = feed.report().partitions.values().map(|p| p.lag).sum();
        let late = since.as_millis() as i64 - 5000;
        lag == 0 && feed.report().messages == 7 && feed.behind(late).is_none()
    });
    let mut all = read_so_far.lock().unwrap().clone();
    all.sort();
    let expected: [&[u8]; 7] = [b"five", b"four", b"one", b"seven", b"six", b"three", b"two"];
    assert_eq!(all, expected, "each message once");
}

#[test]
fn a_missing_topic_is_told() {
    let Some(broker) = broker() else { return };
    let feed = Arc::new(Feed::default());
    let (stop, take): (_, Take) = (AtomicBool::new(false), Arc::new(|_| ()));
    let settings = Kafka {
        brokers: vec![broker],
        topic: "forebay-test-missing".to_owned(),
        relay: Relay::Akvorado,
        start: Start::Latest,
    };
    thread::scope(|scope| {
        let reader = scope.spawn(|| read(&settings, &feed, &stop, &take));
        wait_for("it fails", || feed.report().failures > 0);
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap().unwrap();
    });
    let error = feed.report().error.unwrap();
    assert_eq!(error, "the brokers have no topic \"forebay-test-missing\"");
}
