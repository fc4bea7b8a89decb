use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Fragment, Headers, MAX_EXTENSIONS, MAX_TRANSPORT_OFFSET, ParseError, Ports};
use crate::bytes::{at, be16};

/// The IP protocol numbers that the parser distinguishes.
pub(crate) mod protocol {
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const DCCP: u8 = 33;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const AUTHENTICATION: u8 = 51;
    pub(crate) const DESTINATION_OPTIONS: u8 = 60;
    pub(crate) const SCTP: u8 = 132;
    pub(crate) const UDP_LITE: u8 = 136;
}

/// The type and the length of the jumbo payload option (RFC 2675 section 2).
const JUMBO_OPTION: [u8; 2] = [0xc2, 4];

impl Headers {
    /// Parses an IP packet of either version without an Ethernet header, as from a TUN device.
    ///
    /// # Errors
    /// Returns an error if the IP headers are malformed or truncated.
    pub fn parse_ip(packet: &[u8]) -> Result<Self, ParseError> {
        Self::parse_version(packet, 0)
    }

    /// Parses an IP packet of the version that its first byte, at `network_offset`, says.
    pub(super) fn parse_version(frame: &[u8], network_offset: usize) -> Result<Self, ParseError> {
        match frame.get(network_offset).ok_or(ParseError::Truncated)? >> 4 {
            4 => Self::parse_ipv4(frame, network_offset),
            6 => Self::parse_ipv6(frame, network_offset),
            _ => Err(ParseError::BadVersion),
        }
    }

    /// Parses an IPv4 header (RFC 791 section 3.1).
    pub(super) fn parse_ipv4(frame: &[u8], network_offset: usize) -> Result<Self, ParseError> {
        let ip: &[u8; 20] = at(frame, network_offset).ok_or(ParseError::Truncated)?;
        if ip[0] >> 4 != 4 {
            return Err(ParseError::BadVersion);
        }
        let header_len = u16::from(ip[0] & 15) * 4;
        let total_len = be16(ip[2], ip[3]);
        if header_len < 20 || total_len < header_len {
            return Err(ParseError::BadLength);
        }
        let flags = be16(ip[6], ip[7]);
        let fragment = Fragment { offset: flags & 0x1fff, more: flags & 0x2000 != 0 };
        Self {
            source: IpAddr::V4(Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15])),
            destination: IpAddr::V4(Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19])),
            protocol: ip[9],
            dscp: ip[1] >> 2,
            ecn: ip[1] & 3,
            ports: None,
            id: be16(ip[4], ip[5]).into(),
            fragment: (fragment.offset != 0 || fragment.more).then_some(fragment),
            network_offset: network_offset as u16,
            transport_offset: network_offset as u16 + header_len,
            transport_len: (total_len - header_len).into(),
        }
        .with_ports(frame)
    }

    /// Parses an IPv6 header and its extension headers (RFC 8200 sections 3 and 4).
    pub(super) fn parse_ipv6(frame: &[u8], network_offset: usize) -> Result<Self, ParseError> {
        let ip: &[u8; 40] = at(frame, network_offset).ok_or(ParseError::Truncated)?;
        if ip[0] >> 4 != 6 {
            return Err(ParseError::BadVersion);
        }
        let address =
            |offset| Ipv6Addr::from(core::array::from_fn::<u8, 16, _>(|i| ip[offset + i]));
        let traffic_class = (be16(ip[0], ip[1]) >> 4) as u8;
        let mut headers = Self {
            source: IpAddr::V6(address(8)),
            destination: IpAddr::V6(address(24)),
            protocol: ip[6],
            dscp: traffic_class >> 2,
            ecn: traffic_class & 3,
            ports: None,
            id: 0,
            fragment: None,
            network_offset: network_offset as u16,
            transport_offset: network_offset as u16 + 40,
            transport_len: be16(ip[4], ip[5]).into(),
        };
        if headers.transport_len == 0 && headers.protocol == protocol::HOP_BY_HOP {
            headers.transport_len = jumbo_len(frame, headers.transport_offset)?;
        }
        if is_extension(headers.protocol) {
            headers.step_over_extensions(frame)?;
        }
        headers.with_ports(frame)
    }

    /// Skips the extension headers (RFC 8200 section 4.1). ESP and unknown headers end the chain
    /// and count as the transport header.
    #[cold]
    fn step_over_extensions(&mut self, frame: &[u8]) -> Result<(), ParseError> {
        let mut left = MAX_EXTENSIONS;
        // The header of a later fragment is followed by the middle of the payload.
        while is_extension(self.protocol) && self.has_transport() {
            left = left.checked_sub(1).ok_or(ParseError::TooManyExtensions)?;
            let header: &[u8; 8] =
                at(frame, self.transport_offset.into()).ok_or(ParseError::Truncated)?;
            let len = match self.protocol {
                protocol::FRAGMENT => {
                    let field = be16(header[2], header[3]);
                    self.fragment = Some(Fragment { offset: field >> 3, more: field & 1 != 0 });
                    self.id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                    8
                }
                // The length is in units of 4 bytes, unlike all others (RFC 4302 section 2.2).
                protocol::AUTHENTICATION => (u16::from(header[1]) + 2) * 4,
                _ => (u16::from(header[1]) + 1) * 8,
            };
            self.protocol = header[0];
            self.transport_offset += len;
            if usize::from(self.transport_offset) > MAX_TRANSPORT_OFFSET {
                return Err(ParseError::HeadersTooLong);
            }
            self.transport_len =
                self.transport_len.checked_sub(len.into()).ok_or(ParseError::BadLength)?;
        }
        Ok(())
    }

    fn with_ports(mut self, frame: &[u8]) -> Result<Self, ParseError> {
        let transport = frame.get(self.transport_offset.into()..).ok_or(ParseError::Truncated)?;
        if has_ports(self.protocol) && self.has_transport() && self.transport_len >= 4 {
            self.ports = transport
                .first_chunk()
                .map(|&[a, b, c, d]| Ports { source: be16(a, b), destination: be16(c, d) });
        }
        Ok(self)
    }
}

/// Returns the payload length of a packet of more than 64 KiB, which its hop-by-hop header at
/// `offset` has (RFC 2675 section 2). Linux writes the jumbo payload option first (BIG TCP).
#[cold]
fn jumbo_len(frame: &[u8], offset: u16) -> Result<u32, ParseError> {
    let [_, _, kind, len, a, b, c, d] = *at(frame, offset.into()).ok_or(ParseError::Truncated)?;
    let payload = u32::from_be_bytes([a, b, c, d]);
    if [kind, len] != JUMBO_OPTION || payload <= u16::MAX.into() {
        return Err(ParseError::BadLength);
    }
    Ok(payload)
}

fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::AUTHENTICATION
            | protocol::DESTINATION_OPTIONS
    )
}

fn has_ports(protocol: u8) -> bool {
    matches!(
        protocol,
        protocol::TCP | protocol::UDP | protocol::DCCP | protocol::SCTP | protocol::UDP_LITE
    )
}
