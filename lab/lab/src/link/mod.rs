//! The laboratory's link: a process that acts as the network between two sites.
//!
//! Frames from the left and from the ports of other senders share a bottleneck queue, or one of
//! several parallel ones, and leave on the right after the propagation delay. Frames from the right
//! are only delayed. The queue is one of this project or of the kernel. The simulator's code
//! decides when a packet leaves and arrives, or that the wire loses it. The link records the fate
//! of each packet; the estimates of the boxes are compared with this record.

mod bottleneck;
mod bottleneck_queue;
mod control;
mod ends;
mod in_flight;
mod journal;
mod kernel;
mod spec;
mod waiting;
mod way;
mod way_back;
mod wire;

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use forebay_dataplane::{Frame, KernelDrops, Method, Netdev, Pool, Port, Totals, open_ports};
use forebay_records::HopCounters;
use forebay_sim::{Policer, Random, SetupError};
use forebay_system::clock;
use forebay_system::signals::Signals;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_units::{Bytes, Nanos};
use forebay_wire::{Frame as Parsed, Ports};

pub use self::spec::{
    BottleneckSpec, LaterSpec, LinkSpec, LossLimits, OutageSpec, RouteSpec, WaySpec,
};

use self::bottleneck_queue::{Sent, refuse};
use self::control::{Control, Instruction};
use self::ends::Ends;
use self::in_flight::InFlight;
use self::journal::Journal;
use self::way::Ways;
use self::way_back::WayBack;
use self::wire::RunPropagation;

/// Why a link cannot run, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The specification on standard input is invalid.
    #[error("the link's specification cannot be read: {0}")]
    Spec(#[source] io::Error),
    /// A port cannot be opened or used.
    #[error(transparent)]
    Dataplane(#[from] forebay_dataplane::Error),
    /// The wire rejects its settings.
    #[error("the bottleneck's wire: {0}")]
    Wire(#[from] SetupError),
    /// The queue of the way back rejects its settings.
    #[error("the queue of the way back: {0}")]
    WayBack(String),
    /// The queue rejects its settings.
    #[error("the bottleneck's queue: {0}")]
    Queue(forebay_discipline::BuildError),
    /// A result file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

const LEFT: usize = 0;
const RIGHT: usize = 1;
/// The number of frames taken from a port at once.
const BATCH: usize = 256;

/// Runs a link. It reads a [`LinkSpec`] from standard input, reports that it is ready, reads the
/// [`Start`] of the run, and when standard input ends it writes its results and ends.
///
/// # Errors
///
/// If it cannot be set up, or its results cannot be written.
pub fn main() -> Result<(), LinkError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(LinkError::Spec)?;
    let spec: LinkSpec = serde_json::from_str(&line).map_err(|e| LinkError::Spec(e.into()))?;
    let mut link = Link::new(&spec)?;
    println!("{}", serde_json::json!({ "event": "ready" }));
    io::stdout().flush().map_err(LinkError::Spec)?;
    link.forward(&Control::Parent)?;
    link.finish(&spec)
}

/// Runs a link on its own, whose run starts now, until a signal comes. It calls `ready` when it
/// forwards. At the end it writes its results.
///
/// # Errors
///
/// If it cannot be set up, or its results cannot be written.
pub fn run(spec: &LinkSpec, signals: Signals, ready: impl FnOnce()) -> Result<(), LinkError> {
    let mut link = Link::new(spec)?;
    link.start_at(clock::now());
    ready();
    link.forward(&Control::Signals(signals))?;
    link.finish(spec)
}

struct Link {
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    /// Frames that arrived at the other end and wait for the port to take them.
    out: Vec<VecDeque<Frame>>,
    ways: Ways,
    policer: Option<Policer>,
    way_back: Option<WayBack>,
    /// What the round trips of the hosts behind each port are longer than the path's.
    longer: Vec<Nanos>,
    to_left: RunPropagation,
    /// The ways back of traffic whose own is longer.
    later: Vec<Later>,
    rightward: InFlight,
    leftward: InFlight,
    /// The share of feedback that is lost on the way back, and the port by which it is recognised.
    feedback_loss: f64,
    feedback_port: u16,
    random: Random,
    /// The number of frames that the wire lost.
    lost: u64,
    /// The start of the run, if it has started.
    started: Option<Nanos>,
    outage: Option<OutageSpec>,
    ends: Ends,
    journal: Journal,
    /// The number of extra copies of frames that go to all senders.
    copies: u64,
    kernel: KernelDrops,
}

/// The way back of traffic whose own is longer than the path's.
struct Later {
    ports: RangeInclusive<u16>,
    way: RunPropagation,
}

impl Later {
    /// Whether one of the two ports is the traffic's.
    fn has(&self, ports: Option<Ports>) -> bool {
        ports.is_some_and(|p| self.ports.contains(&p.source) || self.ports.contains(&p.destination))
    }
}

impl Link {
    fn new(spec: &LinkSpec) -> Result<Self, LinkError> {
        let names = [&spec.left, &spec.right].into_iter().chain(&spec.others);
        let netdevs: Vec<_> = names.map(|n| Netdev::find(n)).collect::<Result<_, _>>()?;
        let mtu = netdevs.iter().map(|n| n.mtu).max().unwrap_or(0);
        let mut pool = spec.pool(mtu)?;
        let ways = Ways::new(spec, &mut pool)?;
        let to_left = |stream, later| {
            let changes = spec
                .routes
                .iter()
                .map(|route| (Nanos(route.at_ns), (Nanos(route.rtt_ns) / 2).saturating_add(later)));
            let mut config = spec.leftward();
            config.delay = config.delay.saturating_add(later);
            RunPropagation::new(config, Random::new(spec.seed, stream), changes)
        };
        let later = (4..).zip(&spec.later).map(|(stream, later)| {
            Ok(Later {
                ports: later.first_port..=later.last_port,
                way: to_left(stream, Nanos(later.by_ns))?,
            })
        });
        Ok(Self {
            ports: open_ports(&netdevs, Method::Auto, &mut pool)?,
            // Drops before the ports were open do not count.
            kernel: KernelDrops::from_now(&netdevs)?,
            pool,
            out: netdevs.iter().map(|_| VecDeque::new()).collect(),
            ways,
            policer: spec.policer.map(Policer::new).transpose()?,
            way_back: WayBack::new(spec.back, spec.back_queue.as_ref())?,
            longer: spec.longer_ns.iter().copied().map(Nanos).collect(),
            to_left: to_left(2, Nanos::ZERO)?,
            later: later.collect::<Result<_, SetupError>>()?,
            rightward: InFlight::default(),
            leftward: InFlight::default(),
            feedback_loss: spec.feedback_loss,
            feedback_port: spec.feedback_port,
            random: Random::new(spec.seed, 3),
            lost: 0,
            started: None,
            outage: spec.outage,
            ends: Ends::default(),
            journal: Journal::create(spec.packet_log.clone(), spec.packet_limit)?,
            copies: 0,
        })
    }

    fn forward(&mut self, control: &Control) -> Result<(), LinkError> {
        precise_timers();
        let mut descriptors = vec![control.descriptor()];
        let mut port_of = vec![];
        for (i, port) in self.ports.iter().enumerate() {
            descriptors.extend(port.descriptors());
            port_of.resize(descriptors.len() - 1, i);
        }
        descriptors.extend(self.ways.all.iter().flat_map(|way| way.queue.descriptors()));
        let mut waiter = Waiter::new(descriptors);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            if waiter.is_ready(0) {
                match control.read().map_err(LinkError::Spec)? {
                    Instruction::Start(start) => self.start_at(start),
                    Instruction::End => return Ok(()),
                    Instruction::Continue => {}
                }
            }
            // The time is read after the frames are received. If it were read before, it would be
            // too early for frames that arrive in between, and the path would be shorter for them
            // by the time that this process waited.
            for from in (0..self.ports.len()).filter(|port| *port != RIGHT) {
                self.ports[from].receive(&mut self.pool, &mut batch, BATCH);
                self.enter(clock::now(), from, &mut batch)?;
            }
            self.ports[RIGHT].receive(&mut self.pool, &mut batch, BATCH);
            let now = clock::now();
            self.serve(now)?;
            self.serve_back(now);
            for frame in batch.drain(..) {
                match &mut self.way_back {
                    Some(back) => back.enter(now, frame, &mut self.pool),
                    None => self.send_back(now, frame),
                }
            }
            self.serve_back(now);
            self.deliver(now);
            for (port, out) in self.ports.iter_mut().zip(&mut self.out) {
                port.send(&mut self.pool, out);
            }
            for (k, &port) in port_of.iter().enumerate() {
                waiter.set(1 + k, true, !self.out[port].is_empty());
            }
            waiter.wait_until(self.next_event());
        }
    }

    fn start_at(&mut self, start: Nanos) {
        self.ways.start_at(start);
        self.to_left.start_at(start);
        self.later.iter_mut().for_each(|later| later.way.start_at(start));
        self.started = Some(start);
    }

    /// Returns the outage that is in progress at `time`.
    fn outage_at(&self, time: Nanos) -> Option<OutageSpec> {
        let start = self.started.filter(|start| *start <= time)?;
        self.outage.filter(|outage| outage.is_on(time - start))
    }

    /// Puts frames on their way that left the bottleneck of the way back by `now`.
    fn serve_back(&mut self, now: Nanos) {
        while let Some((frame, end)) =
            self.way_back.as_mut().and_then(|back| back.leave(now, &mut self.pool))
        {
            self.send_back(end, frame);
        }
    }

    /// Sends a frame, whose last bit is sent at `end`, on its way back.
    fn send_back(&mut self, end: Nanos, frame: Frame) {
        let is_lost = self.started.is_some()
            && self.feedback_loss > 0.0
            && is_for_port(self.pool.bytes(&frame), self.feedback_port)
            && self.random.chance(self.feedback_loss);
        let port = self.ends.find(self.pool.bytes(&frame));
        let longer = port.map_or(Nanos::ZERO, |port| self.longer(port)) / 2;
        let ports = self.later.first().and_then(|_| ports(self.pool.bytes(&frame)));
        let way = match self.later.iter_mut().find(|later| later.has(ports)) {
            Some(later) => &mut later.way,
            None => &mut self.to_left,
        };
        let arrival = way.arrival(end).filter(|_| !is_lost);
        match arrival.filter(|at| !self.outage_at(*at).is_some_and(|outage| outage.to_left)) {
            Some(due) => self.leftward.push(due.saturating_add(longer), frame),
            None => self.lose(frame),
        }
    }

    /// Returns what the round trips of the hosts behind `port` are longer than the path's.
    fn longer(&self, port: usize) -> Nanos {
        self.longer.get(port).copied().unwrap_or_default()
    }

    fn lose(&mut self, frame: Frame) {
        self.lost += 1;
        self.pool.release(frame);
    }

    /// Passes arriving frames to the bottleneck.
    fn enter(&mut self, now: Nanos, from: usize, batch: &mut Vec<Frame>) -> Result<(), LinkError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.serve(now)?;
        for frame in batch.drain(..) {
            self.ends.learn(self.pool.bytes(&frame), from);
            let (pool, journal) = (&mut self.pool, &mut self.journal);
            let len = Bytes(frame.len() as u64);
            let policer = self.policer.as_mut().filter(|_| self.started.is_some());
            if policer.is_none_or(|policer| policer.passes(now, len)) {
                let way = self.ways.choose(&frame, pool);
                way.queue.enter(now, frame, from as u8, pool, journal)?;
            } else {
                refuse(now, frame, from as u8, pool, journal)?;
            }
        }
        Ok(())
    }

    /// Puts frames on the wire that left the bottleneck by `now`.
    fn serve(&mut self, now: Nanos) -> Result<(), LinkError> {
        // A queue that drops its last packets lets none leave, and others may still be due.
        for _ in 0..self.ways.all.len() {
            // The records of several ways are in the order of departure.
            while let Some(way) = self.ways.next()
                && let Some(sent) = way.queue.leave(now, &mut self.pool, &mut self.journal)?
            {
                let Sent { frame, end, source } = sent;
                let arrival = way.to_right.arrival(end);
                let longer = self.longer(usize::from(source));
                match arrival.filter(|at| !self.outage_at(*at).is_some_and(|o| o.to_right)) {
                    Some(due) => self.rightward.push(due + (longer - longer / 2), frame),
                    None => self.lose(frame),
                }
            }
        }
        Ok(())
    }

    /// Delivers frames that reach the other end.
    fn deliver(&mut self, now: Nanos) {
        while let Some(frame) = self.rightward.pop(now) {
            self.out[RIGHT].push_back(frame);
        }
        while let Some(frame) = self.leftward.pop(now) {
            let others = RIGHT + 1..self.out.len();
            match self.ends.find(self.pool.bytes(&frame)) {
                Some(port) if !others.is_empty() => self.out[port].push_back(frame),
                _ => {
                    for port in others {
                        let bytes = self.pool.bytes(&frame).to_vec();
                        if let Some(copy) = self.pool.frame(&bytes) {
                            self.copies += 1;
                            self.out[port].push_back(copy);
                        }
                    }
                    self.out[LEFT].push_back(frame);
                }
            }
        }
    }

    /// Returns the time of the next delivery. Departures from the bottleneck need no wake-up: their
    /// times are computed, and the first one is delivered one propagation delay later. A frame that
    /// leaves later may only arrive earlier than one on its way if the delay varies.
    fn next_event(&mut self) -> Nanos {
        let departure = self.ways.next_arrival();
        let shortest = self.to_left.shortest();
        let back = self.way_back.as_mut().and_then(WayBack::next_event);
        let back = back.map(|time| time.saturating_add(shortest));
        let arrivals = [self.rightward.first(), departure, self.leftward.first(), back];
        arrivals.into_iter().flatten().min().unwrap_or(Nanos::MAX)
    }

    fn finish(mut self, spec: &LinkSpec) -> Result<(), LinkError> {
        for way in &mut self.ways.all {
            way.queue.settle(&mut self.pool, &mut self.journal)?;
        }
        let queues = || self.ways.all.iter().map(|way| &way.queue);
        let pending: usize = self.out.iter().map(VecDeque::len).sum();
        let in_flight = self.rightward.len() + self.leftward.len();
        let Totals { received, sent, lost } = Totals::of(&mut self.ports, &self.kernel);
        let counters = HopCounters {
            hop: "link".to_owned(),
            received: received + self.copies,
            sent,
            policy_drops: self.journal.drops + self.way_back.as_ref().map_or(0, |b| b.drops),
            marked: Some(self.journal.marks),
            queued: queues().map(|queue| queue.queued()).sum::<u64>()
                + self.way_back.as_ref().map_or(0, WayBack::queued)
                + (pending + in_flight) as u64,
            lost: lost + queues().map(|queue| queue.lost()).sum::<u64>() + self.lost,
            ..HopCounters::default()
        };
        let path = &spec.counters;
        counters.write(path).map_err(|source| LinkError::Write { path: path.clone(), source })?;
        self.journal.finish()
    }
}

/// Returns the ports of a TCP segment or UDP datagram.
fn ports(frame: &[u8]) -> Option<Ports> {
    match Parsed::parse(frame) {
        Ok(Parsed::Ip(headers)) => headers.ports,
        _ => None,
    }
}

/// Whether `frame` is a UDP datagram to `port`.
fn is_for_port(frame: &[u8], port: u16) -> bool {
    const UDP: u8 = 17;
    match Parsed::parse(frame) {
        Ok(Parsed::Ip(headers)) => {
            headers.protocol == UDP && headers.ports.is_some_and(|p| p.destination == port)
        }
        _ => false,
    }
}
