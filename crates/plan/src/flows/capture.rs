//! Datagrams in a capture, in the form of libpcap's files (draft-ietf-opsawg-pcap), as `tcpdump -w` writes them.

use std::net::IpAddr;

use forebay_wire::{Frame, Headers};

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub from: IpAddr,
    /// When it was captured, in milliseconds since 1970.
    pub at: i64,
    /// Where it begins in the file.
    pub place: usize,
    /// What it holds: less than was sent if the capture cut it.
    pub octets: &'a [u8],
}

/// What is wrong with a capture, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at octet {at}: {what}")]
pub struct Broken {
    /// The octet that it begins with.
    pub at: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

/// What a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Ethernet,
    /// IP, after so many octets.
    Ip(usize),
}

/// A capture that is read.
#[derive(Clone, Debug)]
pub struct Capture<'a> {
    file: &'a [u8],
    at: usize,
    big: bool,
    /// What a second has of the units that times are in.
    units: u32,
    link: Link,
    /// Fragments of datagrams, which are left out.
    pub fragments: u64,
}

/// The largest packet of a capture that is believed.
const LARGEST: usize = 1 << 18;

/// Whether `file` is a capture, of this form or of pcapng's.
pub fn is_one(file: &[u8]) -> bool {
    matches!(
        file.first_chunk(),
        Some(
            [0xa1, 0xb2, 0xc3, 0xd4]
                | [0xd4, 0xc3, 0xb2, 0xa1]
                | [0xa1, 0xb2, 0x3c, 0x4d]
                | [0x4d, 0x3c, 0xb2, 0xa1]
                | [0x0a, 0x0d, 0x0d, 0x0a]
        )
    )
}

impl<'a> Capture<'a> {
    /// The capture in `file`.
    ///
    /// # Errors
    /// If it is none that can be read.
    pub fn new(file: &'a [u8]) -> Result<Self, Broken> {
        let fail = |at: usize, what: &str| Err(Broken { at, what: what.to_owned() });
        let (big, units) = match file.first_chunk() {
            Some([0xa1, 0xb2, 0xc3, 0xd4]) => (true, 1_000_000),
            Some([0xd4, 0xc3, 0xb2, 0xa1]) => (false, 1_000_000),
            Some([0xa1, 0xb2, 0x3c, 0x4d]) => (true, 1_000_000_000),
            Some([0x4d, 0x3c, 0xb2, 0xa1]) => (false, 1_000_000_000),
            Some([0x0a, 0x0d, 0x0d, 0x0a]) => {
                return fail(
                    0,
                    "is a capture in pcapng's form: `editcap -F pcap` makes one that is read here",
                );
            }
            _ => return fail(0, "is no capture"),
        };
        let mut capture = Self { file, at: 24, big, units, link: Link::Ethernet, fragments: 0 };
        let Some(link) = capture.word(20) else { return fail(0, "is cut off in its header") };
        // The upper half says other things. Numbers are of the registry of link types.
        capture.link = match link & 0xffff {
            1 => Link::Ethernet,
            12 | 101 | 228 | 229 => Link::Ip(0),
            113 => Link::Ip(16),
            276 => Link::Ip(20),
            other => {
                let what = format!(
                    "is a capture of link type {other}: capture on Ethernet, or with `tcpdump -i any`"
                );
                return Err(Broken { at: 20, what });
            }
        };
        Ok(capture)
    }

    fn word(&self, at: usize) -> Option<u32> {
        let octets = self.file.get(at..)?.first_chunk().copied()?;
        Some(if self.big { u32::from_be_bytes(octets) } else { u32::from_le_bytes(octets) })
    }

    /// The next datagram of UDP.
    ///
    /// # Errors
    /// If the file is cut off, or no capture from there on.
    pub fn next_datagram(&mut self) -> Result<Option<Datagram<'a>>, Broken> {
        while self.at < self.file.len() {
            let at = self.at;
            let fail = |what: &str| Err(Broken { at, what: what.to_owned() });
            let words = [at, at + 4, at + 8].map(|at| self.word(at));
            let [Some(seconds), Some(part), Some(length)] = words else {
                return fail("is cut off in a packet's header");
            };
            let (begin, length) = (at + 16, length as usize);
            if length > LARGEST {
                return fail("is no packet: it says that it is larger than any");
            }
            let Some(packet) = self.file.get(begin..begin + length) else {
                return fail("is cut off: the last packet is not whole");
            };
            self.at = begin + length;
            let millis = i64::from(seconds) * 1000 + i64::from(part / (self.units / 1000));
            if let Some((from, octets)) = self.datagram(packet) {
                let place = begin + packet.len() - octets.1;
                return Ok(Some(Datagram { from, at: millis, place, octets: octets.0 }));
            }
        }
        Ok(None)
    }

    /// Who sent a packet, and what is in it, with how much of the packet is left where that begins.
    fn datagram(&mut self, packet: &'a [u8]) -> Option<(IpAddr, (&'a [u8], usize))> {
        let (headers, packet) = match self.link {
            Link::Ethernet => match Frame::parse(packet).ok()? {
                Frame::Ip(headers) => (headers, packet),
                _ => return None,
            },
            Link::Ip(skip) => {
                let packet = packet.get(skip..)?;
                (Headers::parse_ip(packet).ok()?, packet)
            }
        };
        if headers.protocol != 17 {
            return None;
        }
        if headers.fragment.is_some_and(|f| f.more || f.offset > 0) {
            self.fragments += 1;
            return None;
        }
        let begin = usize::from(headers.transport_offset) + 8;
        let end = packet.len().min(begin - 8 + usize::from(headers.transport_len));
        Some((headers.source, (packet.get(begin..end)?, packet.len() - begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a capture with microseconds, little-endian, of Ethernet, and one packet.
    #[rustfmt::skip]
    const FILE: [u8; 24 + 16 + 14 + 20 + 8 + 4 + 2] = [
        0xd4, 0xc3, 0xb2, 0xa1,  2, 0, 4, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 4, 0,  1, 0, 0, 0,
        100, 0, 0, 0,  0xd0, 7, 0, 0,  48, 0, 0, 0,  48, 0, 0, 0,
        2, 0, 0, 0, 0, 1,  2, 0, 0, 0, 0, 2,  8, 0,
        0x45, 0, 0, 32,  0, 1, 0, 0,  64, 17, 0, 0,  192, 0, 2, 1,  192, 0, 2, 9,
        0x30, 0x39, 0x08, 0x07,  0, 12, 0, 0,  9, 9, 9, 9,
        // Ethernet's padding.
        0, 0,
    ];

    fn all(file: &[u8]) -> Result<Vec<Datagram<'_>>, Broken> {
        let mut capture = Capture::new(file)?;
        let mut all = Vec::new();
        while let Some(datagram) = capture.next_datagram()? {
            all.push(datagram);
        }
        Ok(all)
    }

    #[test]
    fn a_packet_octet_by_octet() {
        assert!(is_one(&FILE));
        let expected = Datagram {
            from: "192.0.2.1".parse().unwrap(),
            at: 100_002,
            place: 24 + 16 + 14 + 28,
            octets: &[9; 4],
        };
        assert_eq!(all(&FILE).unwrap(), [expected]);
        // The same without Ethernet, big-endian, in nanoseconds, twice.
        let mut raw = vec![
            0xa1, 0xb2, 0x3c, 0x4d, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 101,
        ];
        for _ in 0..2 {
            raw.extend([0, 0, 0, 100, 0, 0x1e, 0x84, 0x80, 0, 0, 0, 32, 0, 0, 0, 32]);
            raw.extend(&FILE[54..86]);
        }
        let found = all(&raw).unwrap();
        assert_eq!((found.len(), found[0].at, found[1].place), (2, 100_002, 24 + 48 + 16 + 28));
    }

    #[test]
    fn what_is_no_datagram_is_passed_over() {
        let with = |at: usize, octet: u8| {
            let mut file = FILE;
            file[at] = octet;
            file
        };
        assert!(all(&with(40 + 12, 9)).unwrap().is_empty(), "no IP");
        assert!(all(&with(54 + 9, 6)).unwrap().is_empty(), "TCP");
        let file = with(54 + 6, 0x20);
        let mut capture = Capture::new(&file).unwrap();
        assert_eq!((capture.next_datagram(), capture.fragments), (Ok(None), 1));
        assert!(all(&with(54 + 3, 27)).unwrap().is_empty(), "shorter than UDP's header");
    }

    #[test]
    fn what_is_broken_is_said_with_its_place() {
        let at = |file: &[u8]| all(file).unwrap_err().at;
        for cut in 41..FILE.len() {
            assert_eq!(at(&FILE[..cut]), 24);
        }
        assert_eq!((at(&FILE[..30]), at(&FILE[..20]), at(&[])), (24, 0, 0));
        let mut other = FILE;
        other[20] = 127;
        assert!(all(&other).unwrap_err().what.contains("link type 127"));
        let mut large = FILE;
        large[24 + 11] = 1;
        assert_eq!(at(&large), 24);
        let pcapng = [0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, 0];
        assert!(is_one(&pcapng) && all(&pcapng).unwrap_err().what.contains("editcap"));
    }
}
