//! The latest samples of a bundle, and the rates between them.

use forebay_units::{Bytes, Nanos};

use crate::cross::BoundarySample;

/// Where this share more arrives than is sent, somebody else sends to the bundle's prefixes.
const STRANGERS: f64 = 0.1;
/// Number of samples kept for the rates of steps and windows.
pub(super) const SAMPLES: usize = 64;

/// The latest samples, thinned so that they span at least two windows.
#[derive(Debug)]
pub(super) struct Samples {
    ring: [BoundarySample; SAMPLES],
    next: usize,
    len: usize,
}

impl Samples {
    pub(super) fn new() -> Self {
        Self { ring: [BoundarySample::default(); SAMPLES], next: 0, len: 0 }
    }

    /// Adds `sample`. It replaces the newest one if that is less than `spacing` after the one
    /// before.
    pub(super) fn push(&mut self, sample: BoundarySample, spacing: Nanos) {
        let close =
            self.len >= 2 && self.back(0).sent_at.saturating_sub(self.back(1).sent_at) < spacing;
        if close {
            let newest = (self.next + SAMPLES - 1) % SAMPLES;
            self.ring[newest] = sample;
            return;
        }
        self.ring[self.next] = sample;
        self.next = (self.next + 1) % SAMPLES;
        self.len = (self.len + 1).min(SAMPLES);
    }

    /// Returns the sample `n` before the newest; `n` must be below the number of samples.
    fn back(&self, n: usize) -> &BoundarySample {
        &self.ring[(self.next + SAMPLES - 1 - n) % SAMPLES]
    }

    /// Returns when the packet of the newest sample left.
    pub(super) fn newest(&self) -> Option<Nanos> {
        (self.len > 0).then(|| self.back(0).sent_at)
    }

    /// Returns the rates over the last `span`; `None` if the samples do not reach back so far.
    pub(super) fn latest(&self, span: Nanos) -> Option<StepRates> {
        let newest = self.newest()?;
        self.rates(newest.saturating_sub(span), newest)
    }

    /// Returns the rates between the last sample at or before `from` and the last one at or before
    /// `to`; `None` if the samples do not reach back so far.
    pub(super) fn rates(&self, from: Nanos, to: Nanos) -> Option<StepRates> {
        let start = self.at(from)?;
        between(start, self.at(to)?)
    }

    /// Returns the last sample at or before `time`.
    ///
    /// Samples are in the order in which their packets left, so that a binary search finds it.
    fn at(&self, time: Nanos) -> Option<&BoundarySample> {
        let (mut newer, mut older) = (0, self.len);
        while newer < older {
            let middle = newer.midpoint(older);
            if self.back(middle).sent_at <= time {
                older = middle;
            } else {
                newer = middle + 1;
            }
        }
        (newer < self.len).then(|| self.back(newer))
    }
}

/// What was sent over some time, and what of it was received, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StepRates {
    pub(super) sent: f64,
    pub(super) received: f64,
    /// What other bundles received meanwhile.
    pub(super) others: f64,
    /// The share of the bytes sent that was not received; negative where more arrived.
    pub(super) lost: f64,
}

impl StepRates {
    /// Returns whether much more arrived than was sent. What the bundle sends then seems to arrive
    /// in any case, so that nothing follows from it.
    pub(super) fn has_strangers(&self) -> bool {
        self.lost < -STRANGERS
    }
}

/// Returns the rates between two samples; `None` unless both clocks moved on.
fn between(old: &BoundarySample, new: &BoundarySample) -> Option<StepRates> {
    let over = |bytes: Bytes, since: Nanos, until: Nanos| {
        let time = until.checked_sub(since).filter(|t| *t > Nanos::ZERO)?;
        Some(bytes.as_f64() / time.as_secs_f64())
    };
    let (sent, received) = (new.sent.saturating_sub(old.sent), new.own_since(old));
    Some(StepRates {
        lost: 1.0 - new.received.saturating_sub(old.received).as_f64() / sent.as_f64().max(1.0),
        sent: over(sent, old.sent_at, new.sent_at)?,
        received: over(received, old.received_at, new.received_at)?,
        others: over(
            new.others.bytes.saturating_sub(old.others.bytes),
            old.received_at,
            new.received_at,
        )?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_sample_before_a_time_is_that_of_a_search_of_all(
            gaps in prop::collection::vec(0_u64..4, 0..150),
            time in 0_u64..300,
        ) {
            let mut samples = Samples::new();
            let (mut all, mut sent_at) = (std::vec![], 0);
            for (n, gap) in gaps.into_iter().enumerate() {
                sent_at += gap;
                let sent = Bytes(n as u64);
                let sample = BoundarySample { sent_at: Nanos(sent_at), sent, ..Default::default() };
                samples.push(sample, Nanos::ZERO);
                all.push(sample);
            }
            let mut kept = all.iter().rev().take(SAMPLES);
            let naive = kept.find(|sample| sample.sent_at <= Nanos(time));
            let found = samples.at(Nanos(time));
            prop_assert_eq!(found.map(|s| s.sent), naive.map(|s| s.sent));
        }
    }
}
