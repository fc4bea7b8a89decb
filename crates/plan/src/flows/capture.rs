//! Reads UDP datagrams from a capture file: pcap as `tcpdump -w` writes it, or pcapng.
//!
//! The file formats are draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. The `pcap-parser`
//! crate reads headers and blocks; this module finds UDP in the packets and converts times.

use std::net::IpAddr;

use forebay_wire::Headers;
use pcap_parser::nom::{self, Needed};
use pcap_parser::{
    Block, InterfaceDescriptionBlock, OptionCode, PcapError, parse_block_be, parse_block_le,
    parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header, parse_sectionheaderblock,
};

use crate::flows::encapsulation;

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
#[derive(Clone, Copy, Debug)]
struct Interface {
    /// The number of the link type.
    link: u16,
    /// The units of a second that packet times are in.
    units: u128,
    /// What is added to packet times, in milliseconds.
    offset: i64,
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
        Self {
            // The parser reads both fields in the byte order of the section.
            link: block.linktype.0 as u16,
            units: base.checked_pow(u32::from(power)).unwrap_or(u128::MAX),
            offset: seconds.saturating_mul(1000),
        }
    }

    /// Converts a packet time to milliseconds since 1970.
    fn millis(&self, time: u64) -> i64 {
        let millis = u128::from(time) * 1000 / self.units;
        i64::try_from(millis).unwrap_or(i64::MAX).saturating_add(self.offset)
    }
}

/// The file format, with what the headers so far say of the packets to come.
#[derive(Clone, Debug)]
enum Format {
    Pcap { big: bool, units_in_milli: u32, link: Link },
    Pcapng { big: bool, interfaces: Vec<Interface> },
}

/// A packet of the capture, from its link header on.
struct Packet<'a> {
    link: Link,
    /// The time of the capture, in milliseconds since 1970.
    at: i64,
    /// The offset of the packet in the file.
    place: usize,
    octets: &'a [u8],
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
            let units_in_milli = if header.is_nanosecond_precision() { 1_000_000 } else { 1000 };
            (24, Format::Pcap { big: header.is_bigendian(), units_in_milli, link })
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

    /// Reads the packet or block at the present place and advances; `None` if it is not a packet.
    fn next_packet(&mut self) -> Result<Option<Packet<'a>>, CaptureError> {
        let (file, at) = (&self.file[self.at..], self.at);
        match self.format {
            Format::Pcap { big, units_in_milli, link } => {
                let parsed = if big { parse_pcap_frame_be(file) } else { parse_pcap_frame(file) };
                let Some(frame) = self.advance(parsed)? else { return Ok(None) };
                let millis = i64::from(frame.ts_usec / units_in_milli);
                let at_millis = i64::from(frame.ts_sec) * 1000 + millis;
                packet(link, at_millis, at + 16, frame.data).map(Some)
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
                packet(link, interface.millis(time), at + 28, octets).map(Some)
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
        let mut start = match packet.link {
            Link::Ethernet => encapsulation::in_ethernet(packet.octets)?,
            Link::Skipped(length) => length,
        };
        for _ in 0..MOST_TUNNELS {
            let ip = packet.octets.get(start..)?;
            let headers = Headers::parse_ip(ip).ok()?;
            let inside = usize::from(headers.transport_offset);
            if !matches!(headers.protocol, UDP | GRE | IPV4 | IPV6) {
                return None;
            }
            if headers.fragment.is_some_and(|f| f.more || f.offset > 0) {
                self.fragments += 1;
                return None;
            }
            start += match headers.protocol {
                UDP => {
                    // The packet may be shorter than the datagram, or longer by Ethernet's padding.
                    let end = ip.len().min(inside + headers.transport_len as usize);
                    let octets = ip.get(inside + UDP_HEADER..end)?;
                    let place = packet.place + start + inside + UDP_HEADER;
                    return Some(Datagram { from: headers.source, at: packet.at, place, octets });
                }
                GRE => inside + encapsulation::in_gre(ip.get(inside..)?)?,
                _ => inside,
            };
        }
        None
    }
}

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

fn packet(link: Link, at: i64, place: usize, octets: &[u8]) -> Result<Packet<'_>, CaptureError> {
    if octets.len() > MAX_PACKET {
        return fail(place, TOO_LARGE);
    }
    Ok(Packet { link, at, place, octets })
}

#[cfg(test)]
mod tests;
