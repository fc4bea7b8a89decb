//! A TOML text with settings that replace or add keys.
//!
//! The text is edited in place and keeps its lines, comments and order. Checks then read the edited
//! text as they read any file, so that every key can be set and no list of keys is needed.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{ConfigError, Setting, likeliest};

/// A TOML text with settings applied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    text: String,
    /// The line of the original text to which each line belongs.
    lines: Vec<usize>,
    settings: Vec<Applied>,
}

/// A setting that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Applied {
    setting: Setting,
    /// The key as checks name it: without the names and numbers of entries.
    plain_key: String,
    /// The line of the original text at which it was applied.
    line: usize,
}

impl Edited {
    /// Applies `settings` to `text` in their order. Errors call the text `file`.
    ///
    /// # Errors
    ///
    /// If the text is not TOML, or has no place for one of the keys.
    pub fn new(file: &Path, text: &str, settings: &[Setting]) -> Result<Self, ConfigError> {
        let lines = (1..=text.split('\n').count()).collect();
        let mut edited = Self { text: text.to_owned(), lines, settings: Vec::new() };
        DeTable::parse(text).map_err(|error| edited.syntax_error(file, &error))?;
        for setting in settings {
            edited.apply(file, setting)?;
        }
        Ok(edited)
    }

    /// The text with all settings.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Makes an error about the edited text one about the original: with its line, and with the
    /// setting if the error is about its value.
    #[must_use]
    pub fn explain(&self, mut error: ConfigError) -> ConfigError {
        let setting = self.cause(&error);
        error.line = error.line.map(|line| self.original(line));
        if let Some(setting) = setting {
            error.message = format!("{} (set by {setting})", error.message);
        }
        error
    }

    /// Returns the setting whose value an error about the edited text is about, if there is one.
    pub fn cause(&self, error: &ConfigError) -> Option<&Setting> {
        let line = self.original(error.line?);
        let meant = |a: &&Applied| a.line == line && within(&a.plain_key, &error.key);
        self.settings.iter().rev().find(meant).map(|applied| &applied.setting)
    }

    /// The line of the original text to which a line of the edited text belongs.
    fn original(&self, line: usize) -> usize {
        self.lines.get(line - 1).copied().unwrap_or(line)
    }

    fn syntax_error(&self, file: &Path, error: &toml::de::Error) -> ConfigError {
        ConfigError {
            file: file.to_owned(),
            line: error.span().map(|span| self.lines[self.line_at(span.start)]),
            key: String::new(),
            message: error.message().replace('\n', "; "),
        }
    }

    fn apply(&mut self, file: &Path, setting: &Setting) -> Result<(), ConfigError> {
        let fail = |line: Option<usize>, message: String| ConfigError {
            file: file.to_owned(),
            line,
            key: setting.key.clone(),
            message,
        };
        let root = DeTable::parse(&self.text).map_err(|error| self.syntax_error(file, &error))?;
        let search = Search { text: &self.text, setting };
        let edit = search.table(root.get_ref(), &Place::Root, &setting.key).map_err(|problem| {
            let line = problem.at.map(|at| self.lines[self.line_at(at)]);
            fail(line, problem.message)
        })?;
        let line = self.lines[self.line_at(edit.range.start)];
        self.settings.push(Applied { setting: setting.clone(), plain_key: edit.plain_key, line });
        self.replace(edit.range, &edit.with);
        Ok(())
    }

    /// The index of the line that has the byte `at`.
    fn line_at(&self, at: usize) -> usize {
        self.text.as_bytes()[..at.min(self.text.len())].iter().filter(|b| **b == b'\n').count()
    }

    fn replace(&mut self, range: Range<usize>, with: &str) {
        let ends = |text: &str| text.matches('\n').count();
        let (first, removed) = (self.line_at(range.start), ends(&self.text[range.clone()]));
        let line = self.lines[first];
        let added = std::iter::repeat_n(line, ends(with));
        self.lines.splice(first + 1..first + 1 + removed, added);
        self.text.replace_range(range, with);
    }
}

/// Whether `key` is `table` or in it.
fn within(table: &str, key: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A change of a text.
struct Edit {
    range: Range<usize>,
    with: String,
    plain_key: String,
}

/// Why a key has no place in a text.
struct Problem {
    /// The byte that it is about.
    at: Option<usize>,
    message: String,
}

/// The place where new keys of a table are written.
enum Place {
    /// At the start of the text.
    Root,
    /// After a header such as `[path]`, which ends at this byte.
    Header(usize),
    /// After the brace of an inline table at this byte; whether the table is empty.
    Inline(usize, bool),
}

/// The search for the place of a setting in a text.
struct Search<'a> {
    text: &'a str,
    setting: &'a Setting,
}

impl Search<'_> {
    /// Finds the place of `key` in `table`, whose new keys are written at `place`.
    fn table(&self, table: &DeTable<'_>, place: &Place, key: &str) -> Result<Edit, Problem> {
        self.descend(table, place, key, key, String::new())
    }

    /// Continues in a table within `plain`. `prefixed` is the key as it is written at `place`.
    fn descend(
        &self,
        table: &DeTable<'_>,
        place: &Place,
        prefixed: &str,
        key: &str,
        mut plain: String,
    ) -> Result<Edit, Problem> {
        let (first, rest) = key.split_once('.').map_or((key, None), |(f, r)| (f, Some(r)));
        if !plain.is_empty() {
            plain.push('.');
        }
        plain.push_str(first);
        let Some((_, value)) = table.iter().find(|(name, _)| name.get_ref() == first) else {
            if let Some(rest) = rest {
                plain = format!("{plain}.{rest}");
            }
            return Ok(self.insert(place, prefixed, plain));
        };
        match rest {
            None => self.replace(value, plain),
            Some(rest) => self.value(value, place, prefixed, rest, plain),
        }
    }

    /// Finds the place of `key` in `value`.
    fn value(
        &self,
        value: &Spanned<DeValue<'_>>,
        place: &Place,
        prefixed: &str,
        key: &str,
        plain: String,
    ) -> Result<Edit, Problem> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::Table(table) => match self.text.as_bytes().get(at) {
                Some(b'[') => {
                    self.descend(table, &Place::Header(value.span().end), key, key, plain)
                }
                Some(b'{') => {
                    self.descend(table, &Place::Inline(at + 1, table.is_empty()), key, key, plain)
                }
                // Keys with dots made the table, so a new key has dots too.
                _ => self.descend(table, place, prefixed, key, plain),
            },
            DeValue::Array(entries) => {
                let (entry, rest) = key.split_once('.').map_or((key, None), |(e, r)| (e, Some(r)));
                let found = find(entries.iter(), entry)
                    .map_err(|message| Problem { at: Some(at), message })?;
                match rest {
                    None => self.replace(found, plain),
                    Some(rest) => self.value(found, place, prefixed, rest, plain),
                }
            }
            _ => Err(Problem {
                at: Some(at),
                message: format!("{plain} is a value and not a table: it has no keys"),
            }),
        }
    }

    fn replace(&self, value: &Spanned<DeValue<'_>>, plain_key: String) -> Result<Edit, Problem> {
        let range = value.span();
        let is_value = match value.get_ref() {
            DeValue::Table(_) => self.text[range.clone()].starts_with('{'),
            DeValue::Array(entries) => {
                let first = entries.iter().next().map(Spanned::span);
                let headers = first.is_some_and(|s| self.text[s].starts_with("[["));
                self.text[range.clone()].starts_with('[') && !headers
            }
            _ => true,
        };
        if is_value {
            return Ok(Edit { range, with: self.setting.value.clone(), plain_key });
        }
        let message = "is a table with lines of its own: set the keys in it".to_owned();
        Err(Problem { at: Some(range.start), message })
    }

    fn insert(&self, place: &Place, key: &str, plain_key: String) -> Edit {
        let value = &self.setting.value;
        let (at, with) = match *place {
            Place::Root => (0, format!("{key} = {value}\n")),
            Place::Header(end) => (end, format!("\n{key} = {value}")),
            Place::Inline(at, true) => (at, format!(" {key} = {value} ")),
            Place::Inline(at, false) => (at, format!(" {key} = {value},")),
        };
        Edit { range: at..at, with, plain_key }
    }
}

/// Finds the entry of an array by its `name`, or by its number from 1.
fn find<'a, 'i: 'a>(
    entries: impl Iterator<Item = &'a Spanned<DeValue<'i>>> + Clone,
    entry: &str,
) -> Result<&'a Spanned<DeValue<'i>>, String> {
    fn name<'a>(value: &'a Spanned<DeValue<'_>>) -> Option<&'a str> {
        value.get_ref().as_table()?.get("name")?.get_ref().as_str()
    }
    let number = entry.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    let named = entries.clone().find(|e| name(e) == Some(entry));
    if let Some(found) = named.or_else(|| entries.clone().nth(number?)) {
        return Ok(found);
    }
    let names: Vec<_> = entries.clone().filter_map(name).collect();
    Err(match likeliest(entry, names.iter().copied()) {
        Some(word) => format!("there is no `{entry}`; did you mean `{word}`?"),
        None if names.is_empty() => {
            format!("there is no entry `{entry}`: give a number from 1 to {}", entries.count())
        }
        None => format!("there is no `{entry}`: give one of {}", names.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
name = \"n\" # the name
site.left = 1
[path] # the path
rate = \"96 Mbit/s\"
steps = [
  1,
  2,
]
queue = { kind = \"fifo\" }
back = {}
[path.far]
loss = 1
[[traffic]]
name = \"web\"
load = \"10 %\"
[[traffic]]
name = \"bulk\"
[[path.way]]
rtt = 1
";

    fn set(settings: &[&str]) -> Result<String, String> {
        let settings: Vec<_> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
        let edited = Edited::new("a.toml".as_ref(), TEXT, &settings).map_err(|e| e.to_string())?;
        DeTable::parse(edited.text()).unwrap();
        assert_eq!(edited.lines.len(), edited.text().split('\n').count());
        Ok(edited.text)
    }

    /// The line of the edited text that has `word`.
    fn line(settings: &[&str], word: &str) -> String {
        let text = set(settings).unwrap();
        text.lines().find(|l| l.contains(word)).unwrap_or("").to_owned()
    }

    #[test]
    fn values_are_replaced_where_they_stand() {
        assert_eq!(line(&["path.rate=24 Mbit/s"], "rate"), "rate = \"24 Mbit/s\"");
        assert_eq!(line(&["name='m'"], "the name"), "name = 'm' # the name");
        assert_eq!(line(&["traffic.web.load=90%"], "load"), "load = \"90%\"");
        assert_eq!(line(&["traffic.1.load=90%"], "load"), "load = \"90%\"");
        assert_eq!(line(&["path.queue.kind=sfq"], "queue"), "queue = { kind = \"sfq\" }");
        assert_eq!(line(&["path.queue={ kind = \"pie\" }"], "queue"), "queue = { kind = \"pie\" }");
        assert_eq!(line(&["site.left=2"], "left"), "site.left = 2");
        assert_eq!(line(&["path.steps=[3]"], "steps"), "steps = [3]");
    }

    #[test]
    fn missing_keys_are_added_to_their_table() {
        let text = set(&["path.rtt=50 ms", "traffic.bulk.flows=3", "ecn=true"]).unwrap();
        let edited = TEXT
            .replace("[path] ", "[path]\nrtt = \"50 ms\" ")
            .replace("[[traffic]]\nname = \"bulk\"", "[[traffic]]\nflows = 3\nname = \"bulk\"");
        assert_eq!(text, format!("ecn = true\n{edited}"));
        assert_eq!(
            line(&["path.queue.limit=2 bdp"], "queue"),
            "queue = { limit = \"2 bdp\", kind = \"fifo\" }"
        );
        assert_eq!(line(&["path.back.rate=1 Mbit/s"], "back"), "back = { rate = \"1 Mbit/s\" }");
        let text = set(&["path.jitter.least=1 ms", "path.jitter.most=2 ms"]).unwrap();
        assert!(
            text.contains("jitter.least = \"1 ms\"") && text.contains("jitter.most = \"2 ms\"")
        );
        assert_eq!(line(&["site.right=3"], "right"), "site.right = 3");
        let text = set(&["path.way.1.rate=1 Mbit/s"]).unwrap();
        assert!(text.contains("[[path.way]]\nrate = \"1 Mbit/s\"\nrtt"), "{text}");
    }

    #[test]
    fn a_key_without_a_place_is_an_error_with_its_line() {
        for (setting, error) in [
            (
                "traffic.bulc.load=1",
                "a.toml:13: traffic.bulc.load: there is no `bulc`; did you mean `bulk`?",
            ),
            (
                "traffic.7.load=1",
                "a.toml:13: traffic.7.load: there is no `7`: give one of web, bulk",
            ),
            (
                "path.way.2.rtt=1",
                "a.toml:18: path.way.2.rtt: there is no entry `2`: give a number from 1 to 1",
            ),
            (
                "path.rate.most=1",
                "a.toml:4: path.rate.most: path.rate is a value and not a table: it has no keys",
            ),
            ("path=1", "a.toml:3: path: is a table with lines of its own: set the keys in it"),
            (
                "traffic=[]",
                "a.toml:13: traffic: is a table with lines of its own: set the keys in it",
            ),
        ] {
            assert_eq!(set(&[setting]).unwrap_err(), error);
        }
        let broken = Edited::new("a.toml".as_ref(), "\n[path\n", &[]).unwrap_err().to_string();
        assert!(broken.starts_with("a.toml:2: "), "{broken}");
    }

    #[test]
    fn errors_keep_the_lines_of_the_file() {
        let settings = ["path.rtt=1 ms", "path.steps=[1]", "ecn=true", "traffic.bulk.flows=x"];
        let settings: Vec<_> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
        let edited = Edited::new("a.toml".as_ref(), TEXT, &settings).unwrap();
        let error = |word: &str, key: &str| {
            let line = edited.text().lines().position(|l| l.starts_with(word)).unwrap() + 1;
            let error = ConfigError {
                file: "a.toml".into(),
                line: Some(line),
                key: key.to_owned(),
                message: "is wrong".to_owned(),
            };
            edited.explain(error).to_string()
        };
        assert_eq!(error("loss", "path.far.loss"), "a.toml:12: path.far.loss: is wrong");
        assert_eq!(
            error("flows", "traffic.flows"),
            "a.toml:16: traffic.flows: is wrong (set by traffic.bulk.flows=\"x\")"
        );
        assert_eq!(error("name = \"bulk", "traffic.name"), "a.toml:17: traffic.name: is wrong");
        assert_eq!(
            error("rtt = \"1", "path.rtt"),
            "a.toml:3: path.rtt: is wrong (set by path.rtt=\"1 ms\")"
        );
    }
}
