//! The packets that workers hand over to the owner of their bundle, and how they wake it.

use std::io::{self, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number of packets that wait in an inbox.
const MAX_WAITING: usize = 1024;

/// The packets `T` that others have handed over to a worker. Those of one sender stay in order.
///
/// Sender and receiver take the lock once for a whole batch.
#[derive(Debug)]
pub(super) struct Inbox<T> {
    packets: Mutex<Vec<T>>,
    /// The number of packets, to be read without the lock.
    waiting: AtomicUsize,
    /// The packets that were dropped since they found no room.
    dropped: AtomicU64,
    bell: Bell,
}

impl<T> Inbox<T> {
    pub(super) fn open() -> io::Result<Self> {
        Ok(Self {
            packets: Mutex::new(Vec::new()),
            waiting: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            bell: Bell::open()?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands `packets` over as far as there is room, and wakes the receiver. The rest stays in
    /// `packets`, is counted as dropped, and is the caller's to dispose of.
    pub(super) fn put(&self, packets: &mut Vec<T>) {
        let mut waiting = self.lock();
        let fitting = packets.len().min(MAX_WAITING - waiting.len());
        waiting.extend(packets.drain(..fitting));
        self.waiting.store(waiting.len(), Ordering::SeqCst);
        drop(waiting);
        if !packets.is_empty() {
            self.dropped.fetch_add(packets.len() as u64, Ordering::Relaxed);
        }
        self.bell.ring();
    }

    /// Takes all packets; `into` is empty before.
    pub(super) fn take(&self, into: &mut Vec<T>) {
        if self.len() > 0 {
            debug_assert!(into.is_empty(), "its packets would be handed back");
            let mut waiting = self.lock();
            std::mem::swap(&mut *waiting, into);
            self.waiting.store(0, Ordering::SeqCst);
        }
    }

    /// Returns the number of packets that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Returns the number of packets that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }
}

/// Ends the sleep of a worker.
#[derive(Debug)]
pub(super) struct Bell {
    /// Whether the worker sleeps, or is about to.
    is_armed: AtomicBool,
    /// Whether it was rung since the worker was last about to sleep.
    is_rung: AtomicBool,
    reader: PipeReader,
    writer: PipeWriter,
}

impl Bell {
    fn open() -> io::Result<Self> {
        let (reader, writer) = pipe()?;
        Ok(Self { is_armed: AtomicBool::default(), is_rung: AtomicBool::default(), reader, writer })
    }

    /// Returns the descriptor that is readable after [`Bell::ring`].
    pub(super) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Prepares a sleep. Returns whether the worker may sleep: not if it was rung since the last
    /// call. Worker and ringer write first and read then, in one order for all threads, so that no
    /// ring is missed between this call and the sleep.
    #[must_use]
    pub(super) fn arm(&self) -> bool {
        self.is_armed.store(true, Ordering::SeqCst);
        !self.is_rung.swap(false, Ordering::SeqCst)
    }

    /// Ends a sleep; `is_readable` says whether the descriptor was.
    pub(super) fn disarm(&self, is_readable: bool) {
        self.is_armed.store(false, Ordering::SeqCst);
        if is_readable {
            // It is readable, so that this returns at once.
            let _ = (&self.reader).read(&mut [0; 8]);
        }
    }

    /// Wakes the worker if it sleeps; otherwise it does not sleep next time.
    pub(super) fn ring(&self) {
        self.is_rung.store(true, Ordering::SeqCst);
        if self.is_armed.swap(false, Ordering::SeqCst) {
            let _ = (&self.writer).write(&[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_system::wait::Waiter;
    use forebay_units::Nanos;

    use super::*;

    #[test]
    fn packets_beyond_the_bound_are_refused_and_counted_and_the_rest_stay_in_order() {
        let inbox = Inbox::open().unwrap();
        let mut packets: Vec<usize> = (0..1_000).collect();
        inbox.put(&mut packets);
        packets.extend(1_000..1_100);
        inbox.put(&mut packets);
        assert_eq!(packets, (1_024..1_100).collect::<Vec<_>>(), "the caller has the rest");
        assert_eq!((inbox.len(), inbox.dropped()), (1_024, 76));
        let mut taken = Vec::new();
        inbox.take(&mut taken);
        assert_eq!(taken, (0..1_024).collect::<Vec<_>>());
        inbox.take(&mut Vec::new());
        assert_eq!(inbox.len(), 0);
    }

    /// The receiver sleeps whenever it has nothing, without an end.
    #[test]
    fn a_sleeping_worker_misses_nothing() {
        const LAST: usize = 20_000;
        let inbox = Inbox::open().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for packet in 0..=LAST {
                    let mut packets = vec![packet];
                    while !packets.is_empty() {
                        inbox.put(&mut packets);
                    }
                }
            });
            let mut waiter = Waiter::new([inbox.bell().descriptor()]);
            let (mut taken, mut expected) = (Vec::new(), 0);
            while expected <= LAST {
                let may_sleep = inbox.bell().arm();
                waiter.wait_until(if may_sleep { Nanos::MAX } else { Nanos::ZERO });
                inbox.bell().disarm(waiter.is_ready(0));
                inbox.take(&mut taken);
                for packet in taken.drain(..) {
                    assert_eq!(packet, expected);
                    expected += 1;
                }
            }
        });
    }
}
