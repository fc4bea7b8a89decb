//! The history on disk, in SQLite.
//!
//! | table | content | bound |
//! |---|---|---|
//! | `second` | a row for each series and second, in a ring | an hour of [`MAX_SERIES`] series |
//! | `minute` | a row for each series and minute, in a ring | a day of [`MAX_SERIES`] series |
//! | `event` | the log of events | [`MAX_EVENTS`] of each weight |
//! | `series` | names, and the last decision seen | [`MAX_SERIES`] |
//!
//! The file as a whole has at most [`MAX_BYTES`]. One process writes it, and holds the lock of the
//! file `PATH.lock`; others may read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_system::private;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row as SqlRow, params};

use crate::event::LogEvent;
use crate::series::{Direction, Mode, Range, Row, Sample, Series};

/// The version of the tables below.
const FORM: i64 = 2;
/// The most series that have a history.
pub const MAX_SERIES: usize = 64;
/// The most events of each weight, routine or not.
pub const MAX_EVENTS: u64 = 10_000;
/// The largest size of the database in bytes; what does not fit is lost and counted.
pub const MAX_BYTES: u64 = 256 << 20;
/// The size of a page of the database in bytes.
const PAGE: u64 = 4096;
/// The time that a change waits for a reader.
const BUSY: Duration = Duration::from_secs(2);

const TABLES: &str = "
CREATE TABLE series (id INTEGER PRIMARY KEY, place TEXT NOT NULL, name TEXT NOT NULL,
  direction TEXT NOT NULL, at INTEGER NOT NULL, process INTEGER NOT NULL, run TEXT NOT NULL,
  number INTEGER NOT NULL, trouble INTEGER NOT NULL, UNIQUE (place, name, direction));
CREATE TABLE second (series INTEGER NOT NULL, slot INTEGER NOT NULL, at INTEGER NOT NULL,
  mode INTEGER, trouble INTEGER NOT NULL, limit_bps REAL, rate_bps REAL, arrived_bps REAL,
  here_ms REAL, here_high_ms REAL, there_ms REAL, there_low_ms REAL, there_high_ms REAL,
  lost REAL, packets REAL, dropped REAL, marked REAL, refused REAL, small_ms REAL,
  small_high_ms REAL, large_ms REAL, large_high_ms REAL, class1_ms REAL, class2_ms REAL,
  class3_ms REAL, class4_ms REAL, PRIMARY KEY (series, slot)) WITHOUT ROWID;
CREATE TABLE minute (series INTEGER NOT NULL, slot INTEGER NOT NULL, at INTEGER NOT NULL,
  mode INTEGER, trouble INTEGER NOT NULL, limit_bps REAL, rate_bps REAL, arrived_bps REAL,
  here_ms REAL, here_high_ms REAL, there_ms REAL, there_low_ms REAL, there_high_ms REAL,
  lost REAL, packets REAL, dropped REAL, marked REAL, refused REAL, small_ms REAL,
  small_high_ms REAL, large_ms REAL, large_high_ms REAL, class1_ms REAL, class2_ms REAL,
  class3_ms REAL, class4_ms REAL, PRIMARY KEY (series, slot)) WITHOUT ROWID;
CREATE TABLE event (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,
  routine INTEGER NOT NULL, body TEXT NOT NULL);
CREATE INDEX event_at ON event (at);
";

const COLUMNS: &str = "at, mode, trouble, limit_bps, rate_bps, arrived_bps, here_ms, here_high_ms,
  there_ms, there_low_ms, there_high_ms, lost, packets, dropped, marked, refused, small_ms,
  small_high_ms, large_ms, large_high_ms, class1_ms, class2_ms, class3_ms, class4_ms";

/// A minute's figures from its seconds. The mode is the one that lasted longest.
const MINUTE: &str = "
INSERT OR REPLACE INTO minute
SELECT second.series, (?1 / 60) % 1440, ?1,
  (SELECT mode FROM second AS s WHERE s.series = of.id AND s.slot >= ?1 % 3600
     AND s.slot < ?1 % 3600 + 60 AND s.at >= ?1 AND s.at < ?1 + 60
     GROUP BY mode ORDER BY count(*) DESC, mode DESC LIMIT 1),
  max(second.trouble), avg(limit_bps), avg(rate_bps), avg(arrived_bps), avg(here_ms), max(here_high_ms),
  avg(there_ms), min(there_low_ms), max(there_high_ms), avg(lost), sum(packets), sum(dropped), sum(marked),
  sum(refused), avg(small_ms), max(small_high_ms), avg(large_ms), max(large_high_ms), avg(class1_ms),
  avg(class2_ms), avg(class3_ms), avg(class4_ms)
FROM series AS of CROSS JOIN second ON second.series = of.id AND second.slot >= ?1 % 3600
  AND second.slot < ?1 % 3600 + 60
WHERE second.at >= ?1 AND second.at < ?1 + 60
GROUP BY second.series";

/// Why a history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite returned an error.
    #[error("{path}: {source}")]
    Database {
        /// The path of the database.
        path: PathBuf,
        /// The error of SQLite.
        source: rusqlite::Error,
    },
    /// The file cannot be created or belongs to another user.
    #[error("{path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// Another process writes it.
    #[error("{0} is in use by another `forebay watch`: stop that first")]
    InUse(PathBuf),
    /// There is no history.
    #[error("there is no history at {0}: does `forebay watch` run with this file?")]
    Missing(PathBuf),
    /// The file is of another release, or no history.
    #[error("{path} has the version {form}, and this release reads version {FORM}")]
    Foreign {
        /// The path of the file.
        path: PathBuf,
        /// The version of the file.
        form: i64,
    },
}

impl StoreError {
    /// Whether the file cannot be a history, so that another one has to take its place.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Self::Database { source, .. } => matches!(
                source.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ),
            Self::Foreign { .. } => true,
            _ => false,
        }
    }
}

/// What is known of a series beside its figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The process of the box.
    pub process: u32,
    /// The start of the process.
    pub run: u64,
    /// The number of the last decision in the log.
    pub number: u64,
    /// Whether something was wrong between the boxes.
    pub trouble: bool,
}

/// What one change adds.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// The figures of seconds.
    pub(crate) rows: Vec<(Series, Row)>,
    /// Events in their order.
    pub(crate) events: Vec<LogEvent>,
    /// What is known of series now.
    pub(crate) known: Vec<(Series, Known)>,
}

/// A history on disk.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Connection,
    /// Held by the process that writes.
    _lock: Option<File>,
}

impl Store {
    /// Opens the history at `path` for writing, and creates it if there is none.
    ///
    /// # Errors
    /// If it cannot be opened, another process writes it, or it is no history of this version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = |source| StoreError::File { path: path.to_owned(), source };
        let lock = private::file(&beside(path, ".lock")).map_err(file)?;
        if !private::lock(&lock, false).map_err(file)? {
            return Err(StoreError::InUse(path.to_owned()));
        }
        private::restrict(path).map_err(file)?;
        let fail = |source| StoreError::Database { path: path.to_owned(), source };
        let database = Connection::open(path).map_err(fail)?;
        let store = Self { path: path.to_owned(), database, _lock: Some(lock) };
        store.prepare()?;
        Ok(store)
    }

    /// Creates a history in memory, which ends with the process.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = PathBuf::from("memory");
        let database = Connection::open_in_memory()
            .map_err(|source| StoreError::Database { path: path.clone(), source })?;
        let store = Self { path, database, _lock: None };
        store.prepare()?;
        Ok(store)
    }

    /// Opens the history at `path` for reading, while another process may write it.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub fn read(path: &Path) -> Result<Self, StoreError> {
        if fs::symlink_metadata(path).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
            return Err(StoreError::Missing(path.to_owned()));
        }
        let fail = |source| StoreError::Database { path: path.to_owned(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags).map_err(fail)?;
        database.busy_timeout(BUSY).map_err(fail)?;
        let store = Self { path: path.to_owned(), database, _lock: None };
        store.check_form(store.form()?)?;
        Ok(store)
    }

    /// Puts a file aside that is no history, as `PATH.broken`, where the last such file was.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub(crate) fn put_aside(path: &Path) -> Result<(), StoreError> {
        let fail = |source| StoreError::File { path: path.to_owned(), source };
        fs::rename(path, beside(path, ".broken")).map_err(fail)?;
        for suffix in ["-wal", "-shm", "-journal"] {
            // Usually there is none.
            let _ = fs::remove_file(beside(path, suffix));
        }
        Ok(())
    }

    fn fail(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Database { path: self.path.clone(), source }
    }

    fn form(&self) -> Result<i64, StoreError> {
        let form = self.database.pragma_query_value(None, "user_version", |row| row.get(0));
        form.map_err(|e| self.fail(e))
    }

    fn check_form(&self, form: i64) -> Result<(), StoreError> {
        match form {
            FORM => Ok(()),
            form => Err(StoreError::Foreign { path: self.path.clone(), form }),
        }
    }

    fn prepare(&self) -> Result<(), StoreError> {
        let database = &self.database;
        let prepare = || -> rusqlite::Result<String> {
            database.busy_timeout(BUSY)?;
            database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            // A power failure may cost the last changes, and leaves the file consistent.
            database.pragma_update(None, "synchronous", "NORMAL")?;
            // Whatever a reader made it grow to.
            database.pragma_update(None, "journal_size_limit", 8 << 20)?;
            let pages = whole(MAX_BYTES / PAGE);
            database.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
            let check = |row: &SqlRow<'_>| row.get(0);
            database.query_row("PRAGMA quick_check(1)", [], check)
        };
        let checked = prepare().map_err(|e| self.fail(e))?;
        if checked != "ok" {
            let corrupt = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(self.fail(rusqlite::Error::SqliteFailure(corrupt, Some(checked))));
        }
        match self.form()? {
            0 => {
                let sql = format!("BEGIN; {TABLES} PRAGMA user_version = {FORM}; COMMIT;");
                database.execute_batch(&sql).map_err(|e| self.fail(e))
            }
            form => self.check_form(form),
        }
    }

    /// Limits the file to this number of pages, for tests of a full disk.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, pages: i64) {
        self.database.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    }

    /// Returns the number of pages of the file.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> i64 {
        self.database.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap()
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns all series with what is known of them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn series(&self) -> Result<Vec<(Series, Known)>, StoreError> {
        let read = || -> rusqlite::Result<Vec<_>> {
            let sql = "SELECT place, name, direction, process, run, number, trouble FROM series
                ORDER BY name, direction DESC, place";
            let mut statement = self.database.prepare_cached(sql)?;
            let rows = statement.query_map([], |row| {
                let direction = Direction::of(&row.get::<_, String>(2)?);
                let series = Series { place: row.get(0)?, name: row.get(1)?, direction };
                let run: String = row.get(4)?;
                let known = Known {
                    process: row.get(3)?,
                    run: run.parse().unwrap_or(0),
                    number: number(row.get(5)?),
                    trouble: row.get(6)?,
                };
                Ok((series, known))
            })?;
            rows.collect()
        };
        read().map_err(|e| self.fail(e))
    }

    /// Writes a change. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// If it cannot be written: then nothing of it is. Otherwise it returns the series for which
    /// there was no room.
    pub(crate) fn write(
        &mut self,
        now: u64,
        change: &Change,
    ) -> Result<BTreeSet<Series>, StoreError> {
        write(&mut self.database, now, change)
            .map_err(|source| StoreError::Database { path: self.path.clone(), source })
    }

    /// Computes the figures of the minute that starts at `at`, in seconds since 1970, from its
    /// seconds.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn close_minute(&mut self, at: u64) -> Result<(), StoreError> {
        let close = || self.database.prepare_cached(MINUTE)?.execute([whole(at)]);
        close().map(drop).map_err(|e| self.fail(e))
    }

    /// Returns the rows of a series in the `range` before `now`, in seconds since 1970.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn rows(&self, series: &Series, range: Range, now: u64) -> Result<Vec<Row>, StoreError> {
        let table = match range {
            Range::Minutes | Range::Hour => "second",
            Range::Day => "minute",
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM {table} WHERE series = (SELECT id FROM series WHERE place = ?1
             AND name = ?2 AND direction = ?3) AND at > ?4 AND at <= ?5 ORDER BY at"
        );
        let read = || -> rusqlite::Result<Vec<Row>> {
            let mut statement = self.database.prepare_cached(&sql)?;
            let Series { place, name, direction } = series;
            let from = whole(now.saturating_sub(range.seconds()));
            let key = params![place, name, direction.word(), from, whole(now)];
            statement.query_map(key, row)?.collect()
        };
        read().map_err(|e| self.fail(e))
    }

    /// Returns the events since `since`, in milliseconds since 1970, the oldest first; at most
    /// `most` of the latest.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn events(
        &self,
        since: u64,
        routine: bool,
        most: u64,
    ) -> Result<Vec<LogEvent>, StoreError> {
        let read = || -> rusqlite::Result<Vec<String>> {
            let sql = "SELECT body FROM (SELECT id, at, body FROM event WHERE at >= ?1 AND
                routine <= ?2 ORDER BY at DESC, id DESC LIMIT ?3) ORDER BY at, id";
            let mut statement = self.database.prepare_cached(sql)?;
            let rows = statement
                .query_map(params![whole(since), routine, whole(most)], |row| row.get(0))?;
            rows.collect()
        };
        let bodies = read().map_err(|e| self.fail(e))?;
        // A body of another version is left out rather than the whole log.
        Ok(bodies.iter().filter_map(|body| serde_json::from_str(body).ok()).collect())
    }

    /// Returns the time of the oldest event in milliseconds since 1970, if events before it were
    /// removed for lack of room.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn events_begin(&self) -> Result<Option<u64>, StoreError> {
        let sql = "SELECT min(at) FROM event WHERE routine = 0 HAVING count(*) >= ?1";
        let read = self.database.query_row(sql, [whole(MAX_EVENTS)], |row| row.get(0));
        Ok(read.optional().map_err(|e| self.fail(e))?.map(number))
    }
}

/// Returns the path of a file beside `path`, whose name has `suffix` in addition.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn write(
    database: &mut Connection,
    now: u64,
    change: &Change,
) -> rusqlite::Result<BTreeSet<Series>> {
    let transaction = database.transaction()?;
    let mut without_room = BTreeSet::new();
    {
        // Series without a row for a day make room.
        let mut put_series = transaction.prepare_cached(
            "INSERT INTO series (place, name, direction, at, process, run, number, trouble)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
             WHERE (SELECT count(*) FROM series) < ?9 OR EXISTS
               (SELECT 1 FROM series WHERE place = ?1 AND name = ?2 AND direction = ?3)
             ON CONFLICT (place, name, direction) DO UPDATE SET
               at = ?4, process = ?5, run = ?6, number = ?7, trouble = ?8",
        )?;
        for (series, known) in &change.known {
            let Series { place, name, direction } = series;
            put_series.execute(params![
                place,
                name,
                direction.word(),
                whole(now),
                known.process,
                known.run.to_string(),
                whole(known.number),
                known.trouble,
                whole(MAX_SERIES as u64),
            ])?;
        }
        let mut put = transaction.prepare_cached(
            "INSERT OR REPLACE INTO second SELECT id, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,
             ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28 FROM series
             WHERE place = ?1 AND name = ?2 AND direction = ?3",
        )?;
        for (series, Row { at, sample }) in &change.rows {
            let Series { place, name, direction } = series;
            let [class1, class2, class3, class4] = sample.classes_ms;
            let written = put.execute(params![
                place,
                name,
                direction.word(),
                whole(at % Range::Hour.seconds()),
                whole(*at),
                sample.mode.map(Mode::number),
                sample.trouble,
                sample.limit_bps,
                sample.rate_bps,
                sample.arrived_bps,
                sample.here_ms,
                sample.here_high_ms,
                sample.there_ms,
                sample.there_low_ms,
                sample.there_high_ms,
                sample.lost,
                sample.packets,
                sample.dropped,
                sample.marked,
                sample.refused,
                sample.small_ms,
                sample.small_high_ms,
                sample.large_ms,
                sample.large_high_ms,
                class1,
                class2,
                class3,
                class4,
            ])?;
            if written == 0 {
                without_room.insert(series.clone());
            }
        }
        let mut put = transaction
            .prepare_cached("INSERT INTO event (at, routine, body) VALUES (?1, ?2, ?3)")?;
        for event in &change.events {
            // Numbers and texts can always be written.
            let body = serde_json::to_string(event).unwrap_or_default();
            put.execute(params![whole(event.at_ms), event.is_routine(), body])?;
        }
        if !change.events.is_empty() {
            let mut trim = transaction.prepare_cached(
                "DELETE FROM event WHERE routine = ?1 AND id <= (SELECT id FROM event
                 WHERE routine = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            )?;
            for routine in [false, true] {
                trim.execute(params![routine, whole(MAX_EVENTS)])?;
            }
        }
        let old = whole(now.saturating_sub(Range::Day.seconds()));
        let gone = "(SELECT id FROM series WHERE at < ?1)";
        for table in ["second", "minute"] {
            let sql = format!("DELETE FROM {table} WHERE series IN {gone}");
            transaction.prepare_cached(&sql)?.execute([old])?;
        }
        transaction.prepare_cached("DELETE FROM series WHERE at < ?1")?.execute([old])?;
    }
    transaction.commit()?;
    Ok(without_room)
}

fn row(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        at: number(row.get(0)?),
        sample: Sample {
            mode: row.get::<_, Option<i64>>(1)?.map(Mode::numbered),
            trouble: row.get(2)?,
            limit_bps: row.get(3)?,
            rate_bps: row.get(4)?,
            arrived_bps: row.get(5)?,
            here_ms: row.get(6)?,
            here_high_ms: row.get(7)?,
            there_ms: row.get(8)?,
            there_low_ms: row.get(9)?,
            there_high_ms: row.get(10)?,
            lost: row.get(11)?,
            packets: row.get(12)?,
            dropped: row.get(13)?,
            marked: row.get(14)?,
            refused: row.get(15)?,
            small_ms: row.get(16)?,
            small_high_ms: row.get(17)?,
            large_ms: row.get(18)?,
            large_high_ms: row.get(19)?,
            classes_ms: [row.get(20)?, row.get(21)?, row.get(22)?, row.get(23)?],
        },
    })
}

/// SQLite's integers are signed. The numbers here are counts and times, which fit.
fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
