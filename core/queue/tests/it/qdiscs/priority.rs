use forebay_queue::{Fifo, Qdisc, StrictPriority, TokenBucket, token_bucket};
use forebay_units::{Nanos, Rate};

use crate::qdiscs::packet::{Pkt, dequeue, drain, enqueue, frame};

fn fifo() -> Fifo<Pkt> {
    Fifo::new(forebay_queue::fifo::Config::default()).unwrap()
}

#[test]
fn urgent_classes_are_served_first_and_high_classes_share_the_last_child() {
    let mut q = StrictPriority::new(vec![fifo(), fifo()]).unwrap();
    for (id, class) in [(0, 1), (1, 200), (2, 0), (3, 1), (4, 0)] {
        enqueue(&mut q, Nanos::ZERO, Pkt { class, ..frame(id, 0) });
    }
    let order: Vec<_> = drain(&mut q, Nanos::ZERO).iter().map(|p| p.id).collect();
    assert_eq!(order, [2, 4, 0, 1, 3]);
}

/// A shaped urgent class does not block the others while it waits, and is served on time
/// afterwards.
#[test]
fn a_shaped_class_does_not_block_the_next() {
    let rate = Some(Rate::from_mbps(96));
    let shaped = TokenBucket::new(token_bucket::Config { rate, ..Default::default() }, fifo());
    let children: Vec<Box<dyn Qdisc<Pkt>>> = vec![Box::new(shaped), Box::new(fifo())];
    let mut q = StrictPriority::new(children).unwrap();
    for id in 0..3 {
        enqueue(&mut q, Nanos::ZERO, frame(id, 0));
        enqueue(&mut q, Nanos::ZERO, Pkt { class: 1, ..frame(10 + id, 1) });
    }
    let ids = |q: &mut StrictPriority<Pkt>, now| {
        std::iter::from_fn(|| dequeue(q, now).0).map(|p| p.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&mut q, Nanos::ZERO), [0, 10, 11, 12]);
    let next = q.next_event(Nanos::ZERO).unwrap();
    // A full frame at 96 Mbit/s is 126.17 us.
    assert_eq!(next, Nanos(126_167));
    assert_eq!(ids(&mut q, next), [1]);
}
