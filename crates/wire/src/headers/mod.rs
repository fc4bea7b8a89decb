//! Packet headers, as far as a box must understand them: Ethernet, VLAN tags, IPv4, IPv6 with its
//! extension headers, and the ports.
//!
//! `bpf/headers.h` is the same parser in C. The tests hold the two against each other.

mod ecn;
mod ethernet;
mod flow;
mod ip;

use core::fmt;
use core::net::IpAddr;
use core::ops::Range;

pub use ecn::set_ce;
pub use ethernet::vlan;
pub(crate) use ip::protocol;

/// Where the destination MAC address is in a frame.
pub const MAC_DESTINATION: Range<usize> = 0..6;
/// Where the source MAC address is in a frame.
pub const MAC_SOURCE: Range<usize> = 6..12;
/// VLAN tags that are stepped over; one more makes the frame [`Frame::Other`].
pub const MAX_VLAN_TAGS: usize = 2;
/// IPv6 extension headers that are stepped over; one more is an error.
pub const MAX_EXTENSIONS: usize = 6;
/// The furthest that a transport header may be from the start of the frame, in bytes; further is an
/// error. With two VLAN tags this leaves 130 bytes for IPv6 extension headers, about twice what the
/// Internet lets through. The BPF verifier wants a bound, and both parsers must agree.
pub const MAX_TRANSPORT_OFFSET: usize = 192;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// An IP packet.
    Ip(Headers),
    /// Address resolution, for which a box must be transparent.
    Arp,
    /// Anything else: spanning tree, LLDP, PPPoE, a third VLAN tag. To be forwarded untouched.
    Other,
}

/// The ports of TCP, UDP, DCCP, SCTP and UDP-Lite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The sender's.
    pub source: u16,
    /// The receiver's.
    pub destination: u16,
}

impl Ports {
    /// As they are on the wire.
    pub(crate) fn to_be_bytes(self) -> [u8; 4] {
        (u32::from(self.source) << 16 | u32::from(self.destination)).to_be_bytes()
    }
}

/// Which part of its datagram a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Where it belongs, in units of 8 bytes.
    pub offset: u16,
    /// Whether more fragments follow it.
    pub more: bool,
}

/// The headers of an IP packet.
///
/// The lengths are those that the IP header claims. The frame may be longer (Ethernet pads short
/// ones) or shorter (only its beginning was captured); what is there to be rewritten is checked
/// again where it is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The IP source address.
    pub source: IpAddr,
    /// The IP destination address. With an IPv6 routing header, the next stop.
    pub destination: IpAddr,
    /// The protocol of what follows the IP headers (6: TCP). For a later fragment of an IPv6 packet
    /// that had extension headers in its fragmentable part, the first of those.
    pub protocol: u8,
    /// The differentiated services code point (RFC 2474), 6 bits.
    pub dscp: u8,
    /// The ECN codepoint (RFC 3168 section 5): 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// The ports; none for other protocols, later fragments and headers cut short.
    pub ports: Option<Ports>,
    /// The IPv4 identification, or that of the IPv6 fragment header, else zero.
    pub id: u32,
    /// Set if this is a fragment, be it the only one (RFC 6946).
    pub fragment: Option<Fragment>,
    /// The IP header's offset in the frame, in bytes. ECN is rewritten relative to it.
    pub network_offset: u16,
    /// The offset of what follows the IP headers, in bytes, at most [`MAX_TRANSPORT_OFFSET`].
    pub transport_offset: u16,
    /// The length of what follows the IP headers, in bytes, by the IP header's claim.
    pub transport_len: u16,
}

impl Headers {
    /// Whether the packet begins with a transport header: not if it is a later fragment.
    pub fn has_transport(&self) -> bool {
        self.fragment.is_none_or(|f| f.offset == 0)
    }

    /// The bytes of the packet in a frame of `frame` bytes, its link-layer header included: what a bundle
    /// is counted by. What follows the packet is padding to Ethernet's minimum (IEEE 802.3, 3.2.8),
    /// which a NIC adds where its own machine does not see it and the next one does.
    pub fn packet_len(&self, frame: usize) -> usize {
        frame.min(usize::from(self.transport_offset) + usize::from(self.transport_len))
    }
}

/// Why a frame that should be an IP packet is none. A box forwards such a frame untouched: whether
/// to drop it is for its receiver to decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// The frame ends within its Ethernet or IP headers.
    Truncated,
    /// The IP version is not the one that the ethertype tells.
    BadVersion,
    /// A length field contradicts the headers around it.
    BadLength,
    /// There are more than [`MAX_EXTENSIONS`] IPv6 extension headers.
    TooManyExtensions,
    /// The headers reach further than [`MAX_TRANSPORT_OFFSET`].
    HeadersTooLong,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the frame ends within its headers",
            Self::BadVersion => "the IP version is not the one that the ethertype tells",
            Self::BadLength => "a length in the IP header contradicts the packet",
            Self::TooManyExtensions => "more than 6 IPv6 extension headers",
            Self::HeadersTooLong => "more than 192 bytes of headers",
        })
    }
}

impl core::error::Error for ParseError {}
