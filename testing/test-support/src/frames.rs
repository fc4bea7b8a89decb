//! Frames for tests: those of the shared vectors, and random ones that are nearly well-formed.

use std::sync::LazyLock;

use forebay_wire::{FingerprintKey, Segment};
use proptest::collection::vec;
use proptest::prelude::*;

/// The key of all vectors, that of SipHash's own examples.
pub const KEY: FingerprintKey = FingerprintKey([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);

/// A frame and its fingerprint.
#[derive(Clone, Debug)]
pub struct Vector {
    /// The name of the vector.
    pub name: &'static str,
    /// The frame, from its Ethernet header.
    pub frame: Vec<u8>,
    /// The fingerprint under [`KEY`], if the frame has one.
    pub fingerprint: Option<u32>,
    /// The name of the super-packet and the segment of it that this is.
    pub segment: Option<(&'static str, Segment)>,
}

/// The shared vectors.
static VECTORS: LazyLock<Vec<Vector>> = LazyLock::new(|| {
    let lines = include_str!("../../../core/wire/vectors/fingerprint.txt").lines();
    let vectors: Vec<_> =
        lines.filter(|l| !l.is_empty() && !l.starts_with('#')).map(vector).collect();
    assert!(vectors.len() > 80, "some vectors are missing");
    vectors
});

/// Returns the shared vectors.
pub fn vectors() -> Vec<Vector> {
    VECTORS.clone()
}

fn vector(line: &'static str) -> Vector {
    let mut fields = line.split(' ');
    let mut next = || fields.next();
    let (name, hex, fingerprint) = (next().unwrap(), next().unwrap(), next().unwrap());
    Vector {
        name,
        frame: (0..hex.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
            .collect(),
        fingerprint: (fingerprint != "none").then(|| u32::from_str_radix(fingerprint, 16).unwrap()),
        segment: next().map(|of| {
            let mut number = || next().unwrap().parse::<u32>().unwrap();
            let (index, offset, payload_len) = (number(), number(), number());
            let (index, payload_len) = (index as u16, payload_len as u16);
            (of, Segment { index, offset, payload_len })
        }),
    }
}

/// Returns the frame of the vector with this name.
pub fn frame(name: &str) -> Vec<u8> {
    VECTORS.iter().find(|v| v.name == name).unwrap().frame.clone()
}

/// Returns frames that reach deep into the parser: valid headers around random content, sometimes
/// with a few bytes changed and the end cut off.
pub fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let tags = vec(prop_oneof![Just(0x8100_u16), Just(0x88a8)], 0..4);
    // Plain, PPPoE, or this many MPLS labels.
    let link = prop_oneof![4 => Just(None), 1 => Just(Some(0)), 1 => (1..6_usize).prop_map(Some)];
    let damage = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let cut = any::<prop::sample::Index>();
    ((tags, link), prop_oneof![ipv4(), ipv6()], damage, cut, 0..8_u8).prop_map(
        |((tags, link), (ethertype, packet), damage, cut, mishap)| {
            let mut frame = vec![2; 12];
            for tag in tags {
                frame.extend(tag.to_be_bytes());
                frame.extend([0, 7]);
            }
            match link {
                None => frame.extend(ethertype.to_be_bytes()),
                Some(0) => {
                    frame.extend([0x88, 0x64, 0x11, 0, 0x12, 0x34]);
                    frame.extend((packet.len() as u16 + 2).to_be_bytes());
                    frame.extend(if ethertype == 0x0800 { [0, 0x21] } else { [0, 0x57] });
                }
                Some(labels) => {
                    frame.extend([0x88, 0x47]);
                    (1..=labels).for_each(|i| frame.extend([0, 7, u8::from(i == labels), 64]));
                }
            }
            frame.extend(packet);
            if mishap & 3 == 0 {
                for (place, value) in damage {
                    let len = frame.len();
                    frame[place.index(len)] = value;
                }
            }
            if mishap & 6 == 2 {
                frame.truncate(cut.index(frame.len() + 1));
            }
            frame
        },
    )
}

fn ipv4() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let id = prop_oneof![Just(0_u16), any::<u16>()];
    let flags = prop_oneof![Just(0x4000_u16), Just(0), Just(0x2000), any::<u16>()];
    let options = prop_oneof![4 => Just(vec![]), 1 => vec(any::<u8>(), 0..40)];
    (id, flags, options, any::<[u8; 10]>(), transport()).prop_map(
        |(id, flags, mut options, random, (protocol, payload))| {
            options.truncate(options.len() / 4 * 4);
            let header_len = 20 + options.len();
            let total = (header_len + payload.len()) as u16;
            let mut packet = vec![0x40 | (header_len / 4) as u8, random[0]];
            for field in [total, id, flags] {
                packet.extend(field.to_be_bytes());
            }
            packet.extend([64, protocol, 0, 0]);
            packet.extend(&random[2..]);
            packet.extend(options);
            packet.extend(payload);
            (0x0800, packet)
        },
    )
}

fn ipv6() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let kind = prop_oneof![Just(0_u8), Just(43), Just(44), Just(51), Just(60)];
    let extension = (kind, prop_oneof![8 => 0..2_u8, 1 => 2..20_u8], any::<[u8; 6]>());
    let extensions = prop_oneof![2 => Just(vec![]), 2 => vec(extension, 0..9)];
    (extensions, any::<[u8; 34]>(), transport()).prop_map(
        |(extensions, random, (protocol, payload))| {
            let kinds: Vec<u8> = extensions.iter().map(|e| e.0).chain([protocol]).collect();
            let mut body = vec![];
            for (i, (kind, size, content)) in extensions.into_iter().enumerate() {
                body.extend([kinds[i + 1], size]);
                body.extend(content);
                match kind {
                    // Half of the fragments are first ones, which have the transport header.
                    44 if size & 1 == 0 => {
                        let last = body.len() - 6;
                        body[last..last + 2].copy_from_slice(&[0, content[1] & 7]);
                    }
                    44 => {}
                    51 => body.extend(vec![0xaa; usize::from(size) * 4]),
                    _ => body.extend(vec![0; usize::from(size) * 8]),
                }
            }
            body.extend(payload);
            let mut packet = vec![0x60 | random[0] & 15, random[1], 0, 0];
            packet.extend((body.len() as u16).to_be_bytes());
            packet.extend([kinds[0], 64]);
            packet.extend(&random[2..]);
            packet.extend(body);
            (0x86dd, packet)
        },
    )
}

fn transport() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let protocol = prop_oneof![
        4 => Just(6_u8), 4 => Just(17_u8), 1 => Just(132), 1 => Just(50), 1 => Just(58),
        1 => any::<u8>(),
    ];
    (protocol, vec(any::<u8>(), 0..160), 5..16_u8, any::<bool>()).prop_map(
        |(protocol, mut payload, words, mend)| {
            if protocol == 6 && mend && payload.len() > 13 {
                payload[12] = words << 4;
            }
            (protocol, payload)
        },
    )
}
