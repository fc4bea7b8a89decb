//! Where a figure must lie: within a tolerance of the source's figure, or within limits of our own.

use std::fmt;
use std::str::FromStr;

use forebay_lab::analysis::rounded;

/// Where a figure must lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// A tolerance on both sides of the source's figure; meeting either limit is enough.
    Around {
        /// The largest difference as a share of the source's figure, 0 to 1.
        share: Option<f64>,
        /// The largest difference in the measure's unit.
        difference: Option<f64>,
    },
    /// The source's figure or less, with a tolerance above it as a share of it.
    AtMostSource(f64),
    /// The source's figure or more, with a tolerance below it as a share of it.
    AtLeastSource(f64),
    /// An upper limit in the measure's unit.
    AtMost(f64),
    /// A lower limit in the measure's unit.
    AtLeast(f64),
    /// A lower and an upper limit in the measure's unit.
    Between(f64, f64),
    /// No limit: the figure is shown and not judged.
    Any,
}

impl Band {
    /// Whether `ours` lies in the band, where the source has `source`; `None` if nothing is judged.
    pub fn holds(self, source: Option<f64>, ours: f64) -> Option<bool> {
        Some(match (self, source) {
            (Self::Around { share, difference }, Some(source)) => {
                let off = (ours - source).abs();
                share.is_some_and(|s| off <= s * source.abs())
                    || difference.is_some_and(|d| off <= d)
            }
            (Self::AtMostSource(share), Some(source)) => ours <= source + share * source.abs(),
            (Self::AtLeastSource(share), Some(source)) => ours >= source - share * source.abs(),
            (Self::AtMost(most), _) => ours <= most,
            (Self::AtLeast(least), _) => ours >= least,
            (Self::Between(least, most), _) => (least..=most).contains(&ours),
            // Loading a claim refuses a tolerance without a source.
            (Self::Around { .. } | Self::AtMostSource(_) | Self::AtLeastSource(_), None)
            | (Self::Any, _) => return None,
        })
    }

    /// Whether the band is relative to the source's figure, which must then be given.
    pub fn needs_source(self) -> bool {
        matches!(self, Self::Around { .. } | Self::AtMostSource(_) | Self::AtLeastSource(_))
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{} %", rounded(share * 100.0, 4));
        match self {
            Self::Around { share, difference } => {
                let share = share.map(percent);
                let limits = share.into_iter().chain(difference.map(|d| d.to_string()));
                write!(f, "{}", limits.collect::<Vec<_>>().join(" or "))
            }
            Self::AtMostSource(share) => write!(f, "at most source + {}", percent(*share)),
            Self::AtLeastSource(share) => write!(f, "at least source - {}", percent(*share)),
            Self::AtMost(most) => write!(f, "at most {most}"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::Any => f.write_str("any"),
        }
    }
}

/// A text that is not a band.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a band: write `10 %`, `0.1`, `10 % or 0.1`, `at most source + 10 %`, \
     `at least source - 10 %`, `at most 2`, `at least 2`, `1 to 2` or `any`"
)]
pub struct NoBand(String);

impl FromStr for Band {
    type Err = NoBand;

    fn from_str(text: &str) -> Result<Self, NoBand> {
        let number = |text: &str| {
            let n = text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
            n.ok_or_else(|| NoBand(text.to_owned()))
        };
        let share = |text: &str| {
            let percent = text.trim().strip_suffix('%').ok_or_else(|| NoBand(text.to_owned()))?;
            let share = number(percent)? / 100.0;
            if share < 0.0 { Err(NoBand(text.to_owned())) } else { Ok(share) }
        };
        let text = text.trim();
        if text == "any" {
            return Ok(Self::Any);
        }
        if let Some(above) = text.strip_prefix("at most source + ") {
            return share(above).map(Self::AtMostSource);
        }
        if let Some(below) = text.strip_prefix("at least source - ") {
            return share(below).map(Self::AtLeastSource);
        }
        if let Some(most) = text.strip_prefix("at most ") {
            return number(most).map(Self::AtMost);
        }
        if let Some(least) = text.strip_prefix("at least ") {
            return number(least).map(Self::AtLeast);
        }
        if let Some((least, most)) = text.split_once(" to ") {
            let (least, most) = (number(least)?, number(most)?);
            return if least <= most {
                Ok(Self::Between(least, most))
            } else {
                Err(NoBand(text.to_owned()))
            };
        }
        let (mut share, mut difference) = (None, None);
        for limit in text.split(" or ") {
            let (place, value) = match limit.trim().strip_suffix('%') {
                Some(percent) => (&mut share, number(percent)? / 100.0),
                None => (&mut difference, number(limit)?),
            };
            if value < 0.0 || place.replace(value).is_some() {
                return Err(NoBand(text.to_owned()));
            }
        }
        Ok(Self::Around { share, difference })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(text: &str) -> Band {
        text.parse().unwrap()
    }

    #[test]
    fn a_band_is_written_as_it_is_read() {
        for text in [
            "10 %",
            "0.1",
            "12.5 % or 0.1",
            "at most source + 10 %",
            "at least source - 0.5 %",
            "at most 1.3",
            "at least 0.98",
            "1 to 1.4",
            "any",
        ] {
            assert_eq!(band(text).to_string(), text);
        }
        assert_eq!(band(" 10% "), band("10 %"));
    }

    #[test]
    fn the_error_for_a_wrong_band_shows_how_to_write_one() {
        for text in [
            "",
            "ten",
            "at most",
            "2 to 1",
            "-1 %",
            "1 or 2",
            "nan",
            "inf",
            "at most source + 2",
            "at least source - -1 %",
        ] {
            assert!(text.parse::<Band>().is_err(), "{text}");
        }
        assert!("x".parse::<Band>().unwrap_err().to_string().contains("`10 % or 0.1`"));
    }

    #[test]
    fn verdicts_agree_with_a_calculation_by_hand() {
        let around = band("10 % or 0.2");
        assert_eq!(around.holds(Some(1.0), 1.2), Some(true));
        assert_eq!(around.holds(Some(1.0), 1.21), Some(false));
        assert_eq!(around.holds(Some(80.0), 72.0), Some(true));
        assert_eq!(around.holds(None, 72.0), None);
        assert_eq!(band("at most 2").holds(None, 2.0), Some(true));
        assert_eq!(band("at most 2").holds(Some(1.0), 2.1), Some(false));
        assert_eq!(band("at least 2").holds(None, 1.9), Some(false));
        assert_eq!(band("1 to 2").holds(Some(9.0), 1.5), Some(true));
        assert_eq!(band("any").holds(Some(9.0), 1.5), None);
    }

    #[test]
    fn a_one_sided_tolerance_lets_a_figure_be_better_than_the_source() {
        let fast = band("at least source - 25 %");
        assert_eq!(fast.holds(Some(80.0), 60.0), Some(true));
        assert_eq!(fast.holds(Some(80.0), 500.0), Some(true));
        assert_eq!(fast.holds(Some(80.0), 59.0), Some(false));
        let short = band("at most source + 10 %");
        assert_eq!(short.holds(Some(2.0), 2.2), Some(true));
        assert_eq!(short.holds(Some(2.0), 0.0), Some(true));
        assert_eq!(short.holds(Some(2.0), 2.21), Some(false));
        assert_eq!(short.holds(None, 2.0), None);
    }
}
