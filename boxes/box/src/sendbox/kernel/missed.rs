//! Packets that left a bundle's class and that the program below the queues did not see.
//!
//! Some kernels do not run the program for every packet
//! (`docs/decisions/0094-packets-that-no-tracepoint-sees.md`). HTB counts each packet that leaves a
//! class, so the difference of the two counts is what the program missed.

use forebay_dataplane::Counts;
use forebay_tc::Statistics;
use forebay_units::Bytes;

/// The readings over which the smallest difference counts. A packet that left its class and has not
/// reached the driver is in the difference too, but not in that of each reading.
const READINGS: usize = 10;

/// The packets of one bundle that were missed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    /// What the program had seen before the next reading of the class.
    seen: Counts,
    /// The packets that the class had counted at the last reading.
    class: u64,
    /// The packets of the class without those that were seen until after the reading, at the last
    /// readings: no more than were missed and are under way.
    differences: [i64; READINGS],
    /// The number of readings since the class began to count.
    readings: usize,
    /// The smallest difference since then to what was seen before a reading: no less than the
    /// difference when nothing was missed.
    least: i64,
    /// What had been missed when the class began to count.
    before: u64,
    total: Counts,
}

impl Missed {
    /// Notes what the program has seen before the class is read, and returns what has left.
    pub(super) fn on_seen(&mut self, seen: Counts) -> Counts {
        self.seen = seen;
        self.add_to(seen)
    }

    /// Notes a reading of the class, and what was seen after it. Packets pass between the readings,
    /// many of them if this process has to wait for a processor.
    pub(super) fn on_class(&mut self, class: &Statistics, seen: Counts) {
        // A class that was just created, or has no answer.
        if class.packets == 0 {
            return;
        }
        if class.packets < self.class {
            (self.readings, self.before) = (0, self.total.packets);
        }
        self.class = class.packets;
        let without = |seen: Counts| class.packets as i64 - seen.packets as i64;
        let most = without(self.seen);
        self.least = if self.readings == 0 { most } else { self.least.min(most) };
        self.differences[self.readings % READINGS] = without(seen);
        self.readings += 1;
        if self.readings < READINGS {
            return;
        }
        let lowest = self.differences.iter().copied().fold(i64::MAX, i64::min);
        let packets = self.before + (lowest - self.least).max(0) as u64;
        let new = packets.saturating_sub(self.total.packets);
        if new > 0 {
            // The class counts link-layer headers too, and not all of them are known.
            let mean = seen.bytes.0 / seen.packets.max(1);
            self.total = Counts { bytes: self.total.bytes + Bytes(new * mean), packets };
        }
    }

    /// Returns the number of packets that were missed so far. It never decreases.
    pub(super) fn packets(&self) -> u64 {
        self.total.packets
    }

    /// Adds what was missed so far to what was seen.
    pub(super) fn add_to(&self, seen: Counts) -> Counts {
        let Counts { bytes, packets } = self.total;
        Counts { bytes: seen.bytes + bytes, packets: seen.packets + packets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(packets: u64) -> Counts {
        Counts { bytes: Bytes(packets * 1000), packets }
    }

    /// Notes readings of a class and of the program, whose packets have 1000 bytes.
    fn note(missed: &mut Missed, readings: usize, class: u64, seen: u64) -> u64 {
        for _ in 0..readings {
            let class = Statistics { packets: class, ..Statistics::default() };
            missed.on_seen(counts(seen));
            missed.on_class(&class, counts(seen));
        }
        let Counts { bytes, packets } = missed.total;
        assert_eq!(bytes, Bytes(packets * 1000));
        packets
    }

    #[test]
    fn packets_that_only_the_class_counted_were_missed() {
        let mut missed = Missed::default();
        assert_eq!(note(&mut missed, READINGS, 100, 100), 0);
        assert_eq!(note(&mut missed, READINGS - 1, 220, 200), 0, "they may be under way");
        assert_eq!(note(&mut missed, 1, 220, 200), 20);
        assert_eq!(note(&mut missed, 2 * READINGS, 330, 300), 30);
    }

    /// A driver that is busy makes packets wait below the class.
    #[test]
    fn packets_under_way_were_not_missed() {
        let mut missed = Missed::default();
        for reading in 0..10 * READINGS as u64 {
            let under_way = reading * 7 % READINGS as u64;
            let seen = 1_000 * reading;
            assert_eq!(note(&mut missed, 1, seen + under_way, seen), 0, "{reading}");
        }
    }

    /// The process may wait for a processor between its readings.
    #[test]
    fn packets_between_the_readings_were_not_missed() {
        let mut missed = Missed::default();
        for reading in 1..10 * READINGS as u64 {
            let [before, after] = [reading * 1_000, reading * 1_000 + reading * 37 % 900];
            for packets in [before, after] {
                let class = Statistics { packets, ..Statistics::default() };
                missed.on_seen(counts(before));
                missed.on_class(&class, counts(after));
            }
        }
        assert_eq!(missed.total, Counts::default());
    }

    /// The program counts packets that pass without a class too, while no process reports.
    #[test]
    fn what_the_class_did_not_count_is_no_debt() {
        let mut missed = Missed::default();
        note(&mut missed, READINGS, 100, 100);
        assert_eq!(note(&mut missed, READINGS, 200, 700), 0);
        assert_eq!(note(&mut missed, READINGS, 310, 800), 10);
    }

    #[test]
    fn a_class_that_begins_anew_keeps_what_was_missed() {
        let mut missed = Missed::default();
        note(&mut missed, READINGS, 5_000, 100);
        assert_eq!(note(&mut missed, READINGS, 6_020, 1_100), 20);
        assert_eq!(note(&mut missed, READINGS, 0, 1_200), 20, "no packet has passed it yet");
        assert_eq!(note(&mut missed, READINGS, 50, 1_300), 20);
        assert_eq!(note(&mut missed, READINGS, 155, 1_400), 25);
    }

    #[test]
    fn a_bundle_without_packets_missed_none() {
        let mut missed = Missed::default();
        assert_eq!(note(&mut missed, 3 * READINGS, 0, 0), 0);
    }
}
