//! Error messages of the TOML library, in the words of people who write configuration files.

/// The least likeness of a word to the one that is suggested for it, from 0 to 1.
const LIKE: f64 = 0.75;

/// Returns `message` without the names of types, and with the word that was probably meant.
pub(crate) fn plain(message: &str) -> String {
    let mut text = message.to_owned();
    // `expected struct PolicyTable`, `expected internally tagged enum Kind`
    if let Some((before, _)) = text.split_once("expected struct ") {
        text = format!("{before}expected a table, such as `{{ key = \"value\" }}`");
    } else if let Some((before, _)) = text.split_once("expected enum ") {
        text = format!("{before}expected a word");
    }
    if let Some(word) = meant(&text) {
        text = format!("{text}; did you mean `{word}`?");
    }
    text
}

/// Returns the expected word of `unknown field ...` or `unknown variant ...` that is most like the
/// one that was found.
fn meant(message: &str) -> Option<&str> {
    let (unknown, expected) = message.split_once(", expected ")?;
    if !unknown.starts_with("unknown ") {
        return None;
    }
    // Words stand between backquotes.
    let found = unknown.split('`').nth(1)?;
    likeliest(found, expected.split('`').skip(1).step_by(2))
}

/// Returns the word that is most like `found`, whatever the case, if one is like it.
pub fn likeliest<'a>(found: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = found.to_lowercase();
    let likeness =
        |word: &str| strsim::normalized_damerau_levenshtein(&lower, &word.to_lowercase());
    words
        .into_iter()
        .map(|word| (likeness(word), word))
        .filter(|(likeness, _)| *likeness >= LIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_likely_word_is_suggested() {
        let said = plain("unknown field `prefixs`, expected one of `name`, `prefixes`, `id`");
        assert!(said.ends_with("; did you mean `prefixes`?"), "{said}");
        let said = plain("unknown variant `fqcodel`, expected `sfq` or `fq_codel`");
        assert!(said.ends_with("; did you mean `fq_codel`?"), "{said}");
        for unlike in ["unknown variant `cubic`, expected `bbr` or `copa`", "missing field `rate`"]
        {
            assert_eq!(plain(unlike), unlike);
        }
    }

    #[test]
    fn types_are_not_named() {
        let said = plain("invalid type: string \"fq\", expected struct PolicyTable");
        let expected =
            "invalid type: string \"fq\", expected a table, such as `{ key = \"value\" }`";
        assert_eq!(said, expected);
    }
}
