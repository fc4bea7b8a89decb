//! The table `[clickhouse]`: where the history is written.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use forebay_config::{ConfigError, Source, Spanned};
use serde::Deserialize;

use super::File;
use crate::neighbour::config::{Access, url};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClickhouseTable {
    url: Spanned<String>,
    database: Option<Spanned<String>>,
    user: Option<Spanned<String>>,
    /// The file with the password.
    password: Option<PathBuf>,
    authority: Option<PathBuf>,
    #[serde(default)]
    cleartext: bool,
}

/// Where the history is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clickhouse {
    /// Where the database is, with the file of its password as the token.
    pub access: Access,
    /// The name of the database.
    pub database: String,
    /// The name of the user.
    pub user: String,
}

impl File {
    /// Reads the table `[clickhouse]`.
    pub(super) fn clickhouse(&self, source: &Source) -> Result<Option<Clickhouse>, ConfigError> {
        let Some(table) = &self.clickhouse else { return Ok(None) };
        let table = table.get_ref();
        let fail = |m: &str| source.error_at(table.url.span(), "clickhouse.url", m);
        let Some(url) = url(table.url.get_ref()) else {
            return Err(fail("write where the database is, as in \"http://127.0.0.1:8123\""));
        };
        let local = url.host.parse::<IpAddr>().is_ok_and(|a| a.is_loopback());
        if !url.tls && !local && !table.cleartext {
            return Err(fail(
                "the password and the demands would cross the network in clear text: write https, \
                 or say `cleartext = true` if something else protects them",
            ));
        }
        if url.tls && table.authority.is_none() {
            return Err(fail("needs `authority`, the file of the authority of its certificate"));
        }
        let name = |key: &str, value: &Option<Spanned<String>>| match value {
            None => Ok("default".to_owned()),
            Some(name) => {
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let good = !name.get_ref().is_empty() && name.get_ref().chars().all(plain);
                let message = "write letters, digits and `_`";
                let key = format!("clickhouse.{key}");
                if good {
                    Ok(name.get_ref().clone())
                } else {
                    Err(source.error_at(name.span(), key, message))
                }
            }
        };
        let base = source.file().parent().unwrap_or(Path::new("")).to_owned();
        let at = |path: &PathBuf| base.join(path);
        let (token, authority) =
            (table.password.as_ref().map(at), table.authority.as_ref().map(at));
        let access = Access { url, token, authority, certificate: None };
        let (database, user) = (name("database", &table.database)?, name("user", &table.user)?);
        Ok(Some(Clickhouse { access, database, user }))
    }
}
