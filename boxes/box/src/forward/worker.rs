//! A worker: it serves some receive queues of both ports, and owns the queues of some bundles.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use forebay_dataplane::{Frame, Packet, Pool, Port};
use forebay_system::clock;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_units::Nanos;

use super::workers::{Lane, Workers};
use super::{BATCH, CHECK, Direction, Exit, Notes, PENDING, Place, Rules};
use crate::logs::Packets;

/// The longest sleep of a worker that does not tick. Its turns say that it is alive.
const MAX_SLEEP: Nanos = Nanos(CHECK.0 / 4);

/// Receives and sends the frames of its receive queues, and queues the packets of its bundles.
/// Packets of other bundles go to their owner.
pub(crate) struct Worker<R, N> {
    number: usize,
    /// The inner and the outer port, which are dropped before the pool: they still use its memory.
    pub(super) ports: Vec<Box<dyn Port>>,
    pub(crate) pool: Pool,
    pub(super) packets: Packets,
    workers: Arc<Workers<R, N>>,
    rules: Arc<R>,
    version: u64,
    /// The frames of each direction that wait for their port.
    out: [VecDeque<Frame>; 2],
    /// The frames that were received.
    received: Vec<Frame>,
    /// The packets of this worker's queues that were received, by direction.
    own: [Vec<Place>; 2],
    /// The packets for each other worker.
    others: Vec<Vec<Place>>,
    /// The packets that others handed over.
    handed: Vec<Place>,
    /// The next time at which a queue of each direction may send.
    due: [Option<Nanos>; 2],
}

impl<R: Rules, N: Notes> Worker<R, N> {
    pub(crate) fn new(
        number: usize,
        ports: Vec<Box<dyn Port>>,
        pool: Pool,
        packets: Packets,
        workers: &Arc<Workers<R, N>>,
    ) -> Self {
        Self {
            number,
            ports,
            pool,
            packets,
            rules: workers.rules(),
            version: 0,
            out: [(); 2].map(|()| VecDeque::with_capacity(2 * PENDING)),
            received: Vec::with_capacity(BATCH),
            own: Default::default(),
            others: (0..workers.count()).map(|_| Vec::new()).collect(),
            handed: Vec::new(),
            due: [None; 2],
            workers: Arc::clone(workers),
        }
    }

    /// Whether frames may be received for this direction.
    fn has_room(&self, direction: Direction) -> bool {
        self.out[direction as usize].len() < PENDING
    }

    /// Receives, queues and sends what it can at `now`.
    pub(crate) fn turn(&mut self, now: Nanos) {
        self.workers.report_alive(self.number, now);
        if let Some(rules) = self.workers.new_rules(&mut self.version) {
            self.rules = rules;
        }
        for direction in Direction::BOTH {
            if self.has_room(direction) {
                self.receive(now, direction);
            }
        }
        self.hand_over();
        self.queue(now);
        for direction in Direction::BOTH {
            let out = &mut self.out[direction as usize];
            self.ports[direction.exit()].send(&mut self.pool, out);
        }
    }

    /// Receives frames of `direction`, and sorts them by the worker that has their queue. Frames
    /// without a queue are sent by this worker.
    fn receive(&mut self, now: Nanos, direction: Direction) {
        let Self { pool, received, .. } = self;
        self.ports[direction.entry()].receive(pool, received, BATCH);
        for frame in received.drain(..) {
            match self.rules.place(now, direction, frame, pool) {
                Err(frame) => self.out[direction as usize].push_back(frame),
                Ok(place) if place.worker == self.number => {
                    self.own[direction as usize].push(place);
                }
                Ok(place) => {
                    debug_assert_eq!(direction, Direction::Outward, "bundles are outward");
                    self.others[place.worker].push(place);
                }
            }
        }
    }

    /// Hands packets over to the workers that have their queues. Those that find no room are
    /// dropped.
    fn hand_over(&mut self) {
        for (inbox, packets) in self.workers.inboxes.iter().zip(&mut self.others) {
            if !packets.is_empty() {
                inbox.put(packets);
                for Place { packet, .. } in packets.drain(..) {
                    let frame = packet.into_frame(&mut self.pool);
                    self.pool.release(frame);
                }
            }
        }
    }

    /// Queues the packets that have arrived, and dequeues those that may leave by now.
    fn queue(&mut self, now: Nanos) {
        if self.has_room(Direction::Outward) {
            self.workers.inboxes[self.number].take(&mut self.handed);
        }
        let mut lane = self.workers.lanes[self.number].own();
        let Lane { directions, notes } = &mut *lane;
        for direction in Direction::BOTH {
            let queues = &mut directions[direction as usize];
            let Self { pool, packets: log, out, .. } = self;
            let mut exit = Exit { out: &mut out[direction as usize], pool, log };
            let mut sent = |queue: usize, packet: &Packet| {
                notes.on_sent(now, direction, queue, packet);
            };
            let handed = match direction {
                Direction::Outward => &mut self.handed,
                Direction::Inward => &mut Vec::new(),
            };
            for place in self.own[direction as usize].drain(..).chain(handed.drain(..)) {
                queues.take_in(now, place, &mut exit, &mut sent);
            }
            queues.release(now, &mut exit, &mut sent);
            self.due[direction as usize] = queues.next_event();
        }
    }

    /// Returns the next time at which a queue may send a frame for which its port has room.
    fn next_event(&self) -> Option<Nanos> {
        let with_room = Direction::BOTH.into_iter().filter(|direction| self.has_room(*direction));
        with_room.filter_map(|direction| self.due[direction as usize]).min()
    }

    /// Returns the number of frames that wait for the ports.
    pub(crate) fn waiting(&self) -> u64 {
        self.out.iter().map(|out| out.len() as u64).sum()
    }

    /// Runs until the workers are asked to end, in a thread of its own.
    pub(super) fn run(mut self, busy_poll: bool) -> Self {
        precise_timers();
        let mut sleep = Sleep::new(Vec::new(), &self);
        while !self.workers.is_ending() {
            let now = clock::now();
            self.turn(now);
            let until = if busy_poll { Nanos::ZERO } else { now + MAX_SLEEP };
            sleep.wait(&self, until);
        }
        self
    }
}

/// The descriptors for which a worker waits: some of its thread, the worker's bell, then those of
/// its ports.
pub(super) struct Sleep {
    waiter: Waiter,
    bell: usize,
    /// The port of each descriptor after the bell.
    port_of: Vec<usize>,
}

impl Sleep {
    /// Makes the set of a worker whose thread also waits for `descriptors`.
    pub(super) fn new<R, N>(mut descriptors: Vec<RawFd>, worker: &Worker<R, N>) -> Self {
        let bell = descriptors.len();
        descriptors.push(worker.workers.inboxes[worker.number].bell().descriptor());
        let mut port_of = Vec::new();
        for (number, port) in worker.ports.iter().enumerate() {
            let before = descriptors.len();
            descriptors.extend(port.descriptors());
            port_of.extend((before..descriptors.len()).map(|_| number));
        }
        Self { waiter: Waiter::new(descriptors), bell, port_of }
    }

    /// Whether the thread's own descriptor at `index` was ready when the last wait ended.
    pub(super) fn is_ready(&self, index: usize) -> bool {
        self.waiter.is_ready(index)
    }

    /// Waits until there is something to do for the worker or its thread, but not beyond `until`.
    pub(super) fn wait<R: Rules, N: Notes>(&mut self, worker: &Worker<R, N>, until: Nanos) {
        for (index, &port) in self.port_of.iter().enumerate() {
            // A port is read for the direction that begins at it, unless frames of that direction
            // cannot be passed on yet. It is written for the other direction.
            let [begins, ends] = [&worker.out[port], &worker.out[1 - port]];
            let (data, room) = (begins.len() < PENDING, !ends.is_empty());
            self.waiter.set(self.bell + 1 + index, data, room);
        }
        let inbox = &worker.workers.inboxes[worker.number];
        let may_sleep = inbox.bell().arm();
        let is_handed = inbox.len() > 0 && worker.has_room(Direction::Outward);
        let due = worker.next_event().unwrap_or(Nanos::MAX).min(until);
        self.waiter.wait_until(if may_sleep && !is_handed { due } else { Nanos::ZERO });
        inbox.bell().disarm(self.waiter.is_ready(self.bell));
    }
}
