//! A wire between two ports with queues: the data path of a box in user space.
//!
//! One thread runs one loop: receive, decide, send, wait. A [`ForwardingHandler`] selects the queue
//! of each frame and sets the rates of queues. A sendbox has a queue for each bundle outward, a
//! link has one queue in each direction.

mod direction;
mod lateness;
mod schedule;

use forebay_dataplane::{
    Frame, KernelDrops, Netdev, Packet, Pool, Port, Presence, Totals, open_wire,
};
use forebay_queue::{InOrder, TokenBucket, token_bucket};
use forebay_records::HopCounters;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_system::{clock, notify};
use forebay_units::{Nanos, Rate};

pub(crate) use self::direction::{Counts, DirectionQueues};
use self::lateness::Lateness;

use crate::Error;
use crate::config::Ports;
use crate::logs::Packets;
use crate::policy::Queue;
use crate::privileges::Capability;
use crate::signals::Signals;
use crate::ticks;

/// A queue with its shaper.
pub(crate) type Shaped = TokenBucket<InOrder<Packet, Queue>>;

/// Shapes `queue` to `rate`; `None` is no limit.
pub(crate) fn shaped(queue: Queue, rate: Option<Rate>) -> Shaped {
    let config = token_bucket::Config { rate, ..Default::default() };
    TokenBucket::new(config, InOrder::new(queue))
}

/// The frames that are received from a port at a time.
const BATCH: usize = 256;
/// The chunks beside those of the queues: for the rings of both ports and for frames in transit.
const SPARE_CHUNKS: u64 = 16_384;

/// The time between two checks of the interfaces, and between two reports that this process is
/// alive. A report may be late by several times this before [`forebay_dataplane::SILENCE`] is over.
const CHECK: Nanos = Nanos::from_millis(100);
/// The longest time that a box takes at its end to send the frames that it has.
const LEAVE: Nanos = Nanos::from_millis(300);
/// The time between two attempts to send them.
const LEAVE_STEP: Nanos = Nanos::from_millis(1);

/// A direction of the wire. Its number is that of the port that its frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the inside to the outside.
    Outward,
    /// From the outside to the inside.
    Inward,
}

impl Direction {
    /// Both directions, in order of their numbers.
    pub(crate) const BOTH: [Self; 2] = [Self::Outward, Self::Inward];

    /// Returns the name in logs and records.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Outward => "outward",
            Self::Inward => "inward",
        }
    }

    /// Returns the number of the port at which the direction begins.
    fn entry(self) -> usize {
        self as usize
    }

    /// Returns the number of the port at which the direction ends.
    fn exit(self) -> usize {
        1 - self.entry()
    }
}

/// What becomes of a wire in user space when its process ends in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WireEnd {
    /// The programs stay and pass frames, as after a crash.
    #[default]
    Forwarding,
    /// The programs are taken away, and no frame passes.
    Unplugged,
}

impl WireEnd {
    /// Returns the rights that the end needs.
    pub(crate) const fn rights(self) -> &'static [Capability] {
        match self {
            Self::Forwarding => &[],
            Self::Unplugged => &[Capability::NetAdmin],
        }
    }
}

/// A frame and the queue for it.
pub(crate) struct Place {
    /// The number of the queue in its direction.
    pub(crate) queue: usize,
    /// The frame as a packet of the queue.
    pub(crate) packet: Packet,
}

/// Returns the number of chunks for queues that hold at most `capacity` frames of `mtu` bytes. If
/// queues need more than a pool can have, the pool runs empty and ports stop receiving.
pub(crate) fn chunks(capacity: u64, mtu: u32) -> u32 {
    (capacity + SPARE_CHUNKS).min(u64::from(Pool::max_chunks(mtu))) as u32
}

/// Selects the queues of frames, and is told which packets left.
pub(crate) trait ForwardingHandler {
    /// The time between two calls of [`ForwardingHandler::on_tick`].
    const TICK: Nanos;

    /// Selects the queue of `frame`, which arrived at `now`; returns the frame if it is to be sent
    /// at once.
    fn place(
        &self,
        now: Nanos,
        direction: Direction,
        frame: Frame,
        pool: &Pool,
    ) -> Result<Place, Frame>;

    /// Notes that a packet of `queue` is being sent.
    fn on_sent(&mut self, now: Nanos, direction: Direction, queue: usize, packet: &Packet);

    /// Handles a tick, at which it may change the rates of queues.
    fn on_tick(&mut self, now: Nanos, directions: &mut [DirectionQueues; 2]);

    /// Changes the queues if a new configuration asks for it. It is called after each tick.
    fn reload(&mut self, _now: Nanos, _signals: &Signals, _queues: &mut Outward<'_>) {}

    /// Returns the handler's own socket, if it has one.
    fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// Handles messages at that socket.
    fn on_readable(&mut self) {}
}

/// The queues of the outward direction, with what a change of them needs.
pub(crate) struct Outward<'a> {
    pub(crate) queues: &'a mut DirectionQueues,
    pub(crate) pool: &'a mut Pool,
    pub(crate) packets: &'a mut Packets,
}

/// The wire and its queues.
pub(crate) struct Forwarder {
    /// The ports, which are dropped before the pool: they still use its memory.
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    directions: [DirectionQueues; 2],
    interfaces: [Presence; 2],
    busy_poll: bool,
    packets: Packets,
    kernel: KernelDrops,
}

impl Forwarder {
    /// Opens the ports. `directions` are the queues of both directions, which hold at most
    /// `capacity` packets.
    pub(crate) fn open(
        outside: Netdev,
        ports: Ports,
        directions: [Vec<Shaped>; 2],
        capacity: u64,
        packets: Packets,
    ) -> Result<Self, Error> {
        let Ports { inside, method, busy_poll } = ports;
        let mtu = inside.mtu.max(outside.mtu);
        let netdevs = [inside, outside];
        let mut pool = Pool::new(chunks(capacity, mtu), mtu)?;
        let mut ports = open_wire(&netdevs, method, &mut pool)?;
        ports.iter_mut().for_each(|port| port.report_alive(clock::now()));
        // Frames that arrive before the ports are open do not count as lost.
        let kernel = KernelDrops::from_now(&netdevs)?;
        let [inside, outside] = netdevs;
        Ok(Self {
            ports,
            kernel,
            interfaces: [Presence::new(inside)?, Presence::new(outside)?],
            pool,
            directions: directions.map(DirectionQueues::new),
            busy_poll,
            packets,
        })
    }

    /// Prints on standard output that it forwards.
    pub(crate) fn say_ready(&self) {
        let describe = |direction: Direction| self.ports[direction.entry()].describe();
        crate::say_ready(&serde_json::json!({
            "event": "ready",
            "inside": describe(Direction::Outward),
            "outside": describe(Direction::Inward),
        }));
    }

    /// Forwards until a signal arrives.
    ///
    /// # Errors
    /// If an interface was removed, or its frames no longer fit into the pool. The process then
    /// ends, so that its service manager starts another, which opens the interfaces again.
    pub(crate) fn run<D: ForwardingHandler>(
        &mut self,
        handler: &mut D,
        signals: &Signals,
    ) -> Result<(), Error> {
        precise_timers();
        // Signals and the handler's socket are the first two descriptors. They are read only when
        // they are ready: a system call in every turn would be a tenth of the cost of a packet.
        const SIGNALS: usize = 0;
        const HANDLER: usize = 1;
        let mut descriptors = vec![signals.descriptor()];
        descriptors.extend(handler.descriptor());
        let has_socket = descriptors.len() > HANDLER;
        let first_port = descriptors.len();
        let mut port_of = Vec::new();
        for (i, port) in self.ports.iter().enumerate() {
            descriptors.extend(port.descriptors());
            port_of.resize(descriptors.len() - first_port, i);
        }
        let mut waiter = Waiter::new(descriptors);
        let mut batch = Vec::with_capacity(BATCH);
        let mut due_tick = clock::now() + D::TICK;
        let mut due_check = clock::now();
        let mut usable = Ok(());
        while usable.is_ok() && !(waiter.is_ready(SIGNALS) && signals.came()) {
            let now = clock::now();
            if now >= due_check {
                due_check = now + CHECK;
                self.ports.iter_mut().for_each(|port| port.report_alive(now));
                usable = self.interfaces.iter().try_for_each(|port| port.check_fits(&self.pool));
            }
            for direction in Direction::BOTH {
                self.take_in(now, direction, handler, &mut batch);
            }
            if has_socket && waiter.is_ready(HANDLER) {
                handler.on_readable();
            }
            if now >= due_tick {
                handler.on_tick(now, &mut self.directions);
                let Self { directions: [queues, _], pool, packets, .. } = self;
                handler.reload(now, signals, &mut Outward { queues, pool, packets });
                notify::alive(now);
                due_tick = ticks::next(due_tick, D::TICK, now);
            }
            for direction in Direction::BOTH {
                self.release(now, direction, handler);
            }
            for direction in Direction::BOTH {
                let out = self.directions[direction as usize].out_mut();
                self.ports[direction.exit()].send(&mut self.pool, out);
            }
            for (k, &port) in port_of.iter().enumerate() {
                // A port is read for the direction that begins at it, unless frames of that
                // direction cannot be passed on yet. It is written for the other direction.
                let [begins, ends] = [&self.directions[port], &self.directions[1 - port]];
                waiter.set(first_port + k, begins.has_room(), ends.is_pending());
            }
            let due = self.directions.iter_mut().filter_map(DirectionQueues::next_event).min();
            let until = due.unwrap_or(Nanos::MAX).min(due_tick).min(due_check);
            waiter.wait_until(if self.busy_poll { Nanos::ZERO } else { until });
        }
        self.leave(handler, &mut batch);
        Ok(usable?)
    }

    /// Lets new frames pass without this process, and sends those that are here.
    fn leave<D: ForwardingHandler>(&mut self, handler: &mut D, batch: &mut Vec<Frame>) {
        self.kernel.stop();
        self.ports.iter_mut().for_each(|port| port.bypass());
        let start = clock::now();
        let rates = self.directions.each_ref().map(DirectionQueues::rates);
        for queues in &mut self.directions {
            queues.set_limit(start, None, |_| None);
            queues.lift_ceilings(start);
            (0..queues.queues().len()).for_each(|index| queues.set_rate(start, index, None));
        }
        self.send_all(start, handler, batch);
        // The statistics of the whole time have the rates that were in force.
        for (queues, rates) in self.directions.iter_mut().zip(rates) {
            for (index, rate) in rates.into_iter().enumerate() {
                queues.set_rate(clock::now(), index, rate);
            }
        }
    }

    /// Sends the frames that are here, for a while at most.
    fn send_all<D: ForwardingHandler>(
        &mut self,
        start: Nanos,
        handler: &mut D,
        batch: &mut Vec<Frame>,
    ) {
        let mut now = start;
        while now < start + LEAVE {
            for direction in Direction::BOTH {
                self.take_in(now, direction, handler, batch);
                self.release(now, direction, handler);
                let out = self.directions[direction as usize].out_mut();
                self.ports[direction.exit()].send(&mut self.pool, out);
            }
            let waits = self.directions.iter().any(|queues| queues.queued() > 0);
            if !waits && !self.ports.iter_mut().any(|port| port.is_sending(&mut self.pool)) {
                return;
            }
            Waiter::default().wait_until(now + LEAVE_STEP);
            now = clock::now();
        }
    }

    /// Receives frames of `direction` and queues them.
    fn take_in<D: ForwardingHandler>(
        &mut self,
        now: Nanos,
        direction: Direction,
        handler: &mut D,
        batch: &mut Vec<Frame>,
    ) {
        let queues = &mut self.directions[direction as usize];
        if !queues.has_room() {
            return;
        }
        self.ports[direction.entry()].receive(&mut self.pool, batch, BATCH);
        for frame in batch.drain(..) {
            match handler.place(now, direction, frame, &self.pool) {
                Err(frame) => queues.pass(frame),
                Ok(place) => {
                    let mut sent = |queue: usize, packet: &Packet| {
                        handler.on_sent(now, direction, queue, packet);
                    };
                    queues.take_in(now, place, &mut self.pool, &mut self.packets, &mut sent);
                }
            }
        }
    }

    /// Dequeues the packets that the shapers allow by now.
    fn release<D: ForwardingHandler>(&mut self, now: Nanos, direction: Direction, handler: &mut D) {
        let queues = &mut self.directions[direction as usize];
        let mut sent = |queue: usize, packet: &Packet| {
            handler.on_sent(now, direction, queue, packet);
        };
        queues.release(now, &mut self.pool, &mut self.packets, &mut sent);
    }

    /// Returns the queues of both directions.
    pub(crate) fn directions_mut(&mut self) -> &mut [DirectionQueues; 2] {
        &mut self.directions
    }

    /// Takes the programs off the interfaces when the ports are closed.
    pub(crate) fn unplug(&mut self) {
        self.ports.iter_mut().for_each(|port| port.unplug());
    }

    /// Closes the ports, and returns the account of all packets of this hop, `hop`, and the log of
    /// packets.
    pub(crate) fn finish(mut self, hop: &str) -> (HopCounters, Packets) {
        let mut late = Lateness::default();
        self.directions.iter().for_each(|queues| late.add(&queues.lateness()));
        let sum = |of: fn(&DirectionQueues) -> u64| self.directions.iter().map(of).sum::<u64>();
        let Totals { received, sent, lost } = Totals::of(&mut self.ports, &self.kernel);
        let counters = HopCounters {
            hop: hop.to_owned(),
            received,
            sent,
            lost,
            policy_drops: sum(|w| w.counts().dropped),
            marked: Some(sum(|w| w.counts().marked)),
            queued: sum(DirectionQueues::queued),
            late: late.figures(),
            ..HopCounters::default()
        };
        tracing::info!(
            "{hop}: {received} frames received, {sent} sent, {lost} lost, {} dropped and {} marked \
             by the policy, {} still waiting",
            counters.policy_drops,
            counters.marked.unwrap_or_default(),
            counters.queued,
        );
        (counters, self.packets)
    }
}
