//! The rates that bundles and classes have while all of them send.

use std::fmt;

use forebay_units::Rate;

use super::{BundleConfig, Share};

/// The rate of a bundle while all bundles and classes send, and those of its weighted classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveShare {
    /// The name of the bundle.
    pub name: String,
    /// The rate of the bundle.
    pub rate: Rate,
    /// The name and rate of each of its weighted classes.
    pub classes: Vec<(String, Rate)>,
}

impl fmt::Display for EffectiveShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}: {}", self.name, self.rate)?;
        for (class, rate) in &self.classes {
            write!(f, "\n    class {class}: {rate}")?;
        }
        Ok(())
    }
}

/// Returns what each bundle has below the common `limit` while all of them send. A bundle without a
/// limit, a common one or its own, is left out, since its rate depends on the network.
pub fn effective_shares(bundles: &[BundleConfig], limit: Option<Rate>) -> Vec<EffectiveShare> {
    let shares: Vec<Share> = bundles.iter().map(|bundle| bundle.share).collect();
    let rates: Vec<Option<Rate>> = match limit {
        Some(limit) => divide(limit, &shares).into_iter().map(Some).collect(),
        None => shares.iter().map(|share| share.ceil).collect(),
    };
    let known = bundles.iter().zip(rates).filter_map(|(bundle, rate)| Some((bundle, rate?)));
    known
        .map(|(bundle, rate)| {
            let weighted = bundle.policy.classes.iter().filter(|_| bundle.policy.is_weighted());
            let shares: Vec<Share> = weighted.clone().map(|class| class.share).collect();
            let names = weighted.map(|class| class.name.clone());
            let classes = names.zip(divide(rate, &shares)).collect();
            EffectiveShare { name: bundle.name.clone(), rate, classes }
        })
        .collect()
}

/// Divides `limit`: guarantees first, then the rest by weight, each part up to its ceiling.
fn divide(limit: Rate, shares: &[Share]) -> Vec<Rate> {
    let bps = |rate: Option<Rate>| rate.map_or(f64::INFINITY, |rate| rate.as_bps() as f64);
    let weight = |share: &Share| f64::from(share.weight);
    let guaranteed = |share: &Share| share.rate.map_or(0.0, |rate| rate.as_bps() as f64);
    let bounds = shares.iter().map(|share| (weight(share), guaranteed(share)));
    let owed = by_weight(limit.as_bps() as f64, bounds);
    let rest = limit.as_bps() as f64 - owed.iter().sum::<f64>();
    let bounds =
        shares.iter().zip(&owed).map(|(share, owed)| (weight(share), bps(share.ceil) - owed));
    let more = by_weight(rest, bounds);
    owed.iter().zip(more).map(|(owed, more)| Rate::from_bps((owed + more).round() as u64)).collect()
}

/// Divides `amount` by weight, each part up to its bound.
fn by_weight(mut amount: f64, parts: impl Iterator<Item = (f64, f64)>) -> Vec<f64> {
    let parts: Vec<(f64, f64)> = parts.collect();
    let mut got = vec![0.0; parts.len()];
    let mut open: Vec<usize> = (0..parts.len()).filter(|i| parts[*i].1 > 0.0).collect();
    while amount >= 0.5 && !open.is_empty() {
        let weights: f64 = open.iter().map(|i| parts[*i].0).sum();
        // Up to the part that reaches its bound first.
        let step = open
            .iter()
            .map(|i| (parts[*i].1 - got[*i]) / parts[*i].0)
            .fold(amount / weights, f64::min);
        open.iter().for_each(|i| got[*i] += step * parts[*i].0);
        amount -= step * weights;
        open.retain(|i| parts[*i].1 - got[*i] >= 0.5);
    }
    got
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(weight: u32, rate: Option<u64>, ceil: Option<u64>) -> Share {
        Share { weight, rate: rate.map(Rate::from_mbps), ceil: ceil.map(Rate::from_mbps) }
    }

    /// By hand; the first is the example of the book.
    #[test]
    fn shares_are_divided_as_the_queues_do() {
        let divided = |mbps, shares: &[Share]| -> Vec<u64> {
            let all = divide(Rate::from_mbps(mbps), shares);
            all.iter().map(|rate| rate.as_bps() / 1_000_000).collect()
        };
        assert_eq!(divided(100, &[share(3, Some(20), None), share(1, None, Some(50))]), [80, 20]);
        let ceil = [share(1, Some(12), None), share(9, None, Some(3)), share(2, None, None)];
        assert_eq!(divided(24, &ceil), [15, 3, 6]);
        let all = [share(1, None, Some(3)), share(1, Some(1), Some(4))];
        assert_eq!(divided(24, &all), [3, 4], "no more than the ceilings");
        let most = [share(1, Some(1), None), share(1, Some(20), None), share(5, None, None)];
        assert_eq!(divided(9, &most), [1, 8, 0], "guarantees above the limit");
        assert_eq!(divided(9, &[]), [0; 0]);
    }
}
