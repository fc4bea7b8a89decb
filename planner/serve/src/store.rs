//! The state on disk, in SQLite: everything that was answered with status 200 survives a crash.
//!
//! One process holds the database (`locking_mode = EXCLUSIVE`). Each change is one transaction,
//! which is on the disk when it returns (`synchronous = FULL`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forebay_plan::hints::Hints;
use forebay_plan::vswitch::Program;
use forebay_system::private;
use ipnet::IpNet;
use rusqlite::{Connection, OptionalExtension, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::damping::Penalty;
use crate::inputs::DemandText;

/// The version of the tables below.
const FORM: i64 = 1;
/// The number of rounds that are kept: a day of them, at one every five minutes.
const ROUNDS: i64 = 288;

/// Deleted programs keep their row, so that a version is never used twice.
const TABLES: &str = "
CREATE TABLE program (neighbour TEXT PRIMARY KEY, version INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT);
CREATE TABLE penalty (neighbour TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE told (neighbour TEXT PRIMARY KEY, version INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE demands (one INTEGER PRIMARY KEY CHECK (one = 1), at INTEGER NOT NULL, json INTEGER NOT NULL, body TEXT NOT NULL);
CREATE TABLE round (number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, hints TEXT NOT NULL);
";

/// Why state cannot be read or written.
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
    /// Another process has the database.
    #[error("{0} is in use by another running forebay process: stop that first")]
    InUse(PathBuf),
    /// The database belongs to another user, or is no regular file.
    #[error("{path}: {source}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong with the file.
        source: io::Error,
    },
    /// The database is of another version of this program, or was changed by another program.
    #[error("{path}: {what}")]
    Foreign {
        /// The path of the database.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// A value with its version and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<T> {
    /// The version, from 1.
    pub version: u64,
    /// The time of the change, in milliseconds since 1970.
    pub at: u64,
    /// The value of this version.
    pub value: T,
}

/// A hint as a neighbour sees it: its own entry, and a prefix. Versions show what is new.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The prefix that the hint is about.
    pub prefix: IpNet,
    /// The entry where traffic to the prefix should come in.
    pub entry: String,
}

/// The number of a round, and the hints of each neighbour since then.
pub type KeptRound = (u64, Vec<Versioned<Vec<Given>>>);

/// The database with the state of the service.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Connection,
}

impl Store {
    /// Opens the database at `path`, and creates it if it does not exist. Only this user can read
    /// it, since it has the programs of all neighbours. SQLite gives its log the same mode.
    ///
    /// # Errors
    /// If it cannot be opened, is of another version, or another process has it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let fail = |source: rusqlite::Error| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                StoreError::InUse(path.to_owned())
            }
            _ => StoreError::Database { path: path.to_owned(), source },
        };
        private::restrict(path)
            .map_err(|source| StoreError::File { path: path.to_owned(), source })?;
        for suffix in ["-wal", "-shm", "-journal"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            let beside = PathBuf::from(name);
            if fs::symlink_metadata(&beside).is_ok() {
                private::restrict(&beside)
                    .map_err(|source| StoreError::File { path: beside, source })?;
            }
        }
        let mut database = Connection::open(path).map_err(fail)?;
        let prepare = |database: &mut Connection| -> rusqlite::Result<i64> {
            database.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            database.pragma_update(None, "synchronous", "FULL")?;
            // The lock is taken with the first change, and then held.
            let change =
                database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let mut form: i64 =
                change.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if form == 0 {
                change.execute_batch(TABLES)?;
                change.pragma_update(None, "user_version", FORM)?;
                form = FORM;
            }
            change.commit()?;
            Ok(form)
        };
        let form = prepare(&mut database).map_err(fail)?;
        if form != FORM {
            let what = format!("is of version {form}, but this program uses version {FORM}");
            return Err(StoreError::Foreign { path: path.to_owned(), what });
        }
        Ok(Self { path: path.to_owned(), database })
    }

    fn fail(&self, source: rusqlite::Error) -> StoreError {
        StoreError::Database { path: self.path.clone(), source }
    }

    fn read<T: DeserializeOwned>(&self, what: &str, text: &str) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|e| StoreError::Foreign {
            path: self.path.clone(),
            what: format!("its {what} cannot be read: {e}"),
        })
    }

    /// Returns all programs by neighbour; `None` is a deleted program.
    ///
    /// # Errors
    /// If the database cannot be read, or its contents are invalid.
    pub fn programs(&self) -> Result<BTreeMap<String, Versioned<Option<Program>>>, StoreError> {
        let mut out = BTreeMap::new();
        for (name, version, at, body) in self.rows::<Option<String>>("program")? {
            let value = body.map(|b| self.read("program", &b)).transpose()?;
            out.insert(name, Versioned { version, at, value });
        }
        Ok(out)
    }

    /// Returns the hints that each neighbour has.
    ///
    /// # Errors
    /// As for [`Store::programs`].
    pub fn given_hints(&self) -> Result<BTreeMap<String, Versioned<Vec<Given>>>, StoreError> {
        let mut out = BTreeMap::new();
        for (name, version, at, body) in self.rows::<String>("told")? {
            out.insert(name, Versioned { version, at, value: self.read("hints", &body)? });
        }
        Ok(out)
    }

    fn rows<T: rusqlite::types::FromSql>(
        &self,
        table: &str,
    ) -> Result<Vec<(String, u64, u64, T)>, StoreError> {
        let sql = format!("SELECT neighbour, version, at, body FROM {table}");
        let read = || -> rusqlite::Result<Vec<_>> {
            let mut statement = self.database.prepare(&sql)?;
            let rows = statement.query_map([], |row| {
                Ok((row.get(0)?, number(row.get(1)?), number(row.get(2)?), row.get(3)?))
            })?;
            rows.collect()
        };
        read().map_err(|e| self.fail(e))
    }

    /// Returns all penalties by neighbour.
    ///
    /// # Errors
    /// As for [`Store::programs`].
    pub fn penalties(&self) -> Result<BTreeMap<String, Penalty>, StoreError> {
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement = self.database.prepare("SELECT neighbour, body FROM penalty")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let rows = read().map_err(|e| self.fail(e))?;
        rows.into_iter().map(|(name, body)| Ok((name, self.read("penalty", &body)?))).collect()
    }

    /// Stores a neighbour's program, or its deletion, with its penalty, and returns the new
    /// version.
    ///
    /// # Errors
    /// If they cannot be written: then neither is stored.
    pub fn put_program(
        &mut self,
        neighbour: &str,
        program: Option<&Program>,
        penalty: &Penalty,
        at: u64,
    ) -> Result<u64, StoreError> {
        let body = program.map(json);
        let mut write = || -> rusqlite::Result<i64> {
            let change = self.database.transaction()?;
            let version = change.query_row(
                "INSERT INTO program VALUES (?1, 1, ?2, ?3) ON CONFLICT (neighbour) DO UPDATE
                 SET version = version + 1, at = ?2, body = ?3 RETURNING version",
                params![neighbour, whole(at), body],
                |row| row.get(0),
            )?;
            put_penalty(&change, neighbour, penalty)?;
            change.commit()?;
            Ok(version)
        };
        write().map(number).map_err(|e| self.fail(e))
    }

    /// Stores a neighbour's penalty.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put_penalty(&mut self, neighbour: &str, penalty: &Penalty) -> Result<(), StoreError> {
        put_penalty(&self.database, neighbour, penalty).map_err(|e| self.fail(e))
    }

    /// Returns the demands that were used or put last.
    ///
    /// # Errors
    /// As for [`Store::programs`].
    pub fn demands(&self) -> Result<Option<(DemandText, u64)>, StoreError> {
        let row = self.database.query_row("SELECT json, body, at FROM demands", [], |row| {
            Ok((DemandText { json: row.get(0)?, text: row.get(1)? }, number(row.get(2)?)))
        });
        row.optional().map_err(|e| self.fail(e))
    }

    /// Stores new demands and their time.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn put_demands(&mut self, demands: &DemandText, at: u64) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO demands VALUES (1, ?1, ?2, ?3)";
        let written =
            self.database.execute(sql, params![whole(at), demands.json, demands.text]).map(drop);
        written.map_err(|e| self.fail(e))
    }

    /// Returns the number of the last round, its time, and its hints.
    ///
    /// # Errors
    /// As for [`Store::programs`].
    pub fn last_round(&self) -> Result<Option<Versioned<Hints>>, StoreError> {
        let sql = "SELECT number, at, hints FROM round ORDER BY number DESC LIMIT 1";
        let row = self.database.query_row(sql, [], |row| {
            Ok((number(row.get(0)?), number(row.get(1)?), row.get::<_, String>(2)?))
        });
        match row.optional().map_err(|e| self.fail(e))? {
            Some((version, at, hints)) => {
                Ok(Some(Versioned { version, at, value: self.read("hints", &hints)? }))
            }
            None => Ok(None),
        }
    }

    /// Stores a round: its hints, and those of each neighbour.
    ///
    /// Returns the number of the round, and for each neighbour the version of its hints, which
    /// grows only when they change.
    ///
    /// # Errors
    /// If it cannot be written: then nothing of it is stored.
    pub fn put_round(
        &mut self,
        hints: &Hints,
        told: &[(String, Vec<Given>)],
        at: u64,
    ) -> Result<KeptRound, StoreError> {
        let mut write = || -> rusqlite::Result<_> {
            let change = self.database.transaction()?;
            let sql = "INSERT INTO round (at, hints) VALUES (?1, ?2)";
            change.execute(sql, params![whole(at), json(hints)])?;
            let round = change.last_insert_rowid();
            change.execute("DELETE FROM round WHERE number <= ?1", [round - ROUNDS])?;
            let mut versions = Vec::new();
            for (neighbour, given) in told {
                change.execute(
                    "INSERT INTO told VALUES (?1, 1, ?2, ?3) ON CONFLICT (neighbour) DO UPDATE
                     SET version = version + 1, at = ?2, body = ?3 WHERE body <> ?3",
                    params![neighbour, whole(at), json(given)],
                )?;
                let sql = "SELECT version, at FROM told WHERE neighbour = ?1";
                versions.push(change.query_row(sql, [neighbour], |row| {
                    let (version, at) = (number(row.get(0)?), number(row.get(1)?));
                    Ok(Versioned { version, at, value: given.clone() })
                })?);
            }
            change.commit()?;
            Ok((number(round), versions))
        };
        write().map_err(|e| self.fail(e))
    }
}

fn put_penalty(database: &Connection, neighbour: &str, penalty: &Penalty) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO penalty VALUES (?1, ?2)";
    database.execute(sql, params![neighbour, json(penalty)]).map(drop)
}

/// SQLite's integers are signed. The numbers here are counts and times, which fit.
fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn json<T: Serialize>(value: &T) -> String {
    // All stored values have a form in JSON.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
