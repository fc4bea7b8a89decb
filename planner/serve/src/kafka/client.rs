//! Reads the topic of a [`Feed`](super::Feed) from the brokers.
//!
//! One thread has a task for each partition. After a failure all partitions are begun anew, after a
//! wait that doubles up to [`MAX_BACKOFF`]. They go on where they ended.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::batch::next_batch;
use super::connection::Connection;
use super::wire::{self, Api, Led, NO_ERROR, OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC};
use super::{Batch, Feed, MAX_PARTITIONS};
use crate::clock;
use crate::config::{Kafka, Start};

/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// The longest wait after a failure.
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The time that a request may take, with connecting.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The time after which the topic is asked for new partitions.
const REFRESH: Duration = Duration::from_secs(60);
/// The time that a broker waits for messages before it answers with none, in milliseconds.
const MAX_WAIT_MS: i32 = 500;
/// The octets of messages that are requested at once. A batch that is larger comes alone.
const FETCH: i32 = 1 << 20;
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
            if began.elapsed() > MAX_BACKOFF {
                wait = FIRST_WAIT;
            }
            let topic = &settings.topic;
            tracing::warn!(
                "cannot read the topic {topic} of Kafka, trying again in {wait:?}: {why}"
            );
            until(stop, sleep(wait)).await;
            wait = (wait * 2).min(MAX_BACKOFF);
        }
    });
    // A name of a broker that is being resolved is not waited for.
    runtime.shutdown_background();
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

/// Limits the time of a request to a broker.
async fn soon<T>(request: impl Future<Output = io::Result<T>>) -> Result<T, String> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|e| e.to_string()),
        Err(_) => Err(format!("the brokers do not answer within {} s", REQUEST_TIMEOUT.as_secs())),
    }
}

/// Describes an error that a broker has answered with.
fn refused(code: i16) -> String {
    match code {
        UNKNOWN_TOPIC => "the broker has no such topic or partition".to_owned(),
        5 | 6 => "the partition has another leader or none".to_owned(),
        29 => "the topic needs a password, which is not supported".to_owned(),
        code => format!("the broker refuses, with Kafka's error {code}"),
    }
}

/// Reads all partitions for the time of [`REFRESH`].
async fn session(settings: &Kafka, feed: &Arc<Feed>, take: &Take) -> Result<(), String> {
    let topic: Arc<str> = settings.topic.as_str().into();
    let partitions = partitions(settings).await?;
    if partitions.len() > MAX_PARTITIONS {
        let found = partitions.len();
        return Err(format!("the topic has {found} partitions, and {MAX_PARTITIONS} at most"));
    }
    // Later partitions have messages since the last look for them, which are needed too.
    let latest = settings.start == Start::Latest && feed.report().partitions.is_empty();
    let complete = if latest { now() } else { 0 };
    let (mut readers, mut offsets) = (Vec::new(), Vec::new());
    for Led { partition, leader } in partitions {
        let Some((host, port)) = leader else {
            return Err(format!("partition {partition} has no leader"));
        };
        let connection = soon(Connection::open(&address(&host, port))).await?;
        let topic = Arc::clone(&topic);
        let mut reader = Reader { connection, topic, partition, next: 0 };
        reader.next = match feed.next(partition) {
            Some(next) => next,
            None => reader.offset(latest).await?,
        };
        offsets.push((partition, reader.next));
        readers.push(reader);
    }
    feed.begin(&offsets.into_iter().collect(), complete);
    let mut tasks = JoinSet::new();
    for mut reader in readers {
        let (feed, take) = (Arc::clone(feed), Arc::clone(take));
        tasks.spawn(async move { reader.read(&feed, &take).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|e| format!("a task has ended: {e}"))??;
    }
    Ok(())
}

/// Returns the partitions of the topic, by the first broker that tells them.
async fn partitions(settings: &Kafka) -> Result<Vec<Led>, String> {
    let topic = &settings.topic;
    let mut why = String::new();
    for broker in &settings.brokers {
        let told = soon(async {
            let mut connection = Connection::open(broker).await?;
            let answer = connection.ask(Api::Metadata, |request| request.metadata(topic)).await?;
            wire::metadata(answer, topic).map_err(io::Error::other)
        });
        match told.await {
            Ok(Ok(partitions)) if !partitions.is_empty() => return Ok(partitions),
            Ok(Ok(_) | Err(UNKNOWN_TOPIC)) => {
                return Err(format!("the brokers have no topic {topic:?}"));
            }
            Ok(Err(code)) => why = format!("{broker}: {}", refused(code)),
            Err(e) => why = format!("{broker}: {e}"),
        }
    }
    Err(why)
}

/// Returns the address of a host, which may be an address of IPv6, and a port.
fn address(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Returns the time in milliseconds since 1970.
fn now() -> i64 {
    i64::try_from(clock::now()).unwrap_or(i64::MAX)
}

/// Reads a partition.
struct Reader {
    connection: Connection,
    topic: Arc<str>,
    partition: i32,
    /// The offset that is read next.
    next: i64,
}

impl Reader {
    /// Asks for the offset behind the newest message, or else that of the oldest one.
    async fn offset(&mut self, newest: bool) -> Result<i64, String> {
        let (topic, partition) = (Arc::clone(&self.topic), self.partition);
        let answer = soon(
            self.connection
                .ask(Api::ListOffsets, |request| request.offset(&topic, partition, newest)),
        );
        wire::offset(answer.await?).map_err(|e| e.to_string())?.map_err(refused)
    }

    /// Reads the partition for the time of [`REFRESH`].
    async fn read(&mut self, feed: &Feed, take: &Take) -> Result<(), String> {
        let began = Instant::now();
        while began.elapsed() < REFRESH {
            let asked = now();
            let (topic, partition, next) = (&self.topic, self.partition, self.next);
            let answer = soon(self.connection.ask(Api::Fetch, |request| {
                request.fetch(topic, partition, next, FETCH, MAX_WAIT_MS)
            }));
            let fetched = wire::fetched(answer.await?).map_err(|e| e.to_string())?;
            match fetched.error {
                NO_ERROR => {}
                OFFSET_OUT_OF_RANGE => {
                    // The broker has removed what was not read in time, or the topic is a new one.
                    let earliest = self.offset(false).await?;
                    feed.expire(u64::try_from(earliest.saturating_sub(next)).unwrap_or(0));
                    self.next = earliest;
                    continue;
                }
                code => return Err(refused(code)),
            }
            let (mut batches, high) = (fetched.batches, fetched.high);
            let mut progress = Batch { next, high, asked, ..Batch::default() };
            while let Some(batch) = next_batch(&mut batches, progress.next) {
                let messages = batch.messages.unwrap_or_else(|why| {
                    feed.refuse(partition, progress.next, &why.to_string());
                    Vec::new()
                });
                take(&messages);
                progress.messages = messages.len() as u64;
                progress.octets = messages.iter().map(|message| message.len() as u64).sum();
                progress.last = batch.newest;
                // A batch that is damaged may lie about its end.
                progress.next = batch.next.min(high.max(progress.next + 1));
                feed.batch(partition, &progress);
                // Other partitions share the thread, and so does the look for its end.
                drop(messages);
                tokio::task::yield_now().await;
            }
            if progress.next == next && !fetched.batches.is_empty() {
                return Err("a broker's answer ends within its first batch".to_owned());
            }
            if progress.next == next {
                feed.batch(partition, &progress);
            }
            self.next = progress.next;
            self.connection.forget();
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
