//! The header parser and the fingerprint of the BPF programs, compiled for user space.
//!
//! This is for tests only: [`assert_agrees`] checks that the C code and `forebay-wire` give the
//! same results for a frame.

use core::ffi::{c_int, c_void};
use core::net::IpAddr;
use core::ptr;

use forebay_wire::{FingerprintKey, Frame, Segment, fingerprint_segment};

const IS_FRAGMENT: u8 = 1;
const MORE_FRAGMENTS: u8 = 2;
const HAS_PORTS: u8 = 4;

/// The layout of `struct fb_headers`, whose fields `bpf/headers.h` explains.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    src: [u8; 16],
    dst: [u8; 16],
    id: u32,
    transport_len: u32,
    fragment_offset: u16,
    network_offset: u16,
    transport_offset: u16,
    src_port: u16,
    dst_port: u16,
    version: u8,
    protocol: u8,
    traffic_class: u8,
    flags: u8,
}

impl From<&forebay_wire::Headers> for Headers {
    fn from(h: &forebay_wire::Headers) -> Self {
        let address = |address| match address {
            IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
            IpAddr::V6(a) => a.octets(),
        };
        let flag = |condition, flag| if condition { flag } else { 0 };
        Self {
            src: address(h.source),
            dst: address(h.destination),
            id: h.id,
            fragment_offset: h.fragment.map_or(0, |f| f.offset),
            network_offset: h.network_offset,
            transport_offset: h.transport_offset,
            transport_len: h.transport_len,
            src_port: h.ports.map_or(0, |p| p.source),
            dst_port: h.ports.map_or(0, |p| p.destination),
            version: if h.source.is_ipv4() { 4 } else { 6 },
            protocol: h.protocol,
            traffic_class: h.dscp << 2 | h.ecn,
            flags: flag(h.fragment.is_some(), IS_FRAGMENT)
                | flag(h.fragment.is_some_and(|f| f.more), MORE_FRAGMENTS)
                | flag(h.ports.is_some(), HAS_PORTS),
        }
    }
}

/// The layout of `struct fb_segment` in `bpf/fingerprint.h`.
#[repr(C)]
struct CSegment {
    index: u32,
    offset: u32,
    payload_len: u32,
}

// SAFETY: the signatures are those in shim.c.
unsafe extern "C" {
    fn fb_c_parse(
        data: *const c_void,
        end: *const c_void,
        framing: u32,
        whole: u32,
        headers: *mut Headers,
    ) -> c_int;
    fn fb_c_fingerprint(
        data: *const c_void,
        end: *const c_void,
        headers: *const Headers,
        key: *const u64,
        segment: *const CSegment,
        fingerprint: *mut u32,
    ) -> c_int;
}

/// How a frame begins, in the numbers of `bpf/headers.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// With an Ethernet header.
    Ethernet = 0,
    /// With an IP header.
    BareIp = 1,
}

/// What the parser finds in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// An IP packet with these headers.
    Ip(Headers),
    /// A protocol that carries no IP packets.
    NoIp,
    /// Neither an IP packet nor a protocol without them.
    Unknown,
}

impl Found {
    fn by_rust(frame: &[u8], framing: Framing) -> (Self, Option<forebay_wire::Headers>) {
        let parsed = match framing {
            Framing::Ethernet => Frame::parse(frame),
            Framing::BareIp => forebay_wire::Headers::parse_ip(frame).map(Frame::Ip),
        };
        match parsed {
            Ok(Frame::Ip(headers)) => (Self::Ip(Headers::from(&headers)), Some(headers)),
            Ok(Frame::Arp | Frame::Other) => (Self::NoIp, None),
            Ok(Frame::Unknown) | Err(_) => (Self::Unknown, None),
        }
    }
}

/// Parses a frame with the C function `fb_parse`. A super-packet in a frame of `whole` bytes may
/// have no length in its IP header; for other packets `whole` is zero.
///
/// # Panics
/// Panics if the answer is none that the C code has.
pub fn parse_as(frame: &[u8], framing: Framing, whole: u32) -> Found {
    let range = frame.as_ptr_range();
    let mut headers = Headers::default();
    // SAFETY: the C code reads between the two pointers, which are those of a slice, and writes to
    // `headers`, whose layout it shares. The BPF verifier proves that it keeps to these bounds.
    let answer = unsafe {
        let (start, end) = (range.start.cast(), range.end.cast());
        fb_c_parse(start, end, framing as u32, whole, &mut headers)
    };
    match answer {
        1 => Found::Ip(headers),
        0 => Found::NoIp,
        -1 => Found::Unknown,
        other => panic!("fb_parse answers {other}"),
    }
}

/// Parses an Ethernet frame with the C function `fb_parse`. The result is `None` unless it is an IP
/// packet.
pub fn parse(frame: &[u8]) -> Option<Headers> {
    match parse_as(frame, Framing::Ethernet, 0) {
        Found::Ip(headers) => Some(headers),
        Found::NoIp | Found::Unknown => None,
    }
}

/// Computes a fingerprint with the C function `fb_fingerprint`, or with `fb_fingerprint_segment` if
/// there is a segment.
pub fn fingerprint(
    frame: &[u8],
    headers: &Headers,
    key: &FingerprintKey,
    segment: Option<&Segment>,
) -> Option<u32> {
    let range = frame.as_ptr_range();
    let segment = segment.map(|s| CSegment {
        index: s.index.into(),
        offset: s.offset,
        payload_len: s.payload_len.into(),
    });
    let segment = segment.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mut fingerprint = 0;
    let key = key.0.as_ptr();
    // SAFETY: as in `parse`. In addition, `key` points to two words, `segment` is null or points to
    // a value with the layout of the C type, and no value of `headers` makes the C code read past
    // the end.
    let ok = unsafe {
        let (start, end) = (range.start.cast(), range.end.cast());
        fb_c_fingerprint(start, end, headers, key, segment, &mut fingerprint)
    };
    (ok != 0).then_some(fingerprint)
}

/// Parses and fingerprints `frame` and a segment of it under `key` in both languages, once as an
/// Ethernet frame and once as an IP packet.
///
/// # Panics
/// Panics if the results differ.
pub fn assert_agrees(frame: &[u8], key: &FingerprintKey, segment: &Segment) {
    for framing in [Framing::Ethernet, Framing::BareIp] {
        let (expected, rust) = Found::by_rust(frame, framing);
        let c = parse_as(frame, framing, 0);
        assert_eq!(expected, c, "{framing:?}: headers of {frame:02x?}");
        let (Some(rust), Found::Ip(c)) = (rust, c) else { continue };
        assert_eq!(
            forebay_wire::fingerprint(frame, &rust, key),
            fingerprint(frame, &c, key, None),
            "{framing:?}: fingerprint of {frame:02x?}"
        );
        assert_eq!(
            fingerprint_segment(frame, &rust, key, segment),
            fingerprint(frame, &c, key, Some(segment)),
            "{framing:?}: fingerprint of {segment:?} of {frame:02x?}"
        );
    }
}
