//! A lock for what one thread uses in every turn of its loop, and others now and then.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that its owner locks in every turn. Others get it after the present turn: the owner
/// waits for them, since a plain lock would let it take the lock again before they wake up.
#[derive(Debug)]
pub(super) struct TurnLock<T> {
    value: Mutex<T>,
    /// Locked while others wait for the value or have it.
    gate: Mutex<()>,
    is_wanted: AtomicBool,
}

/// A value that another thread than its owner has.
#[derive(Debug)]
pub(crate) struct Borrowed<'a, T> {
    // Dropped first, so that the owner finds the value free when the gate opens.
    value: MutexGuard<'a, T>,
    _gate: MutexGuard<'a, ()>,
}

impl<T> TurnLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { value: Mutex::new(value), gate: Mutex::new(()), is_wanted: AtomicBool::new(false) }
    }

    /// Locks the value for a turn of its owner.
    pub(super) fn own(&self) -> MutexGuard<'_, T> {
        if self.is_wanted.load(Ordering::Relaxed) {
            drop(self.gate.lock());
        }
        // If a worker panics the process ends, and the end uses what is there.
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the value for another thread, as soon as the owner's turn has ended.
    pub(super) fn borrow(&self) -> Borrowed<'_, T> {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted.store(true, Ordering::Relaxed);
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_wanted.store(false, Ordering::Relaxed);
        Borrowed { value, _gate: gate }
    }
}

impl<T> Deref for Borrowed<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Borrowed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The owner never lets the value go for longer than it takes to lock it again.
    #[test]
    fn others_get_the_value_from_a_busy_owner() {
        let lock = TurnLock::new(0u64);
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    *lock.own() += 1;
                }
            });
            let mut last = 0;
            for _ in 0..1_000 {
                let mut value = lock.borrow();
                assert!(*value >= last);
                *value += 1;
                last = *value;
            }
            ends.store(true, Ordering::Relaxed);
            assert!(last >= 1_000);
        });
    }
}
