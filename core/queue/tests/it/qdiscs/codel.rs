//! CoDel's drops against a schedule computed from RFC 8289 with target 5 ms and interval 100 ms.

use forebay_queue::{Codel, DropReason, Ecn, Limit, Qdisc, codel};
use forebay_units::{Bytes, Nanos};

use crate::qdiscs::packet::{Pkt, dequeue, enqueue, frame};

fn queue(params: codel::Params) -> Codel<Pkt> {
    Codel::new(codel::Config { limit: Limit::packets(10_000), params }).unwrap()
}

/// Fills the queue with `n` full frames at `at`.
fn fill(q: &mut Codel<Pkt>, at: Nanos, n: u64, ecn: Ecn) {
    for id in 0..n {
        assert_eq!(enqueue(q, at, Pkt { ecn, ..frame(id, 0) }), []);
    }
}

/// Dequeues a packet every millisecond of `from..to` and returns the milliseconds with drops.
fn drops_between(q: &mut Codel<Pkt>, from: u64, to: u64) -> Vec<u64> {
    let mut times = Vec::new();
    for ms in from..to {
        let (sent, drops) = dequeue(q, Nanos::from_millis(ms));
        assert!(sent.is_some());
        for (_, reason) in drops {
            assert_eq!(reason, DropReason::Codel);
            times.push(ms);
        }
    }
    times
}

/// The sojourn time is first above target at 10 ms, so the first drop is due at 110 ms.
///
/// The next ones are due at 110 + 100/sqrt(1), + 100/sqrt(2) ... = 210, 280.710, 338.445, 388.445,
/// 433.167, 473.991, 511.788, 547.143 ms. Packets leave at whole milliseconds.
#[test]
fn drops_come_at_interval_over_root_n() {
    let mut q = queue(codel::Params::default());
    fill(&mut q, Nanos::ZERO, 2000, Ecn::NotEct);
    let times = drops_between(&mut q, 10, 560);
    assert_eq!(times, [110, 210, 260, 317, 366, 410, 450, 488, 523, 556]);
}

/// The sojourn time is first above a target of 100 ms at 100 ms. The interval is 5 ms, so that the
/// law wants drops at 105, 110, 112.5, 115.312 and 117.751 ms.
#[test]
fn a_target_above_the_interval_limits_the_sojourn_time() {
    let (target, interval) = (Nanos::from_millis(100), Nanos::from_millis(5));
    let mut q = queue(codel::Params { target, interval, ..codel::Params::default() });
    fill(&mut q, Nanos::ZERO, 2000, Ecn::NotEct);
    assert_eq!(drops_between(&mut q, 90, 118), [105, 110, 113, 116]);
}

/// Dequeues a packet just before and at each due time.
#[test]
fn gaps_are_those_of_linux_to_the_nanosecond() {
    let mut q = queue(codel::Params::default());
    fill(&mut q, Nanos::ZERO, 2000, Ecn::NotEct);
    let mut due = Nanos::from_millis(110);
    assert_eq!(drops_between(&mut q, 10, 11), []);
    // The law in 16 bits, computed apart: 65535, 32769, 36864, ... of 65536 parts of 100 ms.
    let spacing = [
        99_998_474, 50_001_525, 56_250_000, 48_779_296, 44_151_306, 40_406_799, 37_518_310,
        35_151_672, 33_181_762, 31_504_821,
    ];
    for gap in spacing {
        assert_eq!(dequeue(&mut q, Nanos(due.0 - 1)).1, []);
        assert_eq!(dequeue(&mut q, due).1.len(), 1, "at {due}");
        due += Nanos(gap);
    }
}

/// A sojourn time below target ends the dropping state. The law wanted the next drop at 487.106 ms.
/// If that is less than 16 intervals ago, the count continues: six of the seven drops follow the
/// first, so the next gap is one step from that after the seventh towards 100/sqrt(6) ms.
#[test]
fn dropping_resumes_at_the_rate_of_the_last_episode() {
    // The first drop of the second episode is at 475 + pause + 110 ms.
    for (pause, gap) in [(1_000, 41), (1_502, 41), (1_503, 100)] {
        let mut q = queue(codel::Params::default());
        fill(&mut q, Nanos::ZERO, 2000, Ecn::NotEct);
        assert_eq!(drops_between(&mut q, 10, 475).len(), 7);
        // Everything leaves at once, then a new standing queue follows.
        while q.backlog().packets > 0 {
            dequeue(&mut q, Nanos::from_millis(475));
        }
        let again = 475 + pause;
        fill(&mut q, Nanos::from_millis(again), 2000, Ecn::NotEct);
        let times = drops_between(&mut q, again + 10, again + 250);
        assert_eq!(times[0], again + 110);
        assert_eq!(times[1], again + 110 + gap, "after a pause of {pause} ms");
    }
}

#[test]
fn a_sojourn_time_below_target_restarts_the_interval() {
    let mut q = queue(codel::Params::default());
    fill(&mut q, Nanos::ZERO, 60, Ecn::NotEct);
    // Above target from 10 ms on, but not at 70 ms, when the second half has just arrived.
    assert_eq!(drops_between(&mut q, 10, 70), []);
    fill(&mut q, Nanos::from_millis(70), 300, Ecn::NotEct);
    assert_eq!(drops_between(&mut q, 70, 180), [175], "100 ms after 75 ms");
}

#[test]
fn ecn_marks_on_the_same_schedule_and_drops_nothing() {
    let mut q = queue(codel::Params { ecn: true, ..codel::Params::default() });
    fill(&mut q, Nanos::ZERO, 2000, Ecn::Ect0);
    let mut times = Vec::new();
    for ms in 10..400 {
        let (sent, drops) = dequeue(&mut q, Nanos::from_millis(ms));
        assert_eq!(drops, []);
        if sent.unwrap().ecn == Ecn::Ce {
            times.push(ms);
        }
    }
    assert_eq!(times, [110, 210, 260, 317, 366]);
}

#[test]
fn ecn_still_drops_packets_that_cannot_be_marked() {
    let mut q = queue(codel::Params { ecn: true, ..codel::Params::default() });
    fill(&mut q, Nanos::ZERO, 300, Ecn::NotEct);
    assert_eq!(drops_between(&mut q, 10, 220), [110, 210]);
}

#[test]
fn an_already_marked_packet_counts_as_marked() {
    for (ecn, expected) in [(true, vec![]), (false, vec![110, 210])] {
        let mut q = queue(codel::Params { ecn, ..codel::Params::default() });
        fill(&mut q, Nanos::ZERO, 300, Ecn::Ce);
        assert_eq!(drops_between(&mut q, 10, 220), expected);
    }
}

#[test]
fn the_ce_threshold_marks_every_packet_above_it() {
    let threshold = Some(Nanos::from_millis(2));
    let mut q = queue(codel::Params { ce_threshold: threshold, ..codel::Params::default() });
    fill(&mut q, Nanos::ZERO, 6, Ecn::Ect1);
    let marks: Vec<_> =
        (0..5).map(|ms| dequeue(&mut q, Nanos::from_millis(ms)).0.unwrap().ecn).collect();
    assert_eq!(marks, [Ecn::Ect1, Ecn::Ect1, Ecn::Ect1, Ecn::Ce, Ecn::Ce]);
    let mut q = queue(codel::Params { ce_threshold: threshold, ..codel::Params::default() });
    fill(&mut q, Nanos::ZERO, 1, Ecn::NotEct);
    assert_eq!(dequeue(&mut q, Nanos::from_millis(4)), (Some(frame(0, 0)), vec![]));
}

/// A link that takes a second per packet has delays far above target with a queue of one or two
/// packets. With an MTU one byte smaller, every second packet would find a standing queue and be
/// dropped.
#[test]
fn a_slow_link_with_one_or_two_packets_drops_nothing() {
    for (mtu, drops) in [(Bytes(1514), 0), (Bytes(1513), 5)] {
        let mut q = queue(codel::Params { mtu, ..codel::Params::default() });
        fill(&mut q, Nanos::ZERO, 2, Ecn::NotEct);
        let mut dropped = 0;
        for s in 1..=10 {
            let (sent, drops) = dequeue(&mut q, Nanos::from_secs(s));
            assert!(sent.is_some());
            dropped += drops.len();
            for id in q.backlog().packets..2 {
                enqueue(&mut q, Nanos::from_secs(s), frame(id, 0));
            }
        }
        assert_eq!(dropped, drops, "MTU {mtu}");
    }
}
