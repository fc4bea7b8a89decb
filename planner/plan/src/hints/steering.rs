//! The parts of each aggregate that come in at the provider's entries.

use std::collections::BTreeMap;

use crate::network::{Demand, Network};
use crate::plan::Routing;
use crate::topology::RouterId;

/// The traffic of a provider to one boundary router, from all of its entries: provider number and
/// router.
pub(crate) type Aggregate = (u32, RouterId);

/// For each aggregate the part that comes in at each of the provider's entries. The parts add up to
/// one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Steering(BTreeMap<Aggregate, Vec<f64>>);

impl Steering {
    /// Returns the parts by the demands of `network`.
    pub(crate) fn of(network: &Network) -> Self {
        let mut parts: BTreeMap<Aggregate, Vec<f64>> = BTreeMap::new();
        for demand in network.demands.iter().filter(|d| d.rate.as_bps() > 0) {
            let entries = network.providers[demand.provider as usize].entries.len();
            let parts =
                parts.entry((demand.provider, demand.egress)).or_insert_with(|| vec![0.0; entries]);
            parts[demand.entry as usize] += demand.rate.as_bps() as f64;
        }
        parts.retain(|_, parts| normalize(parts));
        Self(parts)
    }

    /// Returns the parts that `routing` proposes. Aggregates that are allocated nothing are left
    /// out.
    pub(crate) fn proposed(network: &Network, routing: &Routing) -> Self {
        let mut parts: BTreeMap<Aggregate, Vec<f64>> = BTreeMap::new();
        for flow in &routing.problem.flows {
            let entries = network.providers[flow.provider as usize].entries.len();
            let parts =
                parts.entry((flow.provider, flow.egress)).or_insert_with(|| vec![0.0; entries]);
            for choice in flow.choices() {
                let entry = routing.problem.choices[choice].entry as usize;
                parts[entry] += routing.allocation.shares[choice].max(0.0);
            }
        }
        parts.retain(|_, parts| normalize(parts));
        Self(parts)
    }

    pub(crate) fn get(&self, aggregate: Aggregate) -> Option<&[f64]> {
        self.0.get(&aggregate).map(Vec::as_slice)
    }

    pub(crate) fn set(&mut self, aggregate: Aggregate, mut parts: Vec<f64>) {
        if normalize(&mut parts) {
            self.0.insert(aggregate, parts);
        }
    }

    /// Returns `network` with the demands at the entries that these parts give; other demands stay.
    pub(crate) fn apply(&self, network: &Network) -> Network {
        let mut sums: BTreeMap<Aggregate, u64> = BTreeMap::new();
        let mut demands = Vec::new();
        for demand in &network.demands {
            let aggregate = (demand.provider, demand.egress);
            if self.0.contains_key(&aggregate) {
                let sum = sums.entry(aggregate).or_default();
                *sum = sum.saturating_add(demand.rate.as_bps());
            } else {
                demands.push(*demand);
            }
        }
        for (aggregate, sum) in sums {
            let (provider, egress) = aggregate;
            for (part, entry) in self.0[&aggregate].iter().zip(0..) {
                let rate = forebay_units::Rate::from_bps_f64(sum as f64 * part);
                if rate.as_bps() > 0 {
                    demands.push(Demand { provider, entry, egress, rate });
                }
            }
        }
        demands.sort_by_key(|d| (d.provider, d.entry, d.egress));
        Network { demands, ..network.clone() }
    }
}

/// Returns the part of an aggregate, from 0 to 1, that moves from one division to the other.
pub(crate) fn moved(from: &[f64], to: &[f64]) -> f64 {
    from.iter().zip(to).map(|(a, b)| (b - a).max(0.0)).sum()
}

/// Scales the parts so that they add up to one, and returns whether that is possible.
fn normalize(parts: &mut [f64]) -> bool {
    let all: f64 = parts.iter().sum();
    if !(all > 0.0 && all.is_finite()) {
        return false;
    }
    parts.iter_mut().for_each(|p| *p /= all);
    true
}

#[cfg(test)]
mod tests {
    use forebay_units::Rate;

    use super::*;
    use crate::synthetic::{Draw, SetUp, plane};

    #[test]
    fn steering_moves_demands_and_keeps_their_sum() {
        let mut draw = Draw::new(5);
        let set_up = SetUp { providers: 3, entries: 3, ..SetUp::default() };
        let network = set_up.network(plane(6, 1.4, &mut draw), &mut draw);
        let present = Steering::of(&network);
        let total = |network: &Network, provider| -> f64 {
            let own = network.demands.iter().filter(|d| d.provider == provider);
            own.map(|d| d.rate.as_bps() as f64).sum()
        };
        let same = present.apply(&network);
        for provider in 0..3 {
            let (a, b) = (total(&network, provider), total(&same, provider));
            assert!((a - b).abs() < 100.0, "{a} {b}");
        }
        let aggregate = (network.demands[0].provider, network.demands[0].egress);
        let entries = network.providers[0].entries.len();
        let mut other = present.clone();
        let mut last = vec![0.0; entries];
        last[entries - 1] = 3.0;
        other.set(aggregate, last);
        let steered = other.apply(&network);
        let own: Vec<_> = steered
            .demands
            .iter()
            .filter(|d| (d.provider, d.egress) == aggregate && d.rate > Rate::ZERO)
            .map(|d| d.entry as usize)
            .collect();
        assert_eq!(own, [entries - 1]);
        assert_eq!(Steering::of(&steered).get(aggregate), other.get(aggregate));
    }

    #[test]
    fn moved_traffic_is_counted_once() {
        assert_eq!(moved(&[1.0, 0.0], &[0.25, 0.75]), 0.75);
        assert_eq!(moved(&[0.5, 0.5], &[0.5, 0.5]), 0.0);
    }
}
