use forebay_config::{ConfigError, RateValue, Source, Spanned};
use forebay_units::Rate;

use super::BundleConfig;

/// The largest weight.
const MAX_WEIGHT: u32 = 100;

/// The part of a bundle in the common limit of all bundles, or of a class in the rate of its
/// bundle, and its own limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The weight that divides what is left beyond guaranteed rates.
    pub weight: u32,
    /// The guaranteed rate.
    pub rate: Option<Rate>,
    /// The rate that is never exceeded, also without control.
    pub ceil: Option<Rate>,
}

impl Default for Share {
    fn default() -> Self {
        Self { weight: 1, rate: None, ceil: None }
    }
}

impl From<Share> for forebay_queue::Share {
    fn from(share: Share) -> Self {
        Self { weight: share.weight, rate: share.rate }
    }
}

impl From<Share> for forebay_tc::Share {
    fn from(Share { weight, rate, ceil }: Share) -> Self {
        Self { weight, rate, ceil }
    }
}

impl From<Share> for forebay_queue::Class {
    fn from(share: Share) -> Self {
        Self { share: share.into(), ceil: share.ceil }
    }
}

/// The keys of a bundle's or class's share as they are written.
#[derive(Debug)]
pub(super) struct ShareKeys {
    pub(super) weight: Option<Spanned<u32>>,
    pub(super) rate: Option<Spanned<RateValue>>,
    pub(super) ceil: Option<Spanned<RateValue>>,
}

impl ShareKeys {
    /// Returns the key of a class that only weighted classes have, with its place; `None` if there
    /// is none.
    pub(super) fn given(&self) -> Option<(&'static str, std::ops::Range<usize>)> {
        let weight = self.weight.as_ref().map(|weight| ("weight", weight.span()));
        let rate = || self.rate.as_ref().map(|rate| ("rate", rate.span()));
        weight.or_else(rate).or_else(|| self.ceil.as_ref().map(|ceil| ("ceil", ceil.span())))
    }

    /// Checks the keys of the bundle in the table `of`, which has `limit` in common with others.
    pub(super) fn check(
        self,
        source: &Source,
        of: &str,
        limit: Option<Rate>,
    ) -> Result<Share, ConfigError> {
        if limit.is_none()
            && let Some((name @ ("weight" | "rate"), span)) = self.given()
        {
            let table = if of == "peer" { "site" } else { "sendbox" };
            let message = format!("divides a common limit: set max_rate in [{table}]");
            return Err(source.error_at(span, format!("{of}.{name}"), message));
        }
        self.check_values(source, of, "bundle")
    }

    /// Checks the values of the keys in the table `of`, which are those of a bundle or class,
    /// `what`.
    pub(super) fn check_values(
        self,
        source: &Source,
        of: &str,
        what: &str,
    ) -> Result<Share, ConfigError> {
        let Self { weight, rate, ceil } = self;
        let key = |key: &str| format!("{of}.{key}");
        let value = |rate: &Option<Spanned<RateValue>>| rate.as_ref().map(|r| r.get_ref().0);
        if let Some(weight) = &weight
            && !(1..=MAX_WEIGHT).contains(weight.get_ref())
        {
            let message = format!("{} is no weight: 1 to {MAX_WEIGHT}", weight.get_ref());
            return Err(source.error_at(weight.span(), key("weight"), message));
        }
        for (name, given) in [("rate", &rate), ("ceil", &ceil)] {
            if let Some(zero) = given.as_ref().filter(|r| r.get_ref().0 == Rate::ZERO) {
                let message = match name {
                    "rate" => "a rate of zero guarantees nothing: remove it".to_owned(),
                    _ => format!("a rate of zero stops the {what}"),
                };
                return Err(source.error_at(zero.span(), key(name), message));
            }
        }
        if let (Some(given), Some(most)) = (&rate, value(&ceil))
            && given.get_ref().0 > most
        {
            let message = format!("is above ceil ({most})");
            return Err(source.error_at(given.span(), key("rate"), message));
        }
        Ok(Share {
            weight: weight.map_or(1, Spanned::into_inner),
            rate: value(&rate),
            ceil: value(&ceil),
        })
    }
}

/// Returns the rate of each of `shares` while all send all the time below the common `limit`.
pub fn effective(limit: Rate, shares: &[Share]) -> Vec<Rate> {
    let shares: Vec<_> = shares.iter().map(|share| (*share).into()).collect();
    forebay_tc::parts(limit, &shares)
}

/// Checks the common limit `max_rate` of the table `of`, of which `bundles` have guarantees.
pub(super) fn check_limit(
    source: &Source,
    of: &str,
    max_rate: Option<&Spanned<RateValue>>,
    bundles: &[BundleConfig],
) -> Result<(), ConfigError> {
    let Some(given) = max_rate else { return Ok(()) };
    let limit = given.get_ref().0;
    let guaranteed = bundles.iter().filter_map(|b| b.share.rate).map(Rate::as_bps);
    let sum = Rate::from_bps(guaranteed.fold(0, u64::saturating_add));
    let message = match limit {
        Rate::ZERO => "a rate of zero stops all bundles".to_owned(),
        _ if sum > limit => format!("is below the sum of all guaranteed rates ({sum})"),
        _ => return Ok(()),
    };
    Err(source.error_at(given.span(), format!("{of}.max_rate"), message))
}
