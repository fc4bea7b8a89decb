//! A wire between two ports with queues: the data path of a box in user space.
//!
//! One or several workers run a loop each: receive, decide, send, wait. Each serves receive queues
//! of its own, and owns some of the box's queues. [`Rules`] select the queue of each frame, and
//! [`Notes`] learn which packets left. The thread of the first worker also runs the box's
//! [`ForwardingHandler`], which sets the rates of queues. A sendbox has a queue for each bundle
//! outward, a link has one queue in each direction.

mod direction;
mod inbox;
mod lateness;
mod schedule;
mod turn_lock;
mod worker;
mod workers;

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use forebay_dataplane::{
    Frame, HEARTBEAT_TIMEOUT, KernelDrops, Netdev, Packet, Pool, Port, Presence, Totals, open_wire,
};
use forebay_queue::{InOrder, TokenBucket, token_bucket};
use forebay_records::HopCounters;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_system::{clock, notify};
use forebay_units::{Nanos, Rate};

pub(crate) use self::direction::{Counts, DirectionQueues};
use self::lateness::Lateness;
pub(crate) use self::turn_lock::Borrowed;
use self::worker::Sleep;
pub(crate) use self::worker::Worker;
pub(crate) use self::workers::{Lane, Workers};

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

/// The largest number of frames that wait for room in a port. At this number a worker receives no
/// more frames for it, so that the queueing policy drops frames or the kernel counts them.
const PENDING: usize = 1024;
/// The frames that are received from a port at a time.
const BATCH: usize = 256;
/// The chunks beside those of the queues: for the rings of both ports and for frames in transit.
const SPARE_CHUNKS: u64 = 16_384;
/// The chunks for each further worker: for its transmit rings, its inbox and its free chunks.
const WORKER_CHUNKS: u64 = 8_192;

/// The time between two checks of the interfaces, and between two reports that this process is
/// alive. It is a fraction of [`HEARTBEAT_TIMEOUT`], so that a report may be late.
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
    /// The number of the worker that has the queue.
    pub(crate) worker: usize,
    /// The number of the queue in its direction, among those of its worker.
    pub(crate) queue: usize,
    /// The frame as a packet of the queue.
    pub(crate) packet: Packet,
}

/// Returns the number of chunks for queues that hold at most `capacity` frames of `mtu` bytes. If
/// queues need more than a pool can have, the pool runs empty and ports stop receiving.
pub(crate) fn chunks(capacity: u64, mtu: u32) -> u32 {
    (capacity + SPARE_CHUNKS).min(u64::from(Pool::max_chunks(mtu))) as u32
}

/// Selects the queues of frames. All workers have the same rules.
pub(crate) trait Rules: Send + Sync + 'static {
    /// Selects the queue of `frame`, which arrived at `now`; returns the frame if it is to be sent
    /// at once. Only frames outward may be in a queue of another worker.
    fn place(
        &self,
        now: Nanos,
        direction: Direction,
        frame: Frame,
        pool: &Pool,
    ) -> Result<Place, Frame>;
}

/// What a box notes of the packets that leave the queues of one worker.
pub(crate) trait Notes: Send + 'static {
    /// Notes that a packet of `queue` is being sent.
    fn on_sent(&mut self, now: Nanos, direction: Direction, queue: usize, packet: &Packet);
}

/// Sets the rates of queues, and changes what workers do.
pub(crate) trait ForwardingHandler {
    type Rules: Rules;
    type Notes: Notes;

    /// The time between two calls of [`ForwardingHandler::on_tick`].
    const TICK: Nanos;

    /// Handles a tick, at which it may change the rates of queues.
    fn on_tick(&mut self, now: Nanos, workers: &Workers<Self::Rules, Self::Notes>);

    /// Changes the queues if a new configuration asks for it. It is called after each tick.
    fn reload(
        &mut self,
        _now: Nanos,
        _signals: &Signals,
        _outward: &mut Outward<'_, Self::Rules, Self::Notes>,
    ) {
    }

    /// Returns the handler's own socket, if it has one.
    fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        None
    }

    /// Handles messages at that socket.
    fn on_readable(&mut self, _workers: &Workers<Self::Rules, Self::Notes>) {}
}

/// The queues of the outward direction, with what a change of them needs.
pub(crate) struct Outward<'a, R, N> {
    pub(crate) workers: &'a Workers<R, N>,
    pub(crate) pool: &'a mut Pool,
    pub(crate) packets: &'a mut Packets,
}

/// Where packets go that leave a queue, or are dropped.
pub(crate) struct Exit<'a> {
    /// The frames that wait for the port.
    pub(crate) out: &'a mut VecDeque<Frame>,
    pub(crate) pool: &'a mut Pool,
    pub(crate) log: &'a mut Packets,
}

impl Exit<'_> {
    /// Whether the port takes another frame soon.
    fn has_room(&self) -> bool {
        self.out.len() < PENDING
    }
}

/// The open ports of a wire, before it has queues.
pub(crate) struct Wire {
    /// The ports, which are dropped before the pool: they still use its memory.
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    interfaces: [Presence; 2],
    busy_poll: bool,
    packets: Packets,
    kernel: KernelDrops,
    /// The number of workers that can share it.
    workers: usize,
}

impl Wire {
    /// Opens the ports of a wire for at most `most` workers, whose queues hold at most `capacity`
    /// packets.
    pub(crate) fn open(
        outside: Netdev,
        ports: Ports,
        most: usize,
        capacity: u64,
        packets: Packets,
    ) -> Result<Self, Error> {
        let Ports { inside, method, busy_poll, .. } = ports;
        let mtu = inside.mtu.max(outside.mtu);
        // The log of packets has one writer.
        let most = if packets.is_on() { 1 } else { most };
        let most = most.min(inside.queues as usize).min(outside.queues as usize);
        let further = WORKER_CHUNKS * (most as u64 - 1);
        let netdevs = [inside, outside];
        let mut pool = Pool::new(chunks(capacity + further, mtu), mtu)?;
        let mut ports = open_wire(&netdevs, method, &mut pool)?;
        ports.iter_mut().for_each(|port| port.report_alive(clock::now()));
        // Frames that arrive before the ports are open do not count as lost.
        let kernel = KernelDrops::from_now(&netdevs)?;
        let [inside, outside] = netdevs;
        Ok(Self {
            workers: ports.iter().map(|port| port.queues()).fold(most, usize::min),
            ports,
            kernel,
            interfaces: [Presence::new(inside)?, Presence::new(outside)?],
            pool,
            busy_poll,
            packets,
        })
    }

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Gives the workers their lanes, one for each of [`Wire::workers`], and their first rules.
    pub(crate) fn with<R: Rules, N: Notes>(
        self,
        lanes: Vec<Lane<N>>,
        rules: R,
    ) -> Result<Forwarder<R, N>, Error> {
        let Self { mut ports, mut pool, interfaces, busy_poll, packets, kernel, workers: count } =
            self;
        debug_assert_eq!(lanes.len(), count, "a worker has a lane");
        let workers = Workers::new(clock::now(), lanes, Arc::new(rules)).map_err(Error::Threads)?;
        let workers = Arc::new(workers);
        let mut parts: Vec<_> =
            ports.iter_mut().map(|port| port.split(count).into_iter()).collect();
        let others = (1..count).map(|number| {
            let ports = parts.iter_mut().filter_map(Iterator::next).collect();
            Worker::new(number, ports, pool.share(), Packets::off(), &workers)
        });
        let others = others.collect();
        if count > 1 {
            tracing::info!("{count} threads move packets");
        }
        Ok(Forwarder {
            first: Worker::new(0, ports, pool, packets, &workers),
            others,
            threads: Vec::new(),
            workers,
            interfaces,
            busy_poll,
            kernel,
        })
    }
}

/// The wire with its workers.
pub(crate) struct Forwarder<R, N> {
    /// The worker of the thread that ticks.
    first: Worker<R, N>,
    /// The other workers, before their threads begin and after these have ended.
    others: Vec<Worker<R, N>>,
    threads: Vec<JoinHandle<Worker<R, N>>>,
    workers: Arc<Workers<R, N>>,
    interfaces: [Presence; 2],
    busy_poll: bool,
    kernel: KernelDrops,
}

impl<R: Rules, N: Notes> Forwarder<R, N> {
    /// Prints on standard output that it forwards.
    pub(crate) fn say_ready(&self) {
        let describe = |direction: Direction| self.first.ports[direction.entry()].describe();
        crate::say_ready(&serde_json::json!({
            "event": "ready",
            "inside": describe(Direction::Outward),
            "outside": describe(Direction::Inward),
        }));
    }

    /// Returns what the workers share.
    pub(crate) fn workers(&self) -> &Workers<R, N> {
        &self.workers
    }

    /// Starts the threads of the other workers. They have the rights that this thread has now.
    pub(crate) fn start_threads(&mut self) -> Result<(), Error> {
        let busy_poll = self.busy_poll;
        for worker in self.others.drain(..) {
            let thread = thread::Builder::new().name("worker".to_owned());
            let thread = thread.spawn(move || worker.run(busy_poll)).map_err(Error::Threads)?;
            self.threads.push(thread);
        }
        Ok(())
    }

    /// Forwards until a signal arrives.
    ///
    /// # Errors
    /// If an interface was removed, or its frames no longer fit into the pool. The process then
    /// ends, so that its service manager starts another, which opens the interfaces again.
    pub(crate) fn run<D: ForwardingHandler<Rules = R, Notes = N>>(
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
        let mut sleep = Sleep::new(descriptors, &self.first);
        let mut due_tick = clock::now() + D::TICK;
        let mut due_check = clock::now();
        let mut drops = HandOverDrops::default();
        let mut usable = Ok(());
        while usable.is_ok() && !(sleep.is_ready(SIGNALS) && signals.came()) {
            let now = clock::now();
            if now >= due_check {
                due_check = now + CHECK;
                // A worker that hangs or has ended lets its frames wait, so that the programs must
                // take the whole process for dead.
                let alive = self.workers.alive_since().min(now);
                self.first.ports.iter_mut().for_each(|port| port.report_alive(alive));
                let pool = &self.first.pool;
                usable = self.interfaces.iter().try_for_each(|port| port.check_fits(pool));
                drops.note(now, self.workers.dropped());
                if self.threads.iter().any(JoinHandle::is_finished) {
                    break;
                }
            }
            if has_socket && sleep.is_ready(HANDLER) {
                handler.on_readable(&self.workers);
            }
            if now >= due_tick {
                handler.on_tick(now, &self.workers);
                let Worker { pool, packets, .. } = &mut self.first;
                handler.reload(
                    now,
                    signals,
                    &mut Outward { workers: &self.workers, pool, packets },
                );
                if now.saturating_sub(self.workers.alive_since()) < HEARTBEAT_TIMEOUT {
                    notify::alive(now);
                }
                // Their queues may have other rates.
                self.workers.wake();
                due_tick = ticks::next(due_tick, D::TICK, now);
            }
            self.first.turn(now);
            let until = due_tick.min(due_check);
            sleep.wait(&self.first, if self.busy_poll { Nanos::ZERO } else { until });
        }
        self.leave();
        Ok(usable?)
    }

    /// Lets new frames pass without this process, ends the other threads, and sends the frames that
    /// are here.
    fn leave(&mut self) {
        self.kernel.stop();
        self.first.ports.iter_mut().for_each(|port| port.bypass());
        self.workers.end();
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(worker) => self.others.push(worker),
                Err(panic) => resume_unwind(panic),
            }
        }
        let start = clock::now();
        let rates: Vec<_> =
            self.workers.all_lanes().iter_mut().map(|lane| open_queues(start, lane)).collect();
        self.send_all(start);
        // The statistics of the whole time have the rates that were in force.
        for (lane, rates) in self.workers.all_lanes().iter_mut().zip(rates) {
            for (queues, rates) in lane.directions.iter_mut().zip(rates) {
                for (index, rate) in rates.into_iter().enumerate() {
                    queues.set_rate(clock::now(), index, rate);
                }
            }
        }
    }

    fn all_workers(&mut self) -> impl Iterator<Item = &mut Worker<R, N>> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// Sends the frames that are here, for a while at most.
    fn send_all(&mut self, start: Nanos) {
        let mut now = start;
        while now < start + LEAVE {
            self.all_workers().for_each(|worker| worker.turn(now));
            let sends = |worker: &mut Worker<R, N>| {
                let Worker { ports, pool, .. } = worker;
                ports.iter_mut().any(|port| port.is_sending(pool))
            };
            if self.queued() == 0 && !self.all_workers().any(sends) {
                return;
            }
            Waiter::default().wait_until(now + LEAVE_STEP);
            now = clock::now();
        }
    }

    /// Returns the number of packets in the queues, before the ports and between workers.
    fn queued(&mut self) -> u64 {
        let queued =
            |lane: &Lane<N>| lane.directions.iter().map(DirectionQueues::queued).sum::<u64>();
        let in_queues: u64 = self.workers.all_lanes().iter().map(|lane| queued(lane)).sum();
        let before_ports: u64 = self.all_workers().map(|worker| worker.waiting()).sum();
        in_queues + before_ports + self.workers.handed()
    }

    /// Takes the programs off the interfaces when the ports are closed.
    pub(crate) fn unplug(&mut self) {
        self.first.ports.iter_mut().for_each(|port| port.unplug());
    }

    /// Closes the ports, and returns the account of all packets of this hop, `hop`, and the log of
    /// packets.
    pub(crate) fn finish(mut self, hop: &str) -> (HopCounters, Packets) {
        let queued = self.queued();
        let (mut late, mut counts) = (Lateness::default(), Counts::default());
        for queues in self.workers.all_lanes().iter().flat_map(|lane| &lane.directions) {
            late.add(&queues.lateness());
            counts = counts.and(&queues.counts());
        }
        let Self { mut first, others, workers, kernel, .. } = self;
        // The first worker's ports have the programs, and are dropped before the other ports.
        first.ports.extend(others.into_iter().flat_map(|worker| worker.ports));
        let Totals { received, sent, lost } = Totals::of(&mut first.ports, &kernel);
        let lost = lost + workers.dropped();
        let counters = HopCounters {
            hop: hop.to_owned(),
            received,
            sent,
            lost,
            policy_drops: counts.dropped,
            marked: Some(counts.marked),
            queued,
            late: late.figures(),
            ..HopCounters::default()
        };
        tracing::info!(
            "{hop}: {received} frames received, {sent} sent, {lost} lost, {} dropped and {} marked \
             by the policy, {} still waiting",
            counters.policy_drops,
            counts.marked,
            counters.queued,
        );
        (counters, first.packets)
    }
}

/// Lifts the limits of all queues of a lane; returns the rates that they had, by direction.
fn open_queues<N>(now: Nanos, lane: &mut Lane<N>) -> [Vec<Option<Rate>>; 2] {
    let rates = lane.directions.each_ref().map(DirectionQueues::rates);
    for queues in &mut lane.directions {
        queues.set_limit(now, None, |_| None);
        queues.lift_ceilings(now);
        (0..queues.queues().len()).for_each(|index| queues.set_rate(now, index, None));
    }
    rates
}

/// Says that packets were dropped between workers, at most once a minute.
#[derive(Default)]
struct HandOverDrops {
    said: u64,
    due: Nanos,
}

impl HandOverDrops {
    const AGAIN: Nanos = Nanos::from_secs(60);

    /// Notes the number of such packets so far.
    fn note(&mut self, now: Nanos, dropped: u64) {
        if dropped > self.said && now >= self.due {
            tracing::warn!(
                "{} packets were dropped since the thread that queues them has too much to do",
                dropped - self.said
            );
            (self.said, self.due) = (dropped, now + Self::AGAIN);
        }
    }
}
