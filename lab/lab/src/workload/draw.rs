use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A stream of random numbers; each traffic and attempt of a seed has its own.
pub struct Draw(ChaCha8Rng);

impl Draw {
    /// Creates the stream `stream` of `seed` for its `attempt`-th attempt.
    pub fn new(seed: u64, stream: u32, attempt: u32) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        key[8..12].copy_from_slice(&stream.to_le_bytes());
        key[12..16].copy_from_slice(&attempt.to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// Draws uniformly from [0, 1), in multiples of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Draws uniformly below `n`, by the high half of a product (Lemire 2019, without its
    /// rejection: the bias is below n / 2^64).
    pub fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u32
    }

    /// Draws exponentially with this `mean`, by von Neumann's comparison method ("Various
    /// techniques used in connection with random digits", 1951). It needs no logarithm, which
    /// differs between implementations of libm.
    ///
    /// A falling run of uniforms that starts at x has odd length with probability e^-x. Each run of
    /// even length adds one mean, which happens with probability 1 - 1/e.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole: u64 = 0;
        loop {
            let first = self.0.next_u64();
            let (mut last, mut odd) = (first, true);
            loop {
                let next = self.0.next_u64();
                if next >= last {
                    break;
                }
                (last, odd) = (next, !odd);
            }
            if odd {
                let part = (u128::from(first) * u128::from(mean)) >> 64;
                return whole.saturating_mul(mean).saturating_add(part as u64);
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_has_its_mean_and_tail() {
        let mut draw = Draw::new(1, 0, 0);
        let n = 200_000_u32;
        let (mut sum, mut above_two) = (0.0, 0);
        for _ in 0..n {
            let x = draw.exponential(1_000_000);
            sum += x as f64;
            above_two += u32::from(x > 2_000_000);
        }
        let mean = sum / f64::from(n);
        assert!((mean - 1e6).abs() < 1e4, "mean {mean}, four standard errors are 9000");
        let tail = f64::from(above_two) / f64::from(n);
        assert!((tail - (-2.0_f64).exp()).abs() < 0.004, "P(X > 2 means) is e^-2, here {tail}");
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, stream, attempt| Draw::new(seed, stream, attempt).below(u32::MAX);
        assert_eq!(first(1, 2, 3), first(1, 2, 3));
        assert_ne!(first(1, 2, 3), first(2, 2, 3));
        assert_ne!(first(1, 2, 3), first(1, 3, 3));
        assert_ne!(first(1, 2, 3), first(1, 2, 4));
    }

    #[test]
    fn below_reaches_both_ends() {
        let mut draw = Draw::new(1, 0, 0);
        let mut seen = [0_u32; 5];
        for _ in 0..5_000 {
            seen[draw.below(5) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
    }
}
