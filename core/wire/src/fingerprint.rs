//! The fingerprint, by which both boxes identify a packet without modifying it.

use core::net::IpAddr;

use crate::bytes::at;
use crate::headers::protocol::{TCP, UDP};
use crate::headers::{Headers, Ports};
use crate::siphash::{FingerprintKey, SipHash};

const UDP_PAYLOAD: usize = 32;
const OTHER_PAYLOAD: usize = 64;
const TCP_OPTIONS: usize = 24;
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

/// Returns the fingerprint of the packet in `frame`, whose headers are `headers`, under the key of
/// its bundle.
///
/// The result is `None` if nothing in the packet distinguishes it from others, or if the bytes that
/// would do so are malformed or not in the frame. Such a packet is no epoch boundary.
///
/// # Fields
///
/// The fingerprint is the lower half of SipHash-1-3 over fields that the network does not change
/// and that distinguish a packet from others and from its own retransmission (Bundler section 4.5).
/// Addresses are not hashed, since they vary least within a bundle. The message consists of words
/// of 64 bits. The first one has, from its highest bit, the IP protocol (8 bits), the row of this
/// table (8), and the fields of the table:
///
/// | row | packet | first word | then |
/// |---|---|---|---|
/// | 1 | IPv4 with an ID, and every fragment | fragment offset in units of 8 bytes (16), ID (32) | ports (32), sequence number (32); each is zero if there is none, as in later fragments |
/// | 2 | other TCP | payload length (16), ports (32) | sequence number (32), acknowledgement (32); unless it is a SYN the options, at most 24 bytes |
/// | 3 | other UDP | payload length (16), ports (32) | the first 32 bytes of payload |
/// | 4 | others | payload length (16), zero (32) | the first 64 bytes of payload |
///
/// Options and payload are words in network order; the last one is filled up with zeros. Lengths
/// are those of the IP header, since Ethernet pads short frames on some links only. Of a
/// jumbogram's payload length (RFC 2675) the lower 16 bits are hashed.
///
/// - The **key** keeps strangers from crafting packets that are all boundary packets, or none.
///   SipHash is a pseudorandom function: observers who see fingerprints in feedback cannot compute
///   others.
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
/// `bpf/fingerprint.h` computes the same, and `vectors/fingerprint.txt` has examples of every case.
pub fn fingerprint(frame: &[u8], headers: &Headers, key: &FingerprintKey) -> Option<u32> {
    compute(frame, headers, key, None)
}

/// Returns the fingerprint that `segment` of the super-packet in `frame` will have on the wire.
///
/// The result is `None` as with [`fingerprint`]. It is also `None` for all but the first segment of
/// a UDP super-packet without IDs, since these differ only in payload that BPF cannot read.
pub fn fingerprint_segment(
    frame: &[u8],
    headers: &Headers,
    key: &FingerprintKey,
    segment: &Segment,
) -> Option<u32> {
    compute(frame, headers, key, Some(segment))
}

/// A row of the table in the documentation of [`fingerprint`].
#[derive(Clone, Copy)]
enum Row {
    Identified = 1,
    Tcp = 2,
    Udp = 3,
    Other = 4,
}

fn compute(
    frame: &[u8],
    headers: &Headers,
    key: &FingerprintKey,
    segment: Option<&Segment>,
) -> Option<u32> {
    let mut message = Message { hash: SipHash::new(key), frame, headers, segment };
    let index = segment.filter(|_| headers.fragment.is_none()).map_or(0, |s| s.index);
    let ipv4_id = (headers.id as u16).wrapping_add(index);
    let fragment = headers.fragment.is_some();
    match headers.source {
        IpAddr::V4(_) if fragment || ipv4_id != 0 => message.identified(ipv4_id.into())?,
        IpAddr::V6(_) if fragment => message.identified(headers.id)?,
        _ => match headers.protocol {
            TCP => message.tcp()?,
            UDP => message.udp()?,
            _ => message.other()?,
        },
    }
    Some(message.hash.finish() as u32)
}

/// The message that is hashed.
struct Message<'a> {
    hash: SipHash,
    frame: &'a [u8],
    headers: &'a Headers,
    segment: Option<&'a Segment>,
}

impl Message<'_> {
    /// Hashes the first word.
    #[inline(always)]
    fn begin(&mut self, row: Row, short: u16, long: u32) {
        let protocol = u64::from(self.headers.protocol);
        let word = protocol << 56 | (row as u64) << 48 | u64::from(short) << 32 | u64::from(long);
        self.hash.write(word);
    }

    /// Hashes a word of two halves.
    #[inline(always)]
    fn pair(&mut self, high: u32, low: u32) {
        self.hash.write(u64::from(high) << 32 | u64::from(low));
    }

    /// Hashes bytes of the frame.
    #[inline(always)]
    fn bytes(&mut self, offset: usize, len: usize) -> Option<()> {
        let words = self.frame.get(offset..offset + len)?.chunks_exact(8);
        let rest = words.remainder();
        for word in words {
            self.hash.write(word.try_into().map_or(0, u64::from_be_bytes));
        }
        if !rest.is_empty() {
            let bytes = rest.iter().zip([56, 48, 40, 32, 24, 16, 8]);
            self.hash.write(bytes.fold(0, |word, (&byte, by)| word | u64::from(byte) << by));
        }
        Some(())
    }

    /// Hashes a packet with an ID.
    fn identified(&mut self, id: u32) -> Option<()> {
        self.begin(Row::Identified, self.headers.fragment.map_or(0, |f| f.offset), id);
        let mut first = 0;
        if self.headers.protocol == TCP && self.headers.has_transport() {
            let tcp: &[u8; 8] = at(self.frame, self.headers.transport_offset.into())?;
            if self.headers.transport_len < 8 {
                return None;
            }
            first = sequence(tcp, self.segment);
        }
        self.pair(self.headers.ports.map_or(0, ports), first);
        Some(())
    }

    fn tcp(&mut self) -> Option<()> {
        let offset = usize::from(self.headers.transport_offset);
        let tcp: &[u8; 20] = at(self.frame, offset)?;
        let header_len = u32::from(tcp[12] >> 4) * 4;
        if header_len < 20 {
            return None;
        }
        let payload_len = self.headers.transport_len.checked_sub(header_len)?;
        let payload_len = self.segment.map_or(payload_len as u16, |s| s.payload_len);
        self.begin(Row::Tcp, payload_len, ports(self.headers.ports?));
        let acknowledgement = u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]);
        self.pair(sequence(tcp.first_chunk()?, self.segment), acknowledgement);
        if tcp[13] & SYN != 0 {
            return Some(());
        }
        self.bytes(offset + 20, (header_len as usize - 20).min(TCP_OPTIONS))
    }

    fn udp(&mut self) -> Option<()> {
        if self.segment.is_some_and(|s| s.offset != 0) {
            return None;
        }
        let payload_len = self.headers.transport_len.checked_sub(8)?;
        let payload_len = self.segment.map_or(payload_len, |s| s.payload_len.into());
        self.begin(Row::Udp, payload_len as u16, ports(self.headers.ports?));
        let payload = usize::from(self.headers.transport_offset) + 8;
        self.bytes(payload, (payload_len as usize).min(UDP_PAYLOAD))
    }

    fn other(&mut self) -> Option<()> {
        let len = self.headers.transport_len;
        self.begin(Row::Other, len as u16, 0);
        let payload = usize::from(self.headers.transport_offset);
        self.bytes(payload, (len as usize).min(OTHER_PAYLOAD))?;
        (len > 0).then_some(())
    }
}

fn ports(ports: Ports) -> u32 {
    u32::from(ports.source) << 16 | u32::from(ports.destination)
}

/// Returns the TCP sequence number of the segment on the wire.
fn sequence(tcp: &[u8; 8], segment: Option<&Segment>) -> u32 {
    let first = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
    first.wrapping_add(segment.map_or(0, |s| s.offset))
}
