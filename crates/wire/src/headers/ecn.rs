use super::Headers;
use crate::bytes::be16;

/// Marks the packet as having met congestion: sets the ECN field to CE and mends the IPv4 header
/// checksum. `headers` must be what `frame` was parsed to; a frame that is too short for them is
/// left as it is. Whether the packet may be marked (RFC 3168 section 5) is the caller's to know.
pub fn set_ce(frame: &mut [u8], headers: &Headers) {
    let Some(ip) = frame.get_mut(headers.network_offset.into()..) else { return };
    if headers.source.is_ipv6() {
        // The traffic class lies across the first two bytes, its ECN bits in the second.
        if let Some(byte) = ip.get_mut(1) {
            *byte |= 0x30;
        }
        return;
    }
    let Some(ip) = ip.first_chunk_mut::<20>() else { return };
    let old = be16(ip[0], ip[1]);
    ip[1] |= 3;
    // RFC 1624 equation 3: HC' = ~(~HC + ~m + m'), in ones' complement.
    let sum = u32::from(!be16(ip[10], ip[11])) + u32::from(!old) + u32::from(be16(ip[0], ip[1]));
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}
