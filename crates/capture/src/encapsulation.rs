//! Finds the IP packet behind the headers of a link or a tunnel.

/// The most VLAN tags or MPLS labels of a packet.
const MOST: usize = 16;

/// Returns the offset of the IP packet in an Ethernet frame; `None` if it has none.
pub fn in_ethernet(frame: &[u8]) -> Option<usize> {
    let mut at = 12;
    for _ in 0..=MOST {
        // The EtherTypes of IEEE's registry; 9100 and 9200 are those of tags before 802.1ad.
        match u16_at(frame, at)? {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => at += 4,
            0x0800 | 0x86dd => return Some(at + 2),
            0x8847 | 0x8848 => return behind_labels(frame, at + 2),
            0x8864 => return in_ppp(frame, at + 8),
            _ => return None,
        }
    }
    None
}

/// Returns the offset of the IP packet behind the MPLS labels at `at` (RFC 3032, section 2.1).
pub fn behind_labels(frame: &[u8], at: usize) -> Option<usize> {
    let (labels, _) = frame.get(at..)?.as_chunks::<4>();
    let last = labels.iter().take(MOST).position(|label| label[2] & 1 == 1)?;
    let at = at + 4 * (last + 1);
    // Only the packet itself says what it is.
    matches!(frame.get(at)? >> 4, 4 | 6).then_some(at)
}

/// Returns the offset of the IP packet in a PPP frame at `at` (RFC 2516, section 4; RFC 1661,
/// section 2).
pub fn in_ppp(frame: &[u8], at: usize) -> Option<usize> {
    matches!(u16_at(frame, at)?, 0x0021 | 0x0057).then_some(at + 2)
}

/// Returns the offset of the IP packet in a GRE packet (RFC 2784, section 2; RFC 2890, section 2).
pub fn in_gre(packet: &[u8]) -> Option<usize> {
    const ROUTING_AND_VERSION: u16 = 0x4007;
    let flags = u16_at(packet, 0).filter(|flags| flags & ROUTING_AND_VERSION == 0)?;
    let options = [0x8000, 0x2000, 0x1000].iter().filter(|option| flags & **option != 0).count();
    let at = 4 + 4 * options;
    match u16_at(packet, 2)? {
        0x0800 | 0x86dd => Some(at),
        0x6558 => Some(at + in_ethernet(packet.get(at..)?)?),
        _ => None,
    }
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}
