//! The Internet checksum (RFC 1071).

use super::Checksum;

/// Adds the ones' complement sum of `bytes` to `sum`, without folding.
fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        sum += u64::from(u32::from_be_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Computes the checksum of `bytes`: the complement of their sum.
pub fn of(bytes: &[u8]) -> u16 {
    !fold(add(0, bytes))
}

/// Computes the checksum of a transport segment between the addresses in `addresses`.
pub(super) fn transport(addresses: &[u8], protocol: u8, segment: &[u8]) -> u16 {
    let sum = add(u64::from(protocol) + segment.len() as u64, addresses);
    !fold(add(sum, segment))
}

/// Computes `checksum` and writes it to its field, which holds the pseudo-header's sum.
///
/// A result of zero is written as 0xffff, because in UDP zero means that there is no checksum
/// (RFC 768). Does nothing if the field is not in the frame.
pub fn fill(frame: &mut [u8], checksum: Checksum) {
    let (start, field) =
        (usize::from(checksum.start), usize::from(checksum.start) + usize::from(checksum.offset));
    let Some(covered) = frame.get(start..) else { return };
    let value = match of(covered) {
        0 => 0xffff,
        sum => sum,
    };
    if let Some(field) = frame.get_mut(field..field + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
