//! The fields of a TCP segment that matter, from a packet of a capture.

use std::net::SocketAddr;

use forebay_capture::IpPacket;
use forebay_queue::Ecn;
use forebay_units::Nanos;
use serde::Serialize;

/// The protocol number of TCP.
const TCP: u8 = 6;
/// The length of the TCP header without options, in bytes (RFC 9293 section 3.1).
const HEADER: usize = 20;

/// A TCP segment of a capture. It may be a super-packet before segmentation offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The time of the capture since 1970.
    pub at: Nanos,
    /// The sending end.
    pub from: SocketAddr,
    /// The receiving end.
    pub to: SocketAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The ID of the IPv4 header; zero in IPv6.
    pub id: u32,
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number; without meaning if the flag ACK is not set.
    pub ack: u32,
    /// The flags, AE included.
    pub flags: Flags,
    /// The length of the payload on the wire, in bytes.
    pub payload: u32,
    /// The maximum segment size, an option of SYN and SYN/ACK, in bytes.
    pub mss: Option<u16>,
    /// The timestamps option (RFC 7323 section 3).
    pub timestamps: Option<Timestamps>,
    /// The counters of the AccECN option.
    pub counters: Option<Counters>,
    /// Whether it acknowledges later data, too (RFC 2018 section 3).
    pub has_sack: bool,
}

/// The flags of a TCP header, FIN in bit 0 to AE in bit 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    const FIN: u16 = 1;
    const SYN: u16 = 1 << 1;
    const RST: u16 = 1 << 2;
    const ACK: u16 = 1 << 4;
    const ECE: u16 = 1 << 6;
    const CWR: u16 = 1 << 7;

    fn has(self, flag: u16) -> bool {
        self.0 & flag != 0
    }

    /// Whether SYN is set and ACK is not: the first segment of a connection.
    pub fn is_syn(self) -> bool {
        self.has(Self::SYN) && !self.has(Self::ACK)
    }

    /// Whether SYN and ACK are set.
    pub fn is_syn_ack(self) -> bool {
        self.has(Self::SYN) && self.has(Self::ACK)
    }

    /// Whether the acknowledgement number is valid.
    pub fn ack(self) -> bool {
        self.has(Self::ACK)
    }

    /// Whether the connection is reset.
    pub fn rst(self) -> bool {
        self.has(Self::RST)
    }

    /// Whether it is the sender's last segment.
    pub fn fin(self) -> bool {
        self.has(Self::FIN)
    }

    /// The ECN-echo flag (RFC 3168 section 6.1).
    pub fn ece(self) -> bool {
        self.has(Self::ECE)
    }

    /// The flag of a reduced window (RFC 3168 section 6.1).
    pub fn cwr(self) -> bool {
        self.has(Self::CWR)
    }

    /// The flags AE, CWR and ECE, in this order from bit 2 to bit 0: the ACE field (RFC 9768
    /// section 3.2.2).
    pub fn ace(self) -> u8 {
        (self.0 >> 6) as u8 & 0b111
    }
}

/// The timestamps option, in units of the ends' own clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The time of the sending end.
    pub value: u32,
    /// The latest time of the other end that arrived.
    pub echo: u32,
}

/// The counters of the AccECN option (RFC 9768 section 3.2.3): bytes of payload that arrived with a
/// codepoint, in 24 bits. The option may have only the first ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// The bytes that arrived with ECT(0); the field EE0B, which begins with 1.
    pub ect0: Option<u32>,
    /// The bytes that arrived with CE; the field ECEB, which begins with 0.
    pub ce: Option<u32>,
    /// The bytes that arrived with ECT(1); the field EE1B, which begins with 1.
    pub ect1: Option<u32>,
}

impl Segment {
    /// Returns the segment in `packet`. It is `None` for other protocols, fragments, and packets
    /// whose flags were not captured. Options that were not captured are left out.
    pub fn parse(packet: &IpPacket<'_>) -> Option<Self> {
        let headers = &packet.headers;
        if headers.protocol != TCP || headers.fragment.is_some() {
            return None;
        }
        let ports = headers.ports?;
        let tcp = packet.octets.get(usize::from(headers.transport_offset)..)?;
        let fixed: &[u8; 14] = tcp.first_chunk()?;
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|n| fixed[at + n]));
        let header = usize::from(fixed[12] >> 4) * 4;
        let payload = headers.transport_len.checked_sub(header as u32)?;
        if header < HEADER {
            return None;
        }
        let mut segment = Self {
            at: packet.at,
            from: SocketAddr::new(headers.source, ports.source),
            to: SocketAddr::new(headers.destination, ports.destination),
            ecn: [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(headers.ecn & 0b11)],
            id: headers.id,
            seq: word(4),
            ack: word(8),
            flags: Flags(u16::from(fixed[12] & 1) << 8 | u16::from(fixed[13])),
            payload,
            mss: None,
            timestamps: None,
            counters: None,
            has_sack: false,
        };
        let end = header.min(tcp.len());
        segment.options(tcp.get(HEADER..end).unwrap_or_default());
        Some(segment)
    }

    /// Reads the options (RFC 9293 section 3.2).
    fn options(&mut self, mut options: &[u8]) {
        while let Some((&kind, rest)) = options.split_first() {
            match kind {
                0 => return,
                1 => {
                    options = rest;
                    continue;
                }
                _ => {}
            }
            let Some(&length) = rest.first() else { return };
            let Some(value) = options.get(2..usize::from(length)) else { return };
            let word = |at: usize| -> Option<u32> {
                value.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
            };
            match (kind, value.len()) {
                (5, 8..) => self.has_sack = true,
                (2, 2) => self.mss = Some(u16::from_be_bytes([value[0], value[1]])),
                (8, 8) => {
                    self.timestamps =
                        word(0).zip(word(4)).map(|(value, echo)| Timestamps { value, echo });
                }
                // AccECN0 and AccECN1 (RFC 9768 section 3.2.3), with one to three fields.
                (172 | 174, 3 | 6 | 9) => {
                    let field = |n: usize| {
                        let bytes: &[u8; 3] = value.get(n * 3..)?.first_chunk()?;
                        Some(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]))
                    };
                    let (first, ce, last) = (field(0), field(1), field(2));
                    let (ect0, ect1) = if kind == 172 { (first, last) } else { (last, first) };
                    self.counters = Some(Counters { ect0, ce, ect1 });
                }
                _ => {}
            }
            options = &options[usize::from(length)..];
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_wire::Headers;

    use super::*;

    /// A segment of IPv4 with ECT(1), ACE 110, and these options.
    fn parse(options: &[u8], captured: usize) -> Option<Segment> {
        let words = 5 + options.len() as u8 / 4;
        let length = 20 + words * 4 + 100;
        let mut octets = vec![0x45, 1, 0, length, 0, 9, 0, 0, 64, 6, 0, 0];
        octets.extend([192, 0, 2, 1, 192, 0, 2, 2, 0x9c, 0x40, 1, 0xbb]);
        octets.extend([0, 0, 1, 0, 0, 0, 2, 0, words << 4 | 1, 0b1001_0000, 0, 0, 0, 0, 0, 0]);
        octets.extend(options);
        octets.truncate(captured);
        let headers = Headers::parse_ip(&octets).ok()?;
        let packet = IpPacket { at: Nanos(7), interface: 0, headers, octets: &octets };
        Segment::parse(&packet)
    }

    #[test]
    fn fields_and_flags_octet_by_octet() {
        let segment = parse(&[], 100).unwrap();
        assert_eq!((segment.seq, segment.ack, segment.payload), (256, 512, 100));
        assert_eq!(
            (segment.flags.ace(), segment.flags.ack(), segment.ecn),
            (0b110, true, Ecn::Ect1)
        );
        assert_eq!((segment.from.port(), segment.to.port(), segment.id), (40_000, 443, 9));
        assert_eq!(parse(&[], 34).map(|s| s.flags), Some(segment.flags), "cut behind the flags");
        assert_eq!(parse(&[], 33), None);
    }

    #[test]
    fn options_octet_by_octet() {
        let timestamps = [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 1, 0];
        let segment = parse(&timestamps, 100).unwrap();
        assert_eq!(segment.timestamps, Some(Timestamps { value: 5, echo: 256 }));
        assert_eq!(parse(&timestamps, 45).unwrap().timestamps, None, "cut");
        let counters = |kind, length| {
            let fields = [0, 0, 9, 0, 1, 0, 2, 0, 0];
            let mut option = vec![kind, length];
            option.extend(&fields[..usize::from(length) - 2]);
            option.resize(12, 1);
            parse(&option, 100).unwrap().counters
        };
        let all = |ect0, ce, ect1| Some(Counters { ect0, ce, ect1 });
        // AccECN0 has EE0B, ECEB and EE1B, and AccECN1 EE1B, ECEB and EE0B.
        assert_eq!(counters(172, 11), all(Some(9), Some(256), Some(131_072)));
        assert_eq!(counters(174, 11), all(Some(131_072), Some(256), Some(9)));
        assert_eq!(counters(174, 8), all(None, Some(256), Some(9)));
        assert_eq!(counters(172, 5), all(Some(9), None, None));
        assert_eq!(counters(172, 6), None);
        assert_eq!(parse(&[2, 4, 5, 180, 8, 0, 0, 0], 100).unwrap().mss, Some(1_460));
    }
}
