//! Reads IP packets and UDP datagrams from a capture file: pcap as `tcpdump -w` writes it, or
//! pcapng.
//!
//! The file formats are draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng. The `pcap-parser`
//! crate reads headers and blocks; this crate finds IP and UDP in the packets and converts times.
//! [`Capture::next_ip`] has every IP packet, [`Capture::next_datagram`] only UDP. Packets of which
//! they return nothing are counted in [`Capture::left_out`].
//!
//! Tunnels are entered: IP in IP, GRE, ERSPAN, VXLAN, Geneve and GTP-U ([`encapsulation`]).

#![forbid(unsafe_code)]

pub mod encapsulation;

use std::fmt;
use std::net::IpAddr;

use forebay_input::Kind;
use forebay_units::Nanos;
use forebay_wire::{Headers, MAX_TRANSPORT_OFFSET};
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

/// The packets of a capture that are left out, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Fragments of datagrams.
    pub fragments: u64,
    /// Packets without IP, or with headers that are not understood.
    pub not_ip: u64,
    /// Packets of which the capture has only a part, and not all of their headers.
    pub short: u64,
}

/// An error in a capture, and the place of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureError {
    /// The offset in the file of the header, packet or block with the error.
    pub at: usize,
    /// What is wrong, and what to do about it.
    pub what: String,
}

impl std::error::Error for CaptureError {}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            0 => f.write_str(&self.what),
            at => write!(f, "at octet {at}: {}", self.what),
        }
    }
}

/// The header in front of the IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// An Ethernet header, maybe followed by VLAN tags, MPLS labels or PPPoE.
    Ethernet,
    /// A header of this many octets that is skipped.
    Skipped(usize),
    /// A header with an EtherType at `at`, behind which the packet begins at `skip`. They are not
    /// next to each other in the second version of Linux' own header.
    Cooked {
        /// The offset of the EtherType.
        at: usize,
        /// The length of the header.
        skip: usize,
    },
    /// PPP behind this many octets.
    Ppp(usize),
    /// PPP, or Cisco's HDLC with an EtherType.
    Hdlc,
    /// Messages of netfilter, of which one has the packet.
    Nflog,
}

impl Link {
    /// Returns the link of a number in the registry of link types (draft-ietf-opsawg-pcaplinktype).
    fn of(number: u16, at: usize) -> Result<Self, CaptureError> {
        let what = match number {
            1 => return Ok(Self::Ethernet),
            // BSD's loopback: the number of a protocol, in the byte order of some machine.
            0 | 108 => return Ok(Self::Skipped(4)),
            12 | 14 | 101 | 228 | 229 => return Ok(Self::Skipped(0)),
            9 => return Ok(Self::Ppp(0)),
            50 | 104 => return Ok(Self::Hdlc),
            // PPPoE, and PPP behind a direction.
            51 => return Ok(Self::Ppp(6)),
            166 | 204 => return Ok(Self::Ppp(1)),
            113 => return Ok(Self::Cooked { at: 14, skip: 16 }),
            239 => return Ok(Self::Nflog),
            276 => return Ok(Self::Cooked { at: 0, skip: 20 }),
            105 | 119 | 127 | 163 => "Wi-Fi in monitor mode",
            187 | 201 | 251 | 254..=256 => "Bluetooth",
            186 | 189 | 220 | 249 | 266 => "USB",
            197 => "ERF",
            227 => "CAN",
            253 => "netlink",
            195 | 215 | 230 | 283 => "IEEE 802.15.4",
            _ => "not supported",
        };
        fail(
            at,
            format!(
                "the link type {number} is {what}: capture on Ethernet, or with `tcpdump -i any`"
            ),
        )
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
    /// The packets that were left out so far.
    pub left_out: LeftOut,
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
            return fail(0, not_a_capture(file));
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
        Ok(Self { file, at, format, left_out: LeftOut::default(), cut: None })
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
                self.left_out.fragments += 1;
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

    /// Returns the UDP datagram in a packet, if it has a whole one, also in tunnels.
    fn datagram(&mut self, packet: &Packet<'a>) -> Option<Datagram<'a>> {
        let Innermost { start, headers } = self.innermost(packet)?;
        if headers.protocol != UDP {
            return None;
        }
        if is_fragment(&headers) {
            self.left_out.fragments += 1;
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

    /// Finds the innermost IP packet, or counts the packet as left out.
    fn innermost(&mut self, packet: &Packet<'a>) -> Option<Innermost> {
        match find(packet) {
            Found::Ip(innermost) => return Some(innermost),
            Found::Fragment => self.left_out.fragments += 1,
            Found::Nothing if packet.octets.len() < packet.length as usize => {
                self.left_out.short += 1;
            }
            Found::Nothing => self.left_out.not_ip += 1,
        }
        None
    }
}

/// What was found behind the headers of links and tunnels.
enum Found {
    Ip(Innermost),
    /// A tunnel in fragments, which is not entered.
    Fragment,
    Nothing,
}

/// Finds the innermost IP packet.
fn find(packet: &Packet<'_>) -> Found {
    let Some(mut start) = in_link(packet) else { return Found::Nothing };
    for _ in 0..MAX_TUNNELS {
        let Some(ip) = packet.octets.get(start..) else { return Found::Nothing };
        let Some(headers) = parse(ip, (packet.length as usize).saturating_sub(start)) else {
            return Found::Nothing;
        };
        let inside = usize::from(headers.transport_offset);
        let payload = ip.get(inside..).unwrap_or_default();
        let next = match headers.protocol {
            IPV4 | IPV6 => Some(Some(0)),
            GRE => Some(encapsulation::in_gre(payload)),
            UDP => headers.ports.filter(|_| !is_fragment(&headers)).and_then(|ports| {
                let found = encapsulation::in_udp(ports.destination, payload.get(UDP_HEADER..)?)?;
                Some(found.map(|at| UDP_HEADER + at))
            }),
            _ => None,
        };
        match next {
            None => return Found::Ip(Innermost { start, headers }),
            Some(_) if is_fragment(&headers) => return Found::Fragment,
            Some(None) => return Found::Nothing,
            Some(Some(at)) => start += inside + at,
        }
    }
    Found::Nothing
}

/// Returns the offset of the IP packet behind the header of the link.
fn in_link(packet: &Packet<'_>) -> Option<usize> {
    let octets = packet.octets;
    match packet.link {
        Link::Ethernet => encapsulation::in_ethernet(octets),
        Link::Skipped(length) => Some(length),
        Link::Ppp(at) => encapsulation::in_ppp(octets, at),
        Link::Hdlc => match octets {
            // The addresses of Cisco's HDLC.
            [0x0f | 0x8f, 0, ..] => encapsulation::behind_type(octets, 2),
            _ => encapsulation::in_ppp(octets, 0),
        },
        Link::Cooked { at, skip } => match octets.get(at..)?.first_chunk()? {
            // Some programs leave the type empty.
            [0x08, 0x00] | [0x86, 0xdd] | [0, 0] => Some(skip),
            // A tag, labels or another header follows as it would in Ethernet.
            kind => {
                let frame = [kind, octets.get(skip..)?].concat();
                Some(skip + encapsulation::behind_type(&frame, 0)? - kind.len())
            }
        },
        Link::Nflog => in_nflog(octets),
    }
}

/// Returns the offset of the packet in messages of netfilter: four octets of header, and items with
/// their length and type in the byte order of the machine that captured.
fn in_nflog(octets: &[u8]) -> Option<usize> {
    /// The type of the item with the packet.
    const PAYLOAD: u16 = 9;
    let mut at = 4;
    loop {
        let [a, b, c, d] = *octets.get(at..)?.first_chunk()?;
        // Types are small numbers, so that they show the byte order.
        let (length, kind) = match d {
            0 => (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])),
            _ => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
        };
        if kind == PAYLOAD {
            return Some(at + 4);
        }
        at += usize::from(length.max(4)).next_multiple_of(4);
    }
}

fn is_fragment(headers: &Headers) -> bool {
    headers.fragment.is_some_and(|f| f.more || f.offset > 0)
}

/// Parses the headers of an IP packet that has `length` octets on the wire.
///
/// A packet that is larger than the length field of its header, as before segmentation offload,
/// has the length 0 there. IPv6 may say the length in a header of its own (RFC 2675), and Linux
/// does no longer.
fn parse(ip: &[u8], length: usize) -> Option<Headers> {
    let field = match ip.first()? >> 4 {
        4 => 2..4,
        6 => 4..6,
        _ => return None,
    };
    let headers = Headers::parse_ip(ip);
    if ip.get(field.clone()) != Some(&[0, 0]) {
        return headers.ok();
    }
    if let Some(headers) = headers.ok().filter(|headers| headers.transport_len > 0) {
        return Some(headers);
    }
    let mut start = [0; MAX_HEADERS];
    let known = ip.len().min(MAX_HEADERS);
    start[..known].copy_from_slice(&ip[..known]);
    start[field].copy_from_slice(&[u8::MAX; 2]);
    let headers = Headers::parse_ip(&start[..known]).ok()?;
    let rest = length.saturating_sub(headers.transport_offset.into());
    Some(Headers { transport_len: rest as u32, ..headers })
}

/// Returns what a file is that is no capture, and what to do.
fn not_a_capture(file: &[u8]) -> String {
    const GIVE: &str = "give a file in pcap or pcapng, as of `tcpdump -w`";
    match Kind::of(&file[..file.len().min(512)]) {
        Some(kind) if kind.has_advice() => kind.to_string(),
        Some(kind) => format!("is {} and no capture: {GIVE}", kind.what()),
        None => format!("is not a capture: {GIVE}"),
    }
}

/// The most octets of IP headers with the ports behind them.
const MAX_HEADERS: usize = MAX_TRANSPORT_OFFSET + 4;
/// The nanoseconds of a second.
const NANOS: i128 = 1_000_000_000;
/// The code of the option `if_name` of pcapng.
const IF_NAME: u16 = 2;
/// The most IP headers of a packet in tunnels.
const MAX_TUNNELS: usize = 8;
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
