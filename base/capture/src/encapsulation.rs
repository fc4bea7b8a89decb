//! Finds the IP packet behind the headers of a link or a tunnel.

/// The most VLAN tags or MPLS labels of a packet.
const MAX_TAGS: usize = 16;
/// The type of Ethernet in other protocols (RFC 1701).
const ETHERNET: u16 = 0x6558;
/// The address and control octets of PPP in HDLC-like framing (RFC 1662, section 3.1).
const HDLC: [u8; 2] = [0xff, 0x03];
/// The octets in front of the type of a frame of IEEE 802.2 with SNAP.
const SNAP: [u8; 6] = [0xaa, 0xaa, 3, 0, 0, 0];
/// The largest number in the place of an EtherType that is a length (IEEE 802.3, section 3.2.6).
const MAX_LLC: u16 = 1500;

/// Returns the offset of the IP packet in an Ethernet frame; `None` if it has none.
pub fn in_ethernet(frame: &[u8]) -> Option<usize> {
    behind_type(frame, 12)
}

/// Returns the offset of the IP packet behind the EtherType at `at`; `None` if it has none.
pub fn behind_type(frame: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..=MAX_TAGS {
        // The EtherTypes of IEEE's registry; 9100 and 9200 are those of tags before 802.1ad.
        match u16_at(frame, at)? {
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => at += 4,
            0x0800 | 0x86dd => return Some(at + 2),
            0x8847 | 0x8848 => return behind_labels(frame, at + 2),
            0x8864 => return in_ppp(frame, at + 8),
            // A provider backbone bridge: its tag has four octets, and Ethernet follows.
            0x88e7 => return Some(at + 6 + in_ethernet(frame.get(at + 6..)?)?),
            0..=MAX_LLC if frame.get(at + 2..)?.starts_with(&SNAP) => at += 8,
            _ => return None,
        }
    }
    None
}

/// Returns the offset of the IP packet behind the MPLS labels at `at` (RFC 3032, section 2.1), also
/// in Ethernet behind a control word (RFC 4448, section 4.6).
pub fn behind_labels(frame: &[u8], at: usize) -> Option<usize> {
    let (labels, _) = frame.get(at..)?.as_chunks::<4>();
    let last = labels.iter().take(MAX_TAGS).position(|label| label[2] & 1 == 1)?;
    let at = at + 4 * (last + 1);
    // Only the packet itself says what it is.
    match frame.get(at)? >> 4 {
        4 | 6 => Some(at),
        0 => Some(at + 4 + in_ethernet(frame.get(at + 4..)?)?),
        _ => None,
    }
}

/// Returns the offset of the IP packet in a PPP frame at `at` (RFC 2516, section 4; RFC 1661,
/// section 2), also in HDLC-like framing.
pub fn in_ppp(frame: &[u8], mut at: usize) -> Option<usize> {
    if frame.get(at..)?.starts_with(&HDLC) {
        at += HDLC.len();
    }
    matches!(u16_at(frame, at)?, 0x0021 | 0x0057).then_some(at + 2)
}

/// Returns the offset of the IP packet in a GRE packet (RFC 2784, section 2; RFC 2890, section 2),
/// also in one of a switch that mirrors frames (ERSPAN).
pub fn in_gre(packet: &[u8]) -> Option<usize> {
    const ROUTING_AND_VERSION: u16 = 0x4007;
    const SEQUENCE: u16 = 0x1000;
    let flags = u16_at(packet, 0).filter(|flags| flags & ROUTING_AND_VERSION == 0)?;
    let options = [0x8000, 0x2000, SEQUENCE].iter().filter(|option| flags & **option != 0).count();
    let at = 4 + 4 * options;
    let ethernet = |at: usize| Some(at + in_ethernet(packet.get(at..)?)?);
    match u16_at(packet, 2)? {
        0x0800 | 0x86dd => Some(at),
        0x8847 | 0x8848 => behind_labels(packet, at),
        ETHERNET => ethernet(at),
        // Types I and II of ERSPAN; only the second one has sequence numbers, and a header.
        0x88be if flags & SEQUENCE == 0 => ethernet(at),
        0x88be => ethernet(at + 8),
        // Type III has eight octets more if its last bit says so.
        0x22eb => ethernet(at + 12 + if packet.get(at + 11)? & 1 == 1 { 8 } else { 0 }),
        _ => None,
    }
}

/// Returns the offset of the IP packet in the payload of a UDP datagram to this port, if that is
/// one of a tunnel: `Some(None)` if there is none in it.
///
/// The tunnels are VXLAN (RFC 7348; 8472 is Linux' own port), VXLAN-GPE, Geneve (RFC 8926) and
/// GTP-U (3GPP TS 29.281).
pub fn in_udp(port: u16, payload: &[u8]) -> Option<Option<usize>> {
    let ethernet = |at: usize| Some(at + in_ethernet(payload.get(at..)?)?);
    match (port, payload) {
        // The flag I, and nothing in the reserved bits but those of extensions.
        (4789 | 8472, [flags, _, _, _, _, _, _, 0, ..]) if flags & 0x08 != 0 => Some(ethernet(8)),
        (4790, [flags, _, _, next, ..]) if flags & 0x04 != 0 => Some(match next {
            1 | 2 => Some(8),
            3 => ethernet(8),
            _ => None,
        }),
        (6081, [lengths, _, a, b, ..]) if lengths >> 6 == 0 => {
            let at = 8 + 4 * usize::from(lengths & 0x3f);
            match u16::from_be_bytes([*a, *b]) {
                ETHERNET => Some(ethernet(at)),
                0x0800 | 0x86dd => Some(Some(at)),
                _ => None,
            }
        }
        // A packet of a user in version 1.
        (2152, [flags, 255, ..]) if flags >> 4 == 3 => Some(in_gtp(*flags, payload)),
        _ => None,
    }
}

/// Returns the offset of the packet in a message of GTP-U, behind its extension headers.
fn in_gtp(flags: u8, payload: &[u8]) -> Option<usize> {
    if flags & 0x07 == 0 {
        return Some(8);
    }
    let mut at = 12;
    let mut next = if flags & 0x04 != 0 { *payload.get(11)? } else { 0 };
    for _ in 0..MAX_TAGS {
        if next == 0 {
            return Some(at);
        }
        let length = 4 * usize::from(*payload.get(at)?);
        next = *payload.get(at + length.checked_sub(1)?)?;
        at += length;
    }
    None
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}
