//! Writes the queue of a [`History`] by ClickHouse's HTTP interface.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Batch, History, Table};
use crate::config::Clickhouse;
use crate::neighbour::http::{FetchError, Service};

/// The interval at which the thread looks for rows, or whether it should stop.
pub(super) const RETRY: Duration = Duration::from_millis(200);
/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait after a failure.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// The time that a stop leaves for the rows that wait.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);
/// The longest part of an error that is shown.
const SHOWN: usize = 300;

/// Why the database did not take something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It could not be reached, or was not able to: the same may be sent again.
    Away(String),
    /// It refuses the contents: the same would be refused again.
    Refused(String),
}

/// A ClickHouse database.
#[derive(Debug)]
pub struct Database {
    service: Service,
    /// The header lines of each request.
    head: String,
    database: String,
    /// Tells this start of the service from others, whose batches have the same numbers.
    start: u64,
}

impl Database {
    /// Reads the files that `settings` name. `start` is the time of the start of the service.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn new(settings: &Clickhouse, start: u64) -> Result<Self, FetchError> {
        let service = Service::new(&settings.access)?;
        let mut head = format!("X-ClickHouse-User: {}\r\n", settings.user);
        if let Some(password) = service.token() {
            head += &format!("X-ClickHouse-Key: {password}\r\n");
        }
        Ok(Self { service, head, database: settings.database.clone(), start })
    }

    /// Creates the tables that do not exist. Once `stopped` returns true, no answer is waited for.
    ///
    /// # Errors
    /// If the database does not.
    pub fn create(&self, stopped: &dyn Fn() -> bool) -> Result<(), Failure> {
        Table::ALL.iter().try_for_each(|table| self.post("", &table.create(), stopped))
    }

    /// Writes a batch. Once `stopped` returns true, no answer is waited for.
    ///
    /// # Errors
    /// If the database does not take it, or that is unknown.
    pub fn insert(&self, batch: &Batch, stopped: &dyn Fn() -> bool) -> Result<(), Failure> {
        let table = batch.table.name();
        let query = format!(
            "&query=INSERT%20INTO%20{table}%20FORMAT%20JSONEachRow\
             &date_time_input_format=best_effort\
             &insert_deduplication_token={}-{}",
            self.start, batch.number
        );
        self.post(&query, &batch.body, stopped)
    }

    fn post(&self, query: &str, body: &str, stopped: &dyn Fn() -> bool) -> Result<(), Failure> {
        // With `wait_end_of_query` the status tells whether all of the query succeeded.
        let path = format!("/?database={}&wait_end_of_query=1{query}", self.database);
        let answer =
            self.service.exchange_of("POST", &path, &self.head, "text/plain", body, stopped);
        let answer = answer.map_err(|e| Failure::Away(e.to_string()))?;
        let head = answer.split(|octet| *octet == b'\r').next().unwrap_or_default();
        let status = std::str::from_utf8(head).ok().filter(|line| line.starts_with("HTTP/1."));
        let status = status.and_then(|line| line.split(' ').nth(1)?.parse::<u16>().ok());
        let text = String::from_utf8_lossy(&answer);
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let shown: String = body.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
        match status {
            Some(200) => Ok(()),
            None => Err(Failure::Away("the answer is no HTTP: is this ClickHouse?".to_owned())),
            // 400 is for contents that cannot be parsed. A missing table or user can be mended.
            Some(400) => Err(Failure::Refused(format!("the database answered 400: {shown}"))),
            Some(other) => Err(Failure::Away(format!("the database answered {other}: {shown}"))),
        }
    }
}

/// Writes rows until `stop` is set, and then what is left, up to the first failure and for at most
/// [`STOP_TIMEOUT`].
pub fn write(database: &Database, history: &History, stop: &AtomicBool) {
    let stop_seen = OnceCell::new();
    let stopped = || {
        let seen = || *stop_seen.get_or_init(Instant::now);
        stop.load(Ordering::Relaxed) && seen().elapsed() > STOP_TIMEOUT
    };
    let mut writer = Writer::new(database, history, &stopped, Instant::now());
    loop {
        match writer.step(Instant::now(), stop.load(Ordering::Relaxed)) {
            Step::Again => {}
            Step::Wait => thread::sleep(RETRY),
            Step::End => return,
        }
    }
}

/// What the thread does after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Takes the next step at once.
    Again,
    /// Takes the next step after [`RETRY`].
    Wait,
    /// Ends the writer.
    End,
}

/// Writes one batch in each step, at times that its caller gives.
pub(super) struct Writer<'a> {
    database: &'a Database,
    history: &'a History,
    /// Whether an answer of the database is not waited for any more.
    stopped: &'a dyn Fn() -> bool,
    /// The wait after the next failure.
    wait: Duration,
    /// The time of the next attempt.
    due: Instant,
    /// Whether the last rows were written, so that the tables are there.
    ready: bool,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        database: &'a Database,
        history: &'a History,
        stopped: &'a dyn Fn() -> bool,
        now: Instant,
    ) -> Self {
        Self { database, history, stopped, wait: FIRST_WAIT, due: now, ready: false }
    }

    /// Writes the next batch if it is due. When `stopping`, every batch is due, and the first
    /// failure is the end.
    pub(super) fn step(&mut self, now: Instant, stopping: bool) -> Step {
        if !stopping && now < self.due {
            return Step::Wait;
        }
        let Some(batch) = self.history.next() else {
            return if stopping { Step::End } else { Step::Wait };
        };
        let tables = if self.ready { Ok(()) } else { self.database.create(self.stopped) };
        // The tables may be there already, for a user that may only insert.
        let outcome = self.database.insert(&batch, self.stopped).map_err(|e| match (e, tables) {
            (Failure::Away(why), Err(Failure::Away(create) | Failure::Refused(create)))
                if why != create =>
            {
                Failure::Away(format!("{why}; the tables cannot be created: {create}"))
            }
            (e, _) => e,
        });
        self.ready = outcome.is_ok();
        match outcome {
            Ok(()) => {
                self.history.done();
                self.wait = FIRST_WAIT;
            }
            Err(Failure::Refused(why)) => {
                tracing::warn!("rows of the history are lost: {why}");
                self.history.refused(&why);
            }
            Err(Failure::Away(why)) => {
                self.history.failed(&why);
                if stopping {
                    let left = self.history.report().waiting;
                    tracing::warn!("{left} rows of the history are lost: {why}");
                    return Step::End;
                }
                let wait = self.wait;
                tracing::warn!("cannot write the history, trying again in {wait:?}: {why}");
                self.due = now + wait;
                self.wait = (wait * 2).min(MAX_WAIT);
            }
        }
        Step::Again
    }
}
