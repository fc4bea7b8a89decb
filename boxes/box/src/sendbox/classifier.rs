//! Finding the bundle and the class of a packet.

use forebay_wire::Headers;
use ipnet::IpNet;
use prefix_trie::joint::JointPrefixMap;

use crate::classes::Classes;
use crate::config::BundleConfig;
use crate::slots::Slots;

/// The rules by which packets are in bundles and classes.
#[derive(Debug)]
pub(super) struct Classifier {
    /// The bundle of each destination prefix.
    bundles: JointPrefixMap<IpNet, usize>,
    /// The classes of each bundle.
    classes: Slots<Classes>,
}

impl Classifier {
    /// Makes the rules of bundles with their numbers.
    pub(super) fn new<'a>(bundles: impl Iterator<Item = (usize, &'a BundleConfig)>) -> Self {
        let mut rules = Self { bundles: JointPrefixMap::default(), classes: Slots::new([]) };
        for (number, bundle) in bundles {
            for prefix in &bundle.prefixes {
                rules.bundles.insert(prefix.trunc(), number);
            }
            rules.classes.put(number, Classes::of(&bundle.policy));
        }
        rules
    }

    /// Finds the bundle of `frame`, which has these headers, by the longest prefix of the
    /// destination, and its class; `None` for traffic that is in no bundle.
    pub(super) fn classify(&self, frame: &[u8], headers: &Headers) -> Option<(usize, u8)> {
        let (_, &bundle) = self.bundles.get_lpm(&IpNet::from(headers.destination))?;
        Some((bundle, self.classes.get(bundle)?.find(frame, Some(headers))))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use forebay_discipline::Kind;
    use forebay_wire::Ports;
    use forebay_wire::feedback::Key;

    use super::*;
    use crate::config::{Class, Match, Policy};

    pub(in crate::sendbox) fn bundle(prefixes: &[&str], classes: Vec<Match>) -> BundleConfig {
        let kind = if classes.is_empty() { Kind::Sfq } else { Kind::Strict };
        let share = crate::config::Share::default();
        let class =
            |matches| Class { name: String::new(), matches, policy: Kind::Sfq.into(), share };
        BundleConfig {
            name: "b".to_owned(),
            id: 1,
            prefixes: prefixes.iter().map(|p| p.parse().unwrap()).collect(),
            receivebox: std::net::SocketAddr::from(([10, 0, 0, 1], 1)).into(),
            key: Key::new([0; 32]),
            policy: Policy {
                discipline: kind.into(),
                classes: classes.into_iter().map(class).collect(),
                classifiers: vec![],
            },
            controller: forebay_control::ControllerKind::default(),
            cross_traffic: forebay_control::Detection::Ignore,
            multipath: forebay_control::Detection::Detect,
            guard: false,
            min_rate: None,
            max_rate: None,
            share: crate::config::Share::default(),
        }
    }

    fn headers(source: &str, destination: &str) -> Headers {
        Headers {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: 6,
            dscp: 0,
            ecn: 0,
            ports: Some(Ports { source: 443, destination: 50_000 }),
            id: 0,
            fragment: None,
            network_offset: 14,
            transport_offset: 34,
            transport_len: 20,
        }
    }

    #[test]
    fn the_destination_alone_decides_the_bundle() {
        let bundles = [
            bundle(&["10.0.0.0/8", "fd00::/16"], vec![]),
            bundle(&["10.2.0.0/16", "10.3.4.5/32", "::/0"], vec![]),
        ];
        let classifier = Classifier::new(bundles.iter().enumerate());
        let of = |source, destination| classifier.classify(&[], &headers(source, destination));
        assert_eq!(of("192.0.2.1", "10.1.0.1"), Some((0, 0)));
        assert_eq!(of("192.0.2.1", "10.2.0.1"), Some((1, 0)), "the longest prefix");
        assert_eq!(of("192.0.2.1", "10.3.4.5"), Some((1, 0)), "a single address");
        assert_eq!(of("192.0.2.1", "10.3.4.6"), Some((0, 0)));
        assert_eq!(of("fd01::1", "fd00::1"), Some((0, 0)));
        assert_eq!(of("fd00::1", "2001:db8::1"), Some((1, 0)), "any destination of IPv6");
        assert_eq!(of("10.2.0.1", "192.0.2.1"), None, "neither a source nor ::/0");
    }

    #[test]
    fn the_first_class_that_fits_in_all_it_lists_takes_the_packet() {
        let voice = Match { dscp: vec![46, 34], ports: vec![5060], ..Match::default() };
        let dns = Match { ports: vec![53, 853], ..Match::default() };
        let site = "10.2.9.0/24".parse().unwrap();
        let lab = Match { prefixes: vec![site], ..Match::default() };
        let classes = vec![voice, dns, lab, Match::default()];
        let bundles = [bundle(&["0.0.0.0/0"], classes)];
        let classifier = Classifier::new(bundles.iter().enumerate());
        let plain = headers("192.0.2.1", "10.1.0.1");
        let ports = |source, destination| Some(Ports { source, destination });
        let cases = [
            (3, plain, "the last takes the rest"),
            (0, Headers { dscp: 34, ports: ports(5060, 9), ..plain }, "source port"),
            (0, Headers { dscp: 46, ports: ports(9, 5060), ..plain }, "destination port"),
            (3, Headers { dscp: 46, ..plain }, "the DSCP without a port"),
            (3, Headers { ports: ports(5060, 9), ..plain }, "a port without the DSCP"),
            (1, Headers { ports: ports(9, 853), ..plain }, "any of the ports"),
            (3, Headers { ports: None, ..plain }, "no ports fit no list of ports"),
            (2, headers("192.0.2.1", "10.2.9.7"), "destination prefix"),
            (2, headers("10.2.9.7", "10.1.0.1"), "source prefix"),
            (
                1,
                Headers { ports: ports(53, 9), ..headers("10.2.9.7", "10.1.0.1") },
                "the first of two that fit",
            ),
        ];
        for (class, headers, why) in cases {
            assert_eq!(classifier.classify(&[], &headers), Some((0, class)), "{why}");
        }
    }
}
