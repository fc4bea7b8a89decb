use super::{Frame, Headers, MAX_VLAN_TAGS, ParseError};
use crate::bytes::{at, be16};

const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const VLAN: u16 = 0x8100;
const IPV6: u16 = 0x86dd;
/// The ethertype of the outer of two VLAN tags (IEEE 802.1ad).
const SERVICE_VLAN: u16 = 0x88a8;

/// Returns the VLAN ID of a frame's outermost tag (IEEE 802.1Q section 9.6), `None` without a tag.
pub fn vlan(frame: &[u8]) -> Option<u16> {
    let [type_high, type_low, high, low] = *at(frame, 12)?;
    let tagged = matches!(be16(type_high, type_low), VLAN | SERVICE_VLAN);
    tagged.then_some(be16(high, low) & 0x0fff)
}

impl Frame {
    /// Parses an Ethernet frame, which begins with its destination MAC address.
    ///
    /// # Errors
    /// Returns an error if the ethertype is IP but the IP headers are malformed or truncated, or if
    /// the frame is too short for Ethernet. A malformed *transport* header is not an error: such a
    /// packet has no [`Headers::ports`] and no fingerprint, but it still belongs to a bundle.
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
            _ => Ok(Self::Other),
        }
    }
}
