use forebay_queue::{
    Backlog, DropReason, DropSink, Fifo, InOrder, Limit, Qdisc, Room, Sfq, StrictPriority, fifo,
    sfq,
};
use forebay_units::{Bytes, Nanos};

use crate::qdiscs::packet::{Pkt, dequeue, drain, enqueue, frame};

const NOW: Nanos = Nanos::from_secs(1);
/// The number of operations after which [`Switching`] switches. It is coprime to other periods of
/// the tests.
const PERIOD: u32 = 7;

/// A queue that switches between the policy's order and the order of arrival.
pub(crate) struct Switching<Q> {
    queue: InOrder<Pkt, Q>,
    operations: u32,
}

impl<Q: Qdisc<Pkt>> Switching<Q> {
    pub(crate) fn new(queue: InOrder<Pkt, Q>) -> Self {
        Self { queue, operations: 0 }
    }

    fn switch(&mut self) {
        self.operations += 1;
        if self.operations.is_multiple_of(PERIOD) {
            self.queue.keep_order(self.operations / PERIOD % 2 == 1);
        }
    }
}

impl<Q: Qdisc<Pkt>> Qdisc<Pkt> for Switching<Q> {
    fn enqueue(&mut self, now: Nanos, packet: Pkt, drops: &mut dyn DropSink<Pkt>) {
        self.queue.enqueue(now, packet, drops);
        self.switch();
    }

    fn dequeue(&mut self, now: Nanos, drops: &mut dyn DropSink<Pkt>) -> Option<Pkt> {
        let packet = self.queue.dequeue(now, drops);
        self.switch();
        packet
    }

    fn peek(&self) -> Option<&Pkt> {
        self.queue.peek()
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn probe(&self, now: Nanos, packet: &Pkt) -> bool {
        self.queue.probe(now, packet)
    }

    fn room(&self, class: u8) -> Room {
        self.queue.room(class)
    }

    fn classes(&self) -> usize {
        self.queue.classes()
    }

    fn next_event(&self, now: Nanos) -> Option<Nanos> {
        self.queue.next_event(now)
    }

    fn prefetch(&self, packet: &Pkt) {
        self.queue.prefetch(packet);
    }
}

/// Takes turns between flows, packet by packet.
fn fair(limit: u32) -> InOrder<Pkt, Sfq<Pkt>> {
    let config = sfq::Config { limit, perturb: None, ..sfq::Config::default() };
    InOrder::new(Sfq::new(config).unwrap())
}

/// Enqueues a packet of each of `flows`, numbered from `first`.
fn put(q: &mut impl Qdisc<Pkt>, first: u64, flows: &[u32]) {
    for (id, flow) in (first..).zip(flows) {
        assert_eq!(enqueue(q, NOW, frame(id, *flow)), []);
    }
}

fn ids(q: &mut impl Qdisc<Pkt>) -> Vec<u64> {
    drain(q, NOW).iter().map(|p| p.id).collect()
}

#[test]
fn bursts_stay_whole_in_the_order_of_arrival() {
    let bursts = [1, 1, 1, 2, 2, 2];
    let mut q = fair(100);
    put(&mut q, 0, &bursts);
    assert_eq!(ids(&mut q), [0, 3, 1, 4, 2, 5]);
    q.keep_order(true);
    put(&mut q, 0, &bursts);
    assert_eq!(ids(&mut q), [0, 1, 2, 3, 4, 5]);
    q.keep_order(false);
    put(&mut q, 0, &bursts);
    assert_eq!(ids(&mut q), [0, 3, 1, 4, 2, 5]);
}

#[test]
fn packets_before_a_switch_leave_before_later_ones() {
    let mut q = fair(100);
    put(&mut q, 0, &[1, 1, 2]);
    q.keep_order(true);
    put(&mut q, 3, &[2, 1, 1]);
    // New packets go to the policy again only after the first three have left.
    q.keep_order(false);
    put(&mut q, 6, &[1, 1, 2]);
    assert_eq!(q.backlog(), Backlog { packets: 9, bytes: Bytes(9 * 1514) });
    let first: Vec<_> = (0..3).map(|_| dequeue(&mut q, NOW).0.unwrap().id).collect();
    assert_eq!(first, [0, 2, 1]);
    put(&mut q, 9, &[1, 1, 2]);
    assert_eq!(ids(&mut q), [3, 4, 5, 6, 7, 8, 9, 11, 10]);
}

#[test]
fn policy_and_bypass_together_have_the_room_of_the_policy() {
    let mut q = fair(4);
    put(&mut q, 0, &[1, 2]);
    q.keep_order(true);
    put(&mut q, 2, &[1, 2]);
    assert_eq!(q.room(0).packets, 0);
    assert!(!q.probe(NOW, &frame(4, 1)));
    assert_eq!(enqueue(&mut q, NOW, frame(4, 1)), [(frame(4, 1), DropReason::PacketLimit)]);

    let fifo = Fifo::new(fifo::Config { limit: Limit::bytes(Bytes(4000)) }).unwrap();
    let mut q = InOrder::new(fifo);
    q.keep_order(true);
    put(&mut q, 0, &[1, 2]);
    assert_eq!(enqueue(&mut q, NOW, frame(2, 1)), [(frame(2, 1), DropReason::ByteLimit)]);
    assert_eq!(ids(&mut q), [0, 1]);
}

#[test]
fn a_policy_with_classes_keeps_its_order() {
    let fifo = || Fifo::new(fifo::Config::default()).unwrap();
    let mut q = InOrder::new(StrictPriority::new(vec![fifo(), fifo()]).unwrap());
    q.keep_order(true);
    for (id, class) in [(0, 1), (1, 1), (2, 0)] {
        enqueue(&mut q, NOW, Pkt { class, ..frame(id, 0) });
    }
    assert_eq!(ids(&mut q), [2, 0, 1]);
}
