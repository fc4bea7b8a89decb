//! Keys that are set from outside a file, as on a command line.

use std::fmt;

use toml::de::DeValue;

/// A key of a TOML text with the value that it is set to.
///
/// The key names tables from the outside in: `path.rate`. An entry of an array of tables is named
/// by its `name`, or by its number from 1: `traffic.web.load`, `path.way.2.rate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub(crate) key: String,
    /// The value as TOML.
    pub(crate) value: String,
}

/// A mistake in the text of a setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct SettingError {
    /// The setting, as it was given.
    pub setting: String,
    /// The mistake, and what to do.
    pub problem: &'static str,
}

const FORM: &str = "write KEY=VALUE, such as path.rate=\"24 Mbit/s\"";

impl Setting {
    /// Reads `KEY=VALUE`. A value that is not TOML is a string: `24 Mbit/s` means `"24 Mbit/s"`.
    ///
    /// # Errors
    ///
    /// If the key or the value is missing, or the key has characters that keys do not have.
    pub fn parse(text: &str) -> Result<Self, SettingError> {
        let (key, value) = split(text)?;
        Self::new(key, value)
    }

    /// Makes a setting of `key` to `value`, which is TOML or else a string.
    ///
    /// # Errors
    ///
    /// If the key or the value is missing, or the key has characters that keys do not have.
    pub fn new(key: &str, value: &str) -> Result<Self, SettingError> {
        let (key, value) = (key.trim(), value.trim());
        let fail = |problem| SettingError { setting: format!("{key}={value}"), problem };
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if key.split('.').any(|part| part.is_empty() || !part.chars().all(good)) {
            return Err(fail(FORM));
        }
        if value.is_empty() {
            return Err(fail("the value is missing"));
        }
        Ok(Self { key: key.to_owned(), value: literal(value) })
    }

    /// Reads `KEY=VALUE,VALUE`: one setting for each value. Commas within quotes, brackets and
    /// braces do not separate values.
    ///
    /// # Errors
    ///
    /// Fails under the conditions of [`Setting::parse`], for any of the values.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, SettingError> {
        let (key, values) = split(text)?;
        values_of(values).into_iter().map(|value| Self::new(key, value)).collect()
    }

    /// The key, with the tables that it is in.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value as TOML.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The value as a person writes it: a string without its quotes.
    pub fn shown(&self) -> String {
        match DeValue::parse(&self.value) {
            Ok(value) => match value.into_inner() {
                DeValue::String(text) => text.into_owned(),
                _ => self.value.clone(),
            },
            Err(_) => self.value.clone(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

fn split(text: &str) -> Result<(&str, &str), SettingError> {
    text.split_once('=').ok_or_else(|| SettingError { setting: text.to_owned(), problem: FORM })
}

/// Returns `value` if it is TOML, else a TOML string of it.
fn literal(value: &str) -> String {
    match DeValue::parse(value) {
        Ok(_) => value.to_owned(),
        Err(_) => toml::Value::from(value).to_string(),
    }
}

/// Splits `text` at the commas outside of quotes, brackets and braces.
fn values_of(text: &str) -> Vec<&str> {
    let (mut values, mut start, mut depth, mut quote) = (Vec::new(), 0, 0_u32, None);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                values.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    values.push(&text[start..]);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_toml_is_a_string() {
        let shown = |text: &str| Setting::parse(text).unwrap().to_string();
        assert_eq!(shown("a=24 Mbit/s"), "a=\"24 Mbit/s\"");
        assert_eq!(shown("a=10%"), "a=\"10%\"");
        assert_eq!(shown("a=3"), "a=3");
        assert_eq!(shown(" a.b = true "), "a.b=true");
        assert_eq!(shown("a=say \"hi\""), "a='say \"hi\"'");
        assert_eq!(Setting::parse("a=say \"hi\"").unwrap().shown(), "say \"hi\"");
        let all = Setting::parse_all("a={ b = 1, c = 2 },[1,2],\"x,y\",z").unwrap();
        let all: Vec<_> = all.iter().map(Setting::shown).collect();
        assert_eq!(all, ["{ b = 1, c = 2 }", "[1,2]", "x,y", "z"]);
        for bad in ["a", "=1", "a.=1", "a b=1", "a="] {
            assert!(Setting::parse(bad).is_err(), "{bad}");
        }
        assert!(Setting::parse_all("a=1,").is_err(), "an empty value");
    }
}
