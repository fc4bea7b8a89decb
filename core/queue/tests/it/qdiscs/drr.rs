use forebay_queue::{Drr, Fifo, Qdisc, StrictPriority, drr, fifo};
use forebay_units::{Bytes, Nanos};

use crate::qdiscs::packet::{Pkt, dequeue, drain, enqueue, frame};

fn fifo() -> Fifo<Pkt> {
    Fifo::new(fifo::Config::default()).unwrap()
}

fn of_class(id: u64, class: u8, len: u64) -> Pkt {
    Pkt { class, len, ..frame(id, u32::from(class)) }
}

fn classes<Q: Qdisc<Pkt>>(q: &mut Q) -> Vec<u8> {
    drain(q, Nanos::ZERO).iter().map(|packet| packet.class).collect()
}

#[test]
fn a_turn_is_as_long_as_the_weight() {
    let mut q = Drr::new(drr::Config::default(), vec![(1, fifo()), (3, fifo())]).unwrap();
    for id in 0..6 {
        enqueue(&mut q, Nanos::ZERO, of_class(id, 0, 1514));
        enqueue(&mut q, Nanos::ZERO, of_class(id, 1, 1514));
    }
    assert_eq!(classes(&mut q), [0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0]);
}

/// A class that became empty in debt or with credit left has a full quantum when it is busy again.
#[test]
fn a_class_that_is_busy_again_starts_with_a_full_quantum() {
    for len in [9000, 40] {
        let config = drr::Config { quantum: Bytes(1514) };
        let mut q = Drr::new(config, vec![(1, fifo()), (1, fifo())]).unwrap();
        enqueue(&mut q, Nanos::ZERO, of_class(0, 0, len));
        assert_eq!(classes(&mut q), [0]);
        for id in 1..3 {
            enqueue(&mut q, Nanos::ZERO, of_class(id, 0, 758));
            enqueue(&mut q, Nanos::ZERO, of_class(id, 1, 758));
        }
        enqueue(&mut q, Nanos::ZERO, of_class(3, 0, 758));
        assert_eq!(classes(&mut q), [0, 0, 1, 1, 0], "after {len} bytes");
    }
}

#[test]
fn an_arriving_class_waits_for_one_turn_of_each_other() {
    let mut q = Drr::new(drr::Config::default(), vec![(1, fifo()), (1, fifo())]).unwrap();
    for id in 0..3 {
        enqueue(&mut q, Nanos::ZERO, of_class(id, 0, 1514));
    }
    assert_eq!(dequeue(&mut q, Nanos::ZERO).0, Some(of_class(0, 0, 1514)));
    enqueue(&mut q, Nanos::ZERO, of_class(3, 1, 1514));
    assert_eq!(classes(&mut q), [1, 0, 0]);
}

#[test]
fn packets_already_in_children_count() {
    let filled = |class| {
        let mut child = fifo();
        enqueue(&mut child, Nanos::ZERO, of_class(0, class, 1000));
        enqueue(&mut child, Nanos::ZERO, of_class(1, class, 1000));
        child
    };
    let mut priority = StrictPriority::new(vec![filled(0), filled(1)]).unwrap();
    assert_eq!(priority.backlog().packets, 4);
    assert_eq!(priority.backlog().bytes, Bytes(4000));
    assert_eq!(classes(&mut priority), [0, 0, 1, 1]);
    let children = vec![(1, filled(0)), (1, filled(1)), (1, fifo())];
    let mut drr = Drr::new(drr::Config { quantum: Bytes(1000) }, children).unwrap();
    assert_eq!(drr.backlog().bytes, Bytes(4000));
    assert_eq!(classes(&mut drr), [0, 1, 0, 1]);
}
