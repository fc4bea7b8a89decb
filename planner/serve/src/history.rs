//! The history of rounds, demands and hints, for a ClickHouse database.
//!
//! [`History`] is a queue with a bound, without sockets or clocks. [`writer`] sends what is in it.
//! A service does not wait for its database: what does not fit is dropped, the oldest first, and
//! counted.

pub mod writer;

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_plan::hints::Hints;
use serde::Serialize;
use serde_json::json;

use crate::clock;
use crate::round::Flow;
use crate::service::Done;

/// The most octets that wait.
pub const MAX_OCTETS: usize = 64 << 20;
/// The most octets of a batch.
const BATCH_OCTETS: usize = 1 << 20;

/// A table of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// The rounds, with those that failed.
    Rounds,
    /// The demands of each round, and what they become if the hints are followed.
    Demands,
    /// The hints of each round.
    Hints,
}

impl Table {
    /// All tables of the history.
    pub const ALL: [Self; 3] = [Self::Rounds, Self::Demands, Self::Hints];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rounds => "forebay_rounds",
            Self::Demands => "forebay_demands",
            Self::Hints => "forebay_hints",
        }
    }

    /// Returns the statement that creates the table if it does not exist.
    ///
    /// The window of deduplication makes a batch that is sent again, since its answer was lost,
    /// count once.
    pub fn create(self) -> String {
        let columns = match self {
            Self::Rounds => {
                "took_ms UInt64, demand_bps Float64, before_bps Float64, after_bps Float64, \
                 hints UInt32, changed UInt8, error String"
            }
            Self::Demands => {
                "provider LowCardinality(String), entry LowCardinality(String), \
                 router LowCardinality(String), now_bps Float64, after_bps Float64"
            }
            Self::Hints => {
                "neighbour LowCardinality(String), prefix String, entry LowCardinality(String)"
            }
        };
        format!(
            "CREATE TABLE IF NOT EXISTS {} (at DateTime64(3, 'UTC'), round UInt64, {columns}) \
             ENGINE = MergeTree PARTITION BY toYYYYMM(at) ORDER BY (at, round) \
             SETTINGS non_replicated_deduplication_window = 1000",
            self.name()
        )
    }
}

/// A batch of rows of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The table of the rows.
    pub table: Table,
    /// The number of the first row, by which a batch that is sent again is recognised.
    pub number: u64,
    /// The number of rows.
    pub rows: u64,
    /// The rows, as lines of JSON.
    pub body: String,
}

/// What was written, for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Whether the last batch, or the last try to create tables, succeeded.
    pub up: bool,
    /// The cause of the last failure.
    pub error: Option<String>,
    /// How often writing failed.
    pub failures: u64,
    /// The rows that were written.
    pub rows: u64,
    /// The rows that were dropped, since the queue was full or the database refused them.
    pub lost: u64,
    /// The rows that wait.
    pub waiting: u64,
}

#[derive(Debug, Default)]
struct Queue {
    /// Batches, the oldest first. The last grows until it has [`BATCH_OCTETS`].
    batches: VecDeque<Batch>,
    octets: usize,
    /// The number of the next row.
    number: u64,
    written: Written,
    /// Whether the first batch is being sent, so that it must not change.
    sending: bool,
}

/// The rows that wait for the database.
#[derive(Debug)]
pub struct History {
    queue: Mutex<Queue>,
    most: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { queue: Mutex::default(), most: MAX_OCTETS }
    }
}

impl History {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // After a panic the counts may lack a row, but are consistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the outcome of a round that ended at `now`, in milliseconds since 1970.
    pub(crate) fn round(&self, now: u64, took: u64, demand: f64, done: &Result<Done, String>) {
        let at = clock::text(now);
        let row = match done {
            Ok(done) => json!({
                "at": at, "round": done.round, "took_ms": took, "demand_bps": demand,
                "before_bps": done.before, "after_bps": done.after, "hints": done.hints,
                "changed": u8::from(done.changed), "error": "",
            }),
            Err(why) => json!({"at": at, "error": why}),
        };
        self.add(Table::Rounds, [row.to_string()]);
    }

    /// Takes the demands and the hints of a round.
    pub(crate) fn plan(&self, now: u64, round: u64, flows: &[Flow], hints: &Hints) {
        let at = clock::text(now);
        let demand = |flow: &Flow| {
            let Flow { provider, entry, router, now, after } = flow;
            let row = json!({
                "at": at, "round": round, "provider": provider, "entry": entry,
                "router": router, "now_bps": now, "after_bps": after,
            });
            row.to_string()
        };
        self.add(Table::Demands, flows.iter().map(demand));
        let of = hints.neighbours.iter().flat_map(|n| n.hints.iter().map(|h| (&n.name, h)));
        let hint = |(neighbour, hint): (&String, &forebay_plan::hints::Hint)| {
            let row = json!({
                "at": at, "round": round, "neighbour": neighbour, "prefix": hint.prefix,
                "entry": hint.entry,
            });
            row.to_string()
        };
        self.add(Table::Hints, of.map(hint));
    }

    /// Adds rows, and drops the oldest batches if there is no room.
    pub fn add(&self, table: Table, rows: impl IntoIterator<Item = String>) {
        let mut queue = self.queue();
        for row in rows {
            let number = queue.number;
            queue.number += 1;
            queue.octets += row.len() + 1;
            let locked = usize::from(queue.sending);
            let open = queue.batches.len() > locked;
            let last = queue
                .batches
                .back_mut()
                .filter(|b| open && b.table == table && b.body.len() + row.len() < BATCH_OCTETS);
            match last {
                Some(batch) => {
                    batch.rows += 1;
                    batch.body += &row;
                    batch.body.push('\n');
                }
                None => {
                    let batch = Batch { table, number, rows: 1, body: row + "\n" };
                    queue.batches.push_back(batch);
                }
            }
            while queue.octets > self.most {
                let oldest = usize::from(queue.sending);
                let Some(dropped) = queue.batches.remove(oldest) else { break };
                queue.octets -= dropped.body.len();
                queue.written.lost += dropped.rows;
            }
        }
    }

    /// Returns the oldest batch, which stays until [`done`](Self::done) or
    /// [`refused`](Self::refused).
    pub fn next(&self) -> Option<Batch> {
        let mut queue = self.queue();
        let batch = queue.batches.front().cloned();
        queue.sending = batch.is_some();
        batch
    }

    fn end(&self) -> (MutexGuard<'_, Queue>, u64) {
        let mut queue = self.queue();
        let batch = if queue.sending { queue.batches.pop_front() } else { None };
        queue.sending = false;
        let (rows, octets) = batch.map_or((0, 0), |b| (b.rows, b.body.len()));
        queue.octets -= octets;
        (queue, rows)
    }

    /// Notes that the batch of [`next`](Self::next) was written.
    pub fn done(&self) {
        let (mut queue, rows) = self.end();
        queue.written.rows += rows;
        (queue.written.up, queue.written.error) = (true, None);
    }

    /// Drops the batch of [`next`](Self::next), which the database refused for good.
    pub fn refused(&self, why: &str) {
        let (mut queue, rows) = self.end();
        queue.written.lost += rows;
        queue.written.failures += 1;
        queue.written.error = Some(why.to_owned());
    }

    /// Notes that writing failed. The batch is sent again.
    pub fn failed(&self, why: &str) {
        let mut queue = self.queue();
        queue.written.up = false;
        queue.written.failures += 1;
        queue.written.error = Some(why.to_owned());
    }

    /// Returns what was written.
    pub fn report(&self) -> Written {
        let queue = self.queue();
        let waiting = queue.batches.iter().map(|batch| batch.rows).sum();
        Written { waiting, ..queue.written.clone() }
    }
}

#[cfg(test)]
mod tests;
