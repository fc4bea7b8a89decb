//! Requests to a broker and its answers, in the versions that Kafka 0.11 to 4 have in common.
//!
//! Only what the service needs is here: where the partitions of a topic are (Metadata, version 4),
//! their oldest and newest offsets (ListOffsets, 1), and their messages as they are stored (Fetch,
//! 4). The names of fields are those of Kafka's protocol guide.

use std::str::from_utf8;

/// The name of this client in requests.
const CLIENT: &str = "forebay";
/// The broker's code of no error.
pub(super) const NO_ERROR: i16 = 0;
/// The broker has no such offset.
pub(super) const OFFSET_OUT_OF_RANGE: i16 = 1;
/// The broker has no such topic or partition.
pub(super) const UNKNOWN_TOPIC: i16 = 3;

/// An answer is cut, or breaks the rules of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a broker's answer cannot be read: is this Kafka?")]
pub(super) struct Malformed;

/// A kind of request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Api {
    Fetch,
    ListOffsets,
    Metadata,
}

impl Api {
    /// Returns the number of the request and its version.
    fn code(self) -> (i16, i16) {
        match self {
            Self::Fetch => (1, 4),
            Self::ListOffsets => (2, 1),
            Self::Metadata => (3, 4),
        }
    }
}

/// A request that is being written. Its length is in front.
#[derive(Debug)]
pub(super) struct Request(Vec<u8>);

impl Request {
    /// Begins a request; the answer has the same number.
    pub(super) fn new(api: Api, number: i32) -> Self {
        let (key, version) = api.code();
        let mut request = Self(vec![0; 4]);
        request.put(&key.to_be_bytes());
        request.put(&version.to_be_bytes());
        request.put(&number.to_be_bytes());
        request.text(CLIENT);
        request
    }

    fn put(&mut self, octets: &[u8]) {
        self.0.extend_from_slice(octets);
    }

    fn int(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        // Names are shorter than this by Kafka's own rules.
        let text = &text.as_bytes()[..text.len().min(0x7fff)];
        self.put(&(text.len() as u16).to_be_bytes());
        self.put(text);
    }

    /// Puts one topic with one partition.
    fn partition(&mut self, topic: &str, partition: i32) {
        self.int(1);
        self.text(topic);
        self.int(1);
        self.int(partition);
    }

    /// Returns the octets of the request.
    fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - 4) as u32;
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        self.0
    }

    /// Asks where the partitions of a topic are. The broker creates none.
    pub(super) fn metadata(mut self, topic: &str) -> Vec<u8> {
        self.int(1);
        self.text(topic);
        self.put(&[0]);
        self.finish()
    }

    /// Asks for the offset behind the newest message, or else that of the oldest one.
    pub(super) fn offset(mut self, topic: &str, partition: i32, newest: bool) -> Vec<u8> {
        self.int(-1);
        self.partition(topic, partition);
        let time: i64 = if newest { -1 } else { -2 };
        self.put(&time.to_be_bytes());
        self.finish()
    }

    /// Asks for messages from an offset on: about `octets`, after at most `wait` milliseconds.
    pub(super) fn fetch(
        mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        octets: i32,
        wait: i32,
    ) -> Vec<u8> {
        self.int(-1);
        self.int(wait);
        // The least that is worth an answer before the wait is over.
        self.int(1);
        self.int(octets);
        // Messages of transactions that have been committed.
        self.put(&[1]);
        self.partition(topic, partition);
        self.put(&offset.to_be_bytes());
        self.int(octets);
        self.finish()
    }
}

/// The octets of an answer or a batch that have not been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Octets<'a>(pub(super) &'a [u8]);

impl<'a> Octets<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub(super) fn short(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn int(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn long(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    /// Reads a text; an absent one is empty.
    fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = usize::try_from(self.short()?).unwrap_or(0);
        from_utf8(self.take(length)?).map_err(|_| Malformed)
    }

    /// Reads each item of a list, which may be absent.
    fn each(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        // Each item takes octets, so that a list is no longer than its answer.
        (0..self.int()?.max(0)).try_for_each(|_| read(self))
    }
}

/// A partition of the topic and the broker that leads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Led {
    /// The number of the partition.
    pub(super) partition: i32,
    /// The host and port of the broker; `None` while there is none.
    pub(super) leader: Option<(String, u16)>,
}

/// Reads where the partitions of a topic are; the code of the broker's error if there is one.
pub(super) fn metadata(answer: &[u8], topic: &str) -> Result<Result<Vec<Led>, i16>, Malformed> {
    let mut from = Octets(answer);
    from.int()?;
    let mut brokers = Vec::new();
    from.each(|from| {
        let (number, host, port) = (from.int()?, from.text()?.to_owned(), from.int()?);
        from.text()?;
        brokers.push((number, (host, u16::try_from(port).map_err(|_| Malformed)?)));
        Ok(())
    })?;
    from.text()?;
    from.int()?;
    let mut found = Err(UNKNOWN_TOPIC);
    from.each(|from| {
        let (error, name) = (from.short()?, from.text()?);
        from.take(1)?;
        let mut all = Vec::new();
        from.each(|from| {
            // An error of a partition is that it has no leader, or lacks a replica.
            from.short()?;
            let (partition, leader) = (from.int()?, from.int()?);
            for _ in 0..2 {
                from.each(|from| from.int().map(drop))?;
            }
            let leader = brokers.iter().find(|(number, _)| *number == leader);
            all.push(Led { partition, leader: leader.map(|(_, at)| at.clone()) });
            Ok(())
        })?;
        if name == topic {
            found = if error == NO_ERROR { Ok(all) } else { Err(error) };
        }
        Ok(())
    })?;
    Ok(found)
}

/// Reads the offset that was asked for; the code of the broker's error if there is one.
pub(super) fn offset(answer: &[u8]) -> Result<Result<i64, i16>, Malformed> {
    let mut from = Octets(answer);
    let mut found = Err(UNKNOWN_TOPIC);
    from.each(|from| {
        from.text()?;
        from.each(|from| {
            from.int()?;
            let (error, _time, offset) = (from.short()?, from.long()?, from.long()?);
            found = if error == NO_ERROR { Ok(offset) } else { Err(error) };
            Ok(())
        })
    })?;
    Ok(found)
}

/// The messages of a partition as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetched<'a> {
    /// The code of the broker's error.
    pub(super) error: i16,
    /// The offset behind the newest message.
    pub(super) high: i64,
    /// Batches of messages; the last one may be cut.
    pub(super) batches: &'a [u8],
}

/// Reads the messages of the partition that was asked for.
pub(super) fn fetched(answer: &[u8]) -> Result<Fetched<'_>, Malformed> {
    let mut from = Octets(answer);
    from.int()?;
    let mut found = Fetched { error: UNKNOWN_TOPIC, high: 0, batches: &[] };
    from.each(|from| {
        from.text()?;
        from.each(|from| {
            from.int()?;
            let (error, high, _stable) = (from.short()?, from.long()?, from.long()?);
            // Transactions that were aborted.
            from.each(|from| from.take(16).map(drop))?;
            let length = usize::try_from(from.int()?).unwrap_or(0);
            found = Fetched { error, high, batches: from.take(length)? };
            Ok(())
        })
    })?;
    Ok(found)
}
