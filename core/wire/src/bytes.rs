//! Reading of big-endian fields from byte slices.

/// Returns `N` bytes at `offset`, or `None` if the slice is too short.
pub(crate) fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}

pub(crate) const fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}
