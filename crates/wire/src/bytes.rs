//! Reading big-endian fields out of byte slices.

/// `N` bytes at `offset`, or `None` where the slice ends before.
pub(crate) fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<&[u8; N]> {
    bytes.get(offset..)?.first_chunk()
}

pub(crate) const fn be16(high: u8, low: u8) -> u16 {
    u16::from_be_bytes([high, low])
}
