//! Finds the boundaries of a message and its sets. The decoder reads what is in them.
//!
//! An IPFIX message has a length field (RFC 7011, section 3.1). A NetFlow v9 message has none: it
//! ends with its datagram. In a file with one message after the other, as in RFC 5655, it ends
//! where the number of a set would be 5, 9 or 10. NetFlow v9 has no sets with numbers from 2 to 255
//! (RFC 3954, section 5.2), so this is the version of the next message.

use std::ops::Range;

/// The length of the header of a NetFlow v5 message, and that of each of its records.
const NETFLOW5_HEADER: usize = 24;
const NETFLOW5_RECORD: usize = 48;
/// The length of the longest datagram.
const MAX_DATAGRAM: usize = 65_535;

/// The protocol of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// NetFlow version 5, which has no templates.
    Netflow5,
    /// NetFlow version 9 (RFC 3954).
    Netflow9,
    /// IPFIX (RFC 7011).
    Ipfix,
    /// A datagram of sFlow version 5, which [`sflow`](crate::flows::sflow) reads.
    Sflow5,
}

impl Version {
    /// Returns the length of a message header in octets. That of sFlow is 12 octets longer if the
    /// agent has an IPv6 address.
    pub fn header(self) -> usize {
        match self {
            Self::Netflow5 => NETFLOW5_HEADER,
            Self::Netflow9 => 20,
            Self::Ipfix => 16,
            Self::Sflow5 => 28,
        }
    }
}

/// The fields of a message header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The protocol of the message.
    pub version: Version,
    /// The time of the export, in milliseconds since 1970. NetFlow v9 and IPFIX send whole seconds.
    /// sFlow sends no time: it is that of the arrival.
    pub exported: i64,
    /// The uptime of the exporter in milliseconds, modulo 2^32; not for IPFIX.
    pub uptime: Option<u32>,
    /// The number of the message for NetFlow v9 and sFlow, or the number of data records sent
    /// before it for IPFIX and NetFlow v5.
    pub sequence: u32,
    /// The source ID for NetFlow v9, the observation domain for IPFIX, the type and number of the
    /// engine for NetFlow v5, or the number of the sub-agent for sFlow.
    pub domain: u32,
}

/// A set: its number, and its place in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The number of the set: 0 to 3 for templates, from 256 on the number of its records'
    /// template.
    pub number: u16,
    /// The octets of the set in the message, header included.
    pub place: Range<usize>,
}

/// A message, split into sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The header of the message.
    pub header: Header,
    /// The length of the message in octets.
    pub length: usize,
    /// The sets that could be found.
    pub sets: Vec<Set>,
    /// The place and the cause, if what follows the last set could not be read.
    pub broken: Option<(usize, &'static str)>,
}

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMessage {
    /// The message has an unsupported version.
    #[error("is of version {0}: export IPFIX, NetFlow v9, NetFlow v5 or sFlow v5")]
    Version(u16),
    /// The message is of an unsupported version of sFlow.
    #[error("is sFlow v{0}, which is not read: export sFlow v5")]
    Sflow(u32),
    /// The message is of sFlow v5, in a file without times.
    #[error("is sFlow v5, which has no time of its own: give a capture, such as of `tcpdump -w`")]
    Timeless,
    /// The address of an sFlow agent is of an unknown type.
    #[error("has an agent's address of the unknown type {0}")]
    Agent(u32),
    /// The message ends before its length or header does.
    #[error("is cut off: {0} octets are fewer than its header requires")]
    Short(usize),
    /// The message's length field is smaller than its header.
    #[error("has a length field of {0} octets, which is shorter than its header")]
    Length(u16),
}

pub(crate) fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

pub(crate) fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// Splits the first message in `octets` into sets. Messages of sFlow have none.
///
/// # Errors
/// If there is none. A set with a wrong length is not an error: the sets before it are returned,
/// and `broken` has the place.
pub fn first(octets: &[u8]) -> Result<Message, NoMessage> {
    let short = NoMessage::Short(octets.len());
    let version = match u16_at(octets, 0).ok_or(short)? {
        // The version of sFlow is in four octets, of which the first two are thus 0.
        0 if let Some(version @ 2..=5) = u32_at(octets, 0) => match version {
            5 => Version::Sflow5,
            other => return Err(NoMessage::Sflow(other)),
        },
        5 => Version::Netflow5,
        9 => Version::Netflow9,
        10 => Version::Ipfix,
        other => return Err(NoMessage::Version(other)),
    };
    let word = |at: usize| u32_at(octets, at).ok_or(short);
    let seconds = |at: usize| word(at).map(|s| i64::from(s) * 1000);
    let (header, end) = match version {
        Version::Sflow5 => return Err(NoMessage::Timeless),
        Version::Netflow5 => {
            let records = usize::from(u16_at(octets, 2).ok_or(short)?);
            let header = Header {
                version,
                exported: seconds(8)? + i64::from(word(12)? / 1_000_000),
                uptime: Some(word(4)?),
                sequence: word(16)?,
                domain: u32::from(u16_at(octets, 20).ok_or(short)?),
            };
            let end = NETFLOW5_HEADER + records * NETFLOW5_RECORD;
            if end > octets.len() {
                return Err(short);
            }
            let (length, sets) = (end, Vec::new());
            return Ok(Message { header, length, sets, broken: None });
        }
        Version::Netflow9 => {
            let header = Header {
                version,
                exported: seconds(8)?,
                uptime: Some(word(4)?),
                sequence: word(12)?,
                domain: word(16)?,
            };
            (header, octets.len())
        }
        Version::Ipfix => {
            let (sequence, domain) = (word(8)?, word(12)?);
            let header = Header { version, exported: seconds(4)?, uptime: None, sequence, domain };
            let length = u16_at(octets, 2).ok_or(short)?;
            if usize::from(length) < version.header() {
                return Err(NoMessage::Length(length));
            }
            if usize::from(length) > octets.len() {
                return Err(short);
            }
            (header, usize::from(length))
        }
    };
    Ok(sets(header, &octets[..end]))
}

/// Whether a datagram seems to have flow records, or samples of sFlow.
pub fn is_known(datagram: &[u8]) -> bool {
    matches!(datagram, [0, 5 | 9 | 10, ..] | [0, 0, 0, 2..=5, ..])
}

/// Returns the place of the next message in a `file`, at or after `from`, or the end of the file.
///
/// What is passed over cannot be read. A message is recognised by its version, a time, and sets
/// that fit.
pub fn next(file: &[u8], from: usize) -> usize {
    let is_start = |at: &usize| {
        let octets = &file[*at..file.len().min(*at + MAX_DATAGRAM)];
        if !matches!(octets, [0, 5 | 9 | 10, ..]) {
            return false;
        }
        let Ok(message) = first(octets) else { return false };
        let sets = message.sets.len();
        let is_set = |set: &Set| matches!(set.number, 0..=3 | 256..);
        let count = usize::from(u16_at(octets, 2).unwrap_or(0));
        let follows = &octets[message.length..];
        message.header.exported > 0
            && message.sets.iter().all(is_set)
            && match message.header.version {
                Version::Netflow5 => count > 0 && (follows.is_empty() || is_known(follows)),
                // The number of records is no smaller than that of sets.
                Version::Netflow9 => (1..=count).contains(&sets),
                Version::Ipfix | Version::Sflow5 => sets > 0 && message.broken.is_none(),
            }
    };
    (from..file.len()).find(is_start).unwrap_or(file.len())
}

fn sets(header: Header, octets: &[u8]) -> Message {
    let mut message = Message { header, length: octets.len(), sets: Vec::new(), broken: None };
    let mut at = header.version.header();
    while at < octets.len() {
        let (Some(number), Some(length)) = (u16_at(octets, at), u16_at(octets, at + 2)) else {
            // Fewer than four octets cannot be a set: some exporters pad messages with zeros.
            if octets[at..].iter().any(|o| *o != 0) {
                message.broken = Some((at, "the set is shorter than its header"));
            }
            break;
        };
        if header.version == Version::Netflow9 && matches!(number, 5 | 9 | 10) {
            message.length = at;
            break;
        }
        let end = at + usize::from(length);
        if length < 4 {
            message.broken = Some((at, "the length field of the set is smaller than its header"));
            break;
        }
        if end > octets.len() {
            message.broken = Some((at, "the set is longer than its message"));
            break;
        }
        message.sets.push(Set { number, place: at..end });
        at = end;
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPFIX message of two sets, and a NetFlow v9 message after it, octet by octet.
    #[rustfmt::skip]
    const TWO: [u8; 60] = [
        0, 10, 0, 32,  0, 0, 0, 100,  0, 0, 0, 7,  0, 0, 0, 3,
        1, 0, 0, 8,  1, 2, 3, 4,   1, 1, 0, 8,  5, 6, 7, 8,
        0, 9, 0, 1,  0, 0, 0x10, 0,  0, 0, 0, 101,  0, 0, 0, 8,  0, 0, 0, 4,
        1, 2, 0, 8,  0, 0, 0, 0,
    ];

    #[test]
    fn messages_are_split_into_sets() {
        let message = first(&TWO).unwrap();
        let header = Header {
            version: Version::Ipfix,
            exported: 100_000,
            uptime: None,
            sequence: 7,
            domain: 3,
        };
        assert_eq!((message.header, message.length), (header, 32));
        let set = |number, place| Set { number, place };
        assert_eq!(message.sets, [set(256, 16..24), set(257, 24..32)]);
        let message = first(&TWO[32..]).unwrap();
        let header = Header {
            version: Version::Netflow9,
            exported: 101_000,
            uptime: Some(4096),
            sequence: 8,
            domain: 4,
        };
        assert_eq!((message.header, message.length), (header, 28));
        assert_eq!((message.sets, message.broken), (vec![set(258, 20..28)], None));
    }

    #[test]
    fn netflow_ends_where_the_next_message_begins() {
        for next in [&TWO[..], &TWO[32..]] {
            let file = [&TWO[32..], next].concat();
            let message = first(&file).unwrap();
            assert_eq!((message.length, message.sets.len(), message.broken), (28, 1, None));
        }
    }

    #[test]
    fn errors_name_the_place() {
        assert_eq!(first(&[]), Err(NoMessage::Short(0)));
        assert_eq!(first(&[0, 7, 0, 1]), Err(NoMessage::Version(7)));
        assert_eq!(first(&[0, 5, 0, 1]), Err(NoMessage::Short(4)));
        assert_eq!(first(&[0, 0, 0, 5, 0, 0, 0, 1]), Err(NoMessage::Timeless));
        assert_eq!(first(&[0, 0, 0, 4, 0, 0, 0, 1]), Err(NoMessage::Sflow(4)));
        assert_eq!(first(&[0; 40]), Err(NoMessage::Version(0)));
        for cut in 2..32 {
            assert_eq!(first(&TWO[..cut]), Err(NoMessage::Short(cut)));
        }
        let with = |at: usize, octet: u8| {
            let mut octets = TWO[..32].to_vec();
            octets[at] = octet;
            first(&octets)
        };
        assert_eq!(with(3, 15), Err(NoMessage::Length(15)));
        let broken = |at, octet| {
            let message = with(at, octet).unwrap();
            (message.sets.len(), message.broken)
        };
        assert_eq!(broken(27, 9), (1, Some((24, "the set is longer than its message"))));
        assert_eq!(
            broken(27, 0),
            (1, Some((24, "the length field of the set is smaller than its header")))
        );
        assert_eq!(broken(27, 6), (2, Some((30, "the set is shorter than its header"))));
        // Zeros at the end are padding.
        let mut padded = TWO[..32].to_vec();
        padded[27] = 6;
        padded[30..].fill(0);
        assert_eq!(first(&padded).unwrap().broken, None);
    }
}
