use forebay_units::{Bytes, Nanos, Rate};

/// Matched samples kept: several round-trip times' worth at four to eight an RTT. Where more come
/// in, the windows shorten.
pub(super) const CAPACITY: usize = 64;

/// A boundary packet seen at both ends. One is a cache line long: with ten thousand bundles each of
/// them comes from main memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) sent_at: Nanos,
    pub(super) rtt: Nanos,
    pub(super) sent: Bytes,
    pub(super) received_at: Nanos,
    pub(super) received: Bytes,
    pub(super) sent_packets: u32,
    pub(super) received_packets: u32,
    /// The receive rate since the sample before, if enough packets lie between the two and both
    /// waited; else zero.
    pub(super) train: Rate,
    /// It waited at the bottleneck.
    pub(super) queued: bool,
}

impl Sample {
    /// When its feedback came.
    pub(super) fn at(&self) -> Nanos {
        self.sent_at + self.rtt
    }
}

/// The latest samples. They are numbered as they come, and a number is used once.
#[derive(Debug)]
pub(super) struct Samples {
    ring: [Sample; CAPACITY],
    /// When the feedback of each came, apart from the rest: a window's begin is found by looking at a
    /// line or two of these, and not at a line for each sample.
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
    pub(super) fn push(&mut self, sample: Sample) {
        *self.get_mut(self.next) = sample;
        self.at[self.next as usize % CAPACITY] = sample.at();
        self.next += 1;
        self.oldest = self.oldest.max(self.next.saturating_sub(CAPACITY as u64));
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.oldest = self.next;
    }

    /// The latest there ever was, though it be forgotten.
    pub(super) fn last(&self) -> Option<&Sample> {
        self.next.checked_sub(1).map(|number| self.get(number))
    }

    /// The number of the newest.
    pub(super) fn newest(&self) -> Option<u64> {
        (self.next > self.oldest).then(|| self.next - 1)
    }

    /// The number of the oldest.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// The sample of a number that is not forgotten.
    pub(super) fn get(&self, number: u64) -> &Sample {
        &self.ring[number as usize % CAPACITY]
    }

    pub(super) fn get_mut(&mut self, number: u64) -> &mut Sample {
        &mut self.ring[number as usize % CAPACITY]
    }

    /// When its feedback came.
    pub(super) fn at(&self, number: u64) -> Nanos {
        self.at[number as usize % CAPACITY]
    }

    /// The first sample that came less than `span` before the newest. It is looked for from `near`
    /// on: where a window began the last time is a step or two from where it begins now, however many
    /// samples it holds.
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

    /// The last sample that came `span` or more before the newest, or the oldest there is; `None` if
    /// there is one sample only.
    pub(super) fn last_before(&self, span: Nanos, begin: &mut u64) -> Option<u64> {
        *begin = self.first_within(span, *begin);
        let several = self.newest().is_some_and(|newest| newest > self.oldest);
        several.then(|| (*begin).max(self.oldest + 1) - 1)
    }
}
