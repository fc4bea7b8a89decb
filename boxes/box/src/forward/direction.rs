//! The queues of one direction.

use forebay_dataplane::{Packet, Pool};
use forebay_queue::{DropReason, InOrder, Packet as _, Qdisc, Share, Shares};
use forebay_records::Late;
use forebay_records::packet_log::{Fate, Record, flow_of};
use forebay_units::{Bytes, Nanos, Rate};

use super::schedule::Schedule;
use super::{Exit, Lateness, Place, Shaped};
use crate::config::Policy;
use crate::logs::Packets;
use crate::policy::Queue;

/// The counters of a queue, or of a direction, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets that left.
    pub(crate) sent: u64,
    /// Bytes of these packets, as the shaper counts them.
    pub(crate) bytes: Bytes,
    /// Packets that a queue marked.
    pub(crate) marked: u64,
    /// Packets that a policy dropped.
    pub(crate) dropped: u64,
}

impl Counts {
    /// Returns the sum with `other` counters.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            bytes: self.bytes + other.bytes,
            marked: self.marked + other.marked,
            dropped: self.dropped + other.dropped,
        }
    }

    /// Returns the difference to `earlier` counters.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent - earlier.sent,
            bytes: self.bytes - earlier.bytes,
            marked: self.marked - earlier.marked,
            dropped: self.dropped - earlier.dropped,
        }
    }
}

/// The queues of one direction.
pub(crate) struct DirectionQueues {
    queues: Vec<Shaped>,
    schedule: Schedule,
    /// The queues' shares of their common limit, if they have one.
    shares: Option<Shares>,
    /// The counters of each queue.
    counts: Vec<Counts>,
    /// The counters of queues whose place another one has taken.
    departed: Counts,
    /// The lateness of packets since the last [`DirectionQueues::take_late`].
    late: Lateness,
    /// The lateness of packets before that.
    late_before: Lateness,
}

impl DirectionQueues {
    pub(super) fn new(queues: Vec<Shaped>) -> Self {
        Self {
            schedule: Schedule::new(queues.len()),
            shares: None,
            counts: vec![Counts::default(); queues.len()],
            departed: Counts::default(),
            queues,
            late: Lateness::default(),
            late_before: Lateness::default(),
        }
    }

    /// Enqueues a packet, and passes each packet that leaves to `sent`.
    ///
    /// Frames of one batch arrived one after the other. Without a limit, a packet leaves before the
    /// next is enqueued, so that all keep their order.
    pub(super) fn take_in(
        &mut self,
        now: Nanos,
        place: Place,
        exit: &mut Exit<'_>,
        sent: &mut impl FnMut(usize, &Packet),
    ) {
        let queue = &mut self.queues[place.queue];
        let mut drops = Dropped::new(now, exit.pool, exit.log);
        queue.enqueue(now, place.packet, &mut |p, r| drops.take(p, r));
        self.counts[place.queue].dropped += drops.count;
        self.schedule.set(place.queue, queue.next_event(now));
        if queue.rate().is_none() {
            self.release(now, exit, sent);
        }
    }

    /// Dequeues the packets that may leave by `now` while there is room, and passes each to `sent`.
    pub(super) fn release(
        &mut self,
        now: Nanos,
        exit: &mut Exit<'_>,
        sent: &mut impl FnMut(usize, &Packet),
    ) {
        while exit.has_room()
            && let Some((due, index)) = self.next_due(now)
        {
            // A packet that became due in this turn was not late.
            if now > due {
                self.late.record(now - due);
            }
            let queue = &mut self.queues[index];
            let mut drops = Dropped::new(now, exit.pool, exit.log);
            let packet = queue.dequeue(now, &mut |p, r| drops.take(p, r));
            let counts = &mut self.counts[index];
            counts.dropped += drops.count;
            if let Some(packet) = packet {
                if let Some(shares) = &mut self.shares {
                    shares.charge(now, index, packet.len());
                }
                sent(index, &packet);
                counts.sent += 1;
                counts.bytes += packet.len();
                counts.marked += u64::from(packet.is_marked());
                exit.log.push(&record(now, &packet, Fate::Sent));
                exit.out.push_back(packet.into_frame(exit.pool));
            }
            if let Some(shares) = &mut self.shares {
                shares.set_ready(index, false);
            }
            self.schedule.set(index, queue.next_event(now));
        }
    }

    /// Returns the queue that sends next, with the time from which on it could, or now if it waited
    /// for the common limit.
    fn next_due(&mut self, now: Nanos) -> Option<(Nanos, usize)> {
        let Some(shares) = &mut self.shares else { return self.schedule.pop(now) };
        while let Some((_, index)) = self.schedule.pop(now) {
            shares.set_ready(index, true);
        }
        shares.next(now).map(|index| (now, index))
    }

    /// Sets the common limit of all queues; `None` is no limit. Each queue gets the share that
    /// `share_of` returns for its number, or keeps its own.
    pub(crate) fn set_limit(
        &mut self,
        now: Nanos,
        limit: Option<Rate>,
        share_of: impl Fn(usize) -> Option<Share>,
    ) {
        let is_new = self.shares.is_none();
        let mut shares = self.shares.take().unwrap_or_default();
        shares.set_limit(limit);
        for index in 0..self.queues.len() {
            match share_of(index) {
                Some(share) => shares.set(index, share),
                None if is_new => shares.set(index, Share::default()),
                None => {}
            }
        }
        self.shares = limit.is_some().then_some(shares);
        // Queues that were ready are due again.
        for (index, queue) in self.queues.iter().enumerate() {
            self.schedule.set(index, queue.next_event(now));
        }
    }

    /// Returns the next time at which a queue may send.
    pub(super) fn next_event(&mut self) -> Option<Nanos> {
        let shared = self.shares.as_ref().and_then(|shares| shares.next_event(Nanos::ZERO));
        self.schedule.next().into_iter().chain(shared).min()
    }

    /// Sets the rate of queue number `index`; `None` is no limit.
    pub(crate) fn set_rate(&mut self, now: Nanos, index: usize, rate: Option<Rate>) {
        let queue = &mut self.queues[index];
        queue.set_rate(now, rate);
        self.schedule.set(index, queue.next_event(now));
    }

    /// Returns the rate of each queue; `None` is no limit.
    pub(super) fn rates(&self) -> Vec<Option<Rate>> {
        self.queues.iter().map(Shaped::rate).collect()
    }

    /// Puts a queue at number `index`, at which there was none, or an empty one that nothing uses.
    /// The numbers before it have queues.
    pub(crate) fn put(&mut self, index: usize, queue: Shaped) {
        self.schedule.grow(index + 1);
        if let Some(shares) = &mut self.shares {
            shares.set(index, Share::default());
        }
        match self.queues.get_mut(index) {
            Some(old) => {
                debug_assert_eq!(old.backlog().packets, 0, "its packets would be lost");
                let left = std::mem::take(&mut self.counts[index]);
                self.departed = self.departed.and(&left);
                *old = queue;
            }
            None => {
                self.queues.push(queue);
                self.counts.push(Counts::default());
            }
        }
    }

    /// Replaces the policy of queue number `index`. Packets that wait move to the new one in the
    /// order of the old one, which may drop some of them as if they left, as may the new one if
    /// they do not fit.
    pub(crate) fn replace(
        &mut self,
        now: Nanos,
        index: usize,
        policy: Queue,
        pool: &mut Pool,
        log: &mut Packets,
    ) {
        let queue = &mut self.queues[index];
        let mut old = std::mem::replace(queue.child_mut(), InOrder::new(policy));
        old.policy_mut().lift_ceilings(now);
        let mut drops = Dropped::new(now, pool, log);
        while let Some(packet) = old.dequeue(now, &mut |p, r| drops.take(p, r)) {
            queue.enqueue(now, packet, &mut |p, r| drops.take(p, r));
        }
        debug_assert_eq!(old.backlog().packets, 0, "no policy holds packets back");
        self.counts[index].dropped += drops.count;
        self.schedule.set(index, queue.next_event(now));
    }

    /// Sets the shares of the weighted classes of queue number `index`, whose packets stay.
    pub(crate) fn set_shares(&mut self, now: Nanos, index: usize, policy: &Policy) {
        let queue = &mut self.queues[index];
        queue.child_mut().policy_mut().set_shares(now, policy);
        self.schedule.set(index, queue.next_event(now));
    }

    /// Removes the ceilings of classes in all queues.
    pub(super) fn lift_ceilings(&mut self, now: Nanos) {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            queue.child_mut().policy_mut().lift_ceilings(now);
            self.schedule.set(index, queue.next_event(now));
        }
    }

    /// Sets whether queue number `index` sends packets in the order of their arrival.
    pub(crate) fn keep_order(&mut self, index: usize, keep: bool) {
        self.queues[index].child_mut().keep_order(keep);
    }

    /// Returns the queues in order of their numbers.
    pub(crate) fn queues(&self) -> &[Shaped] {
        &self.queues
    }

    pub(crate) fn queues_mut(&mut self) -> &mut [Shaped] {
        &mut self.queues
    }

    /// Returns the counters of all queues together.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.iter().fold(self.departed, |all, queue| all.and(queue))
    }

    /// Returns the counters of queue number `index`.
    pub(crate) fn counts_of(&self, index: usize) -> Counts {
        self.counts.get(index).copied().unwrap_or_default()
    }

    /// Returns the lateness of packets since the last call.
    pub(crate) fn take_late(&mut self) -> Option<Late> {
        let late = std::mem::take(&mut self.late);
        self.late_before.add(&late);
        late.figures()
    }

    /// Returns the lateness of packets since the start.
    pub(crate) fn lateness(&self) -> Lateness {
        let mut all = self.late_before.clone();
        all.add(&self.late);
        all
    }

    /// Returns the number of packets in the queues.
    pub(super) fn queued(&self) -> u64 {
        self.queues.iter().map(|q| q.backlog().packets).sum()
    }
}

/// The sink for the packets that a queue drops.
struct Dropped<'a> {
    now: Nanos,
    pool: &'a mut Pool,
    log: &'a mut Packets,
    count: u64,
}

impl<'a> Dropped<'a> {
    fn new(now: Nanos, pool: &'a mut Pool, log: &'a mut Packets) -> Self {
        Self { now, pool, log, count: 0 }
    }

    fn take(&mut self, packet: Packet, reason: DropReason) {
        tracing::trace!("dropped: {reason}");
        self.count += 1;
        self.log.push(&record(self.now, &packet, Fate::Dropped));
        let frame = packet.into_frame(self.pool);
        self.pool.release(frame);
    }
}

fn record(now: Nanos, packet: &Packet, fate: Fate) -> Record {
    Record {
        time: now,
        sojourn: now.saturating_sub(packet.arrived),
        len: packet.len(),
        source: packet.source,
        flow: flow_of(packet.flow_hash()),
        fate,
        l4s: packet.is_l4s(),
        marked: packet.is_marked(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use forebay_dataplane::Frame;
    use forebay_discipline::Kind;
    use forebay_queue as queue;

    use super::*;
    use crate::config::{Class, Match, Share};
    use crate::forward::shaped;
    use crate::policy::tests::{headers, of};

    /// Returns the flows of packets in the order in which they leave SFQ at `rate`. A batch with
    /// ten packets of each of three flows arrives.
    fn left(rate: Option<Rate>, keep_order: bool) -> Vec<u8> {
        let policy = of(Kind::Sfq);
        let queue = Queue::build("b", &policy, 1).unwrap();
        let mut queues = DirectionQueues::new(vec![shaped(queue, rate)]);
        queues.keep_order(0, keep_order);
        let mut out = VecDeque::new();
        let (mut pool, mut log) = (Pool::new(64, 1500).unwrap(), Packets::create(None).unwrap());
        let mut now = Nanos::from_secs(1);
        let mut sent = 0;
        let mut count = |_: usize, _: &Packet| sent += 1;
        for flow in [1, 2, 3] {
            for _ in 0..10 {
                let frame = pool.frame(&[flow; 1514]).unwrap();
                let packet = Packet::new(frame, Some(&headers(flow.into())), now);
                let place = Place { worker: 0, queue: 0, packet };
                queues.take_in(
                    now,
                    place,
                    &mut Exit { out: &mut out, pool: &mut pool, log: &mut log },
                    &mut count,
                );
            }
        }
        while let Some(due) = queues.next_event() {
            now = now.max(due);
            queues.release(
                now,
                &mut Exit { out: &mut out, pool: &mut pool, log: &mut log },
                &mut count,
            );
        }
        assert_eq!(sent, 30);
        let flow = |frame: Frame| {
            let flow = pool.bytes(&frame)[0];
            pool.release(frame);
            flow
        };
        out.drain(..).map(flow).collect()
    }

    /// Frames in a queue at a rate so low that they wait, then another policy.
    #[test]
    fn a_new_policy_takes_over_the_packets_that_wait() {
        let mut out = VecDeque::new();
        let mut log = Packets::create(None).unwrap();
        let mut pool = Pool::new(64, 1500).unwrap();
        let chunks = pool.available();
        let now = Nanos::from_secs(1);
        let build = |kind| Queue::build("b", &of(kind), 1).unwrap();
        let mut queues =
            DirectionQueues::new(vec![shaped(build(Kind::Fifo), Some(Rate::from_mbps(1)))]);
        let mut order = Vec::new();
        for flow in [1, 1, 1, 2, 2, 3] {
            let frame = pool.frame(&[flow; 1514]).unwrap();
            let packet = Packet::new(frame, Some(&headers(flow.into())), now);
            let place = Place { worker: 0, queue: 0, packet };
            let mut exit = Exit { out: &mut out, pool: &mut pool, log: &mut log };
            queues.take_in(now, place, &mut exit, &mut |_, _| ());
            order.push(flow);
        }
        queues.keep_order(0, true);
        for kind in [Kind::FqCodel, Kind::Sfq, Kind::Fifo] {
            let waiting = queues.queues()[0].backlog();
            queues.replace(now, 0, build(kind), &mut pool, &mut log);
            assert_eq!(queues.queues()[0].backlog(), waiting, "{kind:?}");
        }
        assert_eq!(queues.counts(), Counts::default());
        queues.set_rate(now, 0, None);
        queues.release(
            now,
            &mut Exit { out: &mut out, pool: &mut pool, log: &mut log },
            &mut |_, _| (),
        );
        let mut left: Vec<u8> = out.iter().map(|frame| pool.bytes(frame)[0]).collect();
        assert_ne!(left, order, "the fair queues took turns");
        left.sort_unstable();
        assert_eq!(left, order);

        // The place of an empty queue is taken by another, and the next place by a third.
        queues.put(0, shaped(build(Kind::Fifo), None));
        queues.put(1, shaped(build(Kind::Fifo), None));
        assert_eq!((queues.counts_of(0).sent, queues.counts().sent), (0, 6));
        out.drain(..).for_each(|frame| pool.release(frame));
        assert_eq!(pool.available(), chunks, "every frame came back");
    }

    /// Two queues without limits of their own, below a common one that changes.
    #[test]
    fn queues_share_a_common_limit_by_weight_and_none_is_lost_when_it_changes() {
        let mut out = VecDeque::new();
        let (mut pool, mut log) = (Pool::new(2_048, 1500).unwrap(), Packets::create(None).unwrap());
        let chunks = pool.available();
        let build = || shaped(Queue::build("b", &of(Kind::Fifo), 1).unwrap(), None);
        let mut queues = DirectionQueues::new(vec![build(), build()]);
        let mut now = Nanos::from_secs(1);
        let weights = |weights: [u32; 2]| {
            move |index: usize| Some(queue::Share { weight: weights[index], rate: None })
        };
        queues.set_limit(now, Some(Rate::from_mbps(12)), weights([1, 3]));
        for _ in 0..200 {
            for queue in 0..2 {
                let frame = pool.frame(&[queue as u8; 1500]).unwrap();
                let packet = Packet::new(frame, Some(&headers(1)), now);
                let place = Place { worker: 0, queue, packet };
                queues.take_in(
                    now,
                    place,
                    &mut Exit { out: &mut out, pool: &mut pool, log: &mut log },
                    &mut |_, _| (),
                );
            }
        }
        // The burst, a quarter of a millisecond, lets one packet and a part of another go.
        assert!(queues.queues().iter().map(|q| q.backlog().packets).sum::<u64>() >= 398);
        let mut run = |queues: &mut DirectionQueues, until: Nanos| {
            let mut sent = [0u32; 2];
            while let Some(due) = queues.next_event()
                && due <= until
            {
                now = now.max(due);
                queues.release(
                    now,
                    &mut Exit { out: &mut out, pool: &mut pool, log: &mut log },
                    &mut |queue, _| sent[queue] += 1,
                );
                out.drain(..).for_each(|frame| pool.release(frame));
            }
            now = now.max(until);
            sent
        };
        let start = Nanos::from_secs(1);
        // A packet of 1500 bytes takes a millisecond.
        let [light, heavy] = run(&mut queues, start + Nanos::from_millis(100));
        assert!((99..=101).contains(&(light + heavy)), "{light} {heavy}");
        assert!(light.abs_diff(25) <= 1, "{light} {heavy}");
        let half = start + Nanos::from_millis(100);
        queues.set_limit(half, Some(Rate::from_mbps(6)), weights([1, 1]));
        let [light, heavy] = run(&mut queues, half + Nanos::from_millis(100));
        assert!((49..=51).contains(&(light + heavy)), "{light} {heavy}");
        assert!(light.abs_diff(heavy) <= 1, "{light} {heavy}");
        // Without a limit everything leaves.
        queues.set_limit(half + Nanos::from_millis(100), None, |_| None);
        run(&mut queues, Nanos::from_secs(2));
        assert_eq!((queues.queued(), queues.counts().sent, queues.counts().dropped), (0, 400, 0));
        assert_eq!(pool.available(), chunks, "every frame came back");
    }

    /// Classes with ceilings so low that packets wait for them, not for the queue.
    #[test]
    fn weighted_classes_lose_nothing_when_their_shares_or_the_policy_change() {
        let policy = |ceil: Option<u64>| {
            let share = Share { weight: 1, rate: None, ceil: ceil.map(Rate::from_bps) };
            let class = || Class {
                name: String::new(),
                matches: Match::default(),
                policy: Kind::Fifo.into(),
                share,
            };
            Policy { classes: vec![class(), class()], ..of(Kind::Weighted) }
        };
        let mut out = VecDeque::new();
        let (mut pool, mut log) = (Pool::new(128, 1500).unwrap(), Packets::create(None).unwrap());
        let chunks = pool.available();
        let now = Nanos::from_secs(1);
        let build = |policy: &Policy| Queue::build("b", policy, 1).unwrap();
        let fill = |queues: &mut DirectionQueues, exit: &mut Exit<'_>| {
            for class in [0, 1].repeat(30) {
                let frame = exit.pool.frame(&[class; 1514]).unwrap();
                let packet = Packet::new(frame, Some(&headers(1)), now).in_class(class);
                let place = Place { worker: 0, queue: 0, packet };
                queues.take_in(now, place, exit, &mut |_, _| ());
            }
            queues.queues()[0].backlog().packets
        };
        let slow = policy(Some(1_000));
        let mut queues = DirectionQueues::new(vec![shaped(build(&slow), None)]);
        // A ceiling has credit for the time since zero, so that one frame of each class has left.
        assert_eq!(
            fill(&mut queues, &mut Exit { out: &mut out, pool: &mut pool, log: &mut log }),
            58
        );
        assert!(queues.next_event().unwrap() > now, "they wait for the ceilings");
        queues.set_shares(now, 0, &policy(Some(2_000)));
        assert_eq!(queues.queues()[0].backlog().packets, 58);
        queues.replace(now, 0, build(&of(Kind::Fifo)), &mut pool, &mut log);
        assert_eq!(queues.queues()[0].backlog().packets, 58);
        queues.replace(now, 0, build(&slow), &mut pool, &mut log);
        queues.set_shares(now, 0, &policy(None));
        queues.release(
            now,
            &mut Exit { out: &mut out, pool: &mut pool, log: &mut log },
            &mut |_, _| (),
        );
        assert_eq!((queues.counts().sent, queues.counts().dropped), (60, 0));
        out.drain(..).for_each(|frame| pool.release(frame));
        // At the end of the process ceilings do not hold frames back.
        queues.replace(now, 0, build(&slow), &mut pool, &mut log);
        assert_eq!(
            fill(&mut queues, &mut Exit { out: &mut out, pool: &mut pool, log: &mut log }),
            58
        );
        queues.lift_ceilings(now);
        queues.release(
            now,
            &mut Exit { out: &mut out, pool: &mut pool, log: &mut log },
            &mut |_, _| (),
        );
        assert_eq!(queues.queues()[0].backlog().packets, 0);
        out.drain(..).for_each(|frame| pool.release(frame));
        assert_eq!(pool.available(), chunks, "every frame came back");
    }

    #[test]
    fn packets_keep_their_order_without_a_limit_and_on_request() {
        let in_order = [[1; 10], [2; 10], [3; 10]].concat();
        assert_eq!(left(None, false), in_order);
        let rate = Some(Rate::from_mbps(1));
        assert_eq!(left(rate, true), in_order);
        assert_ne!(left(rate, false), in_order, "in turns");
    }
}
