//! The sizes of the requests that count for a figure.

use forebay_lab::analysis::Size;
use serde::Deserialize;

/// A class of sizes, or a range of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub enum Sizes {
    /// The requests of a class, or all.
    Class(Size),
    /// The requests of a range.
    Range {
        /// Requests of this many bytes are too small.
        over: u64,
        /// The bytes of the largest requests.
        up_to: u64,
    },
}

impl Default for Sizes {
    fn default() -> Self {
        Self::Class(Size::All)
    }
}

impl Sizes {
    /// Returns whether a request for `bytes` bytes counts.
    pub fn holds(self, bytes: u64) -> bool {
        match self {
            Self::Class(size) => size.holds(bytes),
            Self::Range { over, up_to } => over < bytes && bytes <= up_to,
        }
    }
}

impl TryFrom<String> for Sizes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let class = match text.as_str() {
            "all" => Some(Size::All),
            "small" => Some(Size::Small),
            "medium" => Some(Size::Medium),
            "large" => Some(Size::Large),
            _ => None,
        };
        let range = || {
            let (over, up_to) = text.split_once(" to ")?;
            let (over, up_to) = (bytes(over)?, bytes(up_to)?);
            (over < up_to).then_some(Self::Range { over, up_to })
        };
        class.map(Self::Class).or_else(range).ok_or_else(|| {
            format!(
                "size \"{text}\": write \"small\", \"medium\", \"large\" or a range such as \
                 \"3 kB to 9 kB\""
            )
        })
    }
}

/// Returns the bytes of a size such as `9 kB`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let unit = match unit {
        "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_upper_end_and_not_its_lower_one() {
        let sizes = Sizes::try_from("3 kB to 9 kB".to_owned()).unwrap();
        let held = [3_000, 3_001, 9_000, 9_001].map(|bytes| sizes.holds(bytes));
        assert_eq!(held, [false, true, true, false]);
        let small = Sizes::try_from("small".to_owned()).unwrap();
        assert!(small.holds(10_000) && !small.holds(10_001));
    }

    #[test]
    fn what_is_no_range_is_refused_with_an_example() {
        for text in ["tiny", "9 kB to 3 kB", "3 kB to 9", "3 to 9 kB", "-1 B to 3 B"] {
            let error = Sizes::try_from(text.to_owned()).unwrap_err();
            assert!(error.contains(text) && error.ends_with("\"3 kB to 9 kB\""), "{error}");
        }
    }
}
