//! The shares of weighted classes at a sendbox.

use forebay_config::{ConfigError, RateValue, Spanned};
use forebay_queue::Share;
use forebay_units::Rate;
use serde::{Deserialize, Serialize};

use super::rules::Check;
use super::{Bundle, QueueKind, Scenario};

/// The largest number of classes, as of traffic.
const MAX: usize = 8;
/// The largest weight, as of a box's configuration.
const MAX_WEIGHT: u32 = 100;

/// The share of a class in the rate of its bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassShare {
    /// The weight that divides what is left beyond guaranteed rates.
    pub weight: u32,
    /// The guaranteed rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The highest rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceil: Option<Rate>,
}

impl From<ClassShare> for forebay_queue::Class {
    fn from(class: ClassShare) -> Self {
        let ClassShare { weight, rate, ceil } = class;
        Self { share: Share { weight, rate }, ceil }
    }
}

/// The shares of a bundle's classes, eight at most; none without the policy `weighted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ClassShare>", into = "Vec<ClassShare>")]
pub struct ClassShares([Option<ClassShare>; MAX]);

impl ClassShares {
    /// Returns the shares in the order of the classes.
    pub fn iter(&self) -> impl Iterator<Item = ClassShare> {
        self.0.into_iter().flatten()
    }

    /// Whether there are no classes.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl TryFrom<Vec<ClassShare>> for ClassShares {
    type Error = String;

    fn try_from(all: Vec<ClassShare>) -> Result<Self, String> {
        if all.len() > MAX {
            return Err(format!("{} classes: at most {MAX}", all.len()));
        }
        Ok(Self(std::array::from_fn(|index| all.get(index).copied())))
    }
}

impl From<ClassShares> for Vec<ClassShare> {
    fn from(shares: ClassShares) -> Self {
        shares.iter().collect()
    }
}

/// `{ weight = 2, rate = "4 Mbit/s", ceil = "8 Mbit/s" }`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassTable {
    #[serde(default = "one")]
    weight: u32,
    rate: Option<RateValue>,
    ceil: Option<RateValue>,
}

const fn one() -> u32 {
    1
}

/// Checks the classes of a sendbox of `kind` in the table `key`, whose policy is at `policy`.
pub(super) fn shares(
    check: &Check<'_>,
    kind: QueueKind,
    policy: std::ops::Range<usize>,
    tables: Option<&Spanned<Vec<Spanned<ClassTable>>>>,
    key: &str,
) -> Result<ClassShares, ConfigError> {
    let of = format!("{key}.classes");
    let Some(tables) = tables else {
        if kind == QueueKind::Weighted {
            let what = "missing: the shares, such as `classes = [{ weight = 2 }, { weight = 1 }]`";
            return Err(check.0.error_at(policy, of, what));
        }
        return Ok(ClassShares::default());
    };
    if kind != QueueKind::Weighted {
        let what = "goes with policy = \"weighted\" only";
        return Err(check.0.error_at(tables.span(), of, what));
    }
    let mut all = Vec::new();
    for table in tables.get_ref() {
        let share = table.get_ref();
        let (weight, rate, ceil) =
            (share.weight, share.rate.as_ref().map(|r| r.0), share.ceil.as_ref().map(|r| r.0));
        let what = match (rate, ceil) {
            _ if !(1..=MAX_WEIGHT).contains(&weight) => {
                format!("{weight} is no weight: 1 to {MAX_WEIGHT}")
            }
            (Some(Rate::ZERO), _) | (_, Some(Rate::ZERO)) => {
                "a rate of zero: remove it, or give one above zero".to_owned()
            }
            (Some(rate), Some(ceil)) if rate > ceil => format!("rate is above ceil ({ceil})"),
            _ => {
                all.push(ClassShare { weight, rate, ceil });
                continue;
            }
        };
        return Err(check.0.error_at(table.span(), of, what));
    }
    ClassShares::try_from(all).map_err(|what| check.0.error_at(tables.span(), of, what))
}

/// Checks that a bundle has as many shares as the traffic of `scenario` has classes, and that its
/// highest rate has room for those that are guaranteed.
pub(super) fn fits(
    check: &Check<'_>,
    bundle: &Bundle,
    span: std::ops::Range<usize>,
    scenario: &Scenario,
    key: &str,
) -> Result<(), ConfigError> {
    let (shares, classes) = (bundle.classes.iter().count(), usize::from(scenario.classes()));
    let guaranteed = bundle.classes.iter().filter_map(|c| c.rate).map(Rate::as_bps).sum();
    let guaranteed = Rate::from_bps(guaranteed);
    if let Some(most) = bundle.max_rate.filter(|most| *most < guaranteed) {
        let what = format!("guarantees {guaranteed} in all, above the bundle's max_rate ({most})");
        return Err(check.0.error_at(span, format!("{key}.classes"), what));
    }
    if bundle.classes.is_empty() || shares == classes {
        return Ok(());
    }
    let what = format!("has {shares} classes, and the traffic has {classes}: give one for each");
    Err(check.0.error_at(span, format!("{key}.classes"), what))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::{Sendbox, parse};

    /// Reads a scenario with two classes of traffic; the sendbox is on line 13.
    fn bundle(sendbox: &str) -> Result<Bundle, String> {
        let text = format!(
            "name = \"x\"\nduration = \"1 s\"\n[path]\nrate = \"24 Mbit/s\"\nrtt = \"20 ms\"\n\
             queue = {{ kind = \"fifo\", limit = \"2 bdp\" }}\n\
             [[traffic]]\nname = \"a\"\nkind = \"bulk\"\nclass = 2\n\
             [[arm]]\nname = \"x\"\nsendbox = {{ {sendbox} }}\n"
        );
        let cells = parse(Path::new("x.toml"), &text).map_err(|e| e.to_string())?.cells;
        match cells[0].arms[0].sendbox {
            Sendbox::Bundle(bundle) => Ok(bundle),
            other => Err(format!("{other:?}")),
        }
    }

    const WEIGHTED: &str = "policy = \"weighted\", limit = \"9 packets\"";

    #[test]
    fn shares_are_read_and_written() {
        let classes = "[{ rate = \"2 Mbit/s\", ceil = \"3 Mbit/s\" }, { weight = 7 }]";
        let bundle = bundle(&format!("{WEIGHTED}, classes = {classes}")).unwrap();
        let mbps = |n| Some(Rate::from_mbps(n));
        let first = ClassShare { weight: 1, rate: mbps(2), ceil: mbps(3) };
        let second = ClassShare { weight: 7, rate: None, ceil: None };
        assert_eq!(bundle.classes.iter().collect::<Vec<_>>(), [first, second]);
        let json = serde_json::to_string(&bundle).unwrap();
        assert_eq!(serde_json::from_str::<Bundle>(&json).unwrap(), bundle);
        assert!(
            serde_json::from_str::<ClassShares>(&format!("[{}]", ["{\"weight\":1}"; 9].join(",")))
                .is_err()
        );
        let plain = self::bundle("policy = \"sfq\", limit = \"9 packets\"").unwrap();
        assert!(plain.classes.is_empty());
        assert!(!serde_json::to_string(&plain).unwrap().contains("classes"), "as before");
    }

    #[test]
    fn shares_that_cannot_work_are_refused() {
        let with = |classes: &str| format!("{WEIGHTED}, classes = {classes}");
        for (sendbox, expected) in [
            (WEIGHTED.to_owned(), "missing: the shares"),
            (
                "policy = \"strict\", limit = \"9 packets\", classes = [{}, {}]".to_owned(),
                "goes with policy = \"weighted\" only",
            ),
            (with("[{ weight = 0 }, {}]"), "0 is no weight: 1 to 100"),
            (with("[{ weight = 101 }, {}]"), "101 is no weight: 1 to 100"),
            (with("[{ rate = \"0 bit/s\" }, {}]"), "a rate of zero: remove it"),
            (
                with("[{ rate = \"2 Mbit/s\", ceil = \"1 Mbit/s\" }, {}]"),
                "rate is above ceil (1.000 Mbit/s)",
            ),
            (
                with("[{ rate = \"2 Mbit/s\" }, { rate = \"3 Mbit/s\" }], max_rate = \"4 Mbit/s\""),
                "guarantees 5.000 Mbit/s in all, above the bundle's max_rate (4.000 Mbit/s)",
            ),
            (with("[{}]"), "has 1 classes, and the traffic has 2: give one for each"),
            (with("[{}, {}, {}, {}, {}, {}, {}, {}, {}]"), "9 classes: at most 8"),
        ] {
            let said = bundle(&sendbox).unwrap_err();
            let place = "x.toml:13: arm.sendbox.classes: ";
            assert!(said.starts_with(&format!("{place}{expected}")), "{said}");
        }
    }
}
