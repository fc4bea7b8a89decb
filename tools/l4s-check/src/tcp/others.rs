//! The packets of a capture that are no TCP segments: what they are, so that a report can name
//! them.

use std::collections::BTreeMap;
use std::fmt;

use forebay_capture::{IpPacket, LeftOut};
use serde::Serialize;

/// The most kinds that are counted apart.
const MAX_KINDS: usize = 256;
/// Kinds that a sentence names.
const NAMED: usize = 3;
/// The protocol number of TCP.
const TCP: u8 = 6;

/// UDP ports with what is usually there. The last part tells whether it hides the packets in it.
const PORTS: [(u16, &str, bool); 14] = [
    (53, "DNS", false),
    (123, "NTP", false),
    (443, "QUIC", false),
    (500, "IPsec", true),
    (1194, "OpenVPN", true),
    (1701, "L2TP", true),
    (2152, "GTP-U", true),
    (3544, "Teredo", true),
    (4341, "LISP", true),
    (4500, "IPsec", true),
    (4789, "VXLAN", true),
    (6081, "Geneve", true),
    (8472, "VXLAN", true),
    (51820, "WireGuard", true),
];
/// IP protocols, the same way.
const PROTOCOLS: [(u8, &str, bool); 11] = [
    (1, "ICMP", false),
    (2, "IGMP", false),
    (TCP, "TCP whose header was not captured: capture 128 octets of each packet", false),
    (47, "GRE", true),
    (50, "IPsec (ESP)", true),
    (51, "IPsec (AH)", true),
    (58, "ICMPv6", false),
    (89, "OSPF", false),
    (112, "VRRP", false),
    (115, "L2TP", true),
    (132, "SCTP", false),
];

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// UDP, with the smaller one of its ports.
    Udp(u16),
    /// Another IP protocol, or TCP that cannot be read.
    Protocol(u8),
    Fragment,
    NotIp,
    Short,
}

impl Kind {
    fn of(packet: &IpPacket<'_>) -> Self {
        let headers = &packet.headers;
        match (headers.protocol, headers.ports) {
            _ if headers.fragment.is_some() => Self::Fragment,
            (17, Some(ports)) => {
                let is_known = |port: &u16| PORTS.iter().any(|(known, ..)| known == port);
                let both = [ports.destination, ports.source];
                let known = both.into_iter().find(is_known);
                Self::Udp(known.unwrap_or(ports.source.min(ports.destination)))
            }
            (protocol, _) => Self::Protocol(protocol),
        }
    }

    /// Whether other packets are in it, which cannot be read here.
    fn is_tunnel(self) -> bool {
        match self {
            Self::Udp(port) => PORTS.iter().any(|(known, _, hides)| *known == port && *hides),
            Self::Protocol(protocol) => {
                PROTOCOLS.iter().any(|(known, _, hides)| *known == protocol && *hides)
            }
            Self::Fragment | Self::NotIp | Self::Short => false,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Udp(port) => {
                write!(f, "UDP of port {port}")?;
                match PORTS.iter().find(|(known, ..)| *known == port) {
                    Some((_, name, _)) => write!(f, " ({name})"),
                    None => Ok(()),
                }
            }
            Self::Protocol(protocol) => {
                match PROTOCOLS.iter().find(|(known, ..)| *known == protocol) {
                    Some((_, name, _)) => f.write_str(name),
                    None => write!(f, "IP protocol {protocol}"),
                }
            }
            Self::Fragment => f.write_str("fragments"),
            Self::NotIp => f.write_str("no IP packets"),
            Self::Short => f.write_str("cut in their headers: capture 128 octets of each packet"),
        }
    }
}

/// A kind of packets that are no TCP segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OtherPackets {
    /// What they are.
    pub what: String,
    /// The number of packets.
    pub packets: u64,
}

/// The numbers of packets that are no TCP segments, by kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Others(BTreeMap<Kind, u64>);

impl Others {
    fn add(&mut self, kind: Kind, packets: u64) {
        if packets > 0 && (self.0.len() < MAX_KINDS || self.0.contains_key(&kind)) {
            *self.0.entry(kind).or_default() += packets;
        }
    }

    pub(super) fn push(&mut self, packet: &IpPacket<'_>) {
        self.add(Kind::of(packet), 1);
    }

    pub(super) fn push_left_out(&mut self, left_out: LeftOut) {
        let LeftOut { fragments, not_ip, short } = left_out;
        for (kind, packets) in
            [(Kind::Fragment, fragments), (Kind::NotIp, not_ip), (Kind::Short, short)]
        {
            self.add(kind, packets);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (kind, packets) in &other.0 {
            self.add(*kind, *packets);
        }
    }

    /// Returns the kinds, the most frequent one first.
    fn sorted(&self) -> Vec<(Kind, u64)> {
        let mut kinds: Vec<_> = self.0.iter().map(|(kind, count)| (*kind, *count)).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        kinds
    }

    pub(super) fn list(&self) -> Vec<OtherPackets> {
        let packets =
            |(kind, packets): (Kind, u64)| OtherPackets { what: kind.to_string(), packets };
        self.sorted().into_iter().map(packets).collect()
    }

    /// Says what a capture without TCP segments has instead.
    pub(super) fn instead(&self) -> String {
        let kinds = self.sorted();
        let Some((first, _)) = kinds.first() else {
            return "the capture has no packets".to_owned();
        };
        let named: Vec<String> =
            kinds.iter().take(NAMED).map(|(kind, count)| format!("{count} {kind}")).collect();
        let advice = match first {
            kind if kind.is_tunnel() => {
                ": a tunnel hides the segments; capture at its end, on the interface inside it"
            }
            Kind::Udp(443) => {
                ": QUIC encrypts its feedback; `forebay l4s check` tests the path itself"
            }
            _ => "",
        };
        format!("no packet of the capture is a TCP segment: {}{advice}", named.join(", "))
    }
}
