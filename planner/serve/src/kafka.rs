//! Flow records that another collector relays by Kafka: what has been read, and whether it is
//! complete.
//!
//! [`Feed`] has no sockets and no clock. With the feature `kafka`, the module `client` reads the
//! topic from the brokers. There is no consumer group, and no offset is committed: sums are in
//! memory, so a new start has a use for new records only, and each service needs all records.

#[cfg(feature = "kafka")]
pub mod batch;
#[cfg(feature = "kafka")]
pub mod client;
#[cfg(feature = "kafka")]
mod connection;
#[cfg(feature = "kafka")]
mod wire;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// The most partitions of the topic.
pub const MAX_PARTITIONS: usize = 256;

/// The state of the connection to the brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Connection {
    /// The topic has not been read yet.
    #[default]
    Connecting,
    /// The topic is read.
    Up,
    /// The brokers cannot be reached, or the topic cannot be read; it is tried again.
    Away,
}

/// What was read of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// The offset that is read next.
    pub next: i64,
    /// The messages in the broker that have not been read.
    pub lag: u64,
    /// The time up to which all messages have been read, in milliseconds since 1970.
    pub complete: i64,
}

/// What was read of the topic, for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// The state of the connection.
    pub state: Connection,
    /// The cause of the last failure.
    pub error: Option<String>,
    /// How often reading failed.
    pub failures: u64,
    /// The messages that were read.
    pub messages: u64,
    /// The octets of these messages.
    pub octets: u64,
    /// The messages that the broker removed before they were read.
    pub expired: u64,
    /// The batches that were skipped, since they are too large or cannot be read.
    pub refused: u64,
    /// The last of these batches, and what is wrong with it.
    pub refusal: Option<String>,
    /// The partitions of the topic.
    pub partitions: BTreeMap<i32, Partition>,
}

/// What was read of a topic.
#[derive(Debug, Default)]
pub struct Feed {
    progress: Mutex<Progress>,
}

impl Feed {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        // After a panic the counts may lack a batch, but are consistent.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what was read.
    pub fn report(&self) -> Progress {
        self.progress().clone()
    }

    /// Returns the offset at which reading of a partition goes on, if it has begun.
    pub fn next(&self, partition: i32) -> Option<i64> {
        self.progress().partitions.get(&partition).map(|p| p.next)
    }

    /// Begins or goes on with exactly these partitions and offsets. A partition that is new counts
    /// as complete up to `complete`, in milliseconds since 1970.
    pub fn begin(&self, offsets: &BTreeMap<i32, i64>, complete: i64) {
        let mut progress = self.progress();
        progress.partitions.retain(|partition, _| offsets.contains_key(partition));
        for (partition, next) in offsets {
            let new = Partition { next: *next, lag: 0, complete };
            progress.partitions.entry(*partition).or_insert(new).next = *next;
        }
        (progress.state, progress.error) = (Connection::Up, None);
    }

    /// Notes that a batch of a partition was read.
    pub fn batch(&self, partition: i32, batch: &Batch) {
        let mut progress = self.progress();
        progress.messages += batch.messages;
        progress.octets += batch.octets;
        let Some(known) = progress.partitions.get_mut(&partition) else { return };
        known.next = batch.next;
        known.lag = u64::try_from(batch.high.saturating_sub(batch.next)).unwrap_or(0);
        let complete = if known.lag == 0 { Some(batch.asked) } else { batch.last };
        // Times of messages are the producer's, and may be out of order.
        known.complete = known.complete.max(complete.unwrap_or(i64::MIN).min(batch.asked));
    }

    /// Counts messages that the broker removed before they were read.
    pub fn expire(&self, messages: u64) {
        self.progress().expired += messages;
    }

    /// Notes that the batch at an offset of a partition is skipped. A start of the service that
    /// reads it again skips it again.
    pub fn refuse(&self, partition: i32, offset: i64, why: &str) {
        let why = format!("the batch at offset {offset} of partition {partition} {why}");
        tracing::warn!("a batch of Kafka is skipped: {why}");
        let mut progress = self.progress();
        progress.refused += 1;
        progress.refusal = Some(why);
    }

    /// Notes that reading failed.
    pub fn fail(&self, why: &str) {
        let mut progress = self.progress();
        progress.state = Connection::Away;
        progress.failures += 1;
        progress.error = Some(why.to_owned());
    }

    /// Returns why not all messages up to `time` have been read, if they have not.
    pub fn behind(&self, time: i64) -> Option<String> {
        let progress = self.progress();
        let oldest = progress.partitions.iter().min_by_key(|(_, p)| p.complete);
        match (oldest, &progress.error) {
            (Some((_, p)), _) if p.complete >= time => None,
            (_, Some(why)) => Some(format!("they cannot be read: {why}")),
            (Some((partition, p)), None) => {
                let seconds = time.saturating_sub(p.complete) / 1000;
                let lag = p.lag;
                Some(format!("partition {partition} is {seconds} s behind with {lag} messages"))
            }
            (None, None) => Some("no partition has been read yet".to_owned()),
        }
    }
}

/// A batch of messages of a partition.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    /// The number of messages.
    pub messages: u64,
    /// The octets of these messages.
    pub octets: u64,
    /// The offset behind the last message.
    pub next: i64,
    /// The offset behind the newest message in the broker.
    pub high: i64,
    /// The time before the batch was requested, in milliseconds since 1970.
    pub asked: i64,
    /// The time of the last message, in milliseconds since 1970.
    pub last: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(messages: u64, next: i64, high: i64, asked: i64) -> Batch {
        let last = (messages > 0).then_some(asked - 60_000);
        Batch { messages, octets: 10 * messages, next, high, asked, last }
    }

    #[test]
    fn records_are_complete_up_to_the_oldest_partition() {
        let feed = Feed::default();
        assert_eq!(feed.behind(1).unwrap(), "no partition has been read yet");
        feed.begin(&[(0, 100), (1, 7)].into(), 1_000_000);
        assert_eq!(feed.behind(1_000_000), None);
        feed.batch(0, &batch(0, 100, 100, 1_010_000));
        let why = feed.behind(1_005_000).unwrap();
        assert_eq!(why, "partition 1 is 5 s behind with 0 messages");
        // The last message of the batch is a minute old, and three are left.
        feed.batch(1, &batch(2, 9, 12, 1_100_000));
        assert_eq!(feed.behind(1_005_000), None);
        assert_eq!(feed.behind(1_050_000).unwrap(), "partition 0 is 40 s behind with 0 messages");
        feed.batch(0, &batch(5, 105, 105, 1_110_000));
        assert_eq!(feed.behind(1_050_000).unwrap(), "partition 1 is 10 s behind with 3 messages");
        let report = feed.report();
        assert_eq!((report.messages, report.octets, report.partitions[&1].lag), (7, 70, 3));
        assert_eq!((feed.next(0), feed.next(1), feed.next(2)), (Some(105), Some(9), None));
    }

    #[test]
    fn brokers_that_are_away_are_told() {
        let feed = Feed::default();
        feed.fail("connection refused");
        assert_eq!(feed.behind(0).unwrap(), "they cannot be read: connection refused");
        feed.begin(&[(0, 0)].into(), 1000);
        feed.fail("gone");
        assert_eq!(feed.behind(1000), None, "what was read is still complete");
        assert_eq!(feed.behind(1001).unwrap(), "they cannot be read: gone");
        let report = feed.report();
        assert_eq!((report.state, report.failures), (Connection::Away, 2));
        // Reading goes on where it ended, and the time without brokers is not complete.
        feed.begin(&[(0, 0)].into(), 9000);
        assert_eq!(feed.behind(1001).unwrap(), "partition 0 is 0 s behind with 0 messages");
        feed.batch(0, &Batch { asked: 9000, ..Batch::default() });
        assert_eq!((feed.behind(9000), feed.report().error), (None, None));
    }

    #[test]
    fn partitions_that_are_gone_do_not_hold_up_the_others() {
        let feed = Feed::default();
        feed.begin(&[(0, 0), (1, 0)].into(), 1000);
        feed.begin(&[(1, 0)].into(), 2000);
        feed.batch(1, &Batch { asked: 5000, ..Batch::default() });
        feed.batch(0, &Batch { asked: 5000, ..Batch::default() });
        assert_eq!((feed.behind(5000), feed.report().partitions.len()), (None, 1));
    }
}
