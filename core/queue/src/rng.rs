//! Random numbers for AQMs. Each qdisc owns its generator, so that its seed alone determines its
//! decisions.

use crate::flow_hash::GOLDEN;

/// The random number generator SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014, section 3).
///
/// It has eight bytes of state and takes a few cycles. A clone draws the same numbers as the
/// original, which `Pie::probe` uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rng(u64);

/// One step of the mantissa below one, 2^-53.
const ULP: f64 = 1.0 / (1_u64 << 53) as f64;

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns true with probability `p`: never at zero, always at one.
    #[inline]
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        // 53 bits fill the mantissa exactly, so the result is the same on every machine.
        ((self.next() >> 11) as f64) * ULP < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_hits_with_its_probability() {
        for p in [0.0, 0.001, 0.3, 0.97, 1.0] {
            let mut rng = Rng::new(7);
            let n = 100_000;
            let hits = (0..n).filter(|_| rng.chance(p)).count() as f64;
            // Five standard deviations of a binomial distribution; exact at 0 and 1.
            let deviation = p * (1.0 - p) * f64::from(n);
            let off = hits - p * f64::from(n);
            assert!(off * off <= 25.0 * deviation, "{hits} of {n} at {p}");
        }
    }
}
