//! The laboratory's link: a process that acts as the network between two sites.
//!
//! Frames from the left and from the ports of other senders share a bottleneck queue and leave on
//! the right after the propagation delay. Frames from the right are only delayed. The queue is one
//! of this project or of the kernel. The link records the fate of each packet; the estimates of the
//! boxes are compared with this record.

mod bottleneck;
mod bottleneck_queue;
mod ends;
mod journal;
mod kernel;
mod spec;
mod waiting;

use std::collections::VecDeque;
use std::io::{self, BufRead, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use forebay_dataplane::{Frame, KernelDrops, Method, Netdev, Pool, Port, Totals, open_ports};
use forebay_records::HopCounters;
use forebay_system::clock;
use forebay_system::wait::{Waiter, precise_timers};
use forebay_units::Nanos;

pub use self::spec::{BottleneckSpec, LinkSpec};

use self::bottleneck::Bottleneck;
use self::bottleneck_queue::BottleneckQueue;
use self::ends::Ends;
use self::journal::Journal;
use self::kernel::KernelQueue;

/// Why a link cannot run, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The specification on standard input is invalid.
    #[error("the link's specification cannot be read: {0}")]
    Spec(#[source] io::Error),
    /// A port cannot be opened or used.
    #[error(transparent)]
    Dataplane(#[from] forebay_dataplane::Error),
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

/// Runs a link. It reads a [`LinkSpec`] from standard input, reports that it is ready, and when
/// standard input ends it writes its results and ends.
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
    link.forward()?;
    link.finish(&spec)
}

/// A frame on its way over the link.
struct InFlight {
    due: Nanos,
    frame: Frame,
}

struct Link {
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    /// Frames that arrived at the other end and wait for the port to take them.
    out: Vec<VecDeque<Frame>>,
    queue: Box<dyn BottleneckQueue>,
    delay: Nanos,
    rightward: VecDeque<InFlight>,
    leftward: VecDeque<InFlight>,
    ends: Ends,
    journal: Journal,
    /// The number of extra copies of frames that go to all senders.
    copies: u64,
    kernel: KernelDrops,
}

impl Link {
    fn new(spec: &LinkSpec) -> Result<Self, LinkError> {
        let names = [&spec.left, &spec.right].into_iter().chain(&spec.others);
        let netdevs: Vec<_> = names.map(|n| Netdev::find(n)).collect::<Result<_, _>>()?;
        let mtu = netdevs.iter().map(|n| n.mtu).max().unwrap_or(0);
        let mut pool = spec.pool(mtu)?;
        let queue: Box<dyn BottleneckQueue> = match &spec.queue {
            BottleneckSpec::Forebay { queue } => {
                let queue = queue.build().map_err(LinkError::Queue)?;
                Box::new(Bottleneck::new(queue, spec.rate()))
            }
            BottleneckSpec::Kernel { entry, exit } => {
                let [entry, exit] = [Netdev::find(entry)?, Netdev::find(exit)?];
                Box::new(KernelQueue::new(&entry, &exit, spec.rate(), &mut pool)?)
            }
        };
        Ok(Self {
            ports: open_ports(&netdevs, Method::Auto, &mut pool)?,
            // Drops before the ports were open do not count.
            kernel: KernelDrops::from_now(&netdevs)?,
            pool,
            out: netdevs.iter().map(|_| VecDeque::new()).collect(),
            queue,
            delay: spec.delay(),
            rightward: VecDeque::new(),
            leftward: VecDeque::new(),
            ends: Ends::default(),
            journal: Journal::create(spec.packet_log.clone(), spec.packet_limit)?,
            copies: 0,
        })
    }

    fn forward(&mut self) -> Result<(), LinkError> {
        precise_timers();
        let mut descriptors = vec![io::stdin().as_raw_fd()];
        let mut port_of = vec![];
        for (i, port) in self.ports.iter().enumerate() {
            descriptors.extend(port.descriptors());
            port_of.resize(descriptors.len() - 1, i);
        }
        descriptors.extend(self.queue.descriptors());
        let mut waiter = Waiter::new(descriptors);
        let mut batch = Vec::with_capacity(BATCH);
        while !waiter.is_ready(0) {
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
            let due = now + self.delay;
            self.leftward.extend(batch.drain(..).map(|frame| InFlight { due, frame }));
            self.deliver(now);
            for (port, out) in self.ports.iter_mut().zip(&mut self.out) {
                port.send(&mut self.pool, out);
            }
            for (k, &port) in port_of.iter().enumerate() {
                waiter.set(1 + k, true, !self.out[port].is_empty());
            }
            waiter.wait_until(self.next_event());
        }
        Ok(())
    }

    /// Passes arriving frames to the bottleneck.
    fn enter(&mut self, now: Nanos, from: usize, batch: &mut Vec<Frame>) -> Result<(), LinkError> {
        if batch.is_empty() {
            return Ok(());
        }
        self.serve(now)?;
        for frame in batch.drain(..) {
            self.ends.learn(self.pool.bytes(&frame), from);
            self.queue.enter(now, frame, from as u8, &mut self.pool, &mut self.journal)?;
        }
        Ok(())
    }

    /// Puts frames on the wire that left the bottleneck by `now`.
    fn serve(&mut self, now: Nanos) -> Result<(), LinkError> {
        while let Some((frame, end)) = self.queue.leave(now, &mut self.pool, &mut self.journal)? {
            self.rightward.push_back(InFlight { due: end + self.delay, frame });
        }
        Ok(())
    }

    /// Delivers frames that reach the other end.
    fn deliver(&mut self, now: Nanos) {
        while self.rightward.front().is_some_and(|f| f.due <= now) {
            self.out[RIGHT].extend(self.rightward.pop_front().map(|f| f.frame));
        }
        while self.leftward.front().is_some_and(|f| f.due <= now) {
            let Some(InFlight { frame, .. }) = self.leftward.pop_front() else { return };
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
    /// times are computed, and the first one is delivered one propagation delay later.
    fn next_event(&self) -> Nanos {
        let departure = self.queue.next_event().map(|t| t + self.delay);
        let rightward = self.rightward.front().map(|f| f.due).or(departure);
        let leftward = self.leftward.front().map(|f| f.due);
        rightward.into_iter().chain(leftward).min().unwrap_or(Nanos::MAX)
    }

    fn finish(mut self, spec: &LinkSpec) -> Result<(), LinkError> {
        self.queue.settle(&mut self.pool, &mut self.journal)?;
        let pending: usize = self.out.iter().map(VecDeque::len).sum();
        let in_flight = self.rightward.len() + self.leftward.len();
        let Totals { received, sent, lost } = Totals::of(&mut self.ports, &self.kernel);
        let counters = HopCounters {
            hop: "link".to_owned(),
            received: received + self.copies,
            sent,
            policy_drops: self.journal.drops,
            marked: Some(self.journal.marks),
            queued: self.queue.queued() + (pending + in_flight) as u64,
            lost: lost + self.queue.lost(),
            ..HopCounters::default()
        };
        let path = &spec.counters;
        counters.write(path).map_err(|source| LinkError::Write { path: path.clone(), source })?;
        self.journal.finish()
    }
}
