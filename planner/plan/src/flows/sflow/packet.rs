//! Finds the IP packet in the first octets of a sampled frame.
//!
//! The fixed part of the IP header is enough. A sample may end within extension headers, which
//! `forebay_wire::Headers` would refuse.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use forebay_capture::encapsulation::{behind_labels, in_ethernet, in_ppp};

use crate::flows::message::u16_at;
use crate::flows::sflow::Packet;

/// The length of IPv6's header, which its length field does not count (RFC 8200, section 3).
const IPV6_HEADER: u64 = 40;

/// Finds the IP packet in the `header` of a frame of `frame` octets.
///
/// `protocol` is the number of the link in the sFlow v5 memo. Tunnels are not entered: the outer
/// destination decides the path through the network.
pub(super) fn find(protocol: u32, header: &[u8], frame: u64) -> Option<Packet> {
    let at = match protocol {
        // Ethernet, PPP with or without HDLC's octets, IPv4, IPv6 and MPLS.
        1 => in_ethernet(header)?,
        7 | 14 => in_ppp(header, 0)?,
        11 | 12 => 0,
        13 => behind_labels(header, 0)?,
        _ => return None,
    };
    let packet = header.get(at..)?;
    let (length, source, destination): (u64, IpAddr, IpAddr) = match packet.first()? >> 4 {
        4 => {
            let address = |at: usize| -> Option<IpAddr> {
                let octets: &[u8; 4] = packet.get(at..)?.first_chunk()?;
                Some(Ipv4Addr::from(*octets).into())
            };
            (u16_at(packet, 2)?.into(), address(12)?, address(16)?)
        }
        6 => {
            let address = |at: usize| -> Option<IpAddr> {
                let octets: &[u8; 16] = packet.get(at..)?.first_chunk()?;
                Some(Ipv6Addr::from(*octets).into())
            };
            let payload = u64::from(u16_at(packet, 4)?);
            let length = if payload > 0 { payload + IPV6_HEADER } else { 0 };
            (length, address(8)?, address(24)?)
        }
        _ => return None,
    };
    // The length is 0 in packets that are larger than its field, such as jumbograms (RFC 2675) and
    // those before segmentation offload.
    let octets = if length > 0 { length } else { frame.saturating_sub(at as u64) };
    Some(Packet { octets, source, destination })
}
