//! What programs saw of packets at two places, compared.

use std::collections::BTreeMap;

use forebay_dataplane::kernel::EgressObserver;
use forebay_dataplane::{Counts, Sample, Sampler};
use forebay_units::Bytes;

/// Share of the packets that the program below the queues may miss. Some kernels do not run it
/// while a process of theirs is current, and a burst is a few percent of a short transfer. A box
/// adds what was missed (`docs/decisions/0094-packets-that-no-tracepoint-sees.md`).
const MISSED_SHARE: f64 = 0.1;

/// What one place saw of some packets.
pub(crate) struct Seen {
    pub(crate) samples: Vec<Sample>,
    pub(crate) counts: Counts,
}

impl Seen {
    /// Returns what was seen to leave for a bundle since it had these counts.
    pub(crate) fn leaving(observer: &mut EgressObserver, bundle: usize, before: Counts) -> Self {
        let mut samples = Vec::new();
        observer.poll(|sample| samples.push(sample)).unwrap();
        assert_eq!(observer.samples_lost().unwrap(), 0);
        assert!(samples.iter().all(|sample| sample.bundle == bundle && sample.epoch == 1));
        Self::new(samples, before, observer.counts(bundle).unwrap())
    }

    /// Returns what was seen to arrive for the first bundle since it had these counts.
    pub(crate) fn arriving(sampler: &mut Sampler, before: Counts) -> Self {
        let mut samples = Vec::new();
        sampler.poll(|sample| samples.push(sample)).unwrap();
        assert_eq!(sampler.samples_lost().unwrap(), 0);
        Self::new(samples, before, sampler.counts(0).unwrap())
    }

    /// Lets the counts of the samples begin with zero.
    fn new(mut samples: Vec<Sample>, before: Counts, after: Counts) -> Self {
        let since = |counts: Counts| Counts {
            bytes: Bytes(counts.bytes.0 - before.bytes.0),
            packets: counts.packets - before.packets,
        };
        samples.iter_mut().for_each(|sample| sample.counts = since(sample.counts));
        Self { samples, counts: since(after) }
    }

    /// Returns how often each packet was seen, by its fingerprint and bytes. Every packet must have
    /// a sample. The order is left out, since several CPUs may each have one.
    pub(crate) fn packets(&self) -> BTreeMap<(u32, u64), u32> {
        let mut samples: Vec<_> =
            self.samples.iter().map(|s| (s.counts.bytes.0, s.fingerprint)).collect();
        samples.sort_unstable();
        let (mut all, mut before) = (BTreeMap::new(), 0);
        for (bytes, fingerprint) in samples {
            *all.entry((fingerprint, bytes - before)).or_default() += 1;
            before = bytes;
        }
        assert_eq!(self.samples.len() as u64, self.counts.packets, "each packet has a sample");
        assert_eq!(before, self.counts.bytes.0, "samples have the bytes until then");
        all
    }
}

/// Compares what left, as the program below the queues saw it, with what arrived.
pub(crate) struct Comparison {
    missed_share: f64,
    missed: u64,
    arrived: u64,
}

impl Comparison {
    /// Accepts that the program below the queues misses a few packets of all transfers.
    pub(crate) fn with_missed() -> Self {
        Self { missed_share: MISSED_SHARE, missed: 0, arrived: 0 }
    }

    /// Accepts no packet that the program below the queues missed.
    pub(crate) fn exact() -> Self {
        Self { missed_share: 0.0, missed: 0, arrived: 0 }
    }

    /// Compares one transfer. What was seen to leave must have arrived, with the same bytes.
    pub(crate) fn add(&mut self, what: &str, left: &Seen, arrived: &Seen) {
        let all = arrived.packets();
        for (packet, times) in left.packets() {
            let arrived = all.get(&packet).copied().unwrap_or_default();
            assert!(
                arrived >= times,
                "{what}: {packet:x?} left {times} and arrived {arrived} times"
            );
        }
        self.missed += arrived.counts.packets - left.counts.packets;
        self.arrived += arrived.counts.packets;
        assert!(self.missed_share > 0.0 || self.missed == 0, "{what}: missed {}", self.missed);
    }

    /// Asserts that all transfers together missed no more than is accepted.
    pub(crate) fn check(self) {
        let Self { missed_share, missed, arrived } = self;
        assert!(missed as f64 <= missed_share * arrived as f64, "missed {missed} of {arrived}");
    }
}
