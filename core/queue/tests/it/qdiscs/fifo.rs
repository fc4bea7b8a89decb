use forebay_queue::{DropReason, Fifo, Limit, Qdisc, fifo};
use forebay_units::{Bytes, Nanos};

use crate::qdiscs::packet::{dequeue, drain, enqueue, frame};

const T: Nanos = Nanos::from_millis(10);

fn queue(limit: Limit) -> Fifo<crate::qdiscs::packet::Pkt> {
    Fifo::new(fifo::Config { limit }).unwrap()
}

#[test]
fn packets_past_the_time_limit_are_dropped_at_the_head() {
    let mut q = queue(Limit::time(T));
    for (id, at) in [(0, 0), (1, 1), (2, 9)] {
        assert_eq!(enqueue(&mut q, Nanos::from_millis(at), frame(id, 0)), []);
    }
    assert_eq!(
        dequeue(&mut q, T),
        (Some(frame(0, 0)), vec![]),
        "a wait of exactly the limit is allowed"
    );
    let late = Nanos::from_millis(19);
    let stale = vec![(frame(1, 0), DropReason::TimeLimit)];
    assert_eq!(dequeue(&mut q, late), (Some(frame(2, 0)), stale));
    assert_eq!(q.backlog().packets, 0);
}

#[test]
fn packets_past_the_time_limit_make_room_for_new_ones() {
    let mut q = queue(Limit::packets(2).and(Limit::time(T)));
    for id in 0..2 {
        enqueue(&mut q, Nanos::ZERO, frame(id, 0));
    }
    assert_eq!(enqueue(&mut q, T, frame(2, 0)), [(frame(2, 0), DropReason::PacketLimit)]);
    let stale = [(frame(0, 0), DropReason::TimeLimit)];
    assert_eq!(enqueue(&mut q, T + Nanos(1), frame(3, 0)), stale, "as few as needed");
    assert_eq!(q.backlog().packets, 2);
}

#[test]
fn the_first_limit_reached_applies() {
    let limit = Limit::packets(3).and(Limit::bytes(Bytes(3000))).and(Limit::packets(5));
    assert_eq!(limit, Limit { packets: 3, bytes: Some(Bytes(3000)), time: None });
    let mut q = queue(limit);
    enqueue(&mut q, Nanos::ZERO, frame(0, 0));
    assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(1, 0)), [(frame(1, 0), DropReason::ByteLimit)]);
    for id in 2..4 {
        let small = crate::qdiscs::packet::Pkt { len: 40, ..frame(id, 0) };
        assert_eq!(enqueue(&mut q, Nanos::ZERO, small), []);
    }
    assert_eq!(enqueue(&mut q, Nanos::ZERO, frame(4, 0)), [(frame(4, 0), DropReason::PacketLimit)]);
    let order: Vec<_> = drain(&mut q, Nanos::ZERO).iter().map(|p| p.id).collect();
    assert_eq!(order, [0, 2, 3]);
}
