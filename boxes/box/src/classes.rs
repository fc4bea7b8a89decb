//! Finding the class of a packet.

use std::net::IpAddr;

use forebay_dataplane::Packet;
use forebay_discipline::{DualPi2Classes, Kind};
use forebay_queue::Packet as _;
use forebay_wire::{Headers, vlan};

use crate::config::{DualQueue, Match, Policy};

/// The class of packets whose ECN field selects DualPI2's queue.
const BY_ECN: u8 = 0;
/// The class of packets for the L queue.
const LOW_LATENCY: u8 = 1;
/// The class of packets for the C queue.
const CLASSIC: u8 = 2;

/// The classes of DualPI2's queues.
pub(crate) const DUALPI2: DualPi2Classes =
    DualPi2Classes { low_latency: Some(LOW_LATENCY), classic: Some(CLASSIC) };

/// The names of DualPI2's queues, in the order of [`counted`].
const DUALPI2_NAMES: [&str; 2] = ["low latency", "classic"];

/// Returns the number of the class in which a packet counts whose policy is of `kind`, from 0.
pub(crate) fn counted(kind: Kind, packet: &Packet) -> u8 {
    match (kind, packet.class()) {
        (Kind::DualPi2, LOW_LATENCY) => 0,
        (Kind::DualPi2, BY_ECN) => u8::from(!packet.is_l4s()),
        (Kind::DualPi2, _) => 1,
        (_, class) => class,
    }
}

/// Returns the names of the classes of `policy`; none if it has no classes.
pub(crate) fn names(policy: &Policy) -> impl ExactSizeIterator<Item = &str> {
    let names = match policy.discipline.kind {
        Kind::DualPi2 => DUALPI2_NAMES.to_vec(),
        _ => policy.classes.iter().map(|class| class.name.as_str()).collect(),
    };
    names.into_iter()
}

/// The rules of a policy's classes: those of strict priority, or of DualPI2's queues.
#[derive(Debug)]
pub(crate) struct Classes {
    /// The rules, of which the first that fits decides.
    rules: Vec<(Match, u8)>,
    rest: u8,
    /// Whether a rule needs the VLAN.
    by_vlan: bool,
}

impl Classes {
    /// Makes the rules of `policy`.
    pub(crate) fn of(policy: &Policy) -> Self {
        let queue = |queue| match queue {
            DualQueue::LowLatency => LOW_LATENCY,
            DualQueue::Classic => CLASSIC,
        };
        let classifiers = policy.classifiers.iter();
        // At most 256 classes, as a policy has.
        let strict = policy.matches().enumerate().map(|(class, m)| (m.clone(), class as u8));
        let rules: Vec<_> =
            strict.chain(classifiers.map(|c| (c.matches.clone(), queue(c.queue)))).collect();
        let rest = if policy.classes.is_empty() { BY_ECN } else { rules.len() as u8 };
        let by_vlan = rules.iter().any(|(m, _)| !m.vlans.is_empty());
        Self { rules, rest, by_vlan }
    }

    /// Returns the class of `frame`, which has these headers if it is an IP packet.
    pub(crate) fn find(&self, frame: &[u8], headers: Option<&Headers>) -> u8 {
        if self.rules.is_empty() {
            return self.rest;
        }
        let vlan = if self.by_vlan { vlan(frame) } else { None };
        let found = self.rules.iter().find(|(m, _)| fits(m, headers, vlan));
        found.map_or(self.rest, |(_, class)| *class)
    }
}

/// Whether a packet fits every list that is not empty. A frame that is not IP fits VLANs only.
fn fits(m: &Match, headers: Option<&Headers>, vlan: Option<u16>) -> bool {
    if !m.vlans.is_empty() && !vlan.is_some_and(|v| m.vlans.contains(&v)) {
        return false;
    }
    let Some(headers) = headers else {
        return m.dscp.is_empty() && m.ports.is_empty() && m.prefixes.is_empty();
    };
    let port = |p: u16| headers.ports.is_some_and(|q| q.source == p || q.destination == p);
    let within = |a: IpAddr| m.prefixes.iter().any(|p| p.contains(&a));
    (m.dscp.is_empty() || m.dscp.contains(&headers.dscp))
        && (m.ports.is_empty() || m.ports.iter().any(|p| port(*p)))
        && (m.prefixes.is_empty() || within(headers.source) || within(headers.destination))
}

#[cfg(test)]
mod tests {
    use forebay_discipline::Kind;
    use forebay_wire::Frame;

    use super::*;
    use crate::config::Classifier;

    /// A UDP packet over IPv4 to 10.2.9.7, port 443, in this VLAN, with this DSCP.
    fn frame(vlan: Option<u16>, dscp: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        if let Some(vlan) = vlan {
            // With a priority of 5 beside the ID.
            frame.extend([0x81, 0x00]);
            frame.extend((0xa000 | vlan).to_be_bytes());
        }
        frame.extend([0x08, 0x00, 0x45, dscp << 2, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([10, 1, 0, 1, 10, 2, 9, 7, 0x13, 0x88, 0x01, 0xbb, 0, 8, 0, 0]);
        frame
    }

    fn class(classes: &Classes, frame: &[u8]) -> u8 {
        match Frame::parse(frame) {
            Ok(Frame::Ip(headers)) => classes.find(frame, Some(&headers)),
            _ => classes.find(frame, None),
        }
    }

    fn dualpi2(classifiers: Vec<Classifier>) -> Policy {
        Policy { discipline: Kind::DualPi2.into(), classes: vec![], classifiers }
    }

    #[test]
    fn the_first_classifier_that_fits_selects_the_queue() {
        let to = |queue, matches| Classifier { queue, matches };
        let site = "10.2.9.0/24".parse().unwrap();
        let policy = dualpi2(vec![
            to(DualQueue::Classic, Match { dscp: vec![8], ..Match::default() }),
            to(DualQueue::LowLatency, Match { dscp: vec![46, 45], ..Match::default() }),
            to(DualQueue::LowLatency, Match { vlans: vec![7, 9], ..Match::default() }),
            to(
                DualQueue::Classic,
                Match { vlans: vec![8], prefixes: vec![site], ..Match::default() },
            ),
        ]);
        let classes = Classes::of(&policy);
        let of = |vlan, dscp| class(&classes, &frame(vlan, dscp));
        assert_eq!(of(None, 0), BY_ECN);
        assert_eq!(of(None, 45), LOW_LATENCY);
        assert_eq!(of(Some(9), 0), LOW_LATENCY);
        assert_eq!(of(Some(9), 8), CLASSIC, "the first of two that fit");
        assert_eq!(of(Some(8), 0), CLASSIC, "VLAN and destination");
        assert_eq!(of(Some(10), 0), BY_ECN);
        let mut arp = frame(Some(7), 0);
        arp.truncate(18);
        arp[16..18].copy_from_slice(&[0x08, 0x06]);
        assert_eq!(class(&classes, &arp), LOW_LATENCY, "no IP packet, but in a VLAN");
        arp[15] = 8;
        assert_eq!(class(&classes, &arp), BY_ECN, "it has no address that would fit");
    }

    #[test]
    fn without_classifiers_the_ecn_field_decides() {
        let classes = Classes::of(&dualpi2(vec![]));
        assert_eq!(class(&classes, &frame(Some(7), 46)), BY_ECN);
    }
}
