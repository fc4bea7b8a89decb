//! Packet headers: Ethernet, VLAN tags, PPPoE, MPLS, IPv4, IPv6 with its extension headers, and
//! ports.
//!
//! `bpf/headers.h` is the same parser in C. Tests compare the two.

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

/// The position of the destination MAC address in a frame.
pub const MAC_DESTINATION: Range<usize> = 0..6;
/// The position of the source MAC address in a frame.
pub const MAC_SOURCE: Range<usize> = 6..12;
/// The largest number of VLAN tags. A frame with more is [`Frame::Unknown`].
pub const MAX_VLAN_TAGS: usize = 2;
/// The largest number of MPLS labels. A frame with more is [`Frame::Unknown`].
pub const MAX_LABELS: usize = 4;
/// The largest number of IPv6 extension headers. More are an error.
pub const MAX_EXTENSIONS: usize = 6;
/// The largest offset of a transport header from the start of the frame, in bytes. A larger one is
/// an error.
///
/// With two VLAN tags this leaves 130 bytes for IPv6 extension headers, about twice what the
/// Internet forwards. The BPF verifier needs a bound, and both parsers must agree on it.
pub const MAX_TRANSPORT_OFFSET: usize = 192;

/// The kind of a frame, with the headers if it is an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The frame is an IP packet.
    Ip(Headers),
    /// The frame is ARP (address resolution), which a box forwards.
    Arp,
    /// The frame is of another protocol that carries no IP packet, such as spanning tree, LLDP or
    /// PPP's control protocols. A box forwards it unchanged.
    Other,
    /// The frame may carry an IP packet, but the parser cannot tell: an unknown ethertype, a third
    /// VLAN tag, a fifth MPLS label. A box forwards it unchanged, and counts it as not understood.
    Unknown,
}

/// The ports of TCP, UDP, DCCP, SCTP and UDP-Lite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ports {
    /// The sender's port.
    pub source: u16,
    /// The receiver's port.
    pub destination: u16,
}

impl Ports {
    /// Returns the ports as they are on the wire.
    pub(crate) fn to_be_bytes(self) -> [u8; 4] {
        (u32::from(self.source) << 16 | u32::from(self.destination)).to_be_bytes()
    }
}

/// The position of a fragment in its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The fragment's offset in units of 8 bytes.
    pub offset: u16,
    /// Whether more fragments follow it.
    pub more: bool,
}

/// The headers of an IP packet.
///
/// The lengths are those of the IP header. The frame may be longer, since Ethernet pads short ones,
/// or shorter, if only its beginning was captured. Code that rewrites a frame checks the length
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The IP source address.
    pub source: IpAddr,
    /// The IP destination address. With an IPv6 routing header it is the next hop.
    pub destination: IpAddr,
    /// The protocol after the IP headers (6 is TCP). For a later fragment of an IPv6 packet with
    /// extension headers in its fragmentable part, it is the first of those.
    pub protocol: u8,
    /// The differentiated services code point (RFC 2474), 6 bits.
    pub dscp: u8,
    /// The ECN codepoint (RFC 3168 section 5): 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// The ports; `None` for other protocols, later fragments and truncated headers.
    pub ports: Option<Ports>,
    /// The ID of the IPv4 header or of the IPv6 fragment header; zero without one.
    pub id: u32,
    /// The position of the fragment, if the packet is one, even if it is the only one (RFC 6946).
    pub fragment: Option<Fragment>,
    /// Offset of the IP header in the frame, in bytes. The ECN field is found relative to it.
    pub network_offset: u16,
    /// Offset of the data after the IP headers, in bytes, at most [`MAX_TRANSPORT_OFFSET`].
    pub transport_offset: u16,
    /// Length of the data after the IP headers, in bytes, by the IP header. It has more than 16
    /// bits in a jumbogram (RFC 2675).
    pub transport_len: u32,
}

impl Headers {
    /// Returns whether the packet begins with a transport header. A later fragment does not.
    pub fn has_transport(&self) -> bool {
        self.fragment.is_none_or(|f| f.offset == 0)
    }

    /// Returns the length of the IP packet in a frame of `frame` bytes, by its IP header.
    ///
    /// The bytes of a bundle are counted by it, so that both ends count the same. The link-layer
    /// header differs between links, and Ethernet pads short frames (IEEE 802.3, 3.2.8).
    pub fn ip_len(&self, frame: usize) -> usize {
        let end = usize::from(self.transport_offset).saturating_add(self.transport_len as usize);
        frame.min(end).saturating_sub(self.network_offset.into())
    }
}

/// The reason why a frame is not a valid IP packet although its ethertype says so. A box forwards
/// such a frame unchanged, counts it as not understood, and leaves the decision to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// The frame ends within its Ethernet or IP headers.
    Truncated,
    /// The IP version is not that of the ethertype.
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
            Self::BadVersion => "the IP version does not match the ethertype",
            Self::BadLength => "a length in the IP header contradicts the packet",
            Self::TooManyExtensions => "more than 6 IPv6 extension headers",
            Self::HeadersTooLong => "more than 192 bytes of headers",
        })
    }
}

impl core::error::Error for ParseError {}
