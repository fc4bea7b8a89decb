//! Maps a packet's flow hash to a bucket of a table, mixed with the qdisc's seed.

/// 2^64 divided by the golden ratio, whose multiples spread evenly (Knuth, The Art of Computer
/// Programming, volume 3, section 6.4).
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The default seed. A box that faces untrusted senders should draw its own at random; otherwise a
/// sender can choose flows that collide.
pub(crate) const DEFAULT_SEED: u64 = 0x0f0e_ba75_0f0e_ba75;

/// A seeded hash function from flows to buckets.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct FlowHash {
    seed: u64,
    buckets: u32,
}

impl FlowHash {
    pub(crate) fn new(seed: u64, buckets: u32) -> Self {
        Self { seed, buckets }
    }

    /// Returns the bucket of a flow, below the number of buckets.
    ///
    /// Folds the two halves of a 128-bit product together. With a plain product the same flows
    /// would collide under every seed.
    #[inline]
    pub(crate) fn bucket(&self, flow_hash: u32) -> u32 {
        let wide = u128::from(u64::from(flow_hash) ^ self.seed) * u128::from(GOLDEN);
        let mixed = (wide >> 64) as u64 ^ wide as u64;
        // Scales the upper 32 bits to the table: exact for any size, without a division.
        (((mixed >> 32) * u64::from(self.buckets)) >> 32) as u32
    }

    /// Takes the next seed of a fixed sequence, so that runs are repeatable.
    pub(crate) fn reseed(&mut self) {
        // A Weyl step and a mix, as in Steele, Lea and Flood, "Fast splittable pseudorandom number
        // generators" (OOPSLA 2014), section 3.
        self.seed = self.seed.wrapping_add(GOLDEN);
        self.seed = (self.seed ^ (self.seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.seed ^= self.seed >> 31;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_hashes_spread_over_all_buckets() {
        let hash = FlowHash::new(DEFAULT_SEED, 1024);
        let mut load = [0_u32; 1024];
        for flow in 0..10_240 {
            load[hash.bucket(flow) as usize] += 1;
        }
        // The mean is ten; the fullest of 1024 buckets of a random function would hold about 22.
        assert!(load.iter().all(|&n| n < 30), "fullest {:?}", load.iter().max());
    }

    #[test]
    fn a_new_seed_separates_flows_that_collided() {
        let mut hash = FlowHash::new(DEFAULT_SEED, 1024);
        let colliding = |hash: &FlowHash, pairs: &[(u32, u32)]| {
            pairs.iter().filter(|(a, b)| hash.bucket(*a) == hash.bucket(*b)).count()
        };
        // Hashes that differ in a single bit are the hard case for a multiplicative hash.
        let mut pairs = alloc::vec![(0, 0); 200_000];
        for (i, pair) in pairs.iter_mut().enumerate() {
            let a = (i as u32).wrapping_mul(2_654_435_761);
            *pair = (a, a ^ (1 << (i % 32)));
        }
        let before = colliding(&hash, &pairs);
        let old = hash;
        hash.reseed();
        let both = pairs
            .iter()
            .filter(|(a, b)| old.bucket(*a) == old.bucket(*b) && hash.bucket(*a) == hash.bucket(*b))
            .count();
        // One in 1024 pairs collides by chance, and one in 1024 of those collides again.
        assert!(before < 400, "{before} of 200 000 pairs collide");
        assert!(both <= 10, "{both} of {before} still collide");
    }
}
