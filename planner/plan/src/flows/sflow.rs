//! Reads datagrams of sFlow version 5: samples of single packets, with their sampling rates.
//!
//! The format is XDR (RFC 4506) as the sFlow v5 memo of sflow.org defines it in section 5. A flow
//! sample, also an expanded one, becomes a record of one packet. Its octets and its destination
//! come from the packet's own header, or else from the agent's records of IPv4 or IPv6. Other
//! records are skipped by their length, such as those of the switch, router and gateway: demands
//! need none of their fields. Samples of counters are counted. Decision 67 has the reasons.
//!
//! A sample that cannot be read affects no other sample.

mod packet;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::flows::element::Octets;
use crate::flows::message::{Header, NoMessage, Version, u32_at};
use crate::flows::record::Fields;

/// The most octets of XDR's padding, plus 1: all items are aligned to this.
const ALIGNMENT: usize = 4;
/// The interface index of packets that the agent itself sent, and of those that it received.
const INTERNAL: u32 = 0x3fff_ffff;

/// What a sample was taken from, by the numbers of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The kind of the source: 0 for an interface.
    pub class: u32,
    /// The index of the source: that of the interface for the class 0.
    pub index: u32,
}

/// A flow sample: one packet of those that passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The offset of the sample in the datagram.
    pub place: usize,
    /// The number of the sample among those of its source.
    pub sequence: u32,
    /// The source of the sample.
    pub source: Source,
    /// The samples of the source that the agent dropped since it started.
    pub drops: u32,
    /// The record of the packet; `None` if no IP packet could be found.
    pub flow: Option<Fields>,
}

/// The contents of a datagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Datagram {
    /// The header; its time is that of the arrival.
    pub header: Header,
    /// The address of the agent, if it says one.
    pub agent: Option<IpAddr>,
    /// The flow samples.
    pub samples: Vec<Sample>,
    /// The number of samples without a packet: of counters, or of unknown kinds.
    pub packetless: u64,
    /// The places and the causes of what could not be read.
    pub unread: Vec<(usize, &'static str)>,
}

/// Items of XDR that are read from the front.
#[derive(Clone, Copy)]
struct Xdr<'a> {
    octets: &'a [u8],
    /// The offset of the octets in the datagram.
    at: usize,
}

impl<'a> Xdr<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.octets.split_at_checked(length)?;
        (self.octets, self.at) = (rest, self.at + length);
        Some(taken)
    }

    fn word(&mut self) -> Option<u32> {
        u32_at(self.take(4)?, 0)
    }

    /// Reads octets behind their length, and skips the padding as far as it is there.
    fn opaque(&mut self) -> Option<Self> {
        let length = self.word()? as usize;
        let at = self.at;
        let octets = self.take(length)?;
        let padding = length.next_multiple_of(ALIGNMENT) - length;
        self.take(padding.min(self.octets.len()));
        Some(Self { octets, at })
    }
}

/// Reads a datagram of sFlow v5 that arrived at `now`, in milliseconds since 1970.
///
/// # Errors
/// If it is of another version, or its header cannot be read. A sample that cannot be read is not
/// an error: `unread` has its place.
pub fn datagram(octets: &[u8], now: i64) -> Result<Datagram, NoMessage> {
    let short = NoMessage::Short(octets.len());
    let mut xdr = Xdr { octets, at: 0 };
    let mut word = || xdr.word().ok_or(short);
    match word()? {
        5 => {}
        version => return Err(NoMessage::Sflow(version)),
    }
    let agent = match word()? {
        0 => None,
        1 => Some(Ipv4Addr::from_bits(word()?).into()),
        2 => {
            let mut bits = 0_u128;
            for _ in 0..4 {
                bits = bits << 32 | u128::from(word()?);
            }
            Some(Ipv6Addr::from_bits(bits).into())
        }
        other => return Err(NoMessage::Agent(other)),
    };
    let (domain, sequence, uptime, number) = (word()?, word()?, word()?, word()?);
    let uptime = Some(uptime);
    let header = Header { version: Version::Sflow5, exported: now, uptime, sequence, domain };
    let (samples, unread) = (Vec::new(), Vec::new());
    let mut datagram = Datagram { header, agent, samples, packetless: 0, unread };
    for _ in 0..number {
        let place = xdr.at;
        let sample = xdr.word().and_then(|kind| Some((kind, xdr.opaque()?)));
        let Some((kind, body)) = sample else {
            datagram.unread.push((place, "the datagram ends before its last sample does"));
            break;
        };
        // The upper 20 bits are the enterprise, which is 0 for kinds of the memo.
        let read = match kind {
            1 => sample_of(body, false),
            3 => sample_of(body, true),
            _ => {
                datagram.packetless += 1;
                continue;
            }
        };
        match read {
            Ok(sample) => datagram.samples.push(Sample { place, ..sample }),
            Err(why) => datagram.unread.push((place, why)),
        }
    }
    if datagram.unread.is_empty() && xdr.octets.iter().any(|octet| *octet != 0) {
        datagram.unread.push((xdr.at, "the datagram goes on after its last sample"));
    }
    Ok(datagram)
}

const SHORT: &str = "the flow sample is shorter than its fields";
const RECORD: &str = "a record of the flow sample is longer than the sample";
const HEADER: &str = "the packet header of the flow sample is longer than its record";
const FIXED: &str = "the IP record of the flow sample is shorter than its fields";

/// Reads a flow sample, or one with expanded numbers of interfaces.
fn sample_of(mut xdr: Xdr<'_>, expanded: bool) -> Result<Sample, &'static str> {
    let place = xdr.at;
    let mut word = || xdr.word().ok_or(SHORT);
    let sequence = word()?;
    let source = match expanded {
        true => Source { class: word()?, index: word()? },
        false => {
            let packed = word()?;
            Source { class: packed >> 24, index: packed & 0x00ff_ffff }
        }
    };
    let (rate, _pool, drops) = (word()?, word()?, word()?);
    let mut interface = || {
        let (format, value) = match expanded {
            true => (word()?, word()?),
            false => {
                let packed = word()?;
                (packed >> 30, packed & INTERNAL)
            }
        };
        // Other formats are of packets that were discarded, or that left by several interfaces.
        Ok::<_, &'static str>((format == 0 && value != INTERNAL).then_some(value))
    };
    let (input, output) = (interface()?, interface()?);
    let number = word()?;
    let (mut packet, mut counted) = (None, None);
    for _ in 0..number {
        let record = xdr.word().and_then(|kind| Some((kind, xdr.opaque()?)));
        let (kind, body) = record.ok_or(RECORD)?;
        match kind {
            1 => packet = packet.or(header_record(body)?),
            3 => counted = counted.or(Some(ip_record(body, 4)?)),
            4 => counted = counted.or(Some(ip_record(body, 16)?)),
            _ => {}
        }
    }
    let leaving = source.class == 0 && Some(source.index) == output && output != input;
    let flow = packet.or(counted).map(|packet| fields(packet, rate, input, leaving));
    Ok(Sample { place, sequence, source, drops, flow })
}

/// The octets and the addresses of a sampled packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    /// The octets of the IP packet, with its headers.
    octets: u64,
    source: IpAddr,
    destination: IpAddr,
}

/// Reads the record of a packet's first octets; `None` if they have no IP packet.
fn header_record(mut xdr: Xdr<'_>) -> Result<Option<Packet>, &'static str> {
    let mut word = || xdr.word().ok_or(SHORT);
    let (protocol, length, stripped) = (word()?, word()?, word()?);
    let header = xdr.opaque().ok_or(HEADER)?.octets;
    Ok(packet::find(protocol, header, u64::from(length.saturating_sub(stripped))))
}

/// Reads the agent's record of an IPv4 or IPv6 packet, whose addresses have this length.
fn ip_record(mut xdr: Xdr<'_>, address: usize) -> Result<Packet, &'static str> {
    let octets = u64::from(xdr.word().ok_or(FIXED)?);
    let _protocol = xdr.word().ok_or(FIXED)?;
    let mut take = || {
        let octets = xdr.take(address).and_then(Octets::from_slice);
        octets.and_then(|octets| octets.address()).ok_or(FIXED)
    };
    Ok(Packet { octets, source: take()?, destination: take()? })
}

/// Returns the record of a packet, by the numbers of elements that say the same in IPFIX.
fn fields(packet: Packet, rate: u32, input: Option<u32>, leaving: bool) -> Fields {
    let mut fields = Fields::default();
    let mut take = |number: u16, octets: &[u8]| {
        if let Some(octets) = Octets::from_slice(octets) {
            fields.take(number, octets);
        }
    };
    take(1, &packet.octets.to_be_bytes());
    take(2, &[1]);
    for (address, v4, v6) in [(packet.source, 8, 27), (packet.destination, 12, 28)] {
        match address {
            IpAddr::V4(address) => take(v4, &address.octets()),
            IpAddr::V6(address) => take(v6, &address.octets()),
        }
    }
    if let Some(input) = input {
        take(10, &input.to_be_bytes());
    }
    take(34, &rate.to_be_bytes());
    take(61, &[u8::from(leaving)]);
    fields
}

#[cfg(test)]
pub(crate) mod tests;
