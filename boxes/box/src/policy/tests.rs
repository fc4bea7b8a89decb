use forebay_config::Limit as LimitValue;
use forebay_dataplane::Pool;
use forebay_discipline::{Kind, Settings};
use forebay_queue::{DropReason, Ecn, Packet as _, TokenBucket, token_bucket};
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::{Frame as Parsed, Headers};

use super::*;
use crate::config::{Class, Match, Share};

/// A qdisc on a clock of its own, and the pool that its packets live in.
struct Bench {
    pool: Pool,
    qdisc: Queue,
    now: Nanos,
    drops: u64,
}

impl Bench {
    fn new(policy: &Policy) -> Self {
        let pool = Pool::new(capacity(policy) as u32 + 1, 1500).unwrap();
        Self { pool, qdisc: Queue::build("b", policy, 1).unwrap(), now: Nanos::ZERO, drops: 0 }
    }

    /// Enqueues a full packet of the ECN-capable flow `flow`.
    fn enqueue(&mut self, flow: u16, class: u8) {
        let headers = headers(flow);
        let frame = self.pool.frame(&[0; 1514]).expect("the pool holds what the queue does");
        let packet = Packet::new(frame, Some(&headers), self.now).in_class(class);
        let Self { pool, qdisc, now, drops } = self;
        qdisc.enqueue(*now, packet, &mut |packet: Packet, _| {
            *drops += 1;
            let frame = packet.into_frame(pool);
            pool.release(frame);
        });
    }

    /// The class and ECN field of the next packet.
    fn dequeue(&mut self) -> Option<(u8, Ecn)> {
        let Self { pool, qdisc, now, drops } = self;
        let packet = qdisc.dequeue(*now, &mut |packet: Packet, reason| {
            assert!(matches!(reason, DropReason::Codel | DropReason::Pie), "{reason}");
            *drops += 1;
            let frame = packet.into_frame(pool);
            pool.release(frame);
        })?;
        let found = (packet.class(), packet.ecn());
        let frame = packet.into_frame(pool);
        pool.release(frame);
        Some(found)
    }
}

/// Returns the headers of a UDP packet from port `flow` with ECT(0).
pub(crate) fn headers(flow: u16) -> Headers {
    let mut frame = [0; 42];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..24].copy_from_slice(&[0x45, 2, 0, 28, 0, 0, 0, 0, 64, 17]);
    frame[34..36].copy_from_slice(&flow.to_be_bytes());
    frame[38..40].copy_from_slice(&[0, 8]);
    match Parsed::parse(&frame) {
        Ok(Parsed::Ip(headers)) => headers,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn of(discipline: impl Into<Discipline>) -> Policy {
    Policy { discipline: discipline.into(), classes: vec![], classifiers: vec![] }
}

fn strict(classes: impl IntoIterator<Item = Discipline>) -> Policy {
    let share = Share::default();
    let class = |policy| Class { name: String::new(), matches: Match::default(), policy, share };
    let classes = classes.into_iter().map(class).collect();
    Policy { discipline: Kind::Strict.into(), classes, classifiers: vec![] }
}

fn fifo(limit: Option<LimitValue>) -> Discipline {
    Discipline::limited(Kind::Fifo, limit)
}

fn sfq(limit: Option<LimitValue>) -> Discipline {
    Discipline::limited(Kind::Sfq, limit)
}

fn fq_codel(limit: Option<LimitValue>) -> Discipline {
    Discipline::limited(Kind::FqCodel, limit)
}

fn dualpi2(limit: Option<LimitValue>) -> Discipline {
    Discipline::limited(Kind::DualPi2, limit)
}

fn pie(limit: Option<LimitValue>) -> Discipline {
    Discipline::limited(Kind::Pie, limit)
}

fn with(kind: Kind, settings: Settings) -> Discipline {
    Discipline { kind, settings }
}

#[test]
fn limits_become_packets() {
    use LimitValue::{Packets, Time};
    let bytes = |n| LimitValue::Bytes(Bytes(n));
    let most = 16_384;
    let cases = [
        (fifo(None), 1_250),
        (sfq(None), 1_250),
        (fq_codel(None), 10_240),
        (pie(None), 1_250),
        (pie(Some(Packets(7))), 7),
        (dualpi2(None), 10_000),
        (dualpi2(Some(Packets(7))), 7),
        (dualpi2(Some(bytes(15_140))), most),
        (dualpi2(Some(Time(Nanos::from_millis(1)))), 83),
        (fifo(Some(Packets(1_000_000))), 1_000_000),
        (sfq(Some(Packets(7))), 7),
        (fifo(Some(bytes(15_140))), most),
        (sfq(Some(bytes(15_140))), 10),
        (sfq(Some(bytes(15_141))), 11),
        (fq_codel(Some(bytes(u64::MAX))), most),
        (fifo(Some(Time(Nanos::from_millis(1)))), most),
        // 125 000 B at the reference rate.
        (sfq(Some(Time(Nanos::from_millis(1)))), 83),
        (sfq(Some(Time(Nanos(1)))), 1),
        (fq_codel(Some(Time(Nanos::from_secs(9)))), most),
    ];
    for (kind, packets) in cases {
        assert_eq!(capacity(&of(kind)), packets, "{kind:?}");
    }
    assert_eq!(capacity(&strict([sfq(Some(Packets(7))), fifo(Some(Packets(5)))])), 12);
}

/// The pool is sized by it: what is beyond it finds no buffer.
#[test]
fn no_queue_holds_more_than_its_capacity() {
    let limit = |n| Some(LimitValue::Packets(n));
    let bytes = Some(LimitValue::Bytes(Bytes(15_140)));
    for (policy, most) in [
        (of(fifo(limit(20))), 20),
        (of(fifo(bytes)), 10),
        (of(sfq(limit(20))), 20),
        (of(sfq(bytes)), 10),
        (of(fq_codel(limit(20))), 20),
        (of(pie(limit(20))), 20),
        (of(dualpi2(limit(20))), 20),
        (of(dualpi2(bytes)), 10),
        (strict([sfq(limit(5)), fifo(limit(7))]), 12),
    ] {
        let mut bench = Bench::new(&policy);
        let waiting = (0..100u8).map(|i| {
            bench.enqueue(u16::from(i % 3), i % 2);
            bench.qdisc.backlog().packets
        });
        assert_eq!(waiting.max(), Some(most), "{policy:?}");
        assert_eq!(bench.drops + bench.qdisc.backlog().packets, 100, "{policy:?}");
    }
}

#[test]
fn an_urgent_class_goes_first() {
    let mut bench = Bench::new(&strict([sfq(None), sfq(None), fifo(None)]));
    for class in [2, 1, 0, 1, 0] {
        bench.enqueue(7, class);
    }
    let classes: Vec<_> = std::iter::from_fn(|| bench.dequeue()).map(|(class, _)| class).collect();
    assert_eq!(classes, [0, 0, 1, 1, 2]);
}

/// A standing queue that drains by a packet every 10 ms; the drops and marks of half a second.
fn codel(target: Option<Nanos>, interval: Option<Nanos>, ecn: bool) -> (u64, usize) {
    let settings = Settings { target, interval, ecn: Some(ecn), ..Settings::default() };
    let mut bench = Bench::new(&of(with(Kind::FqCodel, settings)));
    for _ in 0..200 {
        bench.enqueue(7, 0);
    }
    let marks = (1..=50)
        .filter(|n| {
            bench.now = Nanos::from_millis(10 * n);
            bench.dequeue().is_some_and(|(_, ecn)| ecn == Ecn::Ce)
        })
        .count();
    (bench.drops, marks)
}

#[test]
fn settings_reach_codel() {
    let ms = |n| Some(Nanos::from_millis(n));
    let (drops, marks) = codel(None, None, true);
    assert!(drops == 0 && marks > 0, "{drops} drops, {marks} marks");
    let (_, more) = codel(ms(1), ms(20), true);
    assert!(more > marks, "{more} marks with a shorter interval, {marks} without");
    assert_eq!(codel(ms(600), ms(700), true), (0, 0), "nothing waits that long");
    let (drops, marks) = codel(None, None, false);
    assert!(drops > 0 && marks == 0, "{drops} drops, {marks} marks");
}

/// Ten packets in for nine out, in a millisecond, for two seconds: the drops, the marks and the
/// longest queue.
fn pie_run(target: Option<Nanos>, ecn: bool) -> (u64, usize, u64) {
    let settings = Settings { target, ecn: Some(ecn), ..Settings::default() };
    let mut bench = Bench::new(&of(with(Kind::Pie, settings)));
    let (mut marks, mut longest) = (0, 0);
    for n in 0..20_000 {
        bench.now = Nanos::from_micros(100 * n);
        bench.enqueue(7, 0);
        if n % 10 != 0 {
            marks += usize::from(bench.dequeue().is_some_and(|(_, ecn)| ecn == Ecn::Ce));
        }
        longest = longest.max(bench.qdisc.backlog().packets);
    }
    (bench.drops, marks, longest)
}

#[test]
fn settings_reach_pie() {
    let (drops, marks, longest) = pie_run(None, false);
    assert!(drops > 0 && marks == 0 && longest < 1_000, "{drops} {marks} {longest}");
    let (_, _, longer) = pie_run(Some(Nanos::from_millis(60)), false);
    assert!(longer > longest, "{longer} waiting with a longer target, {longest} without");
    assert!(pie_run(None, true).1 > 0, "marks while the probability is low");
}

/// DualPI2 below a shaper of 12 Mbit/s, which takes a full frame about a millisecond. A packet
/// comes whenever one leaves, so that `standing` of them, all L4S, are there all the time; what
/// became of 500 of them, and the longest wait.
fn below_a_shaper(standing: usize) -> (usize, Nanos) {
    let rate = Rate::from_mbps(12);
    let policy = of(dualpi2(None));
    let mut pool = Pool::new(100, 1500).unwrap();
    let config = token_bucket::Config { rate: Some(rate), ..Default::default() };
    let mut queue = TokenBucket::new(config, Queue::build("b", &policy, 1).unwrap());
    let mut none = |_: Packet, reason: DropReason| panic!("dropped: {reason}");
    let (mut now, mut marks, mut longest) = (Nanos::from_secs(1), 0, Nanos::ZERO);
    for n in 0..500 + standing {
        let frame = pool.frame(&[0; 1514]).unwrap();
        let headers = Headers { ecn: 1, ..headers(7) };
        queue.enqueue(now, Packet::new(frame, Some(&headers), now), &mut none);
        if n + 1 < standing {
            continue;
        }
        // As a box does: it waits for the time that it is told.
        now = now.max(queue.next_event(now).unwrap());
        let packet = queue.dequeue(now, &mut none).unwrap();
        // What the burst let through at the start says nothing of the rate.
        if n > standing {
            longest = longest.max(now - packet.arrived);
            marks += usize::from(packet.is_marked());
        }
        let frame = packet.into_frame(&mut pool);
        pool.release(frame);
    }
    (marks, longest)
}

/// At a rate at which one packet takes longer than the marks' threshold, a single packet is no
/// queue, and a second one behind it is.
#[test]
fn waits_below_a_shaper_follow_its_rate() {
    // 1514 bytes at 12 Mbit/s.
    let frame = Nanos(1_009_334);
    let (marks, longest) = below_a_shaper(1);
    assert_eq!(marks, 0, "a packet alone");
    assert!(longest <= frame, "{longest}");
    let (marks, longest) = below_a_shaper(3);
    assert!(longest > Nanos(2 * frame.0) && longest <= Nanos(3 * frame.0), "{longest}");
    assert!(marks > 490, "{marks} marked beyond 1.2 ms");
}

#[test]
fn settings_out_of_range_are_an_error() {
    let settings = Settings { target: Some(Nanos::ZERO), ..Settings::default() };
    let no_target = with(Kind::FqCodel, settings);
    let fails = |policy: &Policy| Queue::build("b", policy, 1).is_err();
    assert!(fails(&of(no_target)));
    assert!(fails(&of(fifo(Some(LimitValue::Bytes(Bytes::ZERO))))));
    assert!(fails(&strict([])));
}
