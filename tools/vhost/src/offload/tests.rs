use proptest::prelude::*;

use super::segment::Segmenter;
use super::*;

/// Builds an Ethernet frame of TCP over IPv4 or IPv6 with `payload`. Its TCP checksum field holds
/// the pseudo-header's sum, as a driver leaves it.
pub(crate) fn tcp(v6: bool, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let segment = 20 + payload.len();
    let addresses = if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((segment as u16).to_be_bytes());
        frame.extend([6, 64]);
        let start = frame.len();
        frame.extend((0..32).map(|i| i * 7));
        start..start + 32
    } else {
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((20 + segment as u16).to_be_bytes());
        frame.extend([0xff, 0xff, 0x40, 0, 64, 6, 0, 0]);
        let start = frame.len();
        frame.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        start..start + 8
    };
    let pseudo =
        !checksum::transport(&frame[addresses], TCP, &(segment as u16 as u32).to_be_bytes());
    // The sum above includes the length twice: as a length of four bytes and as their content.
    let pseudo = subtract(pseudo, 4);
    frame.extend([0x30, 0x39, 0, 80, 0xff, 0xff, 0xff, 0x00, 0, 0, 0, 1, 0x50, flags, 1, 0]);
    frame.extend(pseudo.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

fn subtract(sum: u16, less: u16) -> u16 {
    let (difference, borrowed) = sum.overflowing_sub(less);
    difference - u16::from(borrowed)
}

pub(crate) fn offload(v6: bool, size: u16) -> Offload {
    let start = if v6 { 54 } else { 34 };
    Offload {
        checksum: Some(Checksum { start, offset: 16 }),
        segments: Some(Segments { size, v6, ecn: false }),
        valid: false,
    }
}

/// Whether the TCP and IPv4 checksums are right: the sums of what they cover are then all ones.
pub(crate) fn sums_are_right(frame: &[u8], v6: bool) -> bool {
    let (addresses, transport) = if v6 { (22..54, 54) } else { (26..34, 34) };
    let header = v6 || checksum::of(&frame[14..34]) == 0;
    header && checksum::transport(&frame[addresses], TCP, &frame[transport..]) == 0
}

pub(crate) fn segments(frame: &[u8], offload: Offload) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut segmenter = Segmenter::new(frame, offload);
    let mut out = Vec::new();
    while segmenter.next_into(&mut out) {
        all.push(out.clone());
    }
    all
}

#[test]
fn the_checksum_matches_the_example_of_rfc_1071() {
    // RFC 1071 section 3: the sum is ddf2, the checksum its complement.
    assert_eq!(checksum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    assert_eq!(checksum::of(&[0x00, 0x01, 0xf2]), !0xf201, "an odd byte counts as the high one");
    assert_eq!(checksum::of(&[]), 0xffff);
}

#[test]
fn a_checksum_of_zero_is_written_as_ones() {
    let mut frame = vec![0xff, 0xff, 0, 0];
    checksum::fill(&mut frame, Checksum { start: 0, offset: 2 });
    assert_eq!(frame, [0xff, 0xff, 0xff, 0xff]);
}

#[test]
fn headers_survive_reading_and_writing() {
    let frame = tcp(false, 0x18, &[1; 3000]);
    let wanted = offload(false, 1448);
    let header = wanted.write(&frame, 2);
    assert_eq!(header, [1, 1, 54, 0, 0xa8, 5, 34, 0, 16, 0, 2, 0]);
    assert_eq!(Offload::read(&header, &frame), Ok(wanted));
    assert_eq!(wanted.wire_length(&frame), 3054 + 2 * 54, "three segments");
    let plain = Offload { valid: true, ..Offload::default() };
    assert_eq!(Offload::read(&plain.write(&frame, 0), &frame), Ok(plain));
}

#[test]
fn headers_with_impossible_offloads_are_refused() {
    let frame = tcp(false, 0x18, &[1; 3000]);
    let good = offload(false, 1448).write(&frame, 0);
    let changed = |change: fn(&mut [u8; HEADER])| {
        let mut header = good;
        change(&mut header);
        Offload::read(&header, &frame)
    };
    assert!(changed(|_| {}).is_ok());
    assert!(changed(|h| h[0] = 0).is_err(), "segments without a checksum");
    assert!(changed(|h| h[1] = 4).is_err(), "IPv6 that is IPv4");
    assert!(changed(|h| h[1] = 3).is_err(), "UDP fragmentation");
    assert!(changed(|h| h[4..6].fill(0)).is_err(), "segments of nothing");
    assert!(changed(|h| h[4..6].copy_from_slice(&[47, 0])).is_err(), "tiny segments");
    assert!(changed(|h| h[6] = 30).is_err(), "not where TCP begins");
    assert!(changed(|h| h[8] = 4).is_err(), "not where TCP has it");
    assert!(changed(|h| h[6..8].fill(0xff)).is_err(), "past the frame");
    assert_eq!(Offload::read(&good[..8], &frame), Err(BadHeader));
    let cut = &frame[..50];
    assert_eq!(Offload::read(&good, cut), Err(BadHeader), "the frame ends within TCP's header");
    // A frame of one segment's length is not a super-packet.
    let short = tcp(false, 0x18, &[1; 1448]);
    let read = Offload::read(&good, &short).unwrap();
    assert_eq!(read.segments, None);
}

#[test]
fn each_segment_has_its_own_flags() {
    // The flags are CWR, PSH, ACK and FIN.
    let frame = tcp(true, 0x99, &[5; 250]);
    let all = segments(&frame, offload(true, 100));
    let flags: Vec<_> = all.iter().map(|s| s[54 + 13]).collect();
    assert_eq!(flags, [0x90, 0x10, 0x19]);
}

proptest! {
    #[test]
    fn segments_add_up_to_the_frame_and_are_valid(
        v6: bool,
        size in MIN_SEGMENT..2000,
        payload in prop::collection::vec(any::<u8>(), 1..6000),
    ) {
        let frame = tcp(v6, 0x18, &payload);
        let header = offload(v6, size).write(&frame, 0);
        let read = Offload::read(&header, &frame).unwrap();
        let start = if v6 { 54 } else { 34 };
        let all = segments(&frame, read);
        prop_assert_eq!(all.len(), payload.len().div_ceil(size.into()));
        let joined: Vec<u8> = all.iter().flat_map(|s| s[start + 20..].to_vec()).collect();
        prop_assert_eq!(&joined, &payload);
        let wire: u64 = all.iter().map(|s| s.len() as u64).sum();
        prop_assert_eq!(wire, read.wire_length(&frame));
        let mut sequence = 0xffff_ff00u32;
        for (i, segment) in all.iter().enumerate() {
            prop_assert!(sums_are_right(segment, v6), "segment {}", i);
            let own = u32::from_be_bytes(segment[start + 4..start + 8].try_into().unwrap());
            prop_assert_eq!(own, sequence);
            sequence = sequence.wrapping_add((segment.len() - start - 20) as u32);
            match Frame::parse(segment) {
                Ok(Frame::Ip(h)) => {
                    let len = usize::from(h.network_offset) + h.ip_len(segment.len());
                    prop_assert_eq!(len, segment.len());
                },
                other => prop_assert!(false, "{:?}", other),
            }
            if !v6 {
                let id = u16::from_be_bytes([segment[18], segment[19]]);
                prop_assert_eq!(id, 0xffffu16.wrapping_add(i as u16));
            }
        }
    }

    #[test]
    fn arbitrary_headers_never_read_past_the_frame(
        header in prop::array::uniform12(any::<u8>()),
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        ip: bool,
    ) {
        if ip && frame.len() > 40 {
            let like = tcp(frame[0] & 1 == 1, 0x18, &[]);
            let len = like.len().min(frame.len());
            frame[..len].copy_from_slice(&like[..len]);
        }
        if let Ok(offload) = Offload::read(&header, &frame) {
            let wire: usize = segments(&frame, offload).iter().map(Vec::len).sum();
            prop_assert_eq!(wire as u64, offload.wire_length(&frame));
            let again = offload.write(&frame, 0);
            prop_assert_eq!(Offload::read(&again, &frame), Ok(offload));
        }
    }
}
