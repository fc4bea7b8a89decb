use std::io::Write;

use proptest::prelude::*;

use super::*;

/// Writes an integer of variable length.
fn put_varint(into: &mut Vec<u8>, value: i64) {
    let mut left = (value << 1 ^ value >> 63).cast_unsigned();
    while left > 0x7f {
        into.push(left as u8 | 0x80);
        left >>= 7;
    }
    into.push(left as u8);
}

/// Returns messages with these values and no keys, not packed.
pub(in crate::kafka) fn records(values: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::new();
    for (offset, value) in (0..).zip(values) {
        let mut record = vec![0, 0];
        put_varint(&mut record, offset);
        put_varint(&mut record, -1);
        put_varint(&mut record, value.len() as i64);
        record.extend_from_slice(value);
        put_varint(&mut record, 0);
        put_varint(&mut all, record.len() as i64);
        all.extend(record);
    }
    all
}

/// Returns a batch of `count` messages with these packed octets and attributes.
pub(in crate::kafka) fn batch(base: i64, attributes: i16, count: i32, packed: &[u8]) -> Vec<u8> {
    let mut checked = attributes.to_be_bytes().to_vec();
    checked.extend((count - 1).to_be_bytes());
    for time in [1_000_i64, 2_000] {
        checked.extend(time.to_be_bytes());
    }
    checked.extend([0xff; 14]);
    checked.extend(count.to_be_bytes());
    checked.extend_from_slice(packed);
    let mut batch = base.to_be_bytes().to_vec();
    batch.extend((checked.len() as i32 + 9).to_be_bytes());
    batch.extend([0, 0, 0, 0, 2]);
    batch.extend(crc32c(&checked).to_be_bytes());
    batch.extend(checked);
    batch
}

pub(in crate::kafka) fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

fn snappy_block(octets: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(octets).unwrap()
}

/// Returns blocks of snappy as Java writes them.
fn java_snappy(octets: &[u8]) -> Vec<u8> {
    let mut all = [JAVA_SNAPPY, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
    for chunk in octets.chunks(1 << 15) {
        let block = snappy_block(chunk);
        all.extend((block.len() as i32).to_be_bytes());
        all.extend(block);
    }
    all
}

fn lz4_frame(octets: &[u8]) -> Vec<u8> {
    let mut encoder = lz4::EncoderBuilder::new().build(Vec::new()).unwrap();
    encoder.write_all(octets).unwrap();
    let (packed, result) = encoder.finish();
    result.unwrap();
    packed
}

fn zstd(octets: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(octets, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A function that packs octets.
type Pack = fn(&[u8]) -> Vec<u8>;

/// All compressions by their number.
const PACKERS: [(i16, Pack); 6] = [
    (0, <[u8]>::to_vec),
    (1, gzip),
    (2, snappy_block),
    (2, java_snappy),
    (3, lz4_frame),
    (4, zstd),
];

#[test]
fn messages_of_all_compressions_are_read_from_an_offset_on() {
    let values: [&[u8]; 3] = [b"one", b"", b"three"];
    for (number, pack) in PACKERS {
        let packed = batch(100, number, 3, &pack(&records(&values)));
        let two = [packed.as_slice(), packed.as_slice(), &packed[..packed.len() - 1]].concat();
        let mut octets = two.as_slice();
        let read = next_batch(&mut octets, 101).unwrap();
        assert_eq!((read.next, read.newest), (103, Some(2_000)), "{number}");
        assert_eq!(read.messages.unwrap(), values[1..], "{number}");
        assert_eq!(next_batch(&mut octets, 0).unwrap().messages.unwrap(), values);
        assert_eq!(next_batch(&mut octets, 0), None, "the last one is cut");
    }
}

#[test]
fn a_batch_that_unpacks_to_too_much_is_refused_and_passed() {
    let zeros = vec![0; MAX_UNPACKED + 1];
    for (number, pack) in PACKERS {
        // The encoder of zstd is slow, and frames may follow one another.
        let packed = match number {
            4 => pack(&zeros[..1 << 20]).repeat(65),
            _ => pack(&zeros),
        };
        let packed = batch(7, number, 5, &packed);
        let mut octets = packed.as_slice();
        let read = next_batch(&mut octets, 7).unwrap();
        assert_eq!((read.next, read.messages), (12, Err(Refused::Octets)), "{number}");
    }
}

#[test]
fn a_batch_with_too_many_messages_is_refused_before_it_is_unpacked() {
    for (number, pack) in PACKERS {
        let packed = batch(7, number, 60_000_000, &pack(b"\x0c\0\0\0\x01\x01\0"));
        let mut octets = packed.as_slice();
        let read = next_batch(&mut octets, 7).unwrap();
        assert_eq!((read.next, read.messages), (60_000_007, Err(Refused::Messages)), "{number}");
    }
}

#[test]
fn what_cannot_be_read_is_passed() {
    let good = batch(7, 0, 1, &records(&[b"one"]));
    let changed = |at: usize, octet: u8| {
        let mut batch = good.clone();
        batch[at] = octet;
        batch
    };
    for (batch, why) in [
        (changed(good.len() - 2, b'x'), Refused::Checksum),
        (changed(16, 1), Refused::Old),
        (changed(16, 3), Refused::Malformed),
        (batch(7, 5, 1, b""), Refused::Compression),
        (batch(7, 1, 1, &records(&[b"one"])), Refused::Compression),
        (batch(7, 1, 1, &gzip(&records(&[b"one"]))[..20]), Refused::Compression),
        (batch(7, 0, 2, &records(&[b"one"])), Refused::Malformed),
        (batch(7, 0, 1, b"\xff\xff"), Refused::Malformed),
        ([&7_i64.to_be_bytes()[..], &[0, 0, 0, 1, 0]].concat(), Refused::Malformed),
    ] {
        let mut octets = batch.as_slice();
        let read = next_batch(&mut octets, 7).unwrap();
        assert_eq!((read.messages, octets.len()), (Err(why), 0), "{why}");
        assert!(read.next > 7, "{why}");
    }
    // Marks of transactions are no messages.
    let mut octets = &batch(7, 0x20, 1, b"?")[..];
    assert_eq!(next_batch(&mut octets, 7).unwrap().messages, Ok(Vec::new()));
}

#[test]
fn the_checksum_is_crc_32c() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

proptest! {
    #[test]
    fn any_octets_are_read_to_their_end(
        octets: Vec<u8>,
        attributes: i16,
        count in -1..5_i32,
        base: i64,
        from: i64,
    ) {
        for octets in [octets.clone(), batch(base, attributes & 0x27, count, &octets)] {
            let mut rest = octets.as_slice();
            while let Some(batch) = next_batch(&mut rest, from) {
                prop_assert!(batch.next > from || from == i64::MAX);
            }
        }
    }
}
