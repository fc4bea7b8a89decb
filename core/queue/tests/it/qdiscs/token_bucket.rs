//! The shaper's arithmetic, with computed values and with random rate changes.

use forebay_queue::token_bucket::{Burst, Config};
use forebay_queue::{Fifo, Limit, Qdisc, TokenBucket, fifo};
use forebay_units::{Bytes, Nanos, Rate};
use proptest::prelude::*;

use crate::qdiscs::packet::{Pkt, dequeue, enqueue, frame};

type Shaper = TokenBucket<Fifo<Pkt>>;

/// Returns a shaper with `n` waiting packets of `len` bytes, to which a late timer costs what the
/// burst does not make up for.
fn shaper(rate: Rate, burst: Burst, n: u64, len: u64) -> Shaper {
    lenient(rate, burst, Nanos::ZERO, n, len)
}

/// Returns a shaper with `n` waiting packets of `len` bytes, which makes up for a timer that is
/// `late`.
fn lenient(rate: Rate, burst: Burst, late: Nanos, n: u64, len: u64) -> Shaper {
    let child = Fifo::new(fifo::Config { limit: Limit::packets(1 << 20) }).unwrap();
    let mut q = TokenBucket::new(Config { rate: Some(rate), burst, late }, child);
    for id in 0..n {
        assert_eq!(enqueue(&mut q, Nanos::ZERO, Pkt { len, ..frame(id, 0) }), []);
    }
    q
}

/// Dequeues all packets that may leave at `now` and returns their number.
fn leave(q: &mut Shaper, now: Nanos) -> usize {
    std::iter::from_fn(|| dequeue(q, now).0).count()
}

/// A rate at which 1000 bytes take exactly a millisecond.
const RATE: Rate = Rate::from_mbps(8);
const MS: Nanos = Nanos::from_millis(1);

#[test]
fn without_a_burst_packets_leave_one_by_one() {
    let mut q = shaper(RATE, Burst::Bytes(Bytes::ZERO), 100, 1000);
    for ms in 0..5 {
        let now = MS * ms;
        assert_eq!(q.next_event(now), Some(now));
        assert_eq!(leave(&mut q, now), 1);
        assert_eq!(q.next_event(now), Some(now + MS));
        assert_eq!(leave(&mut q, now + MS - Nanos(1)), 0);
    }
    assert_eq!(leave(&mut q, MS * 50), 1, "lost time is not recovered");
}

/// A credit of 2500 bytes sends two packets, and a third one into a debt of 500.
#[test]
fn the_burst_and_one_packet_leave_at_once() {
    for burst in [Burst::Bytes(Bytes(2500)), Burst::Time(Nanos::from_micros(2500))] {
        let mut q = shaper(RATE, burst, 100, 1000);
        let now = MS * 1000;
        assert_eq!(leave(&mut q, now), 3);
        assert_eq!(q.next_event(now), Some(now + MS / 2));
        assert_eq!(leave(&mut q, now + MS / 2), 1);
    }
}

/// A timer that is late by less than the burst does not reduce the rate.
#[test]
fn the_burst_compensates_for_a_late_timer() {
    let mut q = shaper(RATE, Burst::Time(MS), 2000, 1000);
    let mut sent = 0;
    for tick in 0..1000_u64 {
        sent += leave(&mut q, MS * tick + Nanos(tick * 7_919 % 999_983));
    }
    assert!((999..=1001).contains(&sent), "{sent} in a second");
}

/// Timers that are late by up to 3 ms cost nothing, as long as packets wait.
#[test]
fn a_late_timer_costs_no_rate() {
    let burst = Burst::Bytes(Bytes::ZERO);
    let sent = |late| {
        let mut q = lenient(RATE, burst, late, 2000, 1000);
        let mut now = Nanos::ZERO;
        let mut sent = 0;
        for tick in 1_u64.. {
            sent += leave(&mut q, now);
            now = q.next_event(now).unwrap() + Nanos(tick * 7_919 % 3_000_017);
            if now >= MS * 1000 {
                break;
            }
        }
        sent
    };
    assert!((995..=1001).contains(&sent(MS * 4)), "{} in a second", sent(MS * 4));
    assert!(sent(Nanos::ZERO) < 500, "{} in a second", sent(Nanos::ZERO));
}

#[test]
fn what_was_missed_leaves_at_once_within_bounds() {
    let mut q = lenient(RATE, Burst::Time(MS), MS * 4, 100, 1000);
    assert_eq!(leave(&mut q, MS * 3), 4, "3000 bytes, and one packet into debt");
    assert_eq!(leave(&mut q, MS * 90), 5, "no more than 4 ms");
}

/// While nothing waits, only the burst accumulates.
#[test]
fn a_pause_is_not_a_late_timer() {
    let mut q = lenient(RATE, Burst::Time(MS), MS * 4, 0, 1000);
    let refill = |q: &mut Shaper, now| {
        (0..10).for_each(|id| drop(enqueue(q, now, Pkt { len: 1000, ..frame(id, 0) })));
    };
    refill(&mut q, MS * 100);
    assert_eq!(leave(&mut q, MS * 100), 2);
    assert_eq!(leave(&mut q, MS * 103), 3, "these have waited");
    assert_eq!((1..9).map(|ms| leave(&mut q, MS * (103 + ms))).sum::<usize>(), 5);
    refill(&mut q, MS * 200);
    assert_eq!(leave(&mut q, MS * 200), 2, "the last packet left long ago");
    // The same while the rate was unlimited.
    q.set_rate(MS * 200, None);
    assert_eq!(leave(&mut q, MS * 200), 8);
    q.set_rate(MS * 300, Some(RATE));
    refill(&mut q, MS * 400);
    assert_eq!(leave(&mut q, MS * 400), 2);
}

#[test]
fn a_packet_larger_than_the_burst_passes() {
    let mut q = shaper(RATE, Burst::Bytes(Bytes(1)), 2, 64_000);
    assert_eq!(leave(&mut q, Nanos::ZERO), 1);
    assert_eq!(q.next_event(Nanos::ZERO), Some(MS * 64));
    assert_eq!(leave(&mut q, MS * 64), 1);
}

#[test]
fn a_new_rate_applies_to_the_debt_in_bytes() {
    let mut q = shaper(RATE, Burst::Bytes(Bytes::ZERO), 10, 1000);
    assert_eq!(leave(&mut q, Nanos::ZERO), 1);
    // After half a millisecond half of the debt is paid; at the new rate the rest takes twice as
    // long.
    q.set_rate(MS / 2, Some(Rate::from_mbps(4)));
    assert_eq!(q.next_event(MS / 2), Some(MS / 2 + MS));
    q.set_rate(MS / 2, Some(Rate::ZERO));
    assert_eq!(q.next_event(MS / 2), Some(Nanos::MAX));
    assert_eq!(leave(&mut q, MS * 1_000_000), 0);
    q.set_rate(MS * 1_000_000, None);
    assert_eq!(leave(&mut q, MS * 1_000_000), 9, "the rate is unlimited");
}

#[test]
fn an_unlimited_rate_changes_neither_credit_nor_debt() {
    let mut q = shaper(RATE, Burst::Bytes(Bytes::ZERO), 10, 1000);
    assert_eq!(leave(&mut q, Nanos::ZERO), 1);
    q.set_rate(Nanos::ZERO, None);
    assert_eq!(dequeue(&mut q, MS * 5).0, Some(Pkt { len: 1000, ..frame(1, 0) }));
    q.set_rate(MS * 10, Some(RATE));
    assert_eq!(q.next_event(MS * 10), Some(MS * 11), "the debt of the first packet");
}

#[test]
fn credit_carries_over_in_bytes_up_to_the_burst() {
    let ms100 = MS * 100;
    // Two milliseconds are 2000 bytes at 8 Mbit/s, and 500 at 2 Mbit/s.
    let mut q = shaper(RATE, Burst::Time(MS * 2), 100, 100);
    q.set_rate(ms100, Some(Rate::from_mbps(2)));
    q.set_rate(ms100, Some(RATE));
    assert_eq!(leave(&mut q, ms100), 6, "500 bytes and a packet");
    // At a higher rate the bucket is larger, but contains the same credit.
    let mut q = shaper(RATE, Burst::Time(MS * 2), 100, 100);
    leave(&mut q, ms100);
    q.set_rate(ms100, Some(Rate::from_mbps(800)));
    assert_eq!(leave(&mut q, ms100), 0);
}

#[test]
fn frequent_rate_changes_admit_no_extra_packets() {
    let mut q = shaper(RATE, Burst::Time(MS), 3000, 1000);
    let mut sent = 0;
    for step in 0..10_000 {
        let now = MS / 10 * step;
        q.set_rate(now, Some(if step % 2 == 0 { RATE } else { Rate::from_bps(7_999_999) }));
        sent += leave(&mut q, now);
    }
    assert!((999..=1002).contains(&sent), "{sent} in a second");
}

#[derive(Clone, Debug)]
enum Op {
    Send,
    Advance(u64),
    Wait,
    SetRate(Option<u64>),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let rate = prop_oneof![
        8 => (1..2_000_000_000_u64).prop_map(Some),
        1 => Just(Some(0)),
        1 => Just(Some(u64::MAX)),
        1 => Just(None),
    ];
    let op = prop_oneof![
        4 => Just(Op::Send),
        2 => (0..3_000_000_u64).prop_map(Op::Advance),
        2 => Just(Op::Wait),
        1 => rate.prop_map(Op::SetRate),
    ];
    prop::collection::vec(op, 1..300)
}

fn burst() -> impl Strategy<Value = Burst> {
    prop_oneof![
        (0..20_000_u64).prop_map(|n| Burst::Bytes(Bytes(n))),
        (0..5_000_000_u64).prop_map(|n| Burst::Time(Nanos(n))),
    ]
}

const NANOBITS: u128 = 8_000_000_000;

/// Returns the burst at a rate, in billionths of a bit.
fn burst_at(burst: Burst, rate: u64) -> u128 {
    match burst {
        Burst::Bytes(bytes) => u128::from(bytes.0) * NANOBITS,
        Burst::Time(time) => u128::from(rate) * u128::from(time.0),
    }
}

proptest! {
    /// In any time with a limited rate, at most the integral of the rate, the burst at its start or
    /// what a late timer missed, and one packet leave. While the rate is unlimited, everything
    /// leaves at once.
    #[test]
    fn at_most_rate_and_burst_leave(
        ops in ops(),
        burst in burst(),
        late in 0..5_000_000_u64,
        len in 40..9000_u64,
    ) {
        let mut q = lenient(Rate::from_mbps(50), burst, Nanos(late), 20_000, len);
        let most = |rate| burst_at(burst, rate).max(burst_at(Burst::Time(Nanos(late)), rate));
        let (mut now, mut rate) = (Nanos::from_secs(1), Some(50_000_000));
        // The bits allowed and sent up to now, in billionths of a bit.
        let (mut allowed, mut sent) = (0_u128, 0_u128);
        // The minimum of allowed - sent - burst over all start times so far.
        let mut least = -(most(50_000_000) as i128);
        for op in ops {
            match op {
                Op::Advance(ns) => {
                    now += Nanos(ns);
                    allowed += u128::from(rate.unwrap_or(0)) * u128::from(ns);
                }
                Op::Wait => {
                    let at = q.next_event(now).unwrap();
                    if at > now && at < now + Nanos::from_secs(60) {
                        prop_assert_eq!(leave(&mut q, Nanos(at.0 - 1)), 0);
                        allowed += u128::from(rate.unwrap_or(0)) * u128::from((at - now).0);
                        now = at;
                        prop_assert_eq!(q.next_event(now), Some(now));
                    }
                }
                Op::SetRate(new) => {
                    rate = new;
                    q.set_rate(now, new.map(Rate::from_bps));
                }
                Op::Send => {
                    let due = q.next_event(now).is_some_and(|at| at <= now);
                    let packet = dequeue(&mut q, now).0;
                    prop_assert_eq!(packet.is_some(), due);
                    if rate.is_some() && packet.is_some() {
                        sent += u128::from(len) * NANOBITS;
                        let over = sent as i128 - allowed as i128 + least;
                        prop_assert!(over <= (u128::from(len) * NANOBITS) as i128, "{} over", over);
                    }
                }
            }
            prop_assert!(q.backlog().packets > 0, "the test sends less than was filled");
            if let Some(rate) = rate {
                least = least.min(allowed as i128 - sent as i128 - most(rate) as i128);
            }
        }
    }
}
