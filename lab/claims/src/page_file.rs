//! A directory of claims: `page.toml` names the page and its claims, `NAME.claim.toml` holds a
//! claim.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_config::{ConfigError, Source, Spanned};
use serde::Deserialize;

use crate::band::Band;
use crate::judge::Criteria;

/// The page's file in a directory of claims.
const PAGE: &str = "page.toml";

/// Returns the directories in `dir` that have a page, in the order of their names.
pub(crate) fn directories(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> =
        entries.map(|e| e.path()).filter(|p| p.join(PAGE).is_file()).collect();
    found.sort();
    found
}

/// The page's file of a directory and its claims, of whatever kind.
pub(crate) struct Page<T> {
    /// The title of the page.
    pub(crate) title: String,
    /// The introduction of the page; Markdown.
    pub(crate) about: String,
    /// The claims, in the page's order.
    pub(crate) claims: Vec<T>,
    /// The claims whose bands entered the history together with their first result.
    pub(crate) bands_with_results: Vec<String>,
}

impl<T> Page<T> {
    /// Loads the page's file of `dir`, and each claim with `claim` from its name and its file.
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
                let what = "is there twice, or is not a name: use letters, digits, '-' and '_'";
                return Err(source.error_at(id.span(), "claims", what));
            }
            let file = dir.join(format!("{}.claim.toml", id.get_ref()));
            claims.push(claim(id.get_ref(), &file)?);
        }
        let PageFile { title, about, claims: ids, bands_with_results } = page;
        let is_unknown =
            |id: &&Spanned<String>| !ids.iter().any(|own| own.get_ref() == id.get_ref());
        if let Some(unknown) = bands_with_results.iter().find(is_unknown) {
            let what = "names a claim that is not on the page";
            return Err(source.error_at(unknown.span(), "bands_with_results", what));
        }
        let bands_with_results = bands_with_results.into_iter().map(Spanned::into_inner).collect();
        Ok(Self { title, about, claims, bands_with_results })
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
    #[serde(default)]
    bands_with_results: Vec<Spanned<String>>,
}

/// Parses the keys that judge a figure: `source`, `band` and `bar`.
pub(crate) fn criteria(
    file: &Source,
    source: Option<f64>,
    band: &Spanned<String>,
    bar: Option<&Spanned<String>>,
    is_ratio: bool,
) -> Result<Criteria, ConfigError> {
    let parse = |text: &Spanned<String>, key: &str| {
        let parsed = text.get_ref().parse::<Band>();
        parsed.map_err(|e| file.error_at(text.span(), key, e.to_string()))
    };
    let own = bar.map(|bar| parse(bar, "figure.bar")).transpose()?;
    Criteria::new(source, parse(band, "figure.band")?, own, is_ratio)
        .map_err(|e| file.error_at(band.span(), "figure.band", e))
}

/// A text, or a list of texts.
#[derive(Clone, Deserialize)]
#[serde(untagged, expecting = "expected a text or a list of texts")]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    /// The texts as a list.
    pub(crate) fn list(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}
