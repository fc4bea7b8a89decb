//! How a figure is judged, and how many of a claim's figures pass.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::band::Band;

/// Marks a verdict whose tolerance or bar was written after the run that it judges.
pub const AFTER: &str = "†";
/// A ratio this close to 1 counts as no effect.
const NO_EFFECT: f64 = 0.05;

/// The paragraph of every page on both kinds of judgement.
pub fn how_judged() -> String {
    format!(
        "A figure is *reproduced* if it is within the stated tolerance of the source's own figure. \
         `at most source + 10 %` includes every smaller figure, where the source claims that \
         smaller is better. *Our own bar* is a limit that this project set, where the source has \
         no figure or beside it. A row with neither is shown and not judged. {AFTER} marks a \
         verdict whose tolerance or bar was written after the run that it judges."
    )
}

/// The sentence of every page on the cells of its summary.
pub(crate) const CELLS: &str = "Each cell has the figures that are reproduced, the bars that are \
    met, and the number of rows that are not judged.";

/// What became of a figure that was held against a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The figure is within its band.
    Within,
    /// The figure is outside its band.
    Outside,
    /// The figure has no band and is shown only.
    Shown,
    /// There was nothing to measure.
    Missing,
}

impl Verdict {
    /// The verdict on `value` beside the source's figure.
    pub fn of(band: Band, source: Option<f64>, value: Option<f64>) -> Self {
        match value.map(|value| band.holds(source, value)) {
            None => Self::Missing,
            Some(None) => Self::Shown,
            Some(Some(true)) => Self::Within,
            Some(Some(false)) => Self::Outside,
        }
    }
}

/// What a figure is judged by: the source's own figure, a bar of our own, both, or nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criteria {
    /// The source's figure; `None` where the source says it in words only.
    pub source: Option<f64>,
    /// The tolerance around the source's figure; within it, the figure is reproduced.
    pub reproduced: Option<Band>,
    /// The limit that this project set.
    pub bar: Option<Band>,
}

impl Criteria {
    /// Criteria as a claim's file writes them: a band relative to the source's figure judges the
    /// reproduction, any other band is our own bar, and `bar` goes with the former.
    ///
    /// # Errors
    /// If a tolerance has no source, if `bar` is not a limit of our own, or if the figure is a
    /// ratio and a ratio of 1, which is no effect, would count as reproducing a source's figure
    /// that has one.
    pub fn new(
        source: Option<f64>,
        band: Band,
        bar: Option<Band>,
        is_ratio: bool,
    ) -> Result<Self, String> {
        if !band.needs_source() {
            if bar.is_some() {
                return Err("is a bar of our own already: remove `bar`".to_owned());
            }
            let bar = Some(band).filter(|band| *band != Band::Any);
            return Ok(Self { source, reproduced: None, bar });
        }
        if bar.is_some_and(|bar| bar.needs_source() || bar == Band::Any) {
            return Err("`bar` is a limit such as `at most 2`".to_owned());
        }
        let Some(figure) = source else {
            return Err("is relative to the source's figure: give `source`".to_owned());
        };
        let has_effect = is_ratio && (figure - 1.0).abs() > NO_EFFECT;
        if has_effect && band.holds(source, 1.0) == Some(true) {
            return Err("a ratio of 1, which is no effect, would count as reproduced: use a \
                        smaller tolerance, and write what is wanted besides as `bar`"
                .to_owned());
        }
        Ok(Self { source, reproduced: Some(band), bar })
    }

    /// The judgement on `value`. `known` are the bands that were stored with the run.
    pub fn judge(&self, value: Option<f64>, known: &[&str]) -> Judgement {
        let by = |band: Option<Band>| {
            band.map(|band| Judged {
                verdict: Verdict::of(band, self.source, value),
                after: !known.contains(&band.to_string().as_str()),
            })
        };
        Judgement { measured: value.is_some(), reproduced: by(self.reproduced), bar: by(self.bar) }
    }
}

/// One verdict, and whether its band was written after the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Judged {
    verdict: Verdict,
    after: bool,
}

impl Judged {
    fn is_within(self) -> bool {
        self.verdict == Verdict::Within
    }

    fn mark(self) -> &'static str {
        if self.after { AFTER } else { "" }
    }
}

/// The verdicts on one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    measured: bool,
    reproduced: Option<Judged>,
    bar: Option<Judged>,
}

impl Judgement {
    /// The figure `value`, in words, with its verdicts; what failed is bold.
    pub fn told(&self, value: &str) -> String {
        if !self.measured {
            return "**nothing to measure**".to_owned();
        }
        let reproduced = self.reproduced.map(|judged| {
            let not = if judged.is_within() { "" } else { "not " };
            (judged.is_within(), format!("{not}reproduced{}", judged.mark()))
        });
        let bar = self.bar.map(|judged| {
            let met = if judged.is_within() { "met" } else { "missed" };
            (judged.is_within(), format!("bar {met}{}", judged.mark()))
        });
        let verdicts: Vec<_> = reproduced.into_iter().chain(bar).collect();
        let (passed, failed): (Vec<_>, Vec<_>) = verdicts.into_iter().partition(|(ok, _)| *ok);
        let words = |all: Vec<(bool, String)>| {
            all.into_iter().map(|(_, words)| format!(", {words}")).collect::<String>()
        };
        match failed.is_empty() {
            true => format!("{value}{}", words(passed)),
            false => format!("**{value}{}**{}", words(failed), words(passed)),
        }
    }

    /// Whether a verdict says that the figure is not within its band.
    pub fn is_outside(&self) -> bool {
        let outside = |judged: Option<Judged>| judged.is_some_and(|j| !j.is_within());
        outside(self.reproduced) || outside(self.bar)
    }
}

/// How many figures are judged in which way, and how many pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Figures that are held against the source's own.
    pub against_source: usize,
    /// Those of them that are within the tolerance.
    pub reproduced: usize,
    /// Figures that are held against a bar of our own.
    pub bars: usize,
    /// Those of them that meet it.
    pub met: usize,
    /// Figures that are judged by neither.
    pub shown: usize,
    /// All figures of the claims.
    pub rows: usize,
}

impl Tally {
    /// The tally of `judgements`.
    pub fn of(judgements: impl IntoIterator<Item = Judgement>) -> Self {
        judgements.into_iter().fold(Self::default(), |mut tally, judgement| {
            let Judgement { reproduced, bar, .. } = judgement;
            tally.rows += 1;
            tally.shown += usize::from(reproduced.is_none() && bar.is_none());
            tally.against_source += usize::from(reproduced.is_some());
            tally.reproduced += usize::from(reproduced.is_some_and(Judged::is_within));
            tally.bars += usize::from(bar.is_some());
            tally.met += usize::from(bar.is_some_and(Judged::is_within));
            tally
        })
    }

    /// A cell of a page's summary: reproduced, bars met, and what is shown only.
    pub fn cell(&self) -> String {
        let part = |passed: usize, of: usize| match of {
            0 => "–".to_owned(),
            _ if passed == of => format!("{passed} of {of}"),
            _ => format!("**{passed} of {of}**"),
        };
        let reproduced = part(self.reproduced, self.against_source);
        format!("{reproduced} · {} · {}", part(self.met, self.bars), self.shown)
    }

    /// A sentence for the page, or for the command line.
    pub fn sentence(&self) -> String {
        let Self { against_source, reproduced, bars, met, shown, rows } = self;
        format!(
            "{reproduced} of {against_source} figures reproduce the source's, {met} of {bars} meet \
             our own bar, and {shown} of {rows} are not judged"
        )
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            against_source: self.against_source + other.against_source,
            reproduced: self.reproduced + other.reproduced,
            bars: self.bars + other.bars,
            met: self.met + other.met,
            shown: self.shown + other.shown,
            rows: self.rows + other.rows,
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn band(text: &str) -> Band {
        text.parse().unwrap()
    }

    fn criteria(source: Option<f64>, tolerance: &str, bar: &str) -> Criteria {
        let bar = (!bar.is_empty()).then(|| band(bar));
        Criteria::new(source, band(tolerance), bar, false).unwrap()
    }

    #[test]
    fn a_figure_is_judged_against_the_source_and_by_a_bar_separately() {
        let both = criteria(Some(45.0), "at least source - 25 %", "at least 5");
        let told = |value| both.judge(Some(value), &["at least 5"]).told("x");
        assert_eq!(told(40.0), "x, reproduced†, bar met");
        assert_eq!(told(7.0), "**x, not reproduced†**, bar met");
        assert_eq!(told(4.0), "**x, not reproduced†, bar missed**");
        assert_eq!(both.judge(None, &[]).told("x"), "**nothing to measure**");
    }

    #[test]
    fn a_band_that_is_not_relative_to_the_source_is_our_own_bar() {
        let own = criteria(Some(1.26), "at most 1.32", "");
        assert_eq!((own.reproduced, own.bar), (None, Some(band("at most 1.32"))));
        assert_eq!(own.judge(Some(1.3), &["at most 1.32"]).told("x"), "x, bar met");
        let shown = criteria(None, "any", "");
        assert_eq!((shown.reproduced, shown.bar), (None, None));
    }

    #[test]
    fn a_ratio_of_one_never_reproduces_an_effect() {
        let refused =
            |source, text: &str| Criteria::new(Some(source), band(text), None, true).is_err();
        assert!(refused(1.08, "10 %") && refused(0.93, "at most source + 10 %"));
        assert!(refused(1.28, "30 %") && !refused(1.28, "10 %"));
        assert!(!refused(1.0, "at least source - 2 %") && !refused(1.08, "at least source - 3 %"));
    }

    #[test]
    fn criteria_that_contradict_themselves_are_refused() {
        let refused = |source, text: &str, bar: &str| {
            Criteria::new(source, band(text), Some(band(bar)), false).is_err()
        };
        assert!(refused(Some(2.0), "at most 2", "at most 3"));
        assert!(refused(Some(2.0), "10 %", "any") && refused(Some(2.0), "10 %", "5 %"));
        assert!(refused(None, "10 %", "at most 3"));
        assert!(!refused(Some(2.0), "10 %", "at most 3"));
    }

    #[test]
    fn a_tally_counts_each_kind_and_what_is_not_judged() {
        let both = criteria(Some(10.0), "10 %", "at most 20");
        let shown = criteria(Some(10.0), "any", "");
        let judgements = [
            both.judge(Some(10.5), &[]),
            both.judge(Some(15.0), &[]),
            both.judge(None, &[]),
            shown.judge(Some(1.0), &[]),
        ];
        let tally = Tally::of(judgements);
        assert_eq!((tally.reproduced, tally.against_source), (1, 3));
        assert_eq!((tally.met, tally.bars, tally.shown, tally.rows), (2, 3, 1, 4));
        assert_eq!(tally.cell(), "**1 of 3** · **2 of 3** · 1");
        assert_eq!((tally + tally).rows, 8);
        assert_eq!(Tally::of([shown.judge(Some(1.0), &[])]).cell(), "– · – · 1");
    }
}
