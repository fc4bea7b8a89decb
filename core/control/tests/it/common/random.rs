//! A small random number generator (SplitMix64), so that runs repeat exactly.

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uniform number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a uniform number in [low, high).
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Returns the size of a request in bytes, by the distribution of Bundler's evaluation.
    pub(crate) fn request_size(&mut self) -> u64 {
        const CDF: [(f64, f64); 6] = [
            (0.0, 0.0),
            (10_000.0, 0.976),
            (100_000.0, 0.995),
            (1_000_000.0, 0.999),
            (5_000_000.0, 0.9998),
            (100_000_000.0, 1.0),
        ];
        let u = self.unit();
        let i = CDF.iter().position(|&(_, p)| u < p).unwrap_or(5).max(1);
        let ((s0, p0), (s1, p1)) = (CDF[i - 1], CDF[i]);
        ((s0 + (s1 - s0) * (u - p0) / (p1 - p0)).ceil() as u64).max(1)
    }
}
