//! What a file of the wrong kind seems to be, so that errors can name it.

use std::fmt;

/// A kind of file, told by its first octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// A noun with its article.
    what: &'static str,
    class: Class,
}

/// What can be done with a file of the wrong kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// It has to be unpacked with this command.
    Packed(&'static str),
    /// It is a capture in a format that this command converts.
    Capture(&'static str),
    /// It is something else.
    Other,
}

const EDITCAP: Class = Class::Capture("convert it with `editcap -F pcapng IN OUT`");

/// Kinds by their first octets. The formats of captures are those of Wireshark's wiretap library.
const STARTS: [(&[u8], Kind); 48] = [
    (b"PK\x05\x06", packed("an empty zip archive", "give what was to be in it")),
    (b"\xfd7zXZ\0", packed("packed with xz", "unpack it with `xz -d`")),
    (b"LZIP\x01", packed("packed with lzip", "unpack it with `lzip -d`")),
    (b"\x04\x22\x4d\x18", packed("packed with lz4", "unpack it with `lz4 -d`")),
    (b"\x02\x21\x4c\x18", packed("packed with lz4", "unpack it with `lz4 -d`")),
    (b"\x89LZO\0\r\n\x1a\n", packed("packed with lzop", "unpack it with `lzop -d`")),
    (b"\xff\x06\0\0sNaPpY", packed("packed with snappy", "unpack it with `snzip -d`")),
    (b"\x1f\x9d", packed("packed with compress", "unpack it with `gzip -d`")),
    (b"7z\xbc\xaf\x27\x1c", packed("a 7-Zip archive", "unpack it with `7z x`")),
    (b"Rar!\x1a\x07", packed("a RAR archive", "unpack it with `unrar x`")),
    (b"\xa1\xb2\xcd\x34", capture("a capture in the modified pcap format of Kuznetzov")),
    (b"\x34\xcd\xb2\xa1", capture("a capture in the modified pcap format of Kuznetzov")),
    (b"\xa1\xb2\xc3\xd4", other("a packet capture")),
    (b"\xd4\xc3\xb2\xa1", other("a packet capture")),
    (b"\xa1\xb2\x3c\x4d", other("a packet capture")),
    (b"\x4d\x3c\xb2\xa1", other("a packet capture")),
    (b"\n\r\r\n", other("a packet capture")),
    (b"snoop\0\0\0", capture("a capture of snoop")),
    (b"RTSS", capture("a capture of Microsoft Network Monitor")),
    (b"GMBU", capture("a capture of Microsoft Network Monitor")),
    (b"iptrace ", capture("a capture of AIX iptrace")),
    (b"TRSNIFF data", capture("a capture of the Sniffer")),
    (b"XCP\0", capture("a capture of NetXRay")),
    (b"\xd5\xd5\x80\0", capture("a capture of Visual Networks")),
    (b"btsnoop\0", other("a capture of Bluetooth")),
    (b"\x7fver", capture("a capture of WildPackets")),
    (b"ObserverPktBuffe", capture("a capture of Network Instruments Observer")),
    (b"{\"frame\":", other("the JSON of tshark")),
    (b"\x0c\xa5\x01\0", other("a file of nfdump")),
    (b"\x0c\xa5\x02\0", other("a file of nfdump")),
    (b"\xa5\x0c\0\x01", other("a file of nfdump")),
    (b"\xde\xad\xbe\xef", other("a file of SiLK")),
    (b"\xcf\x10", other("a file of flow-tools")),
    (b"PAR1", other("a Parquet file")),
    (b"ARROW1", other("an Arrow file")),
    (b"SQLite format 3\0", other("an SQLite database")),
    (b"\x89HDF\r\n\x1a\n", other("an HDF5 file")),
    (b"\x93NUMPY", other("an array of NumPy")),
    (b"\x80\x02", other("a pickle of Python")),
    (b"\x80\x03", other("a pickle of Python")),
    (b"\x80\x04", other("a pickle of Python")),
    (b"\x80\x05", other("a pickle of Python")),
    (b"%PDF-", other("a PDF document")),
    (b"\x89PNG", other("a picture")),
    (b"\xff\xd8\xff", other("a picture")),
    (b"\x7fELF", other("a program")),
    (b"#!/", other("a script")),
    (b"version https://git-lfs", other("a pointer of Git LFS: fetch the file with `git lfs pull`")),
];

const fn packed(what: &'static str, advice: &'static str) -> Kind {
    Kind { what, class: Class::Packed(advice) }
}

const fn capture(what: &'static str) -> Kind {
    Kind { what, class: EDITCAP }
}

const fn other(what: &'static str) -> Kind {
    Kind { what, class: Class::Other }
}

/// Where the word is that tells an archive of tar.
const TAR: std::ops::Range<usize> = 257..262;

impl Kind {
    /// Returns the kind of a file that begins with `start`, if it is a known one; 512 octets are
    /// enough.
    pub fn of(start: &[u8]) -> Option<Self> {
        if let Some((_, kind)) = STARTS.iter().find(|(octets, _)| start.starts_with(octets)) {
            return Some(*kind);
        }
        // The first four octets may be the time of an MRT file, whose next one is 0. That of a zip
        // archive is a version, and an old file of lzma has an unknown length.
        match start {
            [b'P', b'K', 3, 4, 1..=255, ..] | [b'P', b'K', 3, 4] => {
                return Some(packed("a zip archive", "unpack it with `unzip`"));
            }
            [0x5d, 0, 0, _, _, length @ ..] if length.starts_with(&[0xff; 8]) => {
                return Some(packed("packed with lzma", "unpack it with `xz -d -F lzma`"));
            }
            _ => {}
        }
        if start.get(TAR) == Some(b"ustar") {
            return Some(packed("a tar archive", "unpack it with `tar xf`"));
        }
        let text = start.trim_ascii_start();
        let begins = |with: &str| {
            text.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with.as_bytes()))
        };
        if begins("<!doctype html") || begins("<html") {
            return Some(other("a web page"));
        }
        if begins("<?xml") {
            return Some(other("XML"));
        }
        // A text that continues may end within a character here.
        let is_utf8 = match std::str::from_utf8(start) {
            Ok(_) => true,
            Err(e) => e.error_len().is_none() && e.valid_up_to() + 4 > start.len(),
        };
        let is_printed = |octet: &u8| matches!(octet, b'\t' | b'\n' | b'\r' | b' '..=0x7e | 0x80..);
        if text.is_empty() || !is_utf8 || !start.iter().all(is_printed) {
            return None;
        }
        match text.first() {
            Some(b'{' | b'[') => Some(other("JSON")),
            _ => Some(other("text")),
        }
    }

    /// Whether no reader reads the file before it is unpacked.
    pub fn is_archive(&self) -> bool {
        matches!(self.class, Class::Packed(_))
    }

    /// Whether [`Display`](fmt::Display) says what to do with the file.
    pub fn has_advice(&self) -> bool {
        self.class != Class::Other
    }

    /// Returns what the file is, such as "a zip archive".
    pub fn what(&self) -> &'static str {
        self.what
    }
}

impl fmt::Display for Kind {
    /// Says what the file is, and what to do if that is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is {}", self.what)?;
        match self.class {
            Class::Packed(advice) | Class::Capture(advice) => write!(f, ": {advice}"),
            Class::Other => Ok(()),
        }
    }
}
