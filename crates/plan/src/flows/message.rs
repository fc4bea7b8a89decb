//! Where a message and its sets begin and end. That is all that is read of them here; what is in them is the decoder's.
//!
//! An IPFIX message says how long it is (RFC 7011, section 3.1). One of NetFlow v9 does not: it ends with its datagram. In a
//! file, where one follows the other as in RFC 5655, it ends where a set's number would be 9 or 10: sets of numbers 2 to
//! 255 do not exist in NetFlow v9 (RFC 3954, section 5.2), so that this is the next message's version.

use std::ops::Range;

/// The two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// NetFlow v9.
    Netflow9,
    /// IPFIX.
    Ipfix,
}

impl Version {
    /// How long a message's header is.
    pub fn header(self) -> usize {
        match self {
            Self::Netflow9 => 20,
            Self::Ipfix => 16,
        }
    }
}

/// What a message's header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The protocol.
    pub version: Version,
    /// When it was exported, in milliseconds since 1970. Both protocols say whole seconds.
    pub exported: i64,
    /// For NetFlow v9, how long the exporter was up then, in milliseconds, modulo 2^32.
    pub uptime: Option<u32>,
    /// For NetFlow v9, this message's number; for IPFIX, how many data records were sent before.
    pub sequence: u32,
    /// The source ID, or the observation domain.
    pub domain: u32,
}

/// A set: its number, and where it is in the message, with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// 0 to 3 for templates, from 256 on the number of its records' template.
    pub number: u16,
    /// Where it is.
    pub place: Range<usize>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its header.
    pub header: Header,
    /// How long it is.
    pub length: usize,
    /// Its sets.
    pub sets: Vec<Set>,
    /// Why what follows the last set could not be read, and where that is.
    pub broken: Option<(usize, &'static str)>,
}

/// Why there is no message, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMessage {
    /// It begins with neither 9 nor 10.
    #[error("is of version {0}: it should be NetFlow v9 or IPFIX")]
    Version(u16),
    /// It ends before it should.
    #[error("is cut off: {0} octets are too few for what its header says")]
    Short(usize),
    /// It says that it is shorter than its header.
    #[error("says that it is {0} octets long, which is shorter than its header")]
    Length(u16),
}

fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    octets.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    octets.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

/// The first message in `octets`.
///
/// # Errors
/// If there is none. Sets that cannot be told apart are no error: those before them are there, and `broken` is said.
pub fn first(octets: &[u8]) -> Result<Message, NoMessage> {
    let short = NoMessage::Short(octets.len());
    let version = match u16_at(octets, 0).ok_or(short)? {
        9 => Version::Netflow9,
        10 => Version::Ipfix,
        other => return Err(NoMessage::Version(other)),
    };
    let word = |at: usize| u32_at(octets, at).ok_or(short);
    let seconds = |at: usize| word(at).map(|s| i64::from(s) * 1000);
    let (header, end) = match version {
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

fn sets(header: Header, octets: &[u8]) -> Message {
    let mut message = Message { header, length: octets.len(), sets: Vec::new(), broken: None };
    let mut at = header.version.header();
    while at < octets.len() {
        let (Some(number), Some(length)) = (u16_at(octets, at), u16_at(octets, at + 2)) else {
            // Fewer than four octets hold no set: some exporters fill up with zeros.
            if octets[at..].iter().any(|o| *o != 0) {
                message.broken = Some((at, "is no set: it is shorter than a set's header"));
            }
            break;
        };
        if header.version == Version::Netflow9 && matches!(number, 9 | 10) {
            message.length = at;
            break;
        }
        let end = at + usize::from(length);
        if length < 4 {
            message.broken = Some((at, "is a set that says it is shorter than its header"));
            break;
        }
        if end > octets.len() {
            message.broken = Some((at, "is a set that ends after its message"));
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

    /// An IPFIX message of two sets, and one of NetFlow v9 behind it, octet by octet.
    #[rustfmt::skip]
    const TWO: [u8; 60] = [
        0, 10, 0, 32,  0, 0, 0, 100,  0, 0, 0, 7,  0, 0, 0, 3,
        1, 0, 0, 8,  1, 2, 3, 4,   1, 1, 0, 8,  5, 6, 7, 8,
        0, 9, 0, 1,  0, 0, 0x10, 0,  0, 0, 0, 101,  0, 0, 0, 8,  0, 0, 0, 4,
        1, 2, 0, 8,  0, 0, 0, 0,
    ];

    #[test]
    fn messages_and_sets_by_hand() {
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
    fn what_is_broken_is_said_with_its_place() {
        assert_eq!(first(&[]), Err(NoMessage::Short(0)));
        assert_eq!(first(&[0, 5, 0, 1]), Err(NoMessage::Version(5)));
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
        assert_eq!(broken(27, 9), (1, Some((24, "is a set that ends after its message"))));
        assert_eq!(
            broken(27, 0),
            (1, Some((24, "is a set that says it is shorter than its header")))
        );
        assert_eq!(broken(27, 6), (2, Some((30, "is no set: it is shorter than a set's header"))));
        // Zeros at the end are padding.
        let mut padded = TWO[..32].to_vec();
        padded[27] = 6;
        padded[30..].fill(0);
        assert_eq!(first(&padded).unwrap().broken, None);
    }
}
