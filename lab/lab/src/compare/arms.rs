//! Comparison of arms with other arms of the same experiment.

use std::str::FromStr;

use crate::analysis::Summary;

/// A selection of arms by a word in their names: arms of A with one word are compared with arms of
/// B that have another word in its place, such as `fifo_forebay` and `fifo_kernel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arms {
    a: String,
    b: String,
}

/// Why a selection of arms is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}`: write a word of A's arms and one of B's, such as forebay=kernel")]
pub struct ArmsError(String);

impl FromStr for Arms {
    type Err = ArmsError;

    fn from_str(text: &str) -> Result<Self, ArmsError> {
        let is_word = |s: &&str| !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric());
        let words = text.split_once('=').map(|(a, b)| (a.trim(), b.trim()));
        let words = words.filter(|(a, b)| is_word(a) && is_word(b));
        let (a, b) = words.ok_or_else(|| ArmsError(text.to_owned()))?;
        Ok(Self { a: a.to_owned(), b: b.to_owned() })
    }
}

impl Arms {
    /// Selects the runs on both sides. They get the rest of their arms' names, which is the same
    /// for arms that belong together.
    pub fn select(&self, a: Vec<Summary>, b: Vec<Summary>) -> (Vec<Summary>, Vec<Summary>) {
        (with(a, &self.a), with(b, &self.b))
    }
}

fn with(runs: Vec<Summary>, word: &str) -> Vec<Summary> {
    let renamed = |run: Summary| without(&run.arm, word).map(|arm| Summary { arm, ..run });
    runs.into_iter().filter_map(renamed).collect()
}

/// Removes `word` and one adjacent separator from `name`; `None` if `name` does not contain it.
fn without(name: &str, word: &str) -> Option<String> {
    let joints = ['_', '-'];
    let at = name.match_indices(word).map(|(at, _)| at).find(|&at| {
        name[..at].chars().next_back().is_none_or(|c| joints.contains(&c))
            && name[at + word.len()..].chars().next().is_none_or(|c| joints.contains(&c))
    })?;
    let (before, after) = (&name[..at], &name[at + word.len()..]);
    if before.is_empty() && after.is_empty() {
        return Some(String::new());
    }
    Some(if after.is_empty() {
        before[..at - 1].to_owned()
    } else {
        before.to_owned() + &after[1..]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_whole_word() {
        let without = |name, word| without(name, word);
        assert_eq!(without("fq_codel_kernel", "kernel").as_deref(), Some("fq_codel"));
        assert_eq!(without("kernel-fifo", "kernel").as_deref(), Some("fifo"));
        assert_eq!(without("a_kernel_b", "kernel").as_deref(), Some("a_b"));
        assert_eq!(without("a_codel_kernel", "codel").as_deref(), Some("a_kernel"));
        assert_eq!(without("fqcodel_codel", "codel").as_deref(), Some("fqcodel"));
        assert_eq!(without("kernel", "kernel").as_deref(), Some(""));
        assert_eq!(without("kernels", "kernel"), None);
        assert_eq!(without("fifo_forebay", "kernel"), None);
    }

    #[test]
    fn words_are_read() {
        let arms: Arms = "forebay = kernel".parse().unwrap();
        assert_eq!((arms.a.as_str(), arms.b.as_str()), ("forebay", "kernel"));
        for bad in ["forebay", "=kernel", "forebay=", "a_b=c", ""] {
            let error = bad.parse::<Arms>().unwrap_err().to_string();
            assert!(error.contains("forebay=kernel"), "{error}");
        }
    }
}
