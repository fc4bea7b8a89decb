use super::{Frame, Headers, MAX_LABELS, MAX_VLAN_TAGS, ParseError};
use crate::bytes::{at, be16};

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const VLAN: u16 = 0x8100;
const IPV6: u16 = 0x86dd;
/// The ethertype of the outer of two VLAN tags (IEEE 802.1ad).
const SERVICE_VLAN: u16 = 0x88a8;
/// The ethertypes of MPLS with a unicast and with an upstream-assigned label (RFC 5332 section 4).
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// The ethertype of a PPPoE session (RFC 2516 section 4).
const PPPOE_SESSION: u16 = 0x8864;
/// Ethertypes above this are protocols; others are lengths (IEEE 802.3 clause 3.2.6).
const MAX_LENGTH: u16 = 0x05ff;
/// The ethertypes of protocols that carry no IP packets: pause frames, slow protocols (link
/// aggregation), PPPoE discovery, 802.1X and LLDP.
const WITHOUT_IP: [u16; 5] = [0x8808, 0x8809, 0x8863, 0x888e, 0x88cc];

/// The version and type of a PPPoE session header, and its code (RFC 2516 sections 4 and 6).
const PPPOE_HEADER: [u8; 2] = [0x11, 0];
/// The PPP protocols of IPv4 (RFC 1332 section 2) and of IPv6 (RFC 5072 section 3).
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;
/// The first PPP protocol that carries no packets of a network (RFC 1661 section 2).
const PPP_CONTROL: u16 = 0x8000;

/// Returns the VLAN ID of a frame's outermost tag (IEEE 802.1Q section 9.6), `None` without a tag.
pub fn vlan(frame: &[u8]) -> Option<u16> {
    let [type_high, type_low, high, low] = *at(frame, 12)?;
    let tagged = matches!(be16(type_high, type_low), VLAN | SERVICE_VLAN);
    tagged.then_some(be16(high, low) & 0x0fff)
}

impl Frame {
    /// Parses an Ethernet frame, which begins with its destination MAC address.
    ///
    /// The IP packet is also found in a PPPoE session and below at most [`MAX_LABELS`] MPLS labels.
    ///
    /// # Errors
    /// Returns an error if the IP headers are malformed or truncated, or if the frame is too short
    /// for its link-layer headers. A malformed *transport* header is not an error: such a packet
    /// has no [`Headers::ports`] and no fingerprint, but it still belongs to a bundle.
    pub fn parse(frame: &[u8]) -> Result<Self, ParseError> {
        let [high, low] = *at(frame, 12).ok_or(ParseError::Truncated)?;
        let mut ethertype = be16(high, low);
        let mut offset = 14;
        for _ in 0..MAX_VLAN_TAGS {
            if ethertype != VLAN && ethertype != SERVICE_VLAN {
                break;
            }
            let [_, _, high, low] = *at(frame, offset).ok_or(ParseError::Truncated)?;
            ethertype = be16(high, low);
            offset += 4;
        }
        match ethertype {
            IPV4 => Headers::parse_ipv4(frame, offset).map(Self::Ip),
            IPV6 => Headers::parse_ipv6(frame, offset).map(Self::Ip),
            ARP => Ok(Self::Arp),
            _ => Self::parse_other(frame, ethertype, offset),
        }
    }

    #[cold]
    fn parse_other(frame: &[u8], ethertype: u16, offset: usize) -> Result<Self, ParseError> {
        match ethertype {
            PPPOE_SESSION => Self::parse_pppoe(frame, offset),
            _ if MPLS.contains(&ethertype) => Self::parse_mpls(frame, offset),
            _ if ethertype <= MAX_LENGTH || WITHOUT_IP.contains(&ethertype) => Ok(Self::Other),
            _ => Ok(Self::Unknown),
        }
    }

    /// Parses a frame whose PPPoE header is at `offset`. PPP's protocol field has two bytes there.
    fn parse_pppoe(frame: &[u8], offset: usize) -> Result<Self, ParseError> {
        let header: &[u8; 8] = at(frame, offset).ok_or(ParseError::Truncated)?;
        if header[..2] != PPPOE_HEADER {
            return Ok(Self::Unknown);
        }
        match be16(header[6], header[7]) {
            PPP_IPV4 => Headers::parse_ipv4(frame, offset + 8).map(Self::Ip),
            PPP_IPV6 => Headers::parse_ipv6(frame, offset + 8).map(Self::Ip),
            PPP_CONTROL.. => Ok(Self::Other),
            _ => Ok(Self::Unknown),
        }
    }

    /// Parses a frame whose first MPLS label is at `offset` (RFC 3032 section 2.1). The labels do
    /// not say what follows them: the version of an IP packet does (RFC 4928 section 3).
    fn parse_mpls(frame: &[u8], offset: usize) -> Result<Self, ParseError> {
        for label in 0..MAX_LABELS {
            let at_label = offset + 4 * label;
            let [_, _, last, _] = *at(frame, at_label).ok_or(ParseError::Truncated)?;
            if last & 1 != 0 {
                return match Headers::parse_version(frame, at_label + 4) {
                    Err(ParseError::BadVersion) => Ok(Self::Unknown),
                    other => other.map(Self::Ip),
                };
            }
        }
        Ok(Self::Unknown)
    }
}
