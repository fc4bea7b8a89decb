//! SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), which has one
//! round for each word and three at the end.

/// The key of a bundle's fingerprints, which both boxes derive from the bundle's key
/// ([`Key::fingerprint_key`](crate::feedback::Key::fingerprint_key)).
///
/// The `Debug` output does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FingerprintKey(pub [u64; 2]);

impl core::fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("FingerprintKey(..)")
    }
}

/// The state of SipHash-1-3 over a message of whole words of 8 bytes.
pub(crate) struct SipHash {
    v: [u64; 4],
    words: u64,
}

impl SipHash {
    #[inline(always)]
    pub(crate) const fn new(key: &FingerprintKey) -> Self {
        let FingerprintKey([k0, k1]) = *key;
        let v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        Self { v, words: 0 }
    }

    /// Hashes the next word of the message.
    #[inline(always)]
    pub(crate) fn write(&mut self, word: u64) {
        self.words += 1;
        self.compress(word);
    }

    #[inline(always)]
    fn compress(&mut self, word: u64) {
        self.v[3] ^= word;
        self.round();
        self.v[0] ^= word;
    }

    /// Returns the hash of the message.
    #[inline(always)]
    pub(crate) fn finish(mut self) -> u64 {
        // The last word of SipHash has the length in bytes, modulo 256, in its highest byte.
        self.compress(self.words << 59);
        self.v[2] ^= 0xff;
        for _ in 0..3 {
            self.round();
        }
        let [a, b, c, d] = self.v;
        a ^ b ^ c ^ d
    }

    #[inline(always)]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.v;
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32).wrapping_add(d);
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        d = d.rotate_left(21) ^ a;
        c = c.rotate_left(32);
        self.v = [a, b, c, d];
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use core::hash::Hasher as _;
    use std::collections::hash_map::DefaultHasher;
    use std::vec::Vec;

    use super::*;

    /// The standard library's hasher is SipHash-1-3 with a key of zeros.
    #[test]
    fn with_a_key_of_zeros_it_is_the_hash_of_the_standard_library() {
        let words: Vec<u64> = (1..40).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for n in 0..words.len() {
            let (mut sip, mut other) =
                (SipHash::new(&FingerprintKey([0; 2])), DefaultHasher::new());
            for &word in &words[..n] {
                sip.write(word);
                other.write(&word.to_le_bytes());
            }
            assert_eq!(sip.finish(), other.finish(), "{n} words");
        }
    }
}
