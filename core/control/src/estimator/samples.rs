use forebay_units::{Bytes, Nanos, Rate};

/// Number of samples kept: several round trips at four to eight samples each. With more samples the
/// windows become shorter.
pub(super) const CAPACITY: usize = 64;

/// A boundary packet as seen at both ends. It fits into a cache line, since with ten thousand
/// bundles each sample comes from main memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) sent_at: Nanos,
    pub(super) rtt: Nanos,
    pub(super) sent: Bytes,
    pub(super) received_at: Nanos,
    pub(super) received: Bytes,
    pub(super) sent_packets: u32,
    pub(super) received_packets: u32,
    /// The receive rate since the last sample, if both waited and enough packets lie between them;
    /// zero otherwise.
    pub(super) train: Rate,
    /// Whether the packet waited at the bottleneck.
    pub(super) queued: bool,
}

impl Sample {
    /// Returns when the sample's feedback came.
    pub(super) fn at(&self) -> Nanos {
        self.sent_at + self.rtt
    }

    /// Returns the bundle's own bytes that were received since the sample `old`.
    ///
    /// The receivebox counts whatever comes for the bundle's prefixes, so its count may include
    /// bytes that a stranger sent. No more of the bundle's bytes can have arrived between two
    /// boundary packets than were sent between them.
    pub(super) fn own_since(&self, old: &Self) -> Bytes {
        let received = self.received.saturating_sub(old.received);
        received.min(self.sent.saturating_sub(old.sent))
    }
}

/// The latest samples, numbered in order of arrival. No number is used twice.
#[derive(Debug)]
pub(super) struct Samples {
    ring: [Sample; CAPACITY],
    /// When the feedback of each sample came. These are separate so that a search for the start of
    /// a window reads a cache line or two instead of one for each sample.
    at: [Nanos; CAPACITY],
    oldest: u64,
    next: u64,
}

impl Default for Samples {
    fn default() -> Self {
        Self {
            ring: [Sample::default(); CAPACITY],
            at: [Nanos::ZERO; CAPACITY],
            oldest: 0,
            next: 0,
        }
    }
}

impl Samples {
    /// Adds a sample and removes the oldest if there is no room.
    pub(super) fn push(&mut self, sample: Sample) {
        *self.get_mut(self.next) = sample;
        self.at[self.next as usize % CAPACITY] = sample.at();
        self.next += 1;
        self.oldest = self.oldest.max(self.next.saturating_sub(CAPACITY as u64));
    }

    /// Removes all samples.
    pub(super) fn clear(&mut self) {
        self.oldest = self.next;
    }

    /// Returns the most recent sample, even after [`Samples::clear`].
    pub(super) fn last(&self) -> Option<&Sample> {
        self.next.checked_sub(1).map(|number| self.get(number))
    }

    /// Returns the number of the newest sample.
    pub(super) fn newest(&self) -> Option<u64> {
        (self.next > self.oldest).then(|| self.next - 1)
    }

    /// Returns the number of the oldest sample.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Returns the sample of a number that was not removed.
    pub(super) fn get(&self, number: u64) -> &Sample {
        &self.ring[number as usize % CAPACITY]
    }

    pub(super) fn get_mut(&mut self, number: u64) -> &mut Sample {
        &mut self.ring[number as usize % CAPACITY]
    }

    /// Returns when the feedback of a sample came.
    pub(super) fn at(&self, number: u64) -> Nanos {
        self.at[number as usize % CAPACITY]
    }

    /// Returns the number of the first sample that came less than `span` before the newest.
    ///
    /// The search begins at `near`. A window moves by a sample or two at a time, so this is fast
    /// for any number of samples.
    pub(super) fn first_within(&self, span: Nanos, near: u64) -> u64 {
        let Some(newest) = self.newest() else { return self.next };
        let now = self.at(newest);
        let within = |number| now.saturating_sub(self.at(number)) < span;
        let mut first = near.clamp(self.oldest, newest);
        while first > self.oldest && within(first - 1) {
            first -= 1;
        }
        while first < newest && !within(first) {
            first += 1;
        }
        first
    }

    /// Returns the number of the last sample that came `span` or more before the newest, or else of
    /// the oldest. The result is `None` if there is only one sample. `begin` keeps the start of the
    /// window.
    pub(super) fn last_before(&self, span: Nanos, begin: &mut u64) -> Option<u64> {
        *begin = self.first_within(span, *begin);
        let several = self.newest().is_some_and(|newest| newest > self.oldest);
        several.then(|| (*begin).max(self.oldest + 1) - 1)
    }
}
