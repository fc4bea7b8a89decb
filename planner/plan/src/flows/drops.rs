//! Counts the samples that an sFlow agent dropped itself, by the counters in its flow samples.
//!
//! Each source of samples counts its drops since it started (sFlow v5, section 5, `flow_sample`).

use std::collections::BTreeMap;

use crate::flows::sflow::{Sample, Source};

/// The most sources of one sub-agent: a chassis with this many interfaces.
pub const MAX_SOURCES: usize = 4096;
/// The increase above which the source has restarted.
const MAX_INCREASE: u32 = 1 << 24;
/// The distance up to which a lower number is a late sample; beyond it, the source has restarted.
const LATEST: i32 = 4096;

/// The drops of one sub-agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drops {
    /// The number and the drops of each source's last sample.
    sources: BTreeMap<Source, (u32, u32)>,
    /// The samples that came.
    pub(crate) came: u64,
    /// The samples that the agent dropped since the first one that came.
    pub(crate) dropped: u64,
}

impl Drops {
    /// Takes a sample and returns how many samples of its source were dropped since the last one.
    pub(crate) fn sample(&mut self, sample: &Sample) -> u64 {
        self.came += 1;
        let now = (sample.sequence, sample.drops);
        let room = self.sources.len() < MAX_SOURCES;
        let Some(last) = self.sources.get_mut(&sample.source) else {
            if room {
                self.sources.insert(sample.source, now);
            }
            return 0;
        };
        let ahead = now.0.wrapping_sub(last.0) as i32;
        if (-LATEST..0).contains(&ahead) {
            return 0;
        }
        let increase = now.1.wrapping_sub(last.1);
        *last = now;
        if ahead < 0 || increase > MAX_INCREASE {
            return 0;
        }
        self.dropped += u64::from(increase);
        u64::from(increase)
    }

    /// Returns the part of all samples that was dropped.
    pub(crate) fn share(&self) -> f64 {
        self.dropped as f64 / (self.came + self.dropped).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes samples of one source: the number of each, and the drops so far.
    fn dropped(samples: &[(u32, u32)]) -> u64 {
        let mut drops = Drops::default();
        for (sequence, dropped) in samples {
            drops.sample(&sample(7, *sequence, *dropped));
        }
        drops.dropped
    }

    fn sample(index: u32, sequence: u32, drops: u32) -> Sample {
        Sample { place: 0, sequence, source: Source { class: 0, index }, drops, flow: None }
    }

    #[test]
    fn drops_are_increases_of_the_counter() {
        assert_eq!(dropped(&[(1, 50), (2, 50), (3, 53), (9, 60)]), 10, "the first is the start");
        assert_eq!(dropped(&[(1, u32::MAX), (2, 2)]), 3, "counters turn over");
        assert_eq!(dropped(&[(5, 10), (4, 8), (6, 12)]), 2, "the second is late");
        assert_eq!(dropped(&[(90_000, 70), (1, 0), (2, 1)]), 1, "a restart drops nothing");
        assert_eq!(dropped(&[(0, 1), (0, 4)]), 3, "without numbers, all are in order");
        assert_eq!(dropped(&[(1, 5), (2, 1 << 30), (3, (1 << 30) + 1)]), 1);
    }

    #[test]
    fn sources_are_apart_and_bounded() {
        let mut drops = Drops::default();
        for index in 0..MAX_SOURCES as u32 + 1 {
            drops.sample(&sample(index, 1, 100));
        }
        assert_eq!(drops.sources.len(), MAX_SOURCES);
        assert_eq!(drops.sample(&sample(3, 2, 101)), 1);
        assert_eq!(drops.sample(&sample(MAX_SOURCES as u32, 2, 300)), 0, "it is not known");
        assert_eq!(drops.share(), 1.0 / (MAX_SOURCES as f64 + 4.0));
    }
}
