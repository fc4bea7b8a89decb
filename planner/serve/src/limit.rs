//! Limits the rate of a neighbour's requests with a token bucket. The time is an argument.

/// The most requests at once.
const BURST: f64 = 50.0;
/// The rate of requests per second, enough to ask for everything each second.
const RATE: f64 = 10.0;

/// The bucket of one neighbour.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    left: f64,
    at: u64,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { left: BURST, at: 0 }
    }
}

impl Bucket {
    /// Takes one request at `now`, in milliseconds.
    ///
    /// # Errors
    /// If the bucket is empty: the number of milliseconds until the next request.
    pub fn take(&mut self, now: u64) -> Result<(), u64> {
        let since = now.saturating_sub(self.at) as f64 / 1000.0;
        self.left = (self.left + since * RATE).min(BURST);
        self.at = self.at.max(now);
        if self.left >= 1.0 {
            self.left -= 1.0;
            Ok(())
        } else {
            Err(((1.0 - self.left) / RATE * 1000.0).ceil() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_the_rate() {
        let mut bucket = Bucket::default();
        let taken = (0..200).filter(|_| bucket.take(1_000_000).is_ok()).count();
        assert_eq!(taken, 50);
        assert_eq!(bucket.take(1_000_000), Err(100));
        assert_eq!(bucket.take(1_000_100), Ok(()));
        assert!(bucket.take(1_000_150).is_err());
        // A clock that is set back adds nothing and takes nothing.
        assert!(bucket.take(0).is_err());
        assert_eq!(bucket.take(1_000_200), Ok(()));
    }
}
