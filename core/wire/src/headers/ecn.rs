use super::Headers;
use crate::bytes::be16;

/// Sets the ECN field of a packet to CE (congestion experienced) and updates the IPv4 checksum.
///
/// `headers` must be the result of parsing `frame`. A frame that is too short for them is not
/// changed. The caller decides whether the packet may be marked (RFC 3168 section 5).
pub fn set_ce(frame: &mut [u8], headers: &Headers) {
    let Some(ip) = frame.get_mut(headers.network_offset.into()..) else { return };
    if headers.source.is_ipv6() {
        // The traffic class spans the first two bytes, and its ECN bits are in the second.
        if let Some(byte) = ip.get_mut(1) {
            *byte |= 0x30;
        }
        return;
    }
    let Some(ip) = ip.first_chunk_mut::<20>() else { return };
    let old = be16(ip[0], ip[1]);
    ip[1] |= 3;
    // RFC 1624 equation 3 in ones' complement: HC' = ~(~HC + ~m + m').
    let sum = u32::from(!be16(ip[10], ip[11])) + u32::from(!old) + u32::from(be16(ip[0], ip[1]));
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}
