//! Bands that were changed after a first result was known.

use std::fmt::Write;
use std::path::Path;

use forebay_config::ConfigError;
use forebay_picture::number;
use serde::Deserialize;

use crate::band::Band;
use crate::judge::Verdict;
use crate::text::wrapped;

/// A band that was changed, or a row that was added or removed, after a first result was known.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The claim of the figure, in a file that is of several claims.
    pub claim: Option<String>,
    /// The figure, in the words of its row.
    pub what: String,
    /// The commit that made the change.
    pub commit: String,
    /// The day of that commit, such as `2026-11-22`.
    pub date: String,
    /// How the figure was judged before: a band, or words such as `no row`.
    pub before: String,
    /// How the figure was judged after the change.
    pub after: String,
    /// The source's figure before the change, if the old band is around it.
    pub source: Option<f64>,
    /// Our figure as the old row measures it; `None` if there was nothing to measure.
    pub value: Option<f64>,
    /// The engine that the figure is of, if the claim has several.
    pub engine: Option<String>,
    /// What the change was made for, and what the history shows of it.
    pub why: String,
}

/// A file of changes, beside the stored results of a page whose claims are code.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangedFile {
    #[serde(default)]
    changed: Vec<Changed>,
}

/// Loads a file of `[[changed]]` tables; none if there is no such file.
///
/// # Errors
/// If the file cannot be read or is wrong; the error names file and line.
pub fn load_changed(path: &Path) -> Result<Vec<Changed>, ConfigError> {
    if !path.is_file() {
        return Ok(Vec::new());
    }
    Ok(forebay_config::load::<ChangedFile>(path)?.0.changed)
}

impl Changed {
    /// Our figure with the verdict that the old band gives it.
    fn under_the_old_band(&self) -> String {
        let band = self.before.parse::<Band>();
        let Some(value) = self.value else {
            return if band.is_ok() { "nothing to measure" } else { "–" }.to_owned();
        };
        let value_text = number::setting(value);
        let engine = self.engine.as_ref().map(|e| format!(" (`{e}`)")).unwrap_or_default();
        let verdict = match band {
            Ok(band) => Verdict::of(band, self.source, Some(value)),
            Err(_) => Verdict::Shown,
        };
        match verdict {
            Verdict::Within => format!("{value_text}{engine}, within"),
            Verdict::Outside => format!("**{value_text}{engine}, outside**"),
            Verdict::Shown | Verdict::Missing => format!("{value_text}{engine}, not judged"),
        }
    }

    fn before(&self) -> String {
        match self.source {
            Some(source) => format!("{} (source {})", self.before, number::setting(source)),
            None => self.before.clone(),
        }
    }
}

/// The page's section on changed bands. `changes` are by claim; `together` names the claims whose
/// bands entered the history in the same commit as their first result.
pub fn changed_section<'a>(
    changes: impl IntoIterator<Item = (&'a str, &'a Changed)>,
    together: &[String],
) -> String {
    let mut out = "\n## Bands that were changed after a first result\n".to_owned();
    let changes: Vec<_> = changes.into_iter().collect();
    if changes.is_empty() {
        out += "\nNone, as far as the git history shows.\n";
    } else {
        out += "\nFrom the git history: rows whose band or source was changed, and rows that were \
                added or removed,\nafter a first result was stored or in the commit that stored \
                it.\n\n| claim | figure | judged before | ours by that | judged after | commit | \
                why |\n|---|---|---|---|---|---|---|\n";
        for (claim, change) in changes {
            let Changed { what, after, commit, date, why, .. } = change;
            let (before, ours) = (change.before(), change.under_the_old_band());
            let why = why.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(
                out,
                "| {claim} | {what} | {before} | {ours} | {after} | {commit}, {date} | {why} |"
            );
        }
    }
    if !together.is_empty() {
        let names: Vec<_> = together.iter().map(|name| format!("`{name}`")).collect();
        let text = format!(
            "The bands of these claims entered the history in the commit that stored their first \
             result, so the history does not show which came first: {}.",
            names.join(", ")
        );
        let _ = write!(out, "\n{}\n", wrapped(&text, ""));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: &str, source: Option<f64>, value: Option<f64>) -> Changed {
        Changed {
            claim: None,
            what: "a share".to_owned(),
            commit: "4e05cf9".to_owned(),
            date: "2026-11-22".to_owned(),
            before: before.to_owned(),
            after: "not judged".to_owned(),
            source,
            value,
            engine: None,
            why: "It was\noutside.".to_owned(),
        }
    }

    #[test]
    fn the_old_band_judges_the_figure() {
        let old = |before: &str, source, value| change(before, source, value).under_the_old_band();
        assert_eq!(old("3", Some(72.0), Some(68.64)), "**68.64, outside**");
        assert_eq!(old("at most 1", None, Some(0.071)), "0.071, within");
        assert_eq!(old("no row", None, Some(2.0)), "2, not judged");
        assert_eq!(old("at most 1", None, None), "nothing to measure");
        assert_eq!(old("no row", None, None), "–");
    }

    #[test]
    fn the_section_has_a_row_for_each_change_and_says_if_there_is_none() {
        let change = change("3", Some(72.0), Some(68.64));
        let section = changed_section([("overload", &change)], &["one".to_owned()]);
        assert!(section.contains(
            "| overload | a share | 3 (source 72) | **68.64, outside** | not judged | 4e05cf9, \
             2026-11-22 | It was outside. |"
        ));
        assert!(section.contains("does not show which came first:") && section.contains("`one`"));
        assert!(changed_section([], &[]).contains("None, as far as the git history shows."));
    }
}
