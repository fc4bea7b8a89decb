//! Random numbers that are the same on every machine.
//!
//! They are integers, and each user has a separate stream, so that an additional draw of one user
//! does not change the numbers of the others.

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes all bits of `z` (the finaliser of splitmix64; Steele, Lea and Flood, OOPSLA 2014).
pub(crate) fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A stream of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the stream `stream` of `seed`.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(mix(mix(seed.wrapping_add(GOLDEN)) ^ stream.wrapping_mul(GOLDEN)))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Returns a uniform random number below `n`, or zero if `n` is zero.
    ///
    /// It is the high half of a product (Lemire 2019, without the rejection: the bias is below
    /// n / 2^64).
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns true with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        // 2^53 different values, all of them exact.
        p > 0.0 && ((self.bits() >> 11) as f64) < p * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_are_repeatable() {
        let head = |seed, stream| Random::new(seed, stream).bits();
        assert_eq!(head(1, 2), head(1, 2));
        assert_ne!(head(1, 2), head(2, 1));
        assert_ne!(head(1, 2), head(1, 3));
    }

    #[test]
    fn chance_hits_with_its_probability() {
        let mut random = Random::new(1, 0);
        let hits = (0..100_000).filter(|_| random.chance(0.03)).count();
        assert!((2_800..3_200).contains(&hits), "3000 expected, sigma 54, not {hits}");
        assert!((0..1000).all(|_| !random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
    }
}
