//! The catalogue: every evaluation with claims, by the way its claims are tried.

use std::path::Path;

use forebay_config::ConfigError;

use crate::page_file::{directories, name};
use crate::{rows, scenarios};

/// The way in which the claims of an evaluation are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Scenario files on the laboratory's engines ([`crate::scenarios`]).
    Scenarios,
    /// Runs that give rows of labels and values ([`crate::rows`]).
    Rows,
    /// The planner on drawn networks (`forebay plan reproduce`).
    Unison,
}

impl Method {
    /// Returns the method of the evaluation `name`.
    pub fn of(name: &str) -> Self {
        match name {
            "stack" | "zd" => Self::Rows,
            "unison" => Self::Unison,
            _ => Self::Scenarios,
        }
    }
}

/// An evaluation, as a list shows it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The evaluation's name: that of its directory.
    pub name: String,
    /// The title of its page.
    pub title: String,
    /// The claims, in the page's order. Unison's claims are code and are not listed.
    pub claims: Vec<Line>,
}

/// A claim, as a list shows it.
#[derive(Clone, Debug)]
pub struct Line {
    /// The name of the claim, as on the command line.
    pub id: String,
    /// The claim in one line.
    pub title: String,
    /// The engines that try the claim, by their names on the command line.
    pub engines: Vec<&'static str>,
}

/// The title of Unison's evaluation, which has no directory.
pub const UNISON: &str = "Unison's evaluation, tried again";

/// Lists the evaluations below the directory `experiments`, and Unison's.
///
/// # Errors
/// If a file of claims is wrong; the error names file and line.
pub fn list(experiments: &Path) -> Result<Vec<Entry>, ConfigError> {
    let mut all = Vec::new();
    for dir in directories(experiments) {
        let name = name(&dir);
        let (title, claims) = match Method::of(&name) {
            Method::Rows => {
                let rows::Catalogue { title, claims, .. } = rows::Catalogue::load(&dir)?;
                let line = |c: rows::catalogue::Claim| Line {
                    engines: vec![c.how.engine()],
                    id: c.id,
                    title: c.title,
                };
                (title, claims.into_iter().map(line).collect())
            }
            Method::Scenarios | Method::Unison => {
                let scenarios::Catalogue { title, claims, .. } = scenarios::load(&dir)?;
                let engines = |c: &scenarios::Claim| {
                    let own = |e: &&str| c.engines.contains_key(*e);
                    scenarios::ENGINES.into_iter().filter(own).collect()
                };
                let line =
                    |c: scenarios::Claim| Line { engines: engines(&c), id: c.id, title: c.title };
                (title, claims.into_iter().map(line).collect())
            }
        };
        all.push(Entry { name, title, claims });
    }
    if !all.is_empty() {
        let (name, title) = ("unison".to_owned(), UNISON.to_owned());
        all.push(Entry { name, title, claims: Vec::new() });
        all.sort_by(|a, b| a.name.cmp(&b.name));
    }
    Ok(all)
}
