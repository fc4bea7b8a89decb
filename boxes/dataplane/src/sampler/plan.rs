//! The rules in the form that the receivebox's program needs.
//!
//! The program finds the longest source prefix and the longest destination prefix of a packet
//! independently. Therefore the bundle of each pair of prefixes is computed here.

use std::borrow::Cow;
use std::collections::BTreeSet;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::BundleRule;
use crate::bundles::covers_ipv4;

/// The prefixes of all rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// The prefixes of sources.
    pub(super) sources: BTreeSet<IpNet>,
    /// The prefixes of destinations.
    pub(super) destinations: BTreeSet<IpNet>,
}

impl Plan {
    pub(super) fn new(rules: &[(usize, &BundleRule)]) -> Self {
        let mut plan = Self::default();
        for (_, rule) in rules {
            plan.destinations.extend(&rule.destinations);
            plan.sources.extend(sources(rule).iter());
        }
        for prefixes in [&mut plan.sources, &mut plan.destinations] {
            if prefixes.iter().any(covers_ipv4) {
                prefixes.insert(IpNet::V4(Ipv4Net::default()));
            }
        }
        plan
    }
}

/// Returns the source prefixes of a rule; all sources if it lists none.
fn sources(rule: &BundleRule) -> Cow<'_, [IpNet]> {
    if rule.sources.is_empty() {
        return vec![IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())].into();
    }
    rule.sources.as_slice().into()
}

/// Returns the bundle of packets with these longest prefixes.
pub(super) fn best(
    rules: &[(usize, &BundleRule)],
    source: &IpNet,
    destination: &IpNet,
) -> Option<usize> {
    let longest = |prefixes: &[IpNet], covered: &IpNet| {
        prefixes.iter().filter(|p| p.contains(covered)).map(IpNet::prefix_len).max()
    };
    let fit = |(number, rule): &(usize, &BundleRule)| {
        let d = longest(&rule.destinations, destination)?;
        Some((d, longest(&sources(rule), source)?, *number))
    };
    rules.iter().filter_map(fit).max_by_key(|(d, s, _)| (*d, *s)).map(|(_, _, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(sources: &[&str], destinations: &[&str]) -> BundleRule {
        let parse = |list: &[&str]| list.iter().map(|p| p.parse().unwrap()).collect();
        let key = forebay_wire::FingerprintKey([0; 2]);
        BundleRule { sources: parse(sources), destinations: parse(destinations), key, epoch: 1 }
    }

    /// As the program does it: the longest prefixes first, then the bundle of both.
    fn bundle_of(rules: &[BundleRule], source: &str, destination: &str) -> Option<usize> {
        let rules: Vec<_> = rules.iter().enumerate().collect();
        let plan = Plan::new(&rules);
        let longest = |prefixes: &BTreeSet<IpNet>, address: &str| {
            let address: std::net::IpAddr = address.parse().unwrap();
            let fits = prefixes.iter().filter(|p| p.contains(&address));
            fits.max_by_key(|p| p.prefix_len()).copied()
        };
        let source = longest(&plan.sources, source)?;
        best(&rules, &source, &longest(&plan.destinations, destination)?)
    }

    #[test]
    fn the_longest_destination_prefix_decides_then_the_longest_source_prefix() {
        let rules = [
            rule(&["10.1.0.0/16"], &["10.2.0.0/16"]),
            rule(&["10.1.0.0/16"], &["10.2.3.0/24", "fd00:2::/32"]),
            rule(&["10.1.7.0/24"], &["10.2.0.0/16"]),
        ];
        assert_eq!(bundle_of(&rules, "10.1.0.1", "10.2.0.1"), Some(0));
        assert_eq!(bundle_of(&rules, "10.1.0.1", "10.2.3.1"), Some(1));
        assert_eq!(bundle_of(&rules, "10.1.7.1", "10.2.0.1"), Some(2));
        assert_eq!(bundle_of(&rules, "10.1.7.1", "10.2.3.1"), Some(1));
        assert_eq!(bundle_of(&rules, "10.9.0.1", "10.2.0.1"), None, "cross traffic");
        assert_eq!(bundle_of(&rules, "10.1.0.1", "10.3.0.1"), None);
    }

    #[test]
    fn without_sources_everything_to_the_destination_counts_in_both_versions() {
        let rules = [rule(&[], &["10.2.0.0/16", "fd00:2::/32"])];
        assert_eq!(bundle_of(&rules, "192.0.2.1", "10.2.0.1"), Some(0));
        assert_eq!(bundle_of(&rules, "2001:db8::1", "fd00:2::1"), Some(0));
        assert_eq!(bundle_of(&rules, "2001:db8::1", "fd00:3::1"), None);
    }

    #[test]
    fn a_rule_for_all_of_ipv6_does_not_apply_to_ipv4() {
        let rules = [rule(&[], &["::/0"])];
        assert_eq!(bundle_of(&rules, "2001:db8::1", "fd00:2::1"), Some(0));
        let plan = Plan::new(&[(0, &rules[0])]);
        assert!(plan.destinations.contains(&"0.0.0.0/0".parse().unwrap()), "it has an answer");
        assert_eq!(bundle_of(&rules, "192.0.2.1", "10.2.0.1"), None, "of its own");
    }
}
