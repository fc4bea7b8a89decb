//! Reads flow records that another collector relays, usually by Kafka: goflow2 and akvorado.
//!
//! Both write Protocol Buffers. goflow2 writes one message for each record, which it has decoded
//! (`pb/flow.proto` of its version 2). akvorado's inlet writes one message for each datagram as it
//! came, beside the address of its sender and the time (`common/pb/rawflow.proto`, its version 5).
//! Fields that are not used here are skipped. Decision 78 has the reasons.

mod protobuf;

use std::net::IpAddr;

use forebay_input::Kind;

use crate::flows::element::Octets;
use crate::flows::message::{Header, Version};
use crate::flows::record::Fields;
pub use protobuf::Malformed;
use protobuf::{Field, fields_of};

/// The largest message in octets. A datagram, the most that akvorado relays, is smaller.
pub const MAX_MESSAGE: usize = 1 << 17;
/// What goflow2 puts behind each message by default: a line break.
const SEPARATOR: u8 = b'\n';
/// The most octets of the length that precedes a message.
const LENGTH_OCTETS: usize = 3;
/// The interface index by which sFlow names packets of the agent itself; larger values have the
/// number of outputs or a reason in their first two bits.
const SFLOW_INTERNAL: u32 = 0x3fff_ffff;
/// Layers of goflow2's `LayerStack` that are IP.
const IP_LAYERS: [u64; 2] = [1, 2];
/// The most layers of a packet that are read.
const MAX_LAYERS: usize = 16;

/// The collector whose messages are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relay {
    /// goflow2 with its format `bin`.
    Goflow2,
    /// The inlet of akvorado, from its version 2 on.
    Akvorado,
}

impl Relay {
    /// All collectors that are read.
    pub const ALL: [Self; 2] = [Self::Goflow2, Self::Akvorado];

    /// Returns the name in settings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goflow2 => "goflow2",
            Self::Akvorado => "akvorado",
        }
    }
}

impl std::str::FromStr for Relay {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|relay| relay.name() == name);
        known.ok_or_else(|| format!("{name:?} is no known collector: write goflow2 or akvorado"))
    }
}

/// Why a message cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The message breaks the rules of Protocol Buffers, or a field has another type.
    #[error("cannot be read: {0}")]
    Protobuf(#[from] Malformed),
    /// The message is of another protocol than flow records.
    #[error("is of the unknown type {0}")]
    Kind(u64),
    /// The message does not name its exporter.
    #[error("has no address of an exporter, but {0} octets")]
    Exporter(usize),
    /// The length in front of a message is wrong.
    #[error("has a length that is none, or above the limit of {MAX_MESSAGE} octets")]
    Length,
    /// The file ends within the message.
    #[error("ends early: {0} of its octets are missing")]
    Short(usize),
    /// The message is JSON or text, which goflow2 writes unless it is told otherwise.
    #[error("is {0}: let goflow2 write with `-format bin`")]
    Text(&'static str),
}

/// The fields of goflow2's `FlowMessage` that are used, without the values that are the default.
#[derive(Clone, Debug, Default)]
struct FlowMessage<'a> {
    kind: u64,
    sampling_rate: u64,
    source: &'a [u8],
    destination: &'a [u8],
    octets: u64,
    packets: u64,
    sampler: &'a [u8],
    input: u32,
    domain: u32,
    layers: Few,
    layer_sizes: Few,
    received: u64,
    start: u64,
    end: u64,
}

/// The first values of a repeated field.
#[derive(Clone, Copy, Debug, Default)]
struct Few {
    values: [u64; MAX_LAYERS],
    count: usize,
}

impl Few {
    fn take(&mut self, field: &Field<'_>) -> Result<(), Malformed> {
        field.repeated(&mut |value| {
            if let Some(slot) = self.values.get_mut(self.count) {
                (*slot, self.count) = (value, self.count + 1);
            }
        })
    }

    fn as_slice(&self) -> &[u64] {
        &self.values[..self.count]
    }
}

impl<'a> FlowMessage<'a> {
    fn read(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut flow = Self::default();
        for field in fields_of(octets) {
            let field = field?;
            match field.number {
                1 => flow.kind = field.varint()?,
                3 => flow.sampling_rate = field.varint()?,
                6 => flow.source = field.octets()?,
                7 => flow.destination = field.octets()?,
                9 => flow.octets = field.varint()?,
                10 => flow.packets = field.varint()?,
                11 => flow.sampler = field.octets()?,
                // Protocol Buffers cut a number to the width of its field.
                18 => flow.input = field.varint()? as u32,
                70 => flow.domain = field.varint()? as u32,
                103 => flow.layers.take(&field)?,
                104 => flow.layer_sizes.take(&field)?,
                110 => flow.received = field.varint()?,
                111 => flow.start = field.varint()?,
                112 => flow.end = field.varint()?,
                _ => {}
            }
        }
        Ok(flow)
    }
}

/// A record that goflow2 relays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// The address of the exporter: of the datagram, or for sFlow of the agent.
    pub exporter: IpAddr,
    /// The header, as far as it is relayed: its time is that of the reception.
    pub header: Header,
    /// The record itself.
    pub fields: Fields,
}

/// A datagram that akvorado relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender of the datagram.
    pub exporter: IpAddr,
    /// The time of the reception, in milliseconds since 1970.
    pub received: i64,
    /// The datagram itself.
    pub payload: &'a [u8],
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    matches!(octets.len(), 4 | 16).then(|| Octets::from_slice(octets)?.address())?
}

/// Reads the length that precedes a message; returns it with the number of its own octets.
fn length(octets: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0_usize;
    for (octet, at) in octets.iter().take(LENGTH_OCTETS).zip(0..) {
        length |= usize::from(octet & 0x7f) << (7 * at);
        if octet & 0x80 == 0 {
            return (length <= MAX_MESSAGE).then_some((length, at + 1));
        }
    }
    None
}

/// Reads a record of goflow2, with its length in front, as goflow2 writes it, or without. A line
/// break behind it is skipped.
///
/// # Errors
/// If it cannot be read.
pub fn goflow2(octets: &[u8]) -> Result<Record, Unreadable> {
    // A plain message starts with a tag. If that is the number of the other octets by chance, the
    // rest starts within a field, and does not decode or has no exporter.
    let separated = octets.strip_suffix(&[SEPARATOR]);
    for octets in [Some(octets), separated].into_iter().flatten() {
        if let Some((length, own)) = length(octets)
            && own + length == octets.len()
            && let Ok(record) = plain_goflow2(&octets[own..])
        {
            return Ok(record);
        }
    }
    plain_goflow2(octets).map_err(|why| text(octets).map_or(why, Unreadable::Text))
}

/// Says what octets are that are no message, but JSON or text.
fn text(octets: &[u8]) -> Option<&'static str> {
    let kind = Kind::of(&octets[..octets.len().min(512)])?;
    matches!(kind.what(), "JSON" | "text").then(|| kind.what())
}

fn plain_goflow2(octets: &[u8]) -> Result<Record, Unreadable> {
    let flow = FlowMessage::read(octets)?;
    let version = match flow.kind {
        1 => Version::Sflow5,
        2 => Version::Netflow5,
        3 => Version::Netflow9,
        4 => Version::Ipfix,
        other => return Err(Unreadable::Kind(other)),
    };
    let exporter = address(flow.sampler).ok_or(Unreadable::Exporter(flow.sampler.len()))?;
    let millis = |nanos: u64| (nanos / 1_000_000).cast_signed();
    let exported = millis(flow.received);
    let header = Header { version, exported, uptime: None, sequence: 0, domain: flow.domain };
    Ok(Record { exporter, header, fields: fields(&flow, version) })
}

/// Returns the record by the numbers of IPFIX elements that mean the same. A field that is 0 is the
/// same as a missing one in Protocol Buffers, so it counts as missing.
fn fields(flow: &FlowMessage<'_>, version: Version) -> Fields {
    let mut fields = Fields::default();
    let mut take = |number: u16, octets: &[u8]| {
        if let Some(octets) = Octets::from_slice(octets) {
            fields.take(number, octets);
        }
    };
    let octets = flow.octets.saturating_sub(in_front(flow, version));
    let input = match version {
        // A larger value is no interface; see `SFLOW_INTERNAL`.
        Version::Sflow5 if flow.input >= SFLOW_INTERNAL => 0,
        _ => u64::from(flow.input),
    };
    let millis = |nanos: u64| nanos / 1_000_000;
    for (number, value) in [
        (1, octets),
        (2, flow.packets),
        (10, input),
        (34, flow.sampling_rate),
        (152, millis(flow.start)),
        (153, millis(flow.end)),
    ] {
        if value > 0 {
            take(number, &value.to_be_bytes());
        }
    }
    for (octets, v4, v6) in [(flow.source, 8, 27), (flow.destination, 12, 28)] {
        match octets.len() {
            4 => take(v4, octets),
            16 => take(v6, octets),
            _ => {}
        }
    }
    fields
}

/// Returns the octets in front of the IP packet, which goflow2 counts for sFlow: it takes the
/// length of the frame, and tells the size of each header that it found.
fn in_front(flow: &FlowMessage<'_>, version: Version) -> u64 {
    if version != Version::Sflow5 {
        return 0;
    }
    let layers = flow.layers.as_slice();
    let Some(ip) = layers.iter().position(|layer| IP_LAYERS.contains(layer)) else { return 0 };
    let sizes = flow.layer_sizes.as_slice().iter().take(ip);
    sizes.fold(0, |sum, size| sum.saturating_add(*size))
}

/// Reads a datagram that akvorado relays. `octets` has no length in front.
///
/// # Errors
/// If it cannot be read.
pub fn akvorado(octets: &[u8]) -> Result<Datagram<'_>, Unreadable> {
    let (mut received, mut decoder) = (0, 0);
    let (mut payload, mut source): (&[u8], &[u8]) = (&[], &[]);
    for field in fields_of(octets) {
        let field = field?;
        match field.number {
            1 => received = field.varint()?,
            2 => payload = field.octets()?,
            3 => source = field.octets()?,
            5 => decoder = field.varint()?,
            _ => {}
        }
    }
    // 1 is NetFlow and IPFIX, 2 is sFlow. The datagram itself tells them apart.
    if !matches!(decoder, 1 | 2) {
        return Err(Unreadable::Kind(decoder));
    }
    let exporter = address(source).ok_or(Unreadable::Exporter(source.len()))?.to_canonical();
    let received = i64::try_from(received).unwrap_or(i64::MAX).saturating_mul(1000);
    Ok(Datagram { exporter, received, payload })
}

/// Splits a file of messages with their lengths in front.
///
/// goflow2 puts a line break behind each unless its option `-transport.file.sep` is empty. It is
/// skipped where a message of ten octets, whose length it might be, cannot be read.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    relay: Relay,
    file: &'a [u8],
    at: usize,
}

impl<'a> Messages<'a> {
    /// Starts at the first message of `file`, which `relay` wrote.
    pub fn new(relay: Relay, file: &'a [u8]) -> Self {
        Self { relay, file, at: 0 }
    }

    /// Skips a separator between messages.
    fn skip_separator(&mut self) {
        let Some([SEPARATOR, rest @ ..]) = self.file.get(self.at..) else { return };
        let message = rest.get(..usize::from(SEPARATOR));
        if self.at > 0
            && self.relay == Relay::Goflow2
            && message.is_none_or(|message| plain_goflow2(message).is_err())
        {
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Messages<'a> {
    /// The place of a message in the file, and its octets without the length. After an error
    /// nothing follows, since the place of the next message is unknown.
    type Item = (usize, Result<&'a [u8], Unreadable>);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip_separator();
        let rest = self.file.get(self.at..).filter(|rest| !rest.is_empty())?;
        let at = self.at;
        self.at = self.file.len();
        if at == 0
            && self.relay == Relay::Goflow2
            && let Some(what) = text(rest)
        {
            return Some((at, Err(Unreadable::Text(what))));
        }
        let Some((length, own)) = length(rest) else {
            return Some((at, Err(Unreadable::Length)));
        };
        let Some(message) = rest.get(own..own + length) else {
            return Some((at, Err(Unreadable::Short(own + length - rest.len()))));
        };
        self.at = at + own + length;
        Some((at + own, Ok(message)))
    }
}

#[cfg(test)]
mod tests;
