//! A sendbox whose packets are in user space: a wire between two ports, with a queue and a shaper for
//! each bundle.

use std::collections::VecDeque;
use std::net::SocketAddr;

use forebay_dataplane::packet_log::{Fate, Record};
use forebay_dataplane::record::{HopCounters, KernelDrops};
use forebay_dataplane::wait::{Waiter, precise_timers};
use forebay_dataplane::{Frame, Netdev, Packet, Pool, Port, clock, port};
use forebay_queue::{DropReason, Packet as _, Qdisc, TokenBucket, token_bucket};
use forebay_units::Nanos;
use forebay_wire::{Frame as Parsed, fingerprint};

use super::bundles::Bundles;
use super::classifier::Classifier;
use super::logs::{LogPaths, Logs};
use super::policy::{self, BoxedQdisc};
use super::schedule::Schedule;
use super::{TICK, next_tick, say_ready};
use crate::Error;
use crate::config::{BundleConfig, Ports};
use crate::random;
use crate::signals::Signals;

/// Frames taken from a port at a time.
const BATCH: usize = 256;
/// Frames that wait for a port that has no room. While so many wait, none are taken in for it, so
/// that what must be dropped is dropped by a queueing policy or counted by the kernel.
const PENDING: usize = 1024;
/// Chunks beyond what the bundles' queues hold: the rings of both ports, and frames on their way.
const SPARE_CHUNKS: u64 = 16_384;
/// No more chunks than these are mapped: 4 GB of 2 kB each. Queues that could hold more find the
/// pool empty when all are full at once; ports then stop receiving.
const MAX_CHUNKS: u64 = 1 << 21;
/// What the packet log calls traffic of no bundle, and of bundles past the 255th.
const NO_BUNDLE: u8 = 255;

/// Runs until a signal comes.
pub(super) fn run(
    outside: Netdev,
    ports: Ports,
    listen: Option<SocketAddr>,
    bundles: Vec<BundleConfig>,
    paths: &LogPaths,
    signals: &Signals,
) -> Result<(), Error> {
    let mut sendbox = Sendbox::new(outside, ports, listen, bundles, paths)?;
    say_ready(&serde_json::json!({
        "event": "ready",
        "inside": sendbox.ports[INSIDE].describe(),
        "outside": sendbox.ports[OUTSIDE].describe(),
    }));
    sendbox.forward(signals)?;
    sendbox.finish(paths)
}

/// The chunks that frames of `bundles` need.
pub(crate) fn chunks(bundles: &[BundleConfig]) -> u32 {
    let queued: u64 = bundles.iter().map(|b| policy::capacity(&b.policy)).sum();
    (queued + SPARE_CHUNKS).min(MAX_CHUNKS) as u32
}

const INSIDE: usize = 0;
const OUTSIDE: usize = 1;

struct Sendbox {
    /// Before the pool: ports give their chunks up before the memory goes.
    ports: Vec<Box<dyn Port>>,
    pool: Pool,
    /// Frames on their way out of each port.
    out: [VecDeque<Frame>; 2],
    classifier: Classifier,
    bundles: Bundles,
    /// Of each bundle.
    queues: Vec<TokenBucket<BoxedQdisc>>,
    schedule: Schedule,
    busy_poll: bool,
    logs: Logs,
    policy_drops: u64,
    marked: u64,
    kernel: KernelDrops,
}

impl Sendbox {
    fn new(
        outside: Netdev,
        ports: Ports,
        listen: Option<SocketAddr>,
        configs: Vec<BundleConfig>,
        paths: &LogPaths,
    ) -> Result<Self, Error> {
        let chunks = chunks(&configs);
        let classifier = Classifier::new(&configs);
        let qdisc = |b: &BundleConfig| policy::build(&b.name, &b.policy, random::number());
        let qdiscs = configs.iter().map(qdisc).collect::<Result<Vec<_>, _>>()?;
        let bundles = Bundles::new(configs, listen, clock::now())?;
        let shaped = |(index, qdisc)| {
            let rate = bundles.get(index).rate();
            TokenBucket::new(token_bucket::Config { rate, ..Default::default() }, qdisc)
        };
        let queues: Vec<_> = qdiscs.into_iter().enumerate().map(shaped).collect();
        let Ports { inside, method, busy_poll } = ports;
        let netdevs = [inside, outside];
        let mtu = netdevs[INSIDE].mtu.max(netdevs[OUTSIDE].mtu);
        let mut pool = Pool::new(chunks, mtu)?;
        Ok(Self {
            logs: Logs::create(paths)?,
            ports: port::open(&netdevs, method, &mut pool)?,
            // What comes before there are ports was never ours to lose.
            kernel: KernelDrops::from_now(&netdevs)?,
            pool,
            out: [VecDeque::with_capacity(2 * PENDING), VecDeque::with_capacity(2 * PENDING)],
            classifier,
            schedule: Schedule::new(queues.len()),
            bundles,
            queues,
            busy_poll,
            policy_drops: 0,
            marked: 0,
        })
    }

    fn forward(&mut self, signals: &Signals) -> Result<(), Error> {
        precise_timers();
        // Signals and channel are the first two, and are asked only when there is something to be
        // had: a system call on every turn would be a tenth of what a packet costs.
        const SIGNALS: usize = 0;
        const CHANNEL: usize = 1;
        let mut descriptors = vec![signals.descriptor()];
        descriptors.extend(self.bundles.descriptor());
        let first_port = descriptors.len();
        let mut port_of = Vec::new();
        for (i, port) in self.ports.iter().enumerate() {
            descriptors.extend(port.descriptors());
            port_of.resize(descriptors.len() - first_port, i);
        }
        let mut waiter = Waiter::new(descriptors);
        let mut batch = Vec::with_capacity(BATCH);
        let mut due_tick = clock::now() + TICK;
        while !(waiter.is_ready(SIGNALS) && signals.came()) {
            let now = clock::now();
            self.take_outbound(now, &mut batch)?;
            self.take_inbound(&mut batch);
            if waiter.is_ready(CHANNEL) {
                self.bundles.take_feedback(now);
            }
            if now >= due_tick {
                self.tick(now)?;
                due_tick = next_tick(due_tick, now);
            }
            self.release_due(now)?;
            for (port, out) in self.ports.iter_mut().zip(&mut self.out) {
                port.send(&mut self.pool, out);
            }
            for (k, &port) in port_of.iter().enumerate() {
                // What cannot be passed on yet must not wake us either.
                waiter.set(first_port + k, self.has_room(1 - port), !self.out[port].is_empty());
            }
            let room = self.has_room(OUTSIDE);
            let due = self.schedule.next().filter(|_| room).unwrap_or(Nanos::MAX);
            waiter.wait_until(if self.busy_poll { Nanos::ZERO } else { due.min(due_tick) });
        }
        Ok(())
    }

    /// Whether frames may be taken in that could go out of `port`.
    fn has_room(&self, port: usize) -> bool {
        self.out[port].len() < PENDING
    }

    /// From the site: into the bundles' queues, or straight out.
    fn take_outbound(&mut self, now: Nanos, batch: &mut Vec<Frame>) -> Result<(), Error> {
        if !self.has_room(OUTSIDE) {
            return Ok(());
        }
        self.ports[INSIDE].receive(&mut self.pool, batch, BATCH);
        for frame in batch.drain(..) {
            let bytes = self.pool.bytes(&frame);
            let Ok(Parsed::Ip(headers)) = Parsed::parse(bytes) else {
                self.out[OUTSIDE].push_back(frame);
                continue;
            };
            let Some((index, class)) = self.classifier.classify(&headers) else {
                self.out[OUTSIDE].push_back(frame);
                continue;
            };
            let fingerprint = fingerprint(bytes, &headers);
            let mut packet = Packet::new(frame, Some(&headers), now).in_class(class);
            packet.fingerprint = fingerprint;
            packet.source = u8::try_from(index).unwrap_or(NO_BUNDLE);
            let queue = &mut self.queues[index];
            let mut drops = Dropped::new(now, &mut self.pool, &mut self.logs);
            queue.enqueue(now, packet, &mut |p, r| drops.take(p, r));
            self.policy_drops += drops.finish()?;
            self.schedule.set(index, queue.next_event(now));
        }
        Ok(())
    }

    /// From the network: straight in.
    fn take_inbound(&mut self, batch: &mut Vec<Frame>) {
        if self.has_room(INSIDE) {
            self.ports[OUTSIDE].receive(&mut self.pool, batch, BATCH);
            self.out[INSIDE].extend(batch.drain(..));
        }
    }

    /// Lets out what the bundles' shapers allow by now.
    fn release_due(&mut self, now: Nanos) -> Result<(), Error> {
        while self.has_room(OUTSIDE)
            && let Some(index) = self.schedule.pop(now)
        {
            let queue = &mut self.queues[index];
            let mut drops = Dropped::new(now, &mut self.pool, &mut self.logs);
            let packet = queue.dequeue(now, &mut |p, r| drops.take(p, r));
            self.policy_drops += drops.finish()?;
            if let Some(packet) = packet {
                self.bundles.get_mut(index).on_sent(now, packet.counted, packet.fingerprint);
                self.marked += u64::from(packet.is_marked());
                self.logs.packet(&record(now, &packet, Fate::Sent))?;
                self.out[OUTSIDE].push_back(packet.into_frame(&mut self.pool));
            }
            self.schedule.set(index, queue.next_event(now));
        }
        Ok(())
    }

    fn tick(&mut self, now: Nanos) -> Result<(), Error> {
        for (index, queue) in self.queues.iter_mut().enumerate() {
            let backlog = queue.backlog().bytes;
            queue.set_rate(now, self.bundles.tick(index, now, backlog, &mut self.logs)?);
            self.schedule.set(index, queue.next_event(now));
        }
        Ok(())
    }

    fn finish(mut self, paths: &LogPaths) -> Result<(), Error> {
        self.bundles.log_summaries();
        let queued: u64 = self.queues.iter().map(|q| q.backlog().packets).sum();
        let pending: usize = self.out.iter().map(VecDeque::len).sum();
        let counters = HopCounters {
            policy_drops: self.policy_drops,
            marked: Some(self.marked),
            queued: queued + pending as u64,
            ..HopCounters::new("sendbox", &mut self.ports, &self.kernel)
        };
        tracing::info!("{counters:?}");
        if let Some(path) = &paths.counters {
            counters.write(path).map_err(|source| Error::Write { path: path.clone(), source })?;
        }
        self.logs.finish()
    }
}

/// Takes back the packets that a queue drops.
struct Dropped<'a> {
    now: Nanos,
    pool: &'a mut Pool,
    logs: &'a mut Logs,
    count: u64,
    written: Result<(), Error>,
}

impl<'a> Dropped<'a> {
    fn new(now: Nanos, pool: &'a mut Pool, logs: &'a mut Logs) -> Self {
        Self { now, pool, logs, count: 0, written: Ok(()) }
    }

    fn take(&mut self, packet: Packet, reason: DropReason) {
        tracing::trace!("dropped: {reason}");
        self.count += 1;
        if self.written.is_ok() {
            self.written = self.logs.packet(&record(self.now, &packet, Fate::Dropped));
        }
        let frame = packet.into_frame(self.pool);
        self.pool.release(frame);
    }

    /// How many there were, once all are logged.
    fn finish(self) -> Result<u64, Error> {
        self.written.map(|()| self.count)
    }
}

fn record(now: Nanos, packet: &Packet, fate: Fate) -> Record {
    Record {
        time: now,
        sojourn: now.saturating_sub(packet.arrived),
        len: packet.len(),
        source: packet.source,
        fate,
    }
}
