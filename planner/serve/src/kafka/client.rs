//! Reads the topic of a [`Feed`](super::Feed) from the brokers.
//!
//! One thread has a task for each partition. After a failure all partitions are begun anew, after a
//! wait that doubles up to [`LONGEST_WAIT`]. They go on where they ended.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rskafka::BackoffConfig;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::{Batch, Feed, MOST_PARTITIONS};
use crate::clock;
use crate::config::{Kafka, Start};

/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest wait after a failure.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The time that a request may take, with connecting.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time after which the topic is asked for new partitions.
const REFRESH: Duration = Duration::from_secs(60);
/// The time that a broker waits for messages before it answers with none.
const MOST_WAIT_MS: i32 = 500;
/// The octets of messages that are requested at once.
const FETCH: std::ops::Range<i32> = 1..4 << 20;
/// The largest answer of a broker in octets.
const LARGEST_ANSWER: usize = 64 << 20;
/// The interval at which the thread checks whether it should stop.
const RETRY: Duration = Duration::from_millis(100);

/// Takes the messages of a batch.
pub type Take = Arc<dyn Fn(&[Vec<u8>]) + Send + Sync>;

/// Reads the topic until `stop` is set. Calls `take` with the messages of each batch.
///
/// # Errors
/// If the thread cannot do asynchronous I/O.
pub fn read(settings: &Kafka, feed: &Arc<Feed>, stop: &AtomicBool, take: &Take) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut wait = FIRST_WAIT;
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let session = session(settings, feed, take);
            let outcome = until(stop, session).await;
            let Some(Err(why)) = outcome else { continue };
            feed.fail(&why);
            if began.elapsed() > LONGEST_WAIT {
                wait = FIRST_WAIT;
            }
            let topic = &settings.topic;
            tracing::warn!(
                "cannot read the topic {topic} of Kafka, trying again in {wait:?}: {why}"
            );
            until(stop, sleep(wait)).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    });
    Ok(())
}

/// Runs a future until it ends, or `stop` is set.
async fn until<T>(stop: &AtomicBool, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    while !stop.load(Ordering::Relaxed) {
        if let Ok(outcome) = timeout(RETRY, future.as_mut()).await {
            return Some(outcome);
        }
    }
    None
}

/// Limits the time of a request.
async fn soon<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match timeout(PATIENCE, request).await {
        Ok(answer) => answer.map_err(|e| e.to_string()),
        Err(_) => Err(format!("the brokers do not answer within {} s", PATIENCE.as_secs())),
    }
}

/// Reads all partitions for the time of [`REFRESH`].
async fn session(settings: &Kafka, feed: &Arc<Feed>, take: &Take) -> Result<(), String> {
    let backoff = BackoffConfig {
        init_backoff: FIRST_WAIT,
        max_backoff: PATIENCE,
        deadline: Some(PATIENCE / 2),
        ..BackoffConfig::default()
    };
    let builder = ClientBuilder::new(settings.brokers.clone())
        .client_id("forebay")
        .max_message_size(LARGEST_ANSWER)
        .backoff_config(backoff);
    let client = soon(builder.build()).await?;
    let topics = soon(client.list_topics()).await?;
    let topic = topics.into_iter().find(|topic| topic.name == settings.topic);
    let topic = topic.ok_or_else(|| format!("the brokers have no topic {:?}", settings.topic))?;
    if topic.partitions.len() > MOST_PARTITIONS {
        let found = topic.partitions.len();
        return Err(format!("the topic has {found} partitions, and {MOST_PARTITIONS} at most"));
    }
    let (mut clients, mut offsets) = (Vec::new(), BTreeMap::new());
    // Later partitions have messages since the last look for them, which are needed too.
    let latest = settings.start == Start::Latest && feed.report().partitions.is_empty();
    let complete = if latest { i64::try_from(clock::now()).unwrap_or(i64::MAX) } else { 0 };
    let at = if latest { OffsetAt::Latest } else { OffsetAt::Earliest };
    for partition in topic.partitions {
        let (client, offset) = open(&client, settings, feed, partition, at).await?;
        clients.push(client);
        offsets.insert(partition, offset);
    }
    feed.begin(&offsets, complete);
    let mut tasks = JoinSet::new();
    for client in clients {
        let (feed, take) = (Arc::clone(feed), Arc::clone(take));
        tasks.spawn(async move { partition(&client, &feed, &take).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|e| format!("a task has ended: {e}"))??;
    }
    Ok(())
}

/// Returns the client of a partition, and the offset at which reading begins or goes on.
async fn open(
    client: &Client,
    settings: &Kafka,
    feed: &Feed,
    partition: i32,
    at: OffsetAt,
) -> Result<(PartitionClient, i64), String> {
    let topic = settings.topic.clone();
    let client =
        soon(client.partition_client(topic, partition, UnknownTopicHandling::Error)).await?;
    let offset = match feed.next(partition) {
        Some(next) => next,
        None => soon(client.get_offset(at)).await?,
    };
    Ok((client, offset))
}

/// Reads a partition for the time of [`REFRESH`].
async fn partition(client: &PartitionClient, feed: &Feed, take: &Take) -> Result<(), String> {
    let began = Instant::now();
    let number = client.partition();
    let mut next = feed.next(number).unwrap_or(0);
    while began.elapsed() < REFRESH {
        let asked = i64::try_from(clock::now()).unwrap_or(i64::MAX);
        let fetched = timeout(PATIENCE, client.fetch_records(next, FETCH, MOST_WAIT_MS)).await;
        let (records, high) = match fetched {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(Error::ServerError {
                protocol_error: ProtocolError::OffsetOutOfRange, ..
            })) => {
                // The broker has removed what was not read in time, or the topic is a new one.
                let earliest = soon(client.get_offset(OffsetAt::Earliest)).await?;
                feed.expire(u64::try_from(earliest.saturating_sub(next)).unwrap_or(0));
                next = earliest;
                continue;
            }
            Ok(Err(why)) => return Err(why.to_string()),
            Err(_) => return soon(std::future::pending()).await,
        };
        let last = records.last().map(|r| r.record.timestamp.timestamp_millis());
        next = records.last().map_or(next, |r| r.offset + 1);
        let messages: Vec<Vec<u8>> = records.into_iter().filter_map(|r| r.record.value).collect();
        take(&messages);
        let octets = messages.iter().map(|m| m.len() as u64).sum();
        let messages = messages.len() as u64;
        feed.batch(number, &Batch { messages, octets, next, high, asked, last });
        // Other partitions share the thread.
        tokio::task::yield_now().await;
    }
    Ok(())
}
