//! Tests of the receiving half.

use super::super::MSS;
use super::*;

const CONTEXT: Context = Context { timeout: Nanos::from_millis(250), smoothed: 50_000_000 };
const DELAY: Nanos = Nanos::from_millis(40);
/// The number of first full segments, which are acknowledged one by one.
const FIRST: usize = 22;

fn receiver() -> Receiver {
    Receiver::new(Nanos::ZERO, 1 << 25, EcnMode::Off)
}

fn data(seq: u64, len: u32) -> Segment {
    Segment { seq, len, timestamp: 7, ..Segment::default() }
}

fn take(r: &mut Receiver, segment: &Segment) -> Option<Segment> {
    r.on_data(Nanos(1000), segment, false, &CONTEXT);
    r.must_ack().then(|| {
        let mut ack = Segment::default();
        r.acknowledge(&mut ack);
        ack
    })
}

fn blocks(ack: &Segment) -> Vec<(u64, u64)> {
    ack.sack.blocks(ack.ack).collect()
}

#[test]
fn the_first_segments_are_acknowledged_at_once_and_then_every_second() {
    let mut r = receiver();
    let acks = (0..30).map(|n| take(&mut r, &data(n * MSS, MSS as u32)).is_some());
    let acks: Vec<_> = acks.collect();
    // Sixteen, and six more while the window grows from 64 KiB less a segment to five eighths of
    // 128 KiB less a segment.
    assert!(acks[..FIRST].iter().all(|a| *a));
    assert_eq!(acks[FIRST..], [false, true, false, true, false, true, false, true]);
    assert_eq!(r.deadline(), Nanos::MAX);
    assert!(take(&mut r, &data(30 * MSS, MSS as u32)).is_none());
    assert_eq!(r.deadline(), Nanos(1000) + DELAY);
    r.on_timer(r.deadline(), &CONTEXT);
    assert!(r.must_ack());
    r.acknowledge(&mut Segment::default());
    // A short segment ends a message.
    assert!(take(&mut r, &data(31 * MSS, 100)).is_some());
    assert_eq!(r.read(Nanos(1000)), 31 * MSS + 100);
    assert_eq!(r.read(Nanos(1000)), 0);
}

#[test]
fn sack_blocks_report_gaps_the_latest_first() {
    let mut r = receiver();
    take(&mut r, &data(0, 100));
    assert_eq!(blocks(&take(&mut r, &data(200, 100)).unwrap()), [(200, 300)]);
    assert_eq!(blocks(&take(&mut r, &data(400, 100)).unwrap()), [(400, 500), (200, 300)]);
    let ack = take(&mut r, &data(300, 50)).unwrap();
    assert_eq!(blocks(&ack), [(200, 350), (400, 500)]);
    assert_eq!(blocks(&take(&mut r, &data(350, 50)).unwrap()), [(200, 500)]);
    let ack = take(&mut r, &data(100, 100)).unwrap();
    assert_eq!((ack.ack, blocks(&ack).len()), (500, 0));
    assert_eq!(r.read(Nanos(1)), 500);
}

#[test]
fn duplicate_data_is_reported() {
    let mut r = receiver();
    take(&mut r, &data(0, 100));
    let ack = take(&mut r, &data(0, 100)).unwrap();
    assert!(ack.sack.duplicate);
    assert_eq!(blocks(&ack), [(0, 100)]);
    take(&mut r, &data(200, 100));
    let ack = take(&mut r, &data(200, 100)).unwrap();
    assert!(ack.sack.duplicate);
    assert_eq!(blocks(&ack), [(200, 300), (200, 300)]);
    assert!(!take(&mut r, &data(300, 100)).unwrap().sack.duplicate);
}

#[test]
fn windows_grow_with_what_is_read_and_never_shrink() {
    let mut r = receiver();
    let (mut now, mut seq, mut edge) = (0, 0, 0);
    for round in 0..12_u32 {
        now += 50_000_000;
        let segments = 10 << round.min(8);
        for _ in 0..segments {
            let echo = now - 50_000_000 + 1;
            r.on_data(Nanos(now), &Segment { echo, ..data(seq, MSS as u32) }, false, &CONTEXT);
            seq += MSS;
            r.read(Nanos(now));
            let mut ack = Segment::default();
            r.acknowledge(&mut ack);
            let right = ack.ack + u64::from(ack.window);
            assert!(right >= edge);
            edge = right;
        }
        let next_window = u64::from(10_u32 << (round + 1).min(8)) * MSS;
        assert!(edge - seq >= next_window, "round {round}: {} < {next_window}", edge - seq);
    }
    assert!(edge - seq <= 1 << 25);
}

#[test]
fn data_after_a_gap_takes_its_share_of_the_window() {
    let mut r = receiver();
    (0..100).for_each(|n| _ = take(&mut r, &data(n * MSS, MSS as u32)));
    r.read(Nanos(1000));
    let right = |ack: &Segment| ack.ack + u64::from(ack.window);
    let ack = |r: &mut Receiver| {
        let mut ack = Segment::default();
        r.acknowledge(&mut ack);
        ack
    };
    let before = ack(&mut r);
    // Five eighths of 128 KiB less a segment, in whole KiB.
    assert_eq!(before.window, 79 << 10);
    // A gap, and after it thirty segments, which take 2304 B each.
    (101..131).for_each(|n| _ = take(&mut r, &data(n * MSS, MSS as u32)));
    assert_eq!(right(&ack(&mut r)), right(&before), "the window does not shrink");
    // More data in order: the edge stays, since less is free than was offered.
    take(&mut r, &data(100 * MSS, 700));
    let partial = ack(&mut r);
    assert_eq!((partial.ack, right(&partial)), (100 * MSS + 700, right(&before)));
    // The gap is filled and all data is read, so the whole window is free again. The first segment
    // out of order had enlarged it by the segment that was kept back.
    take(&mut r, &data(100 * MSS + 700, MSS as u32 - 700));
    assert_eq!(r.read(Nanos(1000)), 31 * MSS);
    assert_eq!(ack(&mut r).window, 80 << 10);
}

#[test]
fn an_answer_carries_the_acknowledgement_of_interactive_traffic() {
    let mut r = receiver();
    take(&mut r, &data(0, 100));
    r.on_answer(Nanos(1000));
    assert!(take(&mut r, &data(100, 100)).is_none());
    assert_eq!(r.deadline(), Nanos(1000) + DELAY);
    // No answer came: the acknowledgement is sent alone, and the traffic is no longer interactive.
    r.on_timer(r.deadline(), &CONTEXT);
    assert!(r.must_ack());
    r.acknowledge(&mut Segment::default());
    assert!(take(&mut r, &data(200, 100)).is_some());
}

#[test]
fn duplicate_acknowledgements_beyond_the_third_are_compressed() {
    let mut r = receiver();
    take(&mut r, &Segment { echo: 1, ..data(0, MSS as u32) });
    r.acks.quick_ack(0);
    r.acks.on_sent(MSS);
    (0..40).for_each(|_| r.acks.on_sent(MSS));
    // The first ones of the connection are sent at once.
    r.tuning.rtt = 50_000_000;
    let ack = |r: &mut Receiver, n: u64| take(r, &data(n * MSS, MSS as u32)).is_some();
    let acks: Vec<_> = (2..40).map(|n| ack(&mut r, n)).collect();
    let at_once = acks.iter().take_while(|a| **a).count();
    assert!((3..=FIRST + 3).contains(&at_once) && acks[at_once..].iter().all(|a| !a), "{acks:?}");
    // A millisecond is less than a twentieth of 50 ms.
    assert_eq!(r.deadline(), Nanos(1000) + Nanos::from_millis(1));
    r.on_timer(r.deadline(), &CONTEXT);
    assert!(r.must_ack());
    r.acknowledge(&mut Segment::default());
    // The gap is filled.
    assert!(ack(&mut r, 1));
}

#[test]
fn the_timestamp_of_the_earliest_unacknowledged_segment_is_echoed() {
    let mut r = receiver();
    (0..FIRST as u64).for_each(|n| _ = take(&mut r, &data(n * MSS, MSS as u32)));
    let at = |n: u64, timestamp| Segment { timestamp, ..data(n * MSS, MSS as u32) };
    assert!(take(&mut r, &at(FIRST as u64, 100)).is_none());
    assert_eq!(take(&mut r, &at(FIRST as u64 + 1, 200)).unwrap().echo, 100);
}
