use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use forebay_units::Bytes;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::suggest;

/// The size of the largest configuration file: a hundred times the largest one written by hand.
pub const MAX_FILE: Bytes = Bytes(4_000_000);

/// A mistake in a configuration file, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file, as the user named it.
    pub file: PathBuf,
    /// The line, from 1; `None` where the file could not be read at all.
    pub line: Option<usize>,
    /// The key, with the tables it is in (`traffic.load`); empty where there is none.
    pub key: String,
    /// The mistake, and what to do.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.message)
    }
}

/// The text of a configuration file, kept to find the lines of its values.
#[derive(Clone, Debug)]
pub struct Source {
    file: PathBuf,
    text: String,
}

impl Source {
    /// Makes an error about the value of `key`, which is at `span`.
    pub fn error_at(
        &self,
        span: Range<usize>,
        key: impl Into<String>,
        message: impl fmt::Display,
    ) -> ConfigError {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        ConfigError {
            file: self.file.clone(),
            line: Some(line),
            key: key.into(),
            message: message.to_string().trim_end().replace('\n', "; "),
        }
    }

    /// Returns the file's name as the user gave it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn convert(&self, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(0..0);
        self.error_at(span.clone(), self.key_at(&span), suggest::plain(error.message()))
    }

    /// Returns the key whose name or value is at `span`; empty if the text is not TOML.
    fn key_at(&self, span: &Range<usize>) -> String {
        let mut path = Vec::new();
        if let Ok(root) = DeTable::parse(&self.text) {
            walk(root.get_ref(), span, &mut path);
        }
        path.join(".")
    }
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// Descends to `span` and adds each key on the way to `path`; returns whether it was found.
///
/// A table written as `[a]` or `[[a]]` spans its header only, so its entries are looked at first.
fn walk(table: &DeTable<'_>, span: &Range<usize>, path: &mut Vec<String>) -> bool {
    table.iter().any(|(key, value)| {
        path.push(key.get_ref().to_string());
        let found = holds(&key.span(), span) || walk_value(value, span, path);
        if !found {
            path.pop();
        }
        found
    })
}

fn walk_value(value: &Spanned<DeValue<'_>>, span: &Range<usize>, path: &mut Vec<String>) -> bool {
    let inside = match value.get_ref() {
        DeValue::Table(table) => walk(table, span, path),
        DeValue::Array(array) => array.iter().any(|v| walk_value(v, span, path)),
        _ => false,
    };
    inside || holds(&value.span(), span)
}

/// Reads a text file of at most `most` bytes that a configuration names, or is.
///
/// # Errors
/// If it is no regular file (a device might never end), is larger, is not UTF-8 or cannot be read.
pub fn read_text(path: &Path, most: Bytes) -> Result<String, ConfigError> {
    let fail = |message: String| ConfigError {
        file: path.to_owned(),
        line: None,
        key: String::new(),
        message,
    };
    let unread = |e: io::Error| fail(format!("cannot be read: {e}"));
    // The file type is checked before the file is opened: opening a pipe waits for a writer.
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err(fail("is no regular file: copy what it holds into one".to_owned()));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(unread)?;
    // The size may change during the read, so the bytes that were read count.
    let read = file.take(most.0.saturating_add(1)).read_to_string(&mut text).map_err(unread)?;
    if read as u64 > most.0 {
        return Err(fail(format!("is larger than {most}: shorten it")));
    }
    // Some editors write a byte order mark, which is no part of the text.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}

/// Reads the TOML file at `path` as a `T`.
///
/// # Errors
/// As [`read_text`], of 4 MB; or if the file is not TOML, or is not a `T`.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<(T, Source), ConfigError> {
    parse(path, read_text(path, MAX_FILE)?)
}

/// Reads `text` as a `T`; `file` is what errors call it.
///
/// # Errors
/// If `text` is not TOML, or is not a `T`.
pub fn parse<T: DeserializeOwned>(
    file: &Path,
    text: impl Into<String>,
) -> Result<(T, Source), ConfigError> {
    let source = Source { file: file.to_owned(), text: text.into() };
    match toml::from_str(&source.text) {
        Ok(value) => Ok((value, source)),
        Err(e) => Err(source.convert(&e)),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::{DurationValue, RateValue};

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct File {
        path: Path_,
        #[serde(default)]
        bundle: Vec<Bundle>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Path_ {
        rate: RateValue,
        delay: Option<DurationValue>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Bundle {
        prefixes: Vec<Spanned<String>>,
    }

    fn error(text: &str) -> String {
        parse::<File>(Path::new("a.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_line_and_key() {
        let cases = [
            (
                "[path]\nrate = \"fast\"\n",
                "a.toml:2: path.rate: \"fast\" is not a rate: write a number and a unit, \
                 such as \"96 Mbit/s\" (bit/s, kbit/s, Mbit/s, Gbit/s)",
            ),
            (
                "[path]\nrate = 96\n",
                "a.toml:2: path.rate: invalid type: integer `96`, expected a rate such as \
                 \"96 Mbit/s\" (bit/s, kbit/s, Mbit/s, Gbit/s)",
            ),
            (
                "[path]\nrate = \"1 Mbit/s\"\ndealy = \"1 ms\"\n",
                "a.toml:3: path.dealy: unknown field `dealy`, expected `rate` or `delay`; \
                 did you mean `delay`?",
            ),
            ("\n[path]\n", "a.toml:2: path: missing field `rate`"),
            (
                "[path]\nrate = \"1 Mbit/s\"\n[[bundle]]\nprefixes = []\n[[bundle]]\nprefixes = [\n1]",
                "a.toml:7: bundle.prefixes: invalid type: integer `1`, expected a string",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(error(text), expected);
        }
        assert!(error("[path\n").starts_with("a.toml:1: "), "{}", error("[path\n"));
    }

    #[test]
    fn semantic_errors_find_their_line() {
        let text = "[path]\nrate = \"1 Mbit/s\"\n[[bundle]]\nprefixes = [\"::/0\",\n \"::/0\"]\n";
        let (file, source) = parse::<File>(Path::new("a.toml"), text).unwrap();
        let twice = &file.bundle[0].prefixes[1];
        let error = source.error_at(twice.span(), "bundle.prefixes", "::/0 stands twice");
        assert_eq!(error.to_string(), "a.toml:5: bundle.prefixes: ::/0 stands twice");
    }

    #[test]
    fn only_files_with_an_end_are_read() {
        let zero = load::<File>(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(zero, "/dev/zero: is no regular file: copy what it holds into one");
        let path = std::env::temp_dir().join(format!("fb-read-text-{}", std::process::id()));
        fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, Bytes(4)).unwrap(), "four");
        let large = read_text(&path, Bytes(3)).unwrap_err().to_string();
        assert!(large.ends_with(": is larger than 3 B: shorten it"), "{large}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load::<File>(Path::new("/nonexistent/a.toml")).unwrap_err();
        assert_eq!(error.line, None);
        assert!(error.to_string().starts_with("/nonexistent/a.toml: cannot be read: "), "{error}");
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_text() {
        let path = std::env::temp_dir().join(format!("fb-mark-{}", std::process::id()));
        fs::write(&path, "\u{feff}a = 1\n").unwrap();
        let text = read_text(&path, MAX_FILE);
        fs::remove_file(&path).unwrap();
        assert_eq!(text.unwrap(), "a = 1\n");
    }
}
