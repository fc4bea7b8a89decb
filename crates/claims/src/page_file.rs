//! A directory of claims: `page.toml` names the page and its claims, `NAME.claim.toml` holds a claim.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_config::{ConfigError, Spanned};
use serde::Deserialize;

/// What a directory of claims has.
const PAGE: &str = "page.toml";

/// Returns the directories in `dir` that have a page, in the order of their names.
pub(crate) fn directories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.join(PAGE).is_file()).collect();
    found.sort();
    found
}

/// What a directory of claims has to say, whatever kind of claims they are.
pub(crate) struct Page<T> {
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) claims: Vec<T>,
}

impl<T> Page<T> {
    /// That of `dir`, each claim read by `claim` from its name and its file.
    pub(crate) fn load(
        dir: &Path,
        claim: impl Fn(&str, &Path) -> Result<T, ConfigError>,
    ) -> Result<Self, ConfigError> {
        let (page, source) = forebay_config::load::<PageFile>(&dir.join(PAGE))?;
        let mut claims = Vec::new();
        for (i, id) in page.claims.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            let twice = page.claims[..i].iter().any(|other| other.get_ref() == id.get_ref());
            if !id.get_ref().chars().all(plain) || twice {
                let what = "is there twice, or no name of a claim: letters, digits, '-' and '_'";
                return Err(source.error_at(id.span(), "claims", what));
            }
            let file = dir.join(format!("{}.claim.toml", id.get_ref()));
            claims.push(claim(id.get_ref(), &file)?);
        }
        Ok(Self { title: page.title, about: page.about, claims })
    }
}

/// The name of the catalogue in `dir`: that of the directory.
pub(crate) fn name(dir: &Path) -> String {
    dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageFile {
    title: String,
    about: String,
    claims: Vec<Spanned<String>>,
}

#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn list(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}
