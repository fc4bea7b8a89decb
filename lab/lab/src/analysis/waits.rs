//! Waiting times at the sendbox where packets are not observed one by one.

use std::borrow::Cow;

use forebay_records::packet_log::{Fate, Record};
use forebay_units::{Bytes, Nanos, Rate};

use crate::results::{Run, Tick};

/// The waiting times of packets at the sendbox. With the kernel's queues, packets are not observed.
/// Then there is one record per tick at which a bundle was shaped: the backlog ahead of a packet
/// that arrives at that time, and the time that the backlog takes at the current rate.
pub fn at_sendbox(run: &Run) -> Cow<'_, [Record]> {
    if !run.sendbox.is_empty() {
        return Cow::Borrowed(&run.sendbox);
    }
    Cow::Owned(by_ticks(run.ticks.iter()))
}

/// The waiting times at the sendbox of `bundle`: one record for each tick at which it was shaped,
/// as [`at_sendbox`] has them where packets are not observed.
pub fn at_sendbox_of(run: &Run, bundle: &str) -> Vec<Record> {
    by_ticks(run.ticks.iter().filter(|tick| tick.bundle == bundle))
}

/// The time that the backlog of each tick takes at its rate; nothing for ticks without a rate.
fn by_ticks<'a>(ticks: impl Iterator<Item = &'a Tick>) -> Vec<Record> {
    let shaped = ticks.filter_map(|tick| {
        let rate = Rate::from_bps(tick.rate.filter(|bps| *bps > 0)?);
        Some(Record {
            time: Nanos(tick.time),
            sojourn: rate.time_for(Bytes(tick.backlog)),
            len: Bytes::ZERO,
            source: 0,
            flow: 0,
            fate: Fate::Sent,
            l4s: false,
            marked: false,
        })
    });
    shaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(ms: u64, rate: Option<u64>, backlog: u64) -> Tick {
        let json = serde_json::json!({
            "time": ms * 1_000_000, "bundle": "b", "mode": "delay control", "rate": rate, "rtt": null,
            "min_rtt": null, "send_rate": null, "receive_rate": null, "epoch": 16, "backlog": backlog,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_wait_of_a_backlog_is_its_time_to_leave() {
        // 125 kB at 10 Mbit/s are 100 ms; a bundle without a rate has no queue.
        let ticks =
            vec![tick(10, Some(10_000_000), 125_000), tick(20, None, 0), tick(30, Some(0), 9)];
        let mut run = Run { ticks, ..Run::default() };
        let waits = at_sendbox(&run).into_owned();
        assert_eq!(waits.len(), 1);
        assert_eq!(
            (waits[0].time, waits[0].sojourn),
            (Nanos::from_millis(10), Nanos::from_millis(100))
        );
        run.sendbox = vec![Record { sojourn: Nanos(7), ..waits[0] }];
        assert_eq!(
            at_sendbox(&run)[0].sojourn,
            Nanos(7),
            "packets themselves, where they are seen"
        );
    }

    #[test]
    fn the_waits_of_a_bundle_are_those_of_its_own_ticks() {
        let mut ticks =
            vec![tick(10, Some(10_000_000), 125_000), tick(10, Some(10_000_000), 12_500)];
        ticks[1].bundle = "outer".to_owned();
        let run = Run { ticks, ..Run::default() };
        let of = |bundle| at_sendbox_of(&run, bundle).iter().map(|r| r.sojourn).collect::<Vec<_>>();
        assert_eq!(of("b"), [Nanos::from_millis(100)]);
        assert_eq!(of("outer"), [Nanos::from_millis(10)]);
        assert_eq!(of("b2"), []);
    }
}
