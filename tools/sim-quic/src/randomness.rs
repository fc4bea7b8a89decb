//! Random numbers for TLS that follow from a seed.
//!
//! `rustls` asks one object of the whole program for random bytes. That object passes the question
//! to the endpoint that is running in this thread, so that endpoints do not influence each other.

use std::cell::RefCell;

use forebay_sim::Random;
use rustls::crypto::{GetRandomFailed, SecureRandom};

thread_local! {
    /// The random numbers of the endpoint that is running in this thread.
    static CURRENT: RefCell<Option<Random>> = const { RefCell::new(None) };
}

/// Random numbers of the endpoint that is running in this thread.
#[derive(Debug)]
pub(crate) struct Seeded;

impl SecureRandom for Seeded {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        CURRENT.with_borrow_mut(|current| {
            let random = current.as_mut().ok_or(GetRandomFailed)?;
            fill(random, bytes);
            Ok(())
        })
    }
}

/// Fills `bytes` with random numbers.
pub(crate) fn fill(random: &mut Random, bytes: &mut [u8]) {
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&random.bits().to_be_bytes()[..part.len()]);
    }
}

/// Calls `run` while TLS takes its random numbers from `random`.
pub(crate) fn with<T>(random: &mut Random, run: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(Some(random.clone()));
    let result = run();
    if let Some(used) = CURRENT.replace(before) {
        *random = used;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw() -> [u8; 12] {
        let mut bytes = [0; 12];
        Seeded.fill(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn endpoints_do_not_influence_each_other() {
        let [mut first, mut second] = [1, 2].map(|seed| Random::new(seed, 0));
        let alone = with(&mut first.clone(), || [draw(), draw()]);
        let before = with(&mut first, draw);
        let other = with(&mut second, draw);
        let after = with(&mut first, || {
            assert_eq!(with(&mut Random::new(1, 0), draw), alone[0]);
            draw()
        });
        assert_eq!([before, after], alone);
        assert!(!alone.contains(&other));
        assert!(Seeded.fill(&mut [0]).is_err(), "no endpoint is running");
    }
}
