//! How the workers of a sendbox in user space find the queue of a frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_dataplane::{Frame, Packet, Pool};
use forebay_units::Nanos;
use forebay_wire::{FingerprintKey, Frame as Parsed, fingerprint};

use super::classifier::Classifier;
use crate::forward::{self, Direction, Place};

/// The source in the packet log of bundles beyond the 255th.
const NO_BUNDLE: u8 = 255;

/// Which worker has the queue of a bundle, and under which number.
///
/// Bundles are dealt out to the workers in order of their numbers. Bundles below a common limit
/// have one worker, since the order in which they share it is one sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owners {
    /// The number of workers that have bundles.
    owners: usize,
}

impl Owners {
    pub(super) fn new(workers: usize, has_limit: bool) -> Self {
        Self { owners: if has_limit { 1 } else { workers } }
    }

    /// Whether one worker has all bundles.
    pub(super) fn is_one(self) -> bool {
        self.owners == 1
    }

    /// Returns the worker of a bundle.
    pub(super) fn worker(self, bundle: usize) -> usize {
        bundle % self.owners
    }

    /// Returns the number of a bundle's queue at its worker.
    pub(super) fn queue(self, bundle: usize) -> usize {
        bundle / self.owners
    }

    /// Returns the bundle of a queue.
    pub(super) fn bundle(self, worker: usize, queue: usize) -> usize {
        queue * self.owners + worker
    }
}

/// The rules by which frames are in bundles.
pub(super) struct Rules {
    pub(super) classifier: Arc<Classifier>,
    /// The keys of the bundles' fingerprints.
    pub(super) keys: Vec<Option<FingerprintKey>>,
    pub(super) owners: Owners,
    /// The number of frames towards the network in which no IP packet was found.
    pub(super) not_understood: Arc<AtomicU64>,
}

impl forward::Rules for Rules {
    /// Queues packets of bundles that come from the site. All other frames are sent at once.
    fn place(
        &self,
        now: Nanos,
        direction: Direction,
        frame: Frame,
        pool: &Pool,
    ) -> Result<Place, Frame> {
        if direction == Direction::Inward {
            return Err(frame);
        }
        let bytes = pool.bytes(&frame);
        let headers = match Parsed::parse(bytes) {
            Ok(Parsed::Ip(headers)) => headers,
            Ok(Parsed::Arp | Parsed::Other) => return Err(frame),
            Ok(Parsed::Unknown) | Err(_) => {
                self.not_understood.fetch_add(1, Ordering::Relaxed);
                return Err(frame);
            }
        };
        let Some((bundle, class)) = self.classifier.classify(bytes, &headers) else {
            return Err(frame);
        };
        let Some(key) = self.keys.get(bundle).and_then(Option::as_ref) else { return Err(frame) };
        let fingerprint = fingerprint(bytes, &headers, key);
        let mut packet = Packet::new(frame, Some(&headers), now).in_class(class);
        packet.fingerprint = fingerprint;
        packet.source = u8::try_from(bundle).unwrap_or(NO_BUNDLE);
        let (worker, queue) = (self.owners.worker(bundle), self.owners.queue(bundle));
        Ok(Place { worker, queue, packet })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bundle_has_one_queue_and_those_of_a_worker_have_no_gap() {
        for workers in 1..5 {
            let owners = Owners::new(workers, false);
            let mut queues = vec![0; workers];
            for bundle in 0..100 {
                let (worker, queue) = (owners.worker(bundle), owners.queue(bundle));
                assert_eq!(queue, queues[worker]);
                queues[worker] += 1;
                assert_eq!(owners.bundle(worker, queue), bundle);
            }
            let limited = Owners::new(workers, true);
            assert!(limited.is_one());
            assert!((0..100).all(|b| limited.worker(b) == 0 && limited.queue(b) == b));
        }
    }
}
