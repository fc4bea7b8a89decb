//! The length of each queue and the rate at which it was emptied, every ten milliseconds. Both
//! follow from the record of every packet, so they exist in arms without a bundle too.

use forebay_records::packet_log::{Fate, Record};
use forebay_units::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::Run;

/// The length of an interval: a controller's tick.
const WIDTH: Nanos = Nanos::from_millis(10);

/// The largest number of intervals, enough for one hour; those of a longer run are longer.
const MAX_INTERVALS: u64 = 360_000;

/// The queue of a hop in an interval of the measured time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The hop's name, as in its packet counts: `link`, `sendbox`.
    pub hop: String,
    /// The end of the interval, in nanoseconds.
    pub time: u64,
    /// The rate at which the queue was emptied in the interval, in bits per second.
    pub rate: u64,
    /// The number of bytes that waited at its end. Packets that still wait when the run ends have
    /// no record, so this is too low over the last packets' waiting time.
    pub backlog: u64,
    /// The number of packets that waited at its end.
    pub packets: u64,
    /// The mean waiting time of the packets that left, in nanoseconds; `None` if none left.
    pub delay: Option<u64>,
    /// The number of packets that the queue dropped.
    pub dropped: u64,
}

/// Returns the intervals of both queues of `run`, those of the link first. A sendbox that only
/// forwards has none.
pub fn intervals(run: &Run) -> impl Iterator<Item = Interval> + '_ {
    let of = |hop, records| Queue::new(run, records).intervals(hop);
    let sendbox = (!run.sendbox.is_empty()).then(|| of("sendbox", &run.sendbox));
    of("link", &run.bottleneck).chain(sendbox.into_iter().flatten())
}

/// The number of [`intervals`].
pub(super) fn count(run: &Run) -> u64 {
    let (_, each) = grid(run);
    each * if run.sendbox.is_empty() { 1 } else { 2 }
}

/// The length and number of the intervals.
fn grid(run: &Run) -> (Nanos, u64) {
    let span = run.duration();
    let width = WIDTH.max(Nanos(span.0.div_ceil(MAX_INTERVALS)));
    (width, span.0.div_ceil(width.0))
}

/// The content of a queue's records by interval.
struct Queue {
    start: Nanos,
    width: Nanos,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    sent_bytes: u64,
    sent: u64,
    waits: u128,
    dropped: u64,
    /// Bytes and packets that wait at the end of this slot but not at the end of the previous one,
    /// minus the reverse.
    bytes: i64,
    packets: i64,
}

impl Queue {
    fn new(run: &Run, records: &[Record]) -> Self {
        let (width, count) = grid(run);
        let slots = vec![Slot::default(); usize::try_from(count).unwrap_or(0)];
        let mut queue = Self { start: run.start, width, slots };
        records.iter().for_each(|record| queue.add(record));
        queue
    }

    fn add(&mut self, record: &Record) {
        if let Some(slot) = record.time.checked_sub(self.start).and_then(|t| self.slot(t)) {
            match record.fate {
                Fate::Sent => {
                    slot.sent += 1;
                    slot.sent_bytes = slot.sent_bytes.saturating_add(record.len.0);
                    slot.waits += u128::from(record.sojourn.0);
                }
                Fate::Dropped => slot.dropped += 1,
            }
        }
        // The packet waited at the end of every slot from its arrival to the one before its
        // departure.
        let arrived = record.time.saturating_sub(record.sojourn);
        let (bytes, packets) = (i64::try_from(record.len.0).unwrap_or(i64::MAX), 1);
        for (time, sign) in [(arrived, 1), (record.time, -1)] {
            if let Some(slot) = self.slot(time.saturating_sub(self.start)) {
                slot.bytes = slot.bytes.saturating_add(sign * bytes);
                slot.packets += sign * packets;
            }
        }
    }

    /// The slot at the time `since` after the start.
    fn slot(&mut self, since: Nanos) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(since.0 / self.width.0).ok()?)
    }

    fn intervals(self, hop: &'static str) -> impl Iterator<Item = Interval> {
        let Self { start, width, slots } = self;
        let (mut backlog, mut packets, mut time) = (0i64, 0i64, start);
        slots.into_iter().map(move |slot| {
            backlog = backlog.saturating_add(slot.bytes);
            packets += slot.packets;
            time = time.saturating_add(width);
            let delay = slot.waits.checked_div(slot.sent.into());
            Interval {
                hop: hop.to_owned(),
                time: time.0,
                rate: Rate::from_bytes_over(Bytes(slot.sent_bytes), width).as_bps(),
                backlog: u64::try_from(backlog).unwrap_or(0),
                packets: u64::try_from(packets).unwrap_or(0),
                delay: delay.map(|d| u64::try_from(d).unwrap_or(u64::MAX)),
                dropped: slot.dropped,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(time_ms: u64, wait_ms: u64, fate: Fate) -> Record {
        Record {
            time: Nanos::from_millis(time_ms),
            sojourn: Nanos::from_millis(wait_ms),
            len: Bytes(1000),
            source: 0,
            flow: 0,
            fate,
            l4s: false,
            marked: false,
        }
    }

    fn run(bottleneck: Vec<Record>) -> Run {
        let (start, end) = (Nanos::from_millis(100), Nanos::from_millis(125));
        Run { start, end, bottleneck, ..Run::default() }
    }

    #[test]
    fn lengths_and_rates_by_hand() {
        // Arrivals at 95, 104, 108, 112 ms; one left before, one is dropped at once.
        let run = run(vec![
            record(99, 9, Fate::Sent),
            record(103, 8, Fate::Sent),
            record(111, 7, Fate::Sent),
            record(112, 0, Fate::Dropped),
            record(122, 14, Fate::Sent),
        ]);
        let found: Vec<_> = intervals(&run).collect();
        assert_eq!(found.len() as u64, count(&run));
        let of = |get: fn(&Interval) -> u64| found.iter().map(get).collect::<Vec<_>>();
        assert_eq!(of(|i| i.time / 1_000_000), [110, 120, 130]);
        assert_eq!(of(|i| i.packets), [2, 1, 0]);
        assert_eq!(of(|i| i.backlog), [2000, 1000, 0]);
        assert_eq!(of(|i| i.rate), [800_000, 800_000, 800_000], "1000 B in 10 ms");
        assert_eq!(of(|i| i.dropped), [0, 1, 0]);
        assert_eq!(of(|i| i.delay.unwrap() / 1_000_000), [8, 7, 14]);
    }

    #[test]
    fn the_sendbox_has_intervals_where_it_queues() {
        let mut run = run(vec![]);
        assert!(intervals(&run).all(|i| i.hop == "link" && i.delay.is_none() && i.rate == 0));
        run.sendbox = vec![record(103, 8, Fate::Sent)];
        let hops: Vec<_> = intervals(&run).map(|i| i.hop).collect();
        assert_eq!(hops, ["link", "link", "link", "sendbox", "sendbox", "sendbox"]);
        assert_eq!(count(&run), 6);
    }

    #[test]
    fn records_at_extreme_times_are_tolerated() {
        let mut wild = record(1, 0, Fate::Sent);
        wild.time = Nanos(u64::MAX);
        wild.sojourn = Nanos(u64::MAX);
        wild.len = Bytes(u64::MAX);
        let found: Vec<_> = intervals(&run(vec![wild, wild])).collect();
        assert!(found.iter().all(|i| i.rate == 0), "it did not leave in these");
        let week = Run { end: Nanos::from_secs(7 * 86_400), ..Run::default() };
        assert_eq!(count(&week), MAX_INTERVALS);
    }
}
