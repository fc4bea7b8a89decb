//! The order in which metrics change on a running network: one at a time, each time the one after
//! which the fullest link is least full.

use super::search::State;
use crate::network::Network;
use crate::topology::LinkId;

/// The changes that are compared for each step. With more to make, those of the first links are
/// compared first.
const COMPARED: usize = 64;

/// One change of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The link, in its direction.
    pub link: LinkId,
    /// The metric before.
    pub from: u32,
    /// The metric after.
    pub to: u32,
    /// The fullest link after this change.
    pub fullest: Fullest,
}

/// The link with the highest offered load, relative to its capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fullest {
    /// The link; `None` if no link has both traffic and a capacity.
    pub link: Option<LinkId>,
    /// The offered load relative to the capacity: above 1 the link drops.
    pub load: f64,
}

/// The steps to other metrics, and the fullest link before the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// The fullest link before the first step.
    pub before: Fullest,
    /// The steps, in their order.
    pub steps: Vec<Step>,
}

impl Order {
    /// Returns the steps after which a link is fuller than its capacity, and fuller than any link
    /// is before the first step and after the last.
    pub fn overloads(&self) -> Vec<Step> {
        let last = self.steps.last().map_or(0.0, |step| step.fullest.load);
        // A millionth is a residue of sums.
        let allowed = self.before.load.max(last).max(1.0) * (1.0 + 1e-6);
        self.steps.iter().filter(|step| step.fullest.load > allowed).copied().collect()
    }
}

/// Returns an order of the changes from the metrics of `network` to the `wanted` ones. Loads are
/// those of its demands, each at its present entry and on one shortest path.
///
/// Links that have the wanted metric already are left out. Between two changes of one step all
/// routers are assumed to agree: an order of single changes cannot exclude short loops while they
/// do not (RFC 6976).
pub fn order(network: &Network, wanted: &[(LinkId, u32)]) -> Order {
    let mut state = State::new(&network.topology, network);
    let differs = |(link, metric): &&(LinkId, u32)| network.topology.link(*link).metric != *metric;
    let mut left: Vec<(LinkId, u32)> = wanted.iter().filter(differs).copied().collect();
    let mut order = Order { before: state.fullest(), steps: Vec::new() };
    while !left.is_empty() {
        let mut best: Option<(usize, Fullest, f64)> = None;
        for (at, (link, metric)) in left.iter().take(COMPARED).enumerate() {
            let undo = state.set(*link, *metric);
            let (fullest, cost) = (state.fullest(), state.cost());
            state.undo(undo);
            let better = best.is_none_or(|(_, other, least)| {
                fullest.load < other.load - 1e-9
                    || (fullest.load < other.load + 1e-9 && cost < least - 1e-9)
            });
            if better {
                best = Some((at, fullest, cost));
            }
        }
        let Some((at, fullest, _)) = best else { break };
        let (link, to) = left.remove(at);
        let from = state.metric(link);
        state.set(link, to);
        order.steps.push(Step { link, from, to, fullest });
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::tests::fork;

    #[test]
    fn each_step_is_the_one_that_loads_links_least() {
        let network = fork();
        // Now A-B has 200 of 100 Mbit/s. B-D as 4 moves D's traffic to the other way. A-E as 3
        // alone moves nothing while B-D is short, and later moves it back if B-D is below.
        let wanted = [(LinkId(0), 2), (LinkId(2), 4), (LinkId(5), 1)];
        let found = order(&network, &wanted);
        assert_eq!(found.before, Fullest { link: Some(LinkId(0)), load: 2.0 });
        let links: Vec<_> = found.steps.iter().map(|s| (s.link.0, s.from, s.to)).collect();
        assert_eq!(links, [(2, 1, 4), (0, 1, 2)], "what is as wanted is no step");
        assert!(found.steps.iter().all(|s| (s.fullest.load - 1.0).abs() < 1e-9), "{found:?}");
        assert!(found.overloads().is_empty());
        assert!(order(&network, &[]).steps.is_empty());
    }

    #[test]
    fn a_step_that_overloads_a_link_in_between_is_found() {
        // A's traffic to D leaves A-E-F-D, which has room, only between the two changes.
        let mut network = fork();
        network.topology.set_metric(LinkId(2), 9);
        let before = order(&network, &[]).before.load;
        assert!((before - 1.0).abs() < 1e-9);
        // Both ways longer by the same: D stays where it is in the end.
        let found = order(&network, &[(LinkId(3), 20), (LinkId(2), 40)]);
        assert_eq!(found.steps[0].link, LinkId(2), "the other order would send all over A-B");
        assert!(found.overloads().is_empty());
        // With one change that does so, nothing else can help.
        let found = order(&network, &[(LinkId(3), 20), (LinkId(5), 1)]);
        assert_eq!((found.steps.len(), found.overloads().len()), (1, 0), "it ends there, too");
        // The metrics of both ways are exchanged step by step: one step is worse than both ends.
        network.topology.set_metric(LinkId(3), 2);
        network.topology.set_capacities(|id, link| match id {
            LinkId(4) => Some(forebay_units::Rate::from_mbps(50)),
            _ => link.capacity,
        });
        let found = order(&network, &[(LinkId(3), 1), (LinkId(4), 2)]);
        assert!(found.overloads().is_empty(), "2.0 is no more than at both ends: {found:?}");
    }

    #[test]
    fn what_is_worse_than_both_ends_is_an_overload() {
        let full = |load| Fullest { link: None, load };
        let step = |load| Step { link: LinkId(0), from: 1, to: 2, fullest: full(load) };
        let order = |before, loads: &[f64]| Order {
            before: full(before),
            steps: loads.iter().map(|load| step(*load)).collect(),
        };
        assert!(order(0.5, &[0.9, 1.0, 0.6]).overloads().is_empty(), "no link drops");
        assert_eq!(order(0.5, &[1.2, 0.6]).overloads().len(), 1);
        assert!(order(1.5, &[1.2, 0.6]).overloads().is_empty(), "it was worse before");
        assert!(order(0.5, &[1.2, 1.3]).overloads().is_empty(), "it is worse in the end");
    }
}
