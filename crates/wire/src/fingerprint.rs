//! The fingerprint, by which both boxes identify a packet without modifying it.

use core::net::IpAddr;

use crate::bytes::at;
use crate::headers::Headers;
use crate::headers::protocol::{TCP, UDP};

const UDP_PAYLOAD: usize = 32;
const OTHER_PAYLOAD: usize = 64;
/// Bytes hashed of a TCP header: the fixed header and 24 bytes of options.
const TCP_HASHED: usize = 44;
const SYN: u8 = 2;

/// A segment of a super-packet that the kernel or the NIC has not segmented yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The index of the segment, from zero. It is zero for all segments with one ID (`MANGLEID`).
    pub index: u16,
    /// Offset of the segment's payload in the super-packet's, in bytes.
    pub offset: u32,
    /// Length of the segment's payload in bytes.
    pub payload_len: u16,
}

/// Returns the fingerprint of the packet in `frame`, whose headers are `headers`.
///
/// The result is `None` if nothing in the packet distinguishes it from others, or if the bytes that
/// would do so are malformed or not in the frame. Such a packet is no epoch boundary.
///
/// # Fields
///
/// The fingerprint is a 64-bit FNV-1a hash over fields that the network does not change and that
/// distinguish a packet from others and from its own retransmission (Bundler section 4.5).
/// Addresses are not hashed, since they vary least within a bundle. The hash takes the bytes in
/// network order: the IP protocol, and then
///
/// | packet | hashed |
/// |---|---|
/// | IPv4 with an ID, and every fragment | the ID (IPv4 2 bytes, IPv6 4), the fragment offset in units of 8 bytes (2), unless it is a later fragment the ports (4), if there are any, and for TCP the sequence number (4) |
/// | other TCP | ports (4), sequence number (4), acknowledgement (4), payload length (2), and unless it is a SYN the options, at most 24 bytes |
/// | other UDP | ports (4), payload length (2), the first 32 bytes of payload |
/// | others | the first 64 bytes of payload |
///
/// Lengths are those of the IP header, since Ethernet pads short frames on some links only.
///
/// - A packet with an **ID** needs few other fields, since senders that use the ID count it up. The
///   first fragment that a router makes of a packet with an ID has the packet's fingerprint.
/// - **TCP options** are mostly timestamps, which distinguish a retransmission from the original,
///   and selective acknowledgements. 24 bytes reach to the end of the first SACK block, which
///   changes with every duplicate acknowledgement while the timestamp may stay the same. The
///   options of a SYN are not hashed, since routers clamp its MSS option; its random sequence
///   number is enough.
/// - **32 bytes of UDP payload** reach past the type byte and the 20 bytes of connection ID that a
///   QUIC packet may have in clear text (RFC 9000 section 17.3) into the encrypted part. They also
///   reach past a VXLAN or GTP header to the ID of an inner IPv4 packet. **64 bytes of other
///   payload** reach past an IPv6 header in a tunnel to the TCP sequence number.
/// - **Checksums** of TCP and UDP are not hashed, although they would distinguish packets best. GRO
///   recomputes them, and with checksum offload they are not there yet.
/// - **Window, flags, DSCP, ECN, TTL and flow label** are not hashed, since hops and proxies change
///   them.
///
/// A super-packet (TSO, GSO) leaves as several packets, each with its own fingerprint, which
/// [`fingerprint_segment`] predicts. Software and hardware segmentation agree: segment *i* has the
/// first ID plus *i* and a TCP sequence number that counts on, and everything else except length
/// and checksum is copied.
///
/// The upper half of the hash is folded into the lower. Sampling uses the low bits, and the low
/// bits of FNV-1a alone depend only on the low bits of each byte.
///
/// `bpf/fingerprint.h` computes the same, and `vectors/fingerprint.txt` has examples of every case.
pub fn fingerprint(frame: &[u8], headers: &Headers) -> Option<u32> {
    compute(frame, headers, None)
}

/// Returns the fingerprint that `segment` of the super-packet in `frame` will have on the wire.
///
/// The result is `None` as with [`fingerprint`]. It is also `None` for all but the first segment of
/// a UDP super-packet without IDs, since these differ only in payload that BPF cannot read.
pub fn fingerprint_segment(frame: &[u8], headers: &Headers, segment: &Segment) -> Option<u32> {
    compute(frame, headers, Some(segment))
}

fn compute(frame: &[u8], headers: &Headers, segment: Option<&Segment>) -> Option<u32> {
    let mut hash = Fnv1a::new();
    hash.write(&[headers.protocol]);
    let index = segment.filter(|_| headers.fragment.is_none()).map_or(0, |s| s.index);
    let ipv4_id = (headers.id as u16).wrapping_add(index);
    let fragment = headers.fragment.is_some();
    match headers.source {
        IpAddr::V4(_) if fragment || ipv4_id != 0 => {
            hash.write(&ipv4_id.to_be_bytes());
            hash.write_identified(frame, headers, segment)?;
        }
        IpAddr::V6(_) if fragment => {
            hash.write(&headers.id.to_be_bytes());
            hash.write_identified(frame, headers, segment)?;
        }
        _ => match headers.protocol {
            TCP => hash.write_tcp(frame, headers, segment)?,
            UDP => hash.write_udp(frame, headers, segment)?,
            _ => hash.write_other(frame, headers)?,
        },
    }
    Some(hash.fold())
}

/// The FNV-1a hash with 64 bits (draft-eastlake-fnv).
struct Fnv1a(u64);

impl Fnv1a {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    /// Hashes the fields that follow the ID of a packet that has one.
    fn write_identified(
        &mut self,
        frame: &[u8],
        headers: &Headers,
        segment: Option<&Segment>,
    ) -> Option<()> {
        self.write(&headers.fragment.map_or(0, |f| f.offset).to_be_bytes());
        if let Some(ports) = headers.ports {
            self.write(&ports.to_be_bytes());
        }
        if headers.protocol == TCP && headers.has_transport() {
            let tcp: &[u8; 8] = at(frame, headers.transport_offset.into())?;
            if headers.transport_len < 8 {
                return None;
            }
            self.write(&sequence(tcp, segment));
        }
        Some(())
    }

    fn write_tcp(
        &mut self,
        frame: &[u8],
        headers: &Headers,
        segment: Option<&Segment>,
    ) -> Option<()> {
        let offset = usize::from(headers.transport_offset);
        let tcp: &[u8; 20] = at(frame, offset)?;
        let header_len = u16::from(tcp[12] >> 4) * 4;
        if header_len < 20 {
            return None;
        }
        let payload_len = headers.transport_len.checked_sub(header_len)?;
        self.write(&headers.ports?.to_be_bytes());
        self.write(&sequence(tcp.first_chunk()?, segment));
        self.write(&tcp[8..12]);
        self.write(&segment.map_or(payload_len, |s| s.payload_len).to_be_bytes());
        if tcp[13] & SYN == 0 {
            let end = usize::from(header_len).min(TCP_HASHED);
            self.write(frame.get(offset + 20..offset + end)?);
        }
        Some(())
    }

    fn write_udp(
        &mut self,
        frame: &[u8],
        headers: &Headers,
        segment: Option<&Segment>,
    ) -> Option<()> {
        if segment.is_some_and(|s| s.offset != 0) {
            return None;
        }
        let payload = usize::from(headers.transport_offset) + 8;
        let payload_len = headers.transport_len.checked_sub(8)?;
        let payload_len = segment.map_or(payload_len, |s| s.payload_len);
        self.write(&headers.ports?.to_be_bytes());
        self.write(&payload_len.to_be_bytes());
        self.write(frame.get(payload..payload + usize::from(payload_len).min(UDP_PAYLOAD))?);
        Some(())
    }

    fn write_other(&mut self, frame: &[u8], headers: &Headers) -> Option<()> {
        let payload = usize::from(headers.transport_offset);
        let len = usize::from(headers.transport_len).min(OTHER_PAYLOAD);
        self.write(frame.get(payload..payload + len)?);
        (len > 0).then_some(())
    }

    /// Folds the hash to 32 bits.
    ///
    /// Multiplication carries only upwards, so the low k bits of the hash depend only on the low k
    /// bits of each byte. The upper half depends on all bits, so folding makes the low bits do so
    /// too.
    fn fold(&self) -> u32 {
        (self.0 >> 32) as u32 ^ self.0 as u32
    }
}

/// Returns the TCP sequence number of the segment on the wire.
fn sequence(tcp: &[u8; 8], segment: Option<&Segment>) -> [u8; 4] {
    let first = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    first.wrapping_add(segment.map_or(0, |s| s.offset)).to_be_bytes()
}
