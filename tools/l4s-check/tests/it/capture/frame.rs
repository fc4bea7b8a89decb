//! Packets of a capture, byte by byte.

use std::net::IpAddr;

use forebay_queue::Ecn;

/// A TCP segment to write.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tcp {
    pub(crate) to_server: bool,
    pub(crate) id: u16,
    pub(crate) ecn: Ecn,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// The flags from FIN to AE.
    pub(crate) flags: u16,
    pub(crate) payload: u32,
    pub(crate) timestamps: Option<(u32, u32)>,
    /// The fields of the option AccECN1: EE1B, ECEB, EE0B.
    pub(crate) counters: Option<[u32; 3]>,
}

pub(crate) const SYN: u16 = 2;
pub(crate) const ACK: u16 = 16;
pub(crate) const MSS: u32 = 1_460;

/// Returns the IPv4 packet without its payload, as `tcpdump -s 128` may have it.
pub(crate) fn ipv4(tcp: &Tcp) -> Vec<u8> {
    let header = tcp_header(tcp);
    let length = (20 + header.len() as u32 + tcp.payload) as u16;
    let (from, to) = ends(tcp, ["192.0.2.1", "198.51.100.2"]);
    let mut packet = vec![0x45, bits(tcp.ecn)];
    packet.extend(length.to_be_bytes());
    packet.extend(tcp.id.to_be_bytes());
    packet.extend([0x40, 0, 64, 6, 0, 0]);
    packet.extend(octets(from));
    packet.extend(octets(to));
    packet.extend(header);
    packet
}

/// The same in IPv6.
pub(crate) fn ipv6(tcp: &Tcp) -> Vec<u8> {
    let header = tcp_header(tcp);
    let length = (header.len() as u32 + tcp.payload) as u16;
    let (from, to) = ends(tcp, ["2001:db8::1", "2001:db8::2"]);
    let mut packet = vec![0x60, bits(tcp.ecn) << 4, 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([6, 64]);
    packet.extend(octets(from));
    packet.extend(octets(to));
    packet.extend(header);
    packet
}

fn ends(tcp: &Tcp, [client, server]: [&str; 2]) -> (IpAddr, IpAddr) {
    let [client, server] = [client, server].map(|ip| ip.parse().unwrap());
    if tcp.to_server { (client, server) } else { (server, client) }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

fn tcp_header(tcp: &Tcp) -> Vec<u8> {
    let mut options = Vec::new();
    if tcp.flags & SYN != 0 {
        options.extend([2, 4]);
        options.extend((MSS as u16).to_be_bytes());
    }
    if let Some((value, echo)) = tcp.timestamps {
        options.extend([1, 1, 8, 10]);
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    }
    if let Some(counters) = tcp.counters {
        options.extend([174, 11]);
        options.extend(counters.iter().flat_map(|c| c.to_be_bytes()[1..].to_vec()));
        options.push(1);
    }
    let ports: [u16; 2] = if tcp.to_server { [40_000, 443] } else { [443, 40_000] };
    let mut header: Vec<u8> = ports.iter().flat_map(|p| p.to_be_bytes()).collect();
    header.extend(tcp.seq.to_be_bytes());
    header.extend(tcp.ack.to_be_bytes());
    let words = (5 + options.len() / 4) as u8;
    header.extend([words << 4 | (tcp.flags >> 8) as u8, tcp.flags as u8]);
    header.extend([0xff, 0xff, 0, 0, 0, 0]);
    header.extend(options);
    header
}

/// Puts packets behind the header of a file of pcap in nanoseconds, with a link header each.
pub(crate) fn pcap(link: u32, before: &[u8], packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 128, link] {
        file.extend(word.to_le_bytes());
    }
    for (at, packet) in packets {
        let captured = (before.len() + packet.len()) as u32;
        // The length on the wire is in the IP header.
        let words = [(at / 1_000_000_000) as u32, (at % 1_000_000_000) as u32, captured, captured];
        file.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        file.extend(before);
        file.extend(packet);
    }
    file
}
