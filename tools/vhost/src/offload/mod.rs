//! Offloads that a sender leaves to its device: checksums, and the segmentation of large frames.
//!
//! A frame comes with a header (virtio 1.2, section 5.1.6: `virtio_net_hdr`) that describes its
//! offload. The receiver gets either that header or a complete frame.

pub mod checksum;
pub mod segment;

use forebay_wire::{Frame, Headers};

/// Length in bytes of the header with the count of merged buffers (virtio 1.2, section 5.1.6).
pub const HEADER: usize = 12;
/// Length in bytes of the header for drivers before virtio 1.0 that do not merge buffers.
pub const SHORT_HEADER: usize = 10;
/// Length in bytes of the longest frame: a full IP packet, its Ethernet header and two VLAN tags.
pub const MAX_FRAME: usize = 65_535 + 14 + 8;
/// Length in bytes of the shortest frame: an Ethernet header.
pub const MIN_FRAME: usize = 14;
/// Minimum payload in bytes of a segment, as in Linux's TCP (`TCP_MIN_SND_MSS`). Without it a guest
/// could make its back end create 65 000 frames from one.
pub const MIN_SEGMENT: u16 = 48;

const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_ECN: u8 = 0x80;
const TCP: u8 = 6;
/// Offset in bytes of the checksum in a TCP header.
const TCP_CHECKSUM: u16 = 16;

/// A checksum that is to be computed; its field holds the pseudo-header's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Offset in the frame at which the checksummed bytes begin.
    pub start: u16,
    /// Offset of the checksum field from there.
    pub offset: u16,
}

/// The segmentation of a frame that stands for several TCP segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Payload in bytes of each segment but the last.
    pub size: u16,
    /// Whether the frame is IPv6.
    pub v6: bool,
    /// Whether the first segment has CWR set, which the others must not have.
    pub ecn: bool,
}

/// The offload of a frame: what its sender left to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// Checksum that is to be computed.
    pub checksum: Option<Checksum>,
    /// Segmentation that is to be done.
    pub segments: Option<Segments>,
    /// Whether the checksum was verified already.
    pub valid: bool,
}

/// Error: a header asks for an impossible offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHeader;

impl Offload {
    /// Reads a header, of at least [`SHORT_HEADER`] bytes, that came with `frame`.
    ///
    /// # Errors
    /// If it refers to bytes outside the frame, or to an offload that this frame does not allow.
    pub fn read(header: &[u8], frame: &[u8]) -> Result<Self, BadHeader> {
        let [flags, kind, _, _, s0, s1, c0, c1, o0, o1, ..] = *header else {
            return Err(BadHeader);
        };
        let checksum = (flags & NEEDS_CHECKSUM != 0).then(|| Checksum {
            start: u16::from_le_bytes([c0, c1]),
            offset: u16::from_le_bytes([o0, o1]),
        });
        let v6 = match kind & !GSO_ECN {
            GSO_NONE => None,
            GSO_TCP4 => Some(false),
            GSO_TCP6 => Some(true),
            _ => return Err(BadHeader),
        };
        let size = u16::from_le_bytes([s0, s1]);
        let segments = v6.map(|v6| Segments { size, v6, ecn: kind & GSO_ECN != 0 });
        let mut offload = Self { checksum, segments, valid: flags & DATA_VALID != 0 };
        offload.check(frame)?;
        Ok(offload)
    }

    fn check(&mut self, frame: &[u8]) -> Result<(), BadHeader> {
        if let Some(Checksum { start, offset }) = self.checksum {
            let end = usize::from(start) + usize::from(offset) + 2;
            if end > frame.len() {
                return Err(BadHeader);
            }
        }
        let Some(segments) = self.segments else { return Ok(()) };
        let headers = header_len(frame, segments, self.checksum).ok_or(BadHeader)?;
        if segments.size < MIN_SEGMENT {
            return Err(BadHeader);
        }
        if frame.len() - headers <= usize::from(segments.size) {
            self.segments = None;
        }
        Ok(())
    }

    /// Writes the header for `frame`, which takes `buffers` buffers.
    pub fn write(&self, frame: &[u8], buffers: u16) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        if let Some(Checksum { start, offset }) = self.checksum {
            header[0] = NEEDS_CHECKSUM;
            header[6..8].copy_from_slice(&start.to_le_bytes());
            header[8..10].copy_from_slice(&offset.to_le_bytes());
        } else if self.valid {
            header[0] = DATA_VALID;
        }
        if let Some(s) = self.segments {
            let length = header_len(frame, s, self.checksum).unwrap_or(0) as u16;
            header[1] = if s.v6 { GSO_TCP6 } else { GSO_TCP4 } | if s.ecn { GSO_ECN } else { 0 };
            header[2..4].copy_from_slice(&length.to_le_bytes());
            header[4..6].copy_from_slice(&s.size.to_le_bytes());
        }
        header[10..12].copy_from_slice(&buffers.to_le_bytes());
        header
    }

    /// Length in bytes of `frame` on the wire, with the headers of all its segments.
    pub fn wire_length(&self, frame: &[u8]) -> u64 {
        let len = frame.len() as u64;
        let Some(segments) = self.segments else { return len };
        let headers = header_len(frame, segments, self.checksum).unwrap_or(0) as u64;
        let count = len.saturating_sub(headers).div_ceil(u64::from(segments.size.max(1))).max(1);
        len + (count - 1) * headers
    }
}

/// Length in bytes of the Ethernet, IP and TCP headers of a frame that is to be segmented; `None`
/// if it cannot be.
fn header_len(frame: &[u8], segments: Segments, checksum: Option<Checksum>) -> Option<usize> {
    let Checksum { start, offset } = checksum?;
    let headers = tcp_headers(frame)?;
    let right = headers.transport_offset == start
        && offset == TCP_CHECKSUM
        && headers.source.is_ipv6() == segments.v6;
    if !right {
        return None;
    }
    let start = usize::from(start);
    let data = usize::from(*frame.get(start + 12)? >> 4) * 4;
    (data >= 20 && start + data < frame.len()).then_some(start + data)
}

fn tcp_headers(frame: &[u8]) -> Option<Headers> {
    match Frame::parse(frame) {
        Ok(Frame::Ip(headers)) if headers.protocol == TCP && headers.fragment.is_none() => {
            Some(headers)
        }
        _ => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
