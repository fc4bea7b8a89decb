//! From a frame to its bundle and class.

use std::net::IpAddr;

use forebay_wire::Headers;

use crate::config::{BundleConfig, Match, Policy};
use crate::prefix_table::PrefixTable;

/// Which bundle a packet is in, and which class in it.
#[derive(Debug)]
pub(super) struct Classifier {
    bundles: PrefixTable<usize>,
    /// For each bundle what its classes match, the last (which takes the rest) left out.
    classes: Vec<Vec<Match>>,
}

impl Classifier {
    pub(super) fn new(bundles: &[BundleConfig]) -> Self {
        let entries = bundles.iter().enumerate();
        Self {
            bundles: PrefixTable::new(
                entries.flat_map(|(i, b)| b.prefixes.iter().map(move |p| (*p, i))),
            ),
            classes: bundles.iter().map(|b| matches(&b.policy)).collect(),
        }
    }

    /// The bundle, by the longest prefix of the destination, and the class; `None` for traffic that
    /// is in no bundle.
    pub(super) fn classify(&self, headers: &Headers) -> Option<(usize, u8)> {
        let bundle = self.bundles.find(headers.destination)?;
        let classes = &self.classes[bundle];
        let class = classes.iter().position(|m| fits(m, headers)).unwrap_or(classes.len());
        Some((bundle, class as u8))
    }
}

fn matches(policy: &Policy) -> Vec<Match> {
    let all_but_last = policy.classes.len().saturating_sub(1);
    policy.classes.iter().take(all_but_last).map(|c| c.matches.clone()).collect()
}

/// Every list that is not empty must have something that fits.
fn fits(m: &Match, headers: &Headers) -> bool {
    let port = |p: u16| headers.ports.is_some_and(|q| q.source == p || q.destination == p);
    let within = |a: IpAddr| m.prefixes.iter().any(|p| p.contains(&a));
    (m.dscp.is_empty() || m.dscp.contains(&headers.dscp))
        && (m.ports.is_empty() || m.ports.iter().any(|p| port(*p)))
        && (m.prefixes.is_empty() || within(headers.source) || within(headers.destination))
}
