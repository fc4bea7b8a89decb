/// Packs two numbers into 16 bytes, big-endian: the header of all messages between programs.
pub(super) fn pack(a: u64, b: u64) -> [u8; 16] {
    (u128::from(a) << 64 | u128::from(b)).to_be_bytes()
}

/// Unpacks what [`pack`] packed.
pub(super) fn unpack(bytes: [u8; 16]) -> (u64, u64) {
    let both = u128::from_be_bytes(bytes);
    ((both >> 64) as u64, both as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_survive_the_wire() {
        assert_eq!(unpack(pack(7, u64::MAX)), (7, u64::MAX));
        assert_eq!(pack(1, 2)[7..9], [1, 0], "the first number goes first");
    }
}
