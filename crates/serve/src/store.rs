//! State on the disk, in SQLite: what was answered with a 200 is there after any crash.
//!
//! One process holds the database (`locking_mode = EXCLUSIVE`), and each change is one transaction that is on the disk
//! when it returns (`synchronous = FULL`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forebay_plan::hints::Hints;
use forebay_plan::vswitch::Program;
use ipnet::IpNet;
use rusqlite::{Connection, OptionalExtension, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::damping::Penalty;
use crate::inputs::DemandText;

/// The version of the tables below.
const FORM: i64 = 1;
/// So many rounds are kept: a day of them, at one every five minutes.
const ROUNDS: i64 = 288;

/// Programs that were taken back keep their row, so that a version is never used twice.
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
    /// SQLite says so.
    #[error("{path}: {source}")]
    Database {
        /// The database.
        path: PathBuf,
        /// What it says.
        source: rusqlite::Error,
    },
    /// Another process has it.
    #[error("{0} is in use by another running forebay process: stop that first")]
    InUse(PathBuf),
    /// It is of another version of this program, or somebody has changed it.
    #[error("{path}: {what}")]
    Foreign {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Something of a version, and when it came to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned<T> {
    /// From 1.
    pub version: u64,
    /// Milliseconds since 1970.
    pub at: u64,
    /// What.
    pub value: T,
}

/// A hint as a neighbour is told it: its own entry, and a prefix. Whether it is new is what versions say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// The prefix.
    pub prefix: IpNet,
    /// The entry where traffic to it should come in.
    pub entry: String,
}

/// The number of a round, and what each neighbour is told since then.
pub type KeptRound = (u64, Vec<Versioned<Vec<Given>>>);

/// The database.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Connection,
}

impl Store {
    /// The database at `path`, which is made if it is not there.
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
        let mut database = Connection::open(path).map_err(fail)?;
        let prepare = |database: &mut Connection| -> rusqlite::Result<i64> {
            database.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            database.pragma_update(None, "synchronous", "FULL")?;
            // The lock is taken with the first change, and then kept.
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
            let what = format!("is of version {form}, and this program writes {FORM}");
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
            what: format!("the {what} in it cannot be read: {e}"),
        })
    }

    /// All programs by neighbour; `None` is one that was taken back.
    ///
    /// # Errors
    /// If the database cannot be read, or is not what was written.
    pub fn programs(&self) -> Result<BTreeMap<String, Versioned<Option<Program>>>, StoreError> {
        let mut out = BTreeMap::new();
        for (name, version, at, body) in self.rows::<Option<String>>("program")? {
            let value = body.map(|b| self.read("program", &b)).transpose()?;
            out.insert(name, Versioned { version, at, value });
        }
        Ok(out)
    }

    /// What each neighbour was told last.
    ///
    /// # Errors
    /// As [`Store::programs`].
    pub fn told(&self) -> Result<BTreeMap<String, Versioned<Vec<Given>>>, StoreError> {
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

    /// All penalties by neighbour.
    ///
    /// # Errors
    /// As [`Store::programs`].
    pub fn penalties(&self) -> Result<BTreeMap<String, Penalty>, StoreError> {
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            let mut statement = self.database.prepare("SELECT neighbour, body FROM penalty")?;
            statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let rows = read().map_err(|e| self.fail(e))?;
        rows.into_iter().map(|(name, body)| Ok((name, self.read("penalty", &body)?))).collect()
    }

    /// Keeps a neighbour's program, or that it has none, with its penalty; the version that this is.
    ///
    /// # Errors
    /// If it cannot be written: then neither is.
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

    /// Keeps a neighbour's penalty.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put_penalty(&mut self, neighbour: &str, penalty: &Penalty) -> Result<(), StoreError> {
        put_penalty(&self.database, neighbour, penalty).map_err(|e| self.fail(e))
    }

    /// The demands that were used or put last.
    ///
    /// # Errors
    /// As [`Store::programs`].
    pub fn demands(&self) -> Result<Option<(DemandText, u64)>, StoreError> {
        let row = self.database.query_row("SELECT json, body, at FROM demands", [], |row| {
            Ok((DemandText { json: row.get(0)?, text: row.get(1)? }, number(row.get(2)?)))
        });
        row.optional().map_err(|e| self.fail(e))
    }

    /// Keeps demands.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn put_demands(&mut self, demands: &DemandText, at: u64) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO demands VALUES (1, ?1, ?2, ?3)";
        let written =
            self.database.execute(sql, params![whole(at), demands.json, demands.text]).map(drop);
        written.map_err(|e| self.fail(e))
    }

    /// The number of the last round, its time, and the hints that it gave.
    ///
    /// # Errors
    /// As [`Store::programs`].
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

    /// Keeps a round: its hints, and what of it each neighbour is told now. The number of the round, and for each
    /// neighbour the version of what it is told, which grows only when that is another.
    ///
    /// # Errors
    /// If it cannot be written: then nothing of it is.
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

/// SQLite's numbers have a sign. Ours are counts and times, which fit.
fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn json<T: Serialize>(value: &T) -> String {
    // There is nothing in them that JSON has no words for.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
