//! The rules in the form that the receivebox's program needs.
//!
//! The program finds the longest source prefix and the longest destination prefix of a packet
//! independently. Therefore the bundle of each pair of prefixes is computed here.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::BundleRule;
use crate::bundles::covers_ipv4;

/// The prefixes of all rules, and the bundle of each pair of prefixes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The distinct prefixes of sources; the id of a prefix is its index.
    pub(super) sources: Vec<IpNet>,
    /// The distinct prefixes of destinations.
    pub(super) destinations: Vec<IpNet>,
    /// The id of a source prefix, the id of a destination prefix, and the index of their rule.
    pub(super) pairs: Vec<(u32, u32, u32)>,
}

impl Plan {
    pub(super) fn new(rules: &[BundleRule]) -> Self {
        let mut plan = Self::default();
        for rule in rules {
            plan.destinations.extend(&rule.destinations);
            plan.sources.extend(sources(rule));
        }
        for prefixes in [&mut plan.sources, &mut plan.destinations] {
            if prefixes.iter().any(covers_ipv4) {
                prefixes.push(IpNet::V4(Ipv4Net::default()));
            }
            prefixes.sort();
            prefixes.dedup();
        }
        for (i, source) in plan.sources.iter().enumerate() {
            for (j, destination) in plan.destinations.iter().enumerate() {
                if let Some(bundle) = best(rules, source, destination) {
                    plan.pairs.push((i as u32, j as u32, bundle as u32));
                }
            }
        }
        plan
    }
}

/// Returns the source prefixes of a rule; all sources if it lists none.
fn sources(rule: &BundleRule) -> Vec<IpNet> {
    if rule.sources.is_empty() {
        return vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    }
    rule.sources.clone()
}

/// Returns the rule for packets with these longest prefixes.
fn best(rules: &[BundleRule], source: &IpNet, destination: &IpNet) -> Option<usize> {
    let longest = |prefixes: &[IpNet], covered: &IpNet| {
        prefixes.iter().filter(|p| p.contains(covered)).map(IpNet::prefix_len).max()
    };
    let fit = |(i, rule): (usize, &BundleRule)| {
        let d = longest(&rule.destinations, destination)?;
        Some((d, longest(&sources(rule), source)?, i))
    };
    rules.iter().enumerate().filter_map(fit).max_by_key(|(d, s, _)| (*d, *s)).map(|(_, _, i)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(sources: &[&str], destinations: &[&str]) -> BundleRule {
        let parse = |list: &[&str]| list.iter().map(|p| p.parse().unwrap()).collect();
        let key = forebay_wire::FingerprintKey([0; 2]);
        BundleRule { sources: parse(sources), destinations: parse(destinations), key, epoch: 1 }
    }

    fn bundle_of(plan: &Plan, source: &str, destination: &str) -> Option<u32> {
        let longest = |prefixes: &[IpNet], address: &str| {
            let address: std::net::IpAddr = address.parse().unwrap();
            let fits = prefixes.iter().enumerate().filter(|(_, p)| p.contains(&address));
            fits.max_by_key(|(_, p)| p.prefix_len()).map(|(i, _)| i as u32)
        };
        let s = longest(&plan.sources, source)?;
        let d = longest(&plan.destinations, destination)?;
        plan.pairs.iter().find(|p| (p.0, p.1) == (s, d)).map(|p| p.2)
    }

    #[test]
    fn the_longest_destination_prefix_decides_then_the_longest_source_prefix() {
        let plan = Plan::new(&[
            rule(&["10.1.0.0/16"], &["10.2.0.0/16"]),
            rule(&["10.1.0.0/16"], &["10.2.3.0/24", "fd00:2::/32"]),
            rule(&["10.1.7.0/24"], &["10.2.0.0/16"]),
        ]);
        assert_eq!(bundle_of(&plan, "10.1.0.1", "10.2.0.1"), Some(0));
        assert_eq!(bundle_of(&plan, "10.1.0.1", "10.2.3.1"), Some(1));
        assert_eq!(bundle_of(&plan, "10.1.7.1", "10.2.0.1"), Some(2));
        assert_eq!(bundle_of(&plan, "10.1.7.1", "10.2.3.1"), Some(1));
        assert_eq!(bundle_of(&plan, "10.9.0.1", "10.2.0.1"), None, "cross traffic");
        assert_eq!(bundle_of(&plan, "10.1.0.1", "10.3.0.1"), None);
    }

    #[test]
    fn without_sources_everything_to_the_destination_counts_in_both_versions() {
        let plan = Plan::new(&[rule(&[], &["10.2.0.0/16", "fd00:2::/32"])]);
        assert_eq!(bundle_of(&plan, "192.0.2.1", "10.2.0.1"), Some(0));
        assert_eq!(bundle_of(&plan, "2001:db8::1", "fd00:2::1"), Some(0));
        assert_eq!(bundle_of(&plan, "2001:db8::1", "fd00:3::1"), None);
    }

    #[test]
    fn a_rule_for_all_of_ipv6_does_not_apply_to_ipv4() {
        let plan = Plan::new(&[rule(&[], &["::/0"])]);
        assert_eq!(bundle_of(&plan, "2001:db8::1", "fd00:2::1"), Some(0));
        assert!(plan.destinations.contains(&"0.0.0.0/0".parse().unwrap()), "it has an answer");
        assert_eq!(bundle_of(&plan, "192.0.2.1", "10.2.0.1"), None, "of its own");
    }
}
