//! A writer of packet captures in pcapng: one section, interfaces, packets with comments.
//!
//! The format is that of draft-ietf-opsawg-pcapng, little-endian. Times are in nanoseconds. Blocks
//! go to the output at once, so a capture of any length needs no memory.

use std::io::{self, Write};

/// The block types (section 11.1 of the draft).
const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

/// Tells a reader the order of bytes.
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
/// The version of the format, 1.0.
const VERSION: [u16; 2] = [1, 0];
/// The length of a section that is not known before its end.
const UNKNOWN_LENGTH: u64 = u64::MAX;
/// The link type of Ethernet frames.
const ETHERNET: u16 = 1;
/// The time resolution in the option `if_tsresol`: ten to the power of minus nine seconds.
const NANOSECONDS: u8 = 9;

/// The option codes; their meaning depends on the block.
const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const INTERFACE_RESOLUTION: u16 = 9;
const SECTION_APPLICATION: u16 = 4;
const STATISTICS_RECEIVED: u16 = 4;
const STATISTICS_DROPPED: u16 = 5;

/// A packet to write.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The number of its interface, counted from zero in the order of [`Pcapng::interface`].
    pub interface: u32,
    /// The time in nanoseconds since 1970.
    pub time: u64,
    /// The first bytes of the frame.
    pub bytes: &'a [u8],
    /// The length of the whole frame.
    pub length: u32,
    /// A comment that readers show beside the packet.
    pub comment: &'a str,
}

/// A capture that is being written.
#[derive(Debug)]
pub struct Pcapng<W> {
    out: W,
    written: u64,
    /// The current block, kept to reuse its memory.
    block: Vec<u8>,
}

impl<W: Write> Pcapng<W> {
    /// Writes the header of a section that `application` wrote, with a comment on the whole file.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn new(out: W, application: &str, comment: &str) -> io::Result<Self> {
        let mut file = Self { out, written: 0, block: Vec::new() };
        file.begin(SECTION);
        file.put(&BYTE_ORDER.to_le_bytes());
        file.put(&VERSION[0].to_le_bytes());
        file.put(&VERSION[1].to_le_bytes());
        file.put(&UNKNOWN_LENGTH.to_le_bytes());
        file.option(COMMENT, comment.as_bytes());
        file.option(SECTION_APPLICATION, application.as_bytes());
        file.end()?;
        Ok(file)
    }

    /// Writes the description of an Ethernet interface with times in nanoseconds. At most `snap`
    /// bytes of each packet are captured.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn interface(&mut self, name: &str, description: &str, snap: u32) -> io::Result<()> {
        self.begin(INTERFACE);
        self.put(&ETHERNET.to_le_bytes());
        self.put(&[0; 2]);
        self.put(&snap.to_le_bytes());
        self.option(INTERFACE_NAME, name.as_bytes());
        self.option(INTERFACE_DESCRIPTION, description.as_bytes());
        self.option(INTERFACE_RESOLUTION, &[NANOSECONDS]);
        self.end()
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn packet(&mut self, packet: Packet<'_>) -> io::Result<()> {
        self.begin(PACKET);
        self.put(&packet.interface.to_le_bytes());
        self.time(packet.time);
        self.put(&(packet.bytes.len() as u32).to_le_bytes());
        self.put(&packet.length.to_le_bytes());
        self.put(packet.bytes);
        self.pad();
        self.option(COMMENT, packet.comment.as_bytes());
        self.end()
    }

    /// Writes how many packets an interface had until `time`, and how many of them are not in the
    /// capture.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn statistics(
        &mut self,
        interface: u32,
        time: u64,
        packets: u64,
        omitted: u64,
    ) -> io::Result<()> {
        self.begin(STATISTICS);
        self.put(&interface.to_le_bytes());
        self.time(time);
        self.option(STATISTICS_RECEIVED, &packets.to_le_bytes());
        self.option(STATISTICS_DROPPED, &omitted.to_le_bytes());
        self.end()
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Passes everything on to the file, at the end.
    ///
    /// # Errors
    ///
    /// If the output cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.put(&kind.to_le_bytes());
        self.put(&[0; 4]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    /// Pads the block to a multiple of four bytes.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Appends a time: first its upper half, then its lower one.
    fn time(&mut self, time: u64) {
        self.put(&((time >> 32) as u32).to_le_bytes());
        self.put(&(time as u32).to_le_bytes());
    }

    /// Appends an option. Its length has 16 bits, so longer values are cut at a character.
    fn option(&mut self, code: u16, value: &[u8]) {
        let is_inside = |&at: &usize| value.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
        let mut length = value.len().min(usize::from(u16::MAX));
        while is_inside(&length) {
            length -= 1;
        }
        self.put(&code.to_le_bytes());
        self.put(&(length as u16).to_le_bytes());
        self.put(&value[..length]);
        self.pad();
    }

    /// Ends the options and the block, and writes it. Its length stands at both ends.
    fn end(&mut self) -> io::Result<()> {
        self.put(&END_OF_OPTIONS.to_le_bytes());
        self.put(&[0; 2]);
        let length = (self.block.len() + 4) as u32;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.put(&length.to_le_bytes());
        self.out.write_all(&self.block)?;
        self.written += u64::from(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte is from the tables of the draft, by hand.
    #[test]
    fn blocks_by_hand() {
        let mut file = Pcapng::new(Vec::new(), "fb", "hello").unwrap();
        assert_eq!(file.written(), 52);
        file.interface("a", "bc", 96).unwrap();
        file.packet(Packet {
            interface: 0,
            time: 0x0102_0304_0506_0708,
            bytes: &[0xAA, 0xBB, 0xCC],
            length: 1514,
            comment: "mark",
        })
        .unwrap();
        file.statistics(0, 9, 3, 1).unwrap();
        let bytes = file.out;
        #[rustfmt::skip]
        let expected: &[u8] = &[
            // The section: type, length 52, byte order, version 1.0, unknown length.
            0x0A, 0x0D, 0x0D, 0x0A, 52, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0,
            0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            1, 0, 5, 0, b'h', b'e', b'l', b'l', b'o', 0, 0, 0,
            4, 0, 2, 0, b'f', b'b', 0, 0,
            0, 0, 0, 0, 52, 0, 0, 0,
            // The interface: type, length 48, Ethernet, snap length 96, name, description, 10^-9 s.
            1, 0, 0, 0, 48, 0, 0, 0, 1, 0, 0, 0, 96, 0, 0, 0,
            2, 0, 1, 0, b'a', 0, 0, 0,
            3, 0, 2, 0, b'b', b'c', 0, 0,
            9, 0, 1, 0, 9, 0, 0, 0,
            0, 0, 0, 0, 48, 0, 0, 0,
            // The packet: type, length 48, interface 0, time, 3 of 1514 bytes, padding, comment.
            6, 0, 0, 0, 48, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 8, 7, 6, 5,
            3, 0, 0, 0, 0xEA, 0x05, 0, 0, 0xAA, 0xBB, 0xCC, 0,
            1, 0, 4, 0, b'm', b'a', b'r', b'k',
            0, 0, 0, 0, 48, 0, 0, 0,
            // The statistics: type, length 52, interface 0, time 9, 3 packets, 1 omitted.
            5, 0, 0, 0, 52, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0,
            4, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0,
            5, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 52, 0, 0, 0,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn a_long_comment_is_cut_at_a_character() {
        let long = "é".repeat(40_000);
        let file = Pcapng::new(Vec::new(), "", &long).unwrap().out;
        let length = usize::from(u16::from_le_bytes([file[26], file[27]]));
        assert_eq!(length, 65_534);
        assert!(std::str::from_utf8(&file[28..28 + length]).is_ok());
    }
}
