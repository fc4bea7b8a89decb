//! Reads IP packets and UDP datagrams from a capture file: pcap as `tcpdump -w` writes it, or
//! pcapng.
//!
//! The file formats are draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. The `pcap-parser`
//! crate reads headers and blocks; this crate finds IP and UDP in the packets and converts times.
//! [`Capture::next_ip`] has every IP packet, [`Capture::next_datagram`] only UDP.

#![forbid(unsafe_code)]

pub mod encapsulation;

use std::net::IpAddr;

use forebay_units::Nanos;
use forebay_wire::{Headers, ParseError};
use pcap_parser::nom::{self, Needed};
use pcap_parser::{
    Block, InterfaceDescriptionBlock, OptionCode, PcapError, parse_block_be, parse_block_le,
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header, parse_sectionheaderblock,
};

/// A UDP datagram of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The address of the sender.
    pub from: IpAddr,
    /// The time of the capture, in milliseconds since 1970.
    pub at: i64,
    /// The offset of the payload in the file, in octets.
    pub place: usize,
    /// The payload, shorter than what was sent if the capture has only part of each packet.
    pub octets: &'a [u8],
}

/// An IP packet of a capture, the innermost one of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpPacket<'a> {
    /// The time of the capture since 1970.
    pub at: Nanos,
    /// The number of the interface in its section, in the order of their descriptions; 0 in pcap.
    pub interface: u32,
    /// The headers of IP, with offsets into `octets`. Their length is that of the packet on the
    /// wire also where the header has none because offload makes the packet too large for it.
    pub headers: Headers,
    /// The captured part of the packet, from the IP header on.
    pub octets: &'a [u8],
}

/// An error in a capture, and the place of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at octet {at}: {what}")]
pub struct CaptureError {
    /// The offset in the file of the header, packet or block with the error.
    pub at: usize,
    /// What is wrong, and what to do about it.
    pub what: String,
}

/// The header in front of the IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// An Ethernet header, maybe followed by VLAN tags, MPLS labels or PPPoE.
    Ethernet,
    /// A header of this many octets that is skipped.
    Skipped(usize),
}

impl Link {
    /// Returns the link of a number in the registry of link types (draft-ietf-opsawg-pcaplinktype).
    fn of(number: u16, at: usize) -> Result<Self, CaptureError> {
        match number {
            1 => Ok(Self::Ethernet),
            12 | 101 | 228 | 229 => Ok(Self::Skipped(0)),
            113 => Ok(Self::Skipped(16)),
            276 => Ok(Self::Skipped(20)),
            other => fail(
                at,
                format!(
                    "link type {other} is not supported: capture on Ethernet, or with `tcpdump -i any`"
                ),
            ),
        }
    }
}

/// An interface of a pcapng section.
#[derive(Clone, Debug)]
struct Interface {
    /// The number of the link type.
    link: u16,
    /// The option `if_name`, empty without one.
    name: String,
    /// The units of a second that packet times are in.
    units: u128,
    /// What is added to packet times, in nanoseconds.
    offset: i128,
}

impl Interface {
    fn of(block: &InterfaceDescriptionBlock<'_>, big: bool) -> Self {
        // The option `if_tsresol`: a negative power of 2 if the upper bit is set, else of 10. The
        // parser's own conversion knows no powers of 2.
        let (base, power) = match block.if_tsresol {
            power @ 0x80.. => (2_u128, power & 0x7f),
            power => (10, power),
        };
        let option = block.options.iter().find(|o| o.code == OptionCode::IfTsoffset);
        let seconds = option.and_then(|o| o.value().first_chunk()).map_or(0, |octets| match big {
            true => i64::from_be_bytes(*octets),
            false => i64::from_le_bytes(*octets),
        });
        let name = block.options.iter().find(|o| o.code == OptionCode(IF_NAME));
        let name = name.and_then(|o| o.as_bytes().ok()).unwrap_or_default();
        Self {
            name: String::from_utf8_lossy(name).into_owned(),
            // The parser reads both fields in the byte order of the section.
            link: block.linktype.0 as u16,
            units: base.checked_pow(u32::from(power)).unwrap_or(u128::MAX),
            offset: i128::from(seconds) * NANOS,
        }
    }

    /// Converts a packet time to nanoseconds since 1970.
    fn nanos(&self, time: u64) -> i128 {
        // It fits: 64 bits times 30 bits.
        (u128::from(time) * NANOS as u128 / self.units) as i128 + self.offset
    }
}

/// The file format, with what the headers so far say of the packets to come.
#[derive(Clone, Debug)]
enum Format {
    Pcap { big: bool, nanos_in_unit: u32, link: Link },
    Pcapng { big: bool, interfaces: Vec<Interface> },
}

/// A packet of the capture, from its link header on.
struct Packet<'a> {
    link: Link,
    /// The time of the capture, in nanoseconds since 1970.
    at: i128,
    /// The number of the interface.
    interface: u32,
    /// The offset of the packet in the file.
    place: usize,
    octets: &'a [u8],
    /// The length on the wire, in octets.
    length: u32,
}

/// The innermost IP packet of a packet.
struct Innermost {
    /// The offset of its header in the captured packet.
    start: usize,
    headers: Headers,
}

/// A capture that is being read.
#[derive(Clone, Debug)]
pub struct Capture<'a> {
    file: &'a [u8],
    /// The offset of the next packet or block.
    at: usize,
    format: Format,
    /// The fragments of datagrams so far; they are left out.
    pub fragments: u64,
    /// The offset of a packet at the end of the file that is incomplete, once it was met. It is
    /// left out: the program that captured was stopped while it wrote, or the disk was full.
    pub cut: Option<usize>,
}

/// The largest packet that is accepted, in octets: what `tcpdump` captures at most.
const MAX_PACKET: usize = 1 << 18;
/// The largest block of pcapng that is accepted, in octets: a packet with its options.
const MAX_BLOCK: usize = MAX_PACKET + (1 << 17);

/// Whether `file` is a capture, in the format pcap or pcapng.
pub fn is_capture(file: &[u8]) -> bool {
    file.first_chunk().is_some_and(|magic| {
        matches!(
            *magic,
            [0xa1, 0xb2, 0xc3, 0xd4]
                | [0xd4, 0xc3, 0xb2, 0xa1]
                | [0xa1, 0xb2, 0x3c, 0x4d]
                | [0x4d, 0x3c, 0xb2, 0xa1]
                | SECTION
        )
    })
}

/// The first octets of a section header of pcapng, in either byte order.
const SECTION: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

fn fail<T>(at: usize, what: impl Into<String>) -> Result<T, CaptureError> {
    Err(CaptureError { at, what: what.into() })
}

/// An answer of the parser: what is left of the file, and the packet or block before it.
type Parsed<'a, T> = Result<(&'a [u8], T), nom::Err<PcapError<&'a [u8]>>>;

impl<'a> Capture<'a> {
    /// Opens the capture in `file`.
    ///
    /// # Errors
    /// If the file is not a capture, or its header is incomplete or of an unsupported link type.
    pub fn new(file: &'a [u8]) -> Result<Self, CaptureError> {
        if !is_capture(file) {
            return fail(0, "is not a capture");
        }
        let (at, format) = if file.starts_with(&SECTION) {
            if parse_sectionheaderblock(file).is_err() {
                return fail(0, INCOMPLETE);
            }
            (0, Format::Pcapng { big: false, interfaces: Vec::new() })
        } else {
            let Ok((_, header)) = parse_pcap_header(file) else { return fail(0, INCOMPLETE) };
            // The upper half of the field is about frame check sequences.
            let link = Link::of(header.network.0 as u16, 20)?;
            let nanos_in_unit = if header.is_nanosecond_precision() { 1 } else { 1000 };
            (24, Format::Pcap { big: header.is_bigendian(), nanos_in_unit, link })
        };
        Ok(Self { file, at, format, fragments: 0, cut: None })
    }

    /// Returns the next UDP datagram, and `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged: what follows cannot be read.
    pub fn next_datagram(&mut self) -> Result<Option<Datagram<'a>>, CaptureError> {
        while self.at < self.file.len() && self.cut.is_none() {
            let Some(packet) = self.next_packet()? else { continue };
            if let Some(datagram) = self.datagram(&packet) {
                return Ok(Some(datagram));
            }
        }
        Ok(None)
    }

    /// Returns the next IP packet that is no later fragment, and `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged: what follows cannot be read.
    pub fn next_ip(&mut self) -> Result<Option<IpPacket<'a>>, CaptureError> {
        while self.at < self.file.len() && self.cut.is_none() {
            let Some(packet) = self.next_packet()? else { continue };
            let Some(Innermost { start, headers }) = self.innermost(&packet) else { continue };
            if !headers.has_transport() {
                self.fragments += 1;
                continue;
            }
            let at = Nanos(u64::try_from(packet.at.max(0)).unwrap_or(u64::MAX));
            let octets = &packet.octets[start..];
            return Ok(Some(IpPacket { at, interface: packet.interface, headers, octets }));
        }
        Ok(None)
    }

    /// Returns the name of an interface of the present section of pcapng, if it has one.
    pub fn interface_name(&self, interface: u32) -> Option<&str> {
        let Format::Pcapng { interfaces, .. } = &self.format else { return None };
        let name = interfaces.get(interface as usize)?.name.as_str();
        (!name.is_empty()).then_some(name)
    }

    /// Reads the packet or block at the present place and advances; `None` if it is not a packet.
    fn next_packet(&mut self) -> Result<Option<Packet<'a>>, CaptureError> {
        let (file, at) = (&self.file[self.at..], self.at);
        match self.format {
            Format::Pcap { big, nanos_in_unit, link } => {
                let parsed = if big { parse_pcap_frame_be(file) } else { parse_pcap_frame(file) };
                let Some(frame) = self.advance(parsed)? else { return Ok(None) };
                let nanos = i128::from(frame.ts_usec) * i128::from(nanos_in_unit);
                checked(Packet {
                    link,
                    at: i128::from(frame.ts_sec) * NANOS + nanos,
                    interface: 0,
                    place: at + 16,
                    octets: frame.data,
                    length: frame.origlen,
                })
                .map(Some)
            }
            Format::Pcapng { big, .. } => {
                let parsed = if big { parse_block_be(file) } else { parse_block_le(file) };
                match self.advance(parsed)? {
                    Some(block) => self.block(at, block),
                    None => Ok(None),
                }
            }
        }
    }

    /// Takes a result of the parser and advances to what follows it.
    ///
    /// If the file ends too early, `None`, and the rest of the file is left out.
    fn advance<T>(&mut self, parsed: Parsed<'a, T>) -> Result<Option<T>, CaptureError> {
        let left = self.file.len() - self.at;
        match parsed {
            Ok((rest, found)) => {
                self.at = self.file.len() - rest.len();
                Ok(Some(found))
            }
            Err(nom::Err::Incomplete(Needed::Size(more))) if left + more.get() > MAX_BLOCK => {
                fail(self.at, TOO_LARGE)
            }
            Err(nom::Err::Incomplete(_)) if !self.is_whole() => {
                self.cut = Some(self.at);
                Ok(None)
            }
            Err(_) => fail(self.at, DAMAGED),
        }
    }

    /// Whether the block of pcapng at the present place is wholly in the file.
    fn is_whole(&self) -> bool {
        let block = &self.file[self.at..];
        let length = block.get(4..).and_then(<[u8]>::first_chunk);
        let (Format::Pcapng { big, .. }, Some(length)) = (&self.format, length) else {
            return false;
        };
        let length = if *big { u32::from_be_bytes(*length) } else { u32::from_le_bytes(*length) };
        length as usize <= block.len()
    }

    /// Takes the block of pcapng that was at `at`; returns its packet, if it has one.
    fn block(&mut self, at: usize, block: Block<'a>) -> Result<Option<Packet<'a>>, CaptureError> {
        let Format::Pcapng { big, interfaces } = &mut self.format else { return Ok(None) };
        match block {
            Block::SectionHeader(header) => {
                *big = header.big_endian();
                interfaces.clear();
                Ok(None)
            }
            Block::InterfaceDescription(block) => {
                interfaces.push(Interface::of(&block, *big));
                Ok(None)
            }
            Block::EnhancedPacket(block) => {
                let Some(interface) = interfaces.get(block.if_id as usize) else {
                    return fail(
                        at,
                        "the packet's interface is not described: is the file damaged?",
                    );
                };
                let time = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                // The data has padding; the parser has checked that it is no shorter than this.
                let octets = block.data.get(..block.caplen as usize).unwrap_or(block.data);
                let link = Link::of(interface.link, at)?;
                checked(Packet {
                    link,
                    at: interface.nanos(time),
                    interface: block.if_id,
                    place: at + 28,
                    octets,
                    length: block.origlen,
                })
                .map(Some)
            }
            Block::SimplePacket(_) => fail(at, WITHOUT_TIME),
            // The parser reads the type as little-endian whatever the section says.
            Block::Unknown(block) if [2, 2_u32.swap_bytes()].contains(&block.block_type) => {
                fail(at, OBSOLETE)
            }
            _ => Ok(None),
        }
    }

    /// Returns the UDP datagram in a packet, if it has a whole one, also in tunnels of IP or GRE.
    fn datagram(&mut self, packet: &Packet<'a>) -> Option<Datagram<'a>> {
        let Innermost { start, headers } = self.innermost(packet)?;
        if headers.protocol != UDP {
            return None;
        }
        if is_fragment(&headers) {
            self.fragments += 1;
            return None;
        }
        let ip = packet.octets.get(start..)?;
        let inside = usize::from(headers.transport_offset);
        // The packet may be shorter than the datagram, or longer by Ethernet's padding.
        let end = ip.len().min(inside + headers.transport_len as usize);
        let octets = ip.get(inside + UDP_HEADER..end)?;
        let place = packet.place + start + inside + UDP_HEADER;
        let millis = packet.at.div_euclid(NANOS / 1000);
        let at = i64::try_from(millis).unwrap_or(if millis < 0 { i64::MIN } else { i64::MAX });
        Some(Datagram { from: headers.source, at, place, octets })
    }

    /// Finds the innermost IP packet. Tunnels in fragments are counted and not entered.
    fn innermost(&mut self, packet: &Packet<'a>) -> Option<Innermost> {
        let mut start = match packet.link {
            Link::Ethernet => encapsulation::in_ethernet(packet.octets)?,
            Link::Skipped(length) => length,
        };
        for _ in 0..MOST_TUNNELS {
            let ip = packet.octets.get(start..)?;
            let headers = parse(ip, (packet.length as usize).saturating_sub(start))?;
            let inside = usize::from(headers.transport_offset);
            if !matches!(headers.protocol, GRE | IPV4 | IPV6) {
                return Some(Innermost { start, headers });
            }
            if is_fragment(&headers) {
                self.fragments += 1;
                return None;
            }
            start += match headers.protocol {
                GRE => inside + encapsulation::in_gre(ip.get(inside..)?)?,
                _ => inside,
            };
        }
        None
    }
}

fn is_fragment(headers: &Headers) -> bool {
    headers.fragment.is_some_and(|f| f.more || f.offset > 0)
}

/// Parses the headers of an IP packet that has `length` octets on the wire.
///
/// A packet that is larger than the length field of its header, as before segmentation offload,
/// has the length 0 there.
fn parse(ip: &[u8], length: usize) -> Option<Headers> {
    let without_length = |headers: Headers| {
        let rest = length.saturating_sub(headers.transport_offset.into());
        Some(Headers { transport_len: rest as u32, ..headers })
    };
    match Headers::parse_ip(ip) {
        Ok(headers) if headers.transport_len == 0 && headers.source.is_ipv6() => {
            without_length(headers)
        }
        Ok(headers) => Some(headers),
        Err(ParseError::BadLength) if ip[0] >> 4 == 4 && ip[2..4] == [0, 0] => {
            let mut start = [0; MOST_HEADERS];
            let known = ip.len().min(MOST_HEADERS);
            start[..known].copy_from_slice(&ip[..known]);
            start[2..4].copy_from_slice(&[u8::MAX; 2]);
            without_length(Headers::parse_ip(&start[..known]).ok()?)
        }
        Err(_) => None,
    }
}

/// The most octets of an IPv4 header with the ports behind it.
const MOST_HEADERS: usize = 64;
/// The nanoseconds of a second.
const NANOS: i128 = 1_000_000_000;
/// The code of the option `if_name` of pcapng.
const IF_NAME: u16 = 2;
/// The most IP headers of a packet in tunnels.
const MOST_TUNNELS: usize = 4;
/// The protocol numbers of IP in IP (RFC 2003, RFC 2473) and of GRE.
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
/// The protocol number of UDP.
const UDP: u8 = 17;
/// The length of UDP's header, in octets.
const UDP_HEADER: usize = 8;

const INCOMPLETE: &str = "the header of the capture is incomplete";
const TOO_LARGE: &str = "the length of the packet is impossible: the file is damaged";
const DAMAGED: &str = "the block cannot be read: the file is damaged";
const WITHOUT_TIME: &str =
    "the packet has no time (a simple packet block): capture with `tcpdump` or `dumpcap`";
const OBSOLETE: &str =
    "the packet is in a block of an obsolete kind: convert the file with `editcap -F pcap`";

/// Returns the packet unless it is larger than any that is accepted.
fn checked(packet: Packet<'_>) -> Result<Packet<'_>, CaptureError> {
    if packet.octets.len() > MAX_PACKET {
        return fail(packet.place, TOO_LARGE);
    }
    Ok(packet)
}

#[cfg(test)]
mod tests;
