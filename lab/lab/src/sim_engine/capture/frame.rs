//! The headers of a simulated packet as bytes: Ethernet, IPv4 or IPv6, and TCP or UDP.
//!
//! The payload is not part of a capture and counts as zeros, so that checksums hold without it.

use std::net::{IpAddr, SocketAddr};

use forebay_queue::Ecn;
use forebay_sim::TcpHeader;

/// The length of the longest headers: Ethernet, IPv6, and TCP with all options.
pub(super) const SNAP: u32 = (ETHERNET + IPV6 + 60) as u32;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;
const UDP: usize = 8;

/// The protocol numbers of IP.
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// The time to live of all packets, Linux's default.
const HOPS: u8 = 64;
/// The flag "do not fragment" of IPv4.
const DO_NOT_FRAGMENT: u8 = 0x40;
/// The maximum segment size of a SYN: 1500 B less the headers of IPv4 and TCP.
const MSS: u16 = 1460;

/// A frame to write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The two ends, whose addresses are of one IP version.
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) ecn: Ecn,
    /// The identification of IPv4.
    pub(super) id: u16,
    /// The length with IPv4's headers, as the simulator counts it.
    pub(super) length: u32,
    /// The header of TCP; `None` for UDP.
    pub(super) tcp: Option<TcpHeader>,
}

impl Frame {
    /// Replaces the content of `out` by the headers. Returns the length of the whole frame, which
    /// with IPv6 is 20 bytes more than the simulator's.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> u32 {
        let mut transport = match &self.tcp {
            Some(tcp) => tcp_header(tcp, self.source.port(), self.destination.port()),
            None => udp_header(self.source.port(), self.destination.port()),
        };
        // The header and the payload. The simulator's length includes the same headers.
        let length = (self.length as usize).saturating_sub(ETHERNET + IPV4).max(transport.len());
        let protocol = if self.tcp.is_some() { PROTOCOL_TCP } else { PROTOCOL_UDP };
        out.clear();
        out.extend(mac(self.destination.ip()));
        out.extend(mac(self.source.ip()));
        match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                out.extend([0x08, 0x00]);
                let start = out.len();
                out.extend([0x45, ecn_field(self.ecn)]);
                out.extend(((IPV4 + length) as u16).to_be_bytes());
                out.extend(self.id.to_be_bytes());
                out.extend([DO_NOT_FRAGMENT, 0, HOPS, protocol, 0, 0]);
                out.extend(source.octets());
                out.extend(destination.octets());
                let value = checksum(sum(&out[start..]));
                out[start + 10..start + 12].copy_from_slice(&value.to_be_bytes());
            }
            (source, destination) => {
                out.extend([0x86, 0xDD]);
                // Version 6, the traffic class, and no flow label.
                let ecn = ecn_field(self.ecn);
                out.extend([0x60 | ecn >> 4, ecn << 4, 0, 0]);
                out.extend((length as u16).to_be_bytes());
                out.extend([protocol, HOPS]);
                out.extend(octets_v6(source));
                out.extend(octets_v6(destination));
            }
        }
        let addresses = match self.source {
            SocketAddr::V4(_) => 8,
            SocketAddr::V6(_) => 32,
        };
        if self.tcp.is_none() {
            transport[4..6].copy_from_slice(&(length as u16).to_be_bytes());
        }
        let pseudo = sum(&out[out.len() - addresses..]) + u32::from(protocol) + length as u32;
        let value = match (checksum(pseudo + sum(&transport)), self.tcp) {
            // Zero would mean that there is no checksum (RFC 768).
            (0, None) => u16::MAX,
            (value, _) => value,
        };
        let place = if self.tcp.is_some() { 16 } else { 6 };
        transport[place..place + 2].copy_from_slice(&value.to_be_bytes());
        let start = out.len();
        out.extend(&transport);
        (start + length) as u32
    }
}

/// Returns the header of TCP with its options, and zero in place of the checksum.
fn tcp_header(tcp: &TcpHeader, source: u16, destination: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(60);
    out.extend(source.to_be_bytes());
    out.extend(destination.to_be_bytes());
    out.extend(tcp.seq.to_be_bytes());
    out.extend(tcp.ack.to_be_bytes());
    out.extend([0; 2]);
    out.extend(tcp.window.to_be_bytes());
    out.extend([0; 4]);
    let timestamps = |out: &mut Vec<u8>| {
        out.extend([8, 10]);
        out.extend(tcp.timestamps.0.to_be_bytes());
        out.extend(tcp.timestamps.1.to_be_bytes());
    };
    if tcp.flags & TcpHeader::SYN != 0 {
        // The maximum segment size, SACK permitted, timestamps, padding, the window scale.
        out.extend([2, 4]);
        out.extend(MSS.to_be_bytes());
        out.extend([4, 2]);
        timestamps(&mut out);
        out.extend([1, 3, 3, TcpHeader::WINDOW_SCALE]);
    } else {
        out.extend([1, 1]);
        timestamps(&mut out);
        let blocks = tcp.sack.iter().flatten();
        let count = blocks.clone().count();
        if count > 0 {
            out.extend([1, 1, 5, 2 + 8 * count as u8]);
        }
        for (start, end) in blocks {
            out.extend(start.to_be_bytes());
            out.extend(end.to_be_bytes());
        }
    }
    let words = (out.len() / 4) as u16;
    out[12..14].copy_from_slice(&(words << 12 | tcp.flags).to_be_bytes());
    debug_assert!(out.len() >= TCP && out.len() <= 60);
    out
}

/// Returns the header of UDP, with zero in place of length and checksum.
fn udp_header(source: u16, destination: u16) -> Vec<u8> {
    let mut out = vec![0; UDP];
    out[0..2].copy_from_slice(&source.to_be_bytes());
    out[2..4].copy_from_slice(&destination.to_be_bytes());
    out
}

/// Returns a locally administered address made of the last four bytes of the IP address.
fn mac(ip: IpAddr) -> [u8; 6] {
    let [.., a, b, c, d] = octets_v6(ip);
    [0x02, 0, a, b, c, d]
}

fn octets_v6(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Returns the codepoint in the two low bits of the traffic class (RFC 3168 section 5).
fn ecn_field(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0b00,
        Ecn::Ect1 => 0b01,
        Ecn::Ect0 => 0b10,
        Ecn::Ce => 0b11,
    }
}

/// Sums 16-bit words; an odd last byte is the upper half of a word.
fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

/// Returns the Internet checksum of a sum of words (RFC 1071).
fn checksum(mut sum: u32) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(source: &str, destination: &str, tcp: Option<TcpHeader>, length: u32) -> Frame {
        let [source, destination] = [source, destination].map(|end| end.parse().unwrap());
        Frame { source, destination, ecn: Ecn::Ce, id: 0x1234, length, tcp }
    }

    fn written(frame: Frame) -> (Vec<u8>, u32) {
        let mut out = vec![9; 3];
        let length = frame.write(&mut out);
        (out, length)
    }

    /// The checksums are computed by hand: the sum of the words of the header, of the pseudo-header
    /// with IPv4, complemented.
    #[test]
    fn a_datagram_over_ipv4_by_hand() {
        let (bytes, length) = written(frame("10.0.0.1:1", "10.0.0.2:2", None, 14 + 28 + 100));
        #[rustfmt::skip]
        let expected = [
            2, 0, 10, 0, 0, 2, 2, 0, 10, 0, 0, 1, 0x08, 0x00,
            // Words: 4503 0080 1234 4000 4011, addresses 0A00 0001 0A00 0002: sum EBCB.
            0x45, 0x03, 0, 128, 0x12, 0x34, 0x40, 0, 64, 17, 0x14, 0x34,
            10, 0, 0, 1, 10, 0, 0, 2,
            // Addresses 1403, protocol 0011 and length 006C; words 0001 0002 006C: sum 14EF.
            0, 1, 0, 2, 0, 108, 0xEB, 0x10,
        ];
        assert_eq!((bytes.as_slice(), length), (expected.as_slice(), 142));
    }

    #[test]
    fn a_segment_over_ipv6_by_hand() {
        let tcp = TcpHeader {
            seq: 0x0000_0001,
            ack: 0x0000_0101,
            flags: TcpHeader::ACK | TcpHeader::AE,
            window: 64,
            timestamps: (1, 2),
            sack: [Some((0x201, 0x301)), None, None],
        };
        let length = 14 + 20 + 20 + 12 + 12;
        let (bytes, whole) = written(frame("[fd77::1]:1", "[fd77::2]:2", Some(tcp), length));
        #[rustfmt::skip]
        let expected = [
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xDD,
            0x60, 0x30, 0, 0, 0, 44, 6, 64,
            0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
            0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
            // The pseudo-header: FD77 0001 FD77 0002, length 002C, protocol 0006: sum 1FB23, folded
            // FB24. The words below without the checksum: 0001 0002 0000 0001 0000 0101 B110 0040,
            // 0101 080A 0000 0001 0000 0002, 0101 050A 0000 0201 0000 0301: sum C670. Both are
            // 1C194, folded C195.
            0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 1, 1, 0xB1, 0x10, 0, 64, 0x3E, 0x6A, 0, 0,
            1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2,
            1, 1, 5, 10, 0, 0, 2, 1, 0, 0, 3, 1,
        ];
        assert_eq!((bytes.as_slice(), whole), (expected.as_slice(), length + 20));
    }

    #[test]
    fn a_syn_announces_its_options() {
        let tcp = TcpHeader { flags: TcpHeader::SYN, ..TcpHeader::default() };
        let (bytes, length) = written(frame("1.0.0.1:1", "1.0.0.2:2", Some(tcp), 74));
        assert_eq!((bytes.len(), length), (74, 74), "no payload");
        assert_eq!(bytes[46..48], [0xA0, 0x02], "ten words");
        let options = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 3, 10];
        assert_eq!(bytes[54..], options);
    }
}
