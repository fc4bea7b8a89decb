//! What the workers of a box share: their queues, what they hand over to each other, and the rules
//! by which they select queues.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_units::Nanos;

use super::inbox::Inbox;
use super::turn_lock::{Borrowed, TurnLock};
use super::{DirectionQueues, Place, Shaped};

/// The queues of one worker, with the box's notes `N` on the packets that leave them.
pub(crate) struct Lane<N> {
    /// The queues of both directions. Their numbers are the worker's own.
    pub(crate) directions: [DirectionQueues; 2],
    pub(crate) notes: N,
}

impl<N> Lane<N> {
    /// Makes the lane of a worker with these queues of both directions.
    pub(crate) fn new(directions: [Vec<Shaped>; 2], notes: N) -> Self {
        Self { directions: directions.map(DirectionQueues::new), notes }
    }

    pub(crate) fn outward(&mut self) -> &mut DirectionQueues {
        let [outward, _] = &mut self.directions;
        outward
    }
}

/// The shared state of all workers. Workers have numbers from zero; the first one's thread also
/// ticks.
pub(crate) struct Workers<R, N> {
    pub(super) lanes: Vec<TurnLock<Lane<N>>>,
    pub(super) inboxes: Vec<Inbox<Place>>,
    rules: Mutex<Arc<R>>,
    /// The number of rules that were published before the present ones.
    version: AtomicU64,
    /// The time of each worker's last turn.
    alive: Vec<AtomicU64>,
    is_ending: AtomicBool,
}

impl<R, N> Workers<R, N> {
    pub(crate) fn new(now: Nanos, lanes: Vec<Lane<N>>, rules: Arc<R>) -> io::Result<Self> {
        Ok(Self {
            inboxes: lanes.iter().map(|_| Inbox::open()).collect::<Result<_, _>>()?,
            alive: lanes.iter().map(|_| AtomicU64::new(now.0)).collect(),
            lanes: lanes.into_iter().map(TurnLock::new).collect(),
            rules: Mutex::new(rules),
            version: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        })
    }

    /// Returns the number of workers.
    pub(crate) fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the lane of a worker, which waits before its next turn until the lane is dropped.
    pub(crate) fn lane(&self, worker: usize) -> Borrowed<'_, Lane<N>> {
        self.lanes[worker].borrow()
    }

    /// Returns all lanes, in order of their workers' numbers.
    pub(crate) fn all_lanes(&self) -> Vec<Borrowed<'_, Lane<N>>> {
        self.lanes.iter().map(TurnLock::borrow).collect()
    }

    /// Sets the rules for frames that workers receive in their next turns.
    pub(crate) fn publish(&self, rules: R) {
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Returns the present rules if there were others at `version`, which is then up to date.
    pub(super) fn new_rules(&self, version: &mut u64) -> Option<Arc<R>> {
        let now = self.version.load(Ordering::Acquire);
        if std::mem::replace(version, now) == now {
            return None;
        }
        Some(self.rules())
    }

    pub(super) fn rules(&self) -> Arc<R> {
        Arc::clone(&self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes all workers but the first, in whose thread this is called, look at their queues again.
    pub(super) fn wake(&self) {
        self.inboxes.iter().skip(1).for_each(|inbox| inbox.bell().ring());
    }

    /// Notes that `worker` was alive at `now`.
    pub(super) fn report_alive(&self, worker: usize, now: Nanos) {
        self.alive[worker].store(now.0, Ordering::Relaxed);
    }

    /// Returns the time at which all workers were alive.
    pub(super) fn alive_since(&self) -> Nanos {
        let times = self.alive.iter().map(|time| Nanos(time.load(Ordering::Relaxed)));
        times.min().unwrap_or_default()
    }

    /// Returns the number of packets that were dropped since their owner had too many to take.
    pub(crate) fn dropped(&self) -> u64 {
        self.inboxes.iter().map(Inbox::dropped).sum()
    }

    /// Returns the number of packets that were handed over and not yet taken.
    pub(crate) fn handed(&self) -> u64 {
        self.inboxes.iter().map(|inbox| inbox.len() as u64).sum()
    }

    /// Asks the workers to end.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The programs on the interfaces must take the process for dead if one worker hangs.
    #[test]
    fn the_process_was_alive_when_all_workers_were() {
        let (start, later) = (Nanos::from_secs(1), Nanos::from_secs(2));
        let lanes = (0..3).map(|_| Lane::new([Vec::new(), Vec::new()], ())).collect();
        let workers = Workers::new(start, lanes, Arc::new(())).unwrap();
        workers.report_alive(0, later);
        workers.report_alive(2, later);
        assert_eq!(workers.alive_since(), start);
        workers.report_alive(1, later);
        assert_eq!(workers.alive_since(), later);
    }

    #[test]
    fn rules_are_found_once() {
        let lanes = vec![Lane::new([Vec::new(), Vec::new()], ())];
        let workers = Workers::new(Nanos::ZERO, lanes, Arc::new(1)).unwrap();
        let mut version = 0;
        assert_eq!((workers.new_rules(&mut version), *workers.rules()), (None, 1));
        workers.publish(2);
        workers.publish(3);
        assert_eq!(workers.new_rules(&mut version).as_deref(), Some(&3));
        assert_eq!(workers.new_rules(&mut version), None);
    }
}
