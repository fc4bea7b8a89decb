//! The difference up to which two results count as equal.

use std::fmt;
use std::str::FromStr;

use super::Measure;

/// The band of a measure. A difference is within it if it is within any of its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Band {
    /// The relative limit, as a share of A from 0 to 1.
    pub relative: Option<f64>,
    /// The absolute limit in the measure's unit.
    pub absolute: Option<f64>,
    /// Whether any difference is allowed, so that the measure is shown but not judged.
    pub any: bool,
}

impl Band {
    const fn new(percent: f64, absolute: f64) -> Self {
        Self { relative: Some(percent / 100.0), absolute: Some(absolute), any: false }
    }

    /// Whether `b` is within the band around `a`.
    pub fn holds(&self, a: f64, b: f64) -> bool {
        // Figures are rounded to three or four decimals, so a millionth more is no difference.
        let within = |limit: f64| (b - a).abs() <= limit * (1.0 + 1e-6);
        self.any
            || self.absolute.is_some_and(within)
            || self.relative.is_some_and(|share| within(share * a.abs()))
    }
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.any {
            return f.write_str("any");
        }
        let relative =
            self.relative.map(|r| format!("{} %", crate::analysis::rounded(r * 100.0, 4)));
        let limits = relative.into_iter().chain(self.absolute.map(|a| a.to_string()));
        f.write_str(&limits.collect::<Vec<_>>().join(" or "))
    }
}

/// The bands of all measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Bands([Band; Measure::ALL.len()]);

impl Default for Bands {
    /// Returns the bands for validating one engine against another. Throughput may differ by 5 %,
    /// mean delays and median round trips by 15 % or 2 ms, and their tails, which have few events,
    /// by 25 % or 5 ms. Medians of slowdowns may differ by 10 % or 0.05, their tails by 25 % or
    /// 0.5, and counts by 50 % or 20.
    fn default() -> Self {
        Self(Measure::ALL.map(|measure| match measure {
            Measure::Throughput => Band { absolute: None, ..Band::new(5.0, 0.0) },
            Measure::DelayMean | Measure::SendboxMean | Measure::RttP50 => Band::new(15.0, 2.0),
            Measure::DelayP99 | Measure::SendboxP99 | Measure::RttP99 => Band::new(25.0, 5.0),
            Measure::SlowdownP50 => Band::new(10.0, 0.05),
            Measure::SlowdownP99 => Band::new(25.0, 0.5),
            Measure::Drops | Measure::Marks => Band::new(50.0, 20.0),
        }))
    }
}

impl Bands {
    /// Returns the band of `measure`.
    pub fn of(&self, measure: Measure) -> Band {
        self.0[measure as usize]
    }
}

/// Why bands are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BandError {
    /// A part does not have the form `measure=limit`.
    #[error("`{0}`: write a measure and its band, such as throughput=5% or delay=15%|2ms")]
    Form(String),
    /// A measure does not exist.
    #[error(
        "no measure is called `{0}`: there are {list}, and delay, rtt and slowdown for all of theirs",
        list = Measure::ALL.map(Measure::name).join(", ")
    )]
    Measure(String),
    /// A limit is malformed.
    #[error(
        "`{0}` is no limit: write a share (15%), a difference (2ms, 0.5, 3Mbit/s), several with |, or any"
    )]
    Limit(String),
}

impl FromStr for Bands {
    type Err = BandError;

    /// Parses bands such as `throughput=5%,delay=15%
    ///
    /// 2ms`; measures that are not named keep their default.
    fn from_str(text: &str) -> Result<Self, BandError> {
        let mut bands = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, limits) =
                part.split_once('=').ok_or_else(|| BandError::Form(part.to_owned()))?;
            let measures = measures(name.trim());
            if measures.is_empty() {
                return Err(BandError::Measure(name.trim().to_owned()));
            }
            for measure in measures {
                bands.0[measure as usize] = band(limits, measure)?;
            }
        }
        Ok(bands)
    }
}

/// Returns the measures that `name` stands for: one, or all of a family.
fn measures(name: &str) -> Vec<Measure> {
    let means = |m: &Measure| match name {
        "delay" => matches!(
            m,
            Measure::DelayMean | Measure::DelayP99 | Measure::SendboxMean | Measure::SendboxP99
        ),
        "rtt" => matches!(m, Measure::RttP50 | Measure::RttP99),
        "slowdown" => matches!(m, Measure::SlowdownP50 | Measure::SlowdownP99),
        name => m.name() == name,
    };
    Measure::ALL.into_iter().filter(means).collect()
}

fn band(limits: &str, measure: Measure) -> Result<Band, BandError> {
    let mut band = Band::default();
    for limit in limits.split('|').map(str::trim) {
        let bad = || BandError::Limit(limit.to_owned());
        let number = |text: &str| {
            let n = text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
            n.ok_or_else(bad)
        };
        let unit = measure.unit();
        match (limit, limit.strip_suffix('%')) {
            ("any", _) => band.any = true,
            (_, Some(percent)) => band.relative = Some(number(percent)? / 100.0),
            _ => band.absolute = Some(number(limit.strip_suffix(unit).unwrap_or(limit))?),
        }
    }
    Ok(band)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_read_and_the_rest_keep_their_defaults() {
        let bands: Bands =
            "throughput = 3%, delay=10%|1ms,slowdown_p99=any,drops=7".parse().unwrap();
        let of = |m| bands.of(m).to_string();
        assert_eq!(of(Measure::Throughput), "3 %");
        assert_eq!(of(Measure::DelayP99), "10 % or 1");
        assert_eq!(of(Measure::SendboxMean), "10 % or 1");
        assert_eq!(of(Measure::SlowdownP99), "any");
        assert_eq!(of(Measure::Drops), "7");
        assert_eq!(bands.of(Measure::Marks), Bands::default().of(Measure::Marks));
        assert_eq!("".parse::<Bands>().unwrap(), Bands::default());
    }

    #[test]
    fn an_invalid_band_is_named() {
        let error = |text: &str| text.parse::<Bands>().unwrap_err().to_string();
        assert!(error("throughput").starts_with("`throughput`: write a measure"));
        assert!(
            error("speed=5%").starts_with("no measure is called `speed`: there are throughput,")
        );
        for limit in ["x%", "-1", "2s", "", "nan", "inf%"] {
            assert!(error(&format!("delay={limit}")).contains("is no limit"), "{limit}");
        }
    }

    #[test]
    fn any_limit_that_holds_will_do() {
        let band = Band::new(10.0, 2.0);
        assert!(band.holds(100.0, 110.0) && band.holds(1.0, 3.0) && band.holds(0.0, -2.0));
        assert!(!band.holds(10.0, 12.1) && !band.holds(100.0, 89.0));
        let relative = Band { relative: Some(0.05), ..Band::default() };
        assert!(relative.holds(0.0, 0.0) && !relative.holds(0.0, 0.1));
        assert!(
            !Band::default().holds(1.0, 1.1)
                && Band { any: true, ..Band::default() }.holds(0.0, 9.0)
        );
    }
}
