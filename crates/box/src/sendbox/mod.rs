//! The sendbox: a wire between two interfaces that queues each bundle and lets it out at the rate
//! its control loop says.

mod bundle;
mod classifier;
mod logs;
mod policy;
mod schedule;
mod tree;

use std::collections::{HashMap, VecDeque};
use std::io::Write;

use forebay_dataplane::packet_log::{Fate, Record};
use forebay_dataplane::record::{Event, HopCounters, KernelDrops};
use forebay_dataplane::wait::{Waiter, precise_timers};
use forebay_dataplane::{Frame, Packet, Pool, Port, clock, port};
use forebay_queue::{DropReason, Packet as _};
use forebay_units::Nanos;
use forebay_wire::feedback::{BundleId, bundle_of};
use forebay_wire::{Frame as Parsed, fingerprint};

pub use self::logs::LogPaths;
pub use self::tree::plan;

use self::bundle::Bundle;
use self::classifier::Classifier;
use self::logs::Logs;
use self::schedule::Schedule;
use crate::Error;
use crate::channel::Channel;
use crate::config::SendboxConfig;
use crate::random;
use crate::signals::Signals;

/// How often each bundle's rate is set (Bundler section 6.2).
const TICK: Nanos = Nanos::from_millis(10);
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

/// Runs a sendbox until SIGTERM or SIGINT.
///
/// When it forwards, it says so on standard output as a line of JSON.
///
/// # Errors
/// If it cannot be set up, in which case everything is as it was; or if a log cannot be written.
pub fn run(config: SendboxConfig, paths: &LogPaths) -> Result<(), Error> {
    let signals = Signals::block().map_err(Error::Signals)?;
    let mut sendbox = Sendbox::new(config, paths)?;
    println!(
        "{}",
        serde_json::json!({
            "event": "ready",
            "inside": sendbox.ports[INSIDE].describe(),
            "outside": sendbox.ports[OUTSIDE].describe(),
        })
    );
    // Nobody may be listening any more; that is no reason not to forward.
    let _ = std::io::stdout().flush();
    sendbox.forward(&signals)?;
    sendbox.finish(paths)
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
    bundles: Vec<Bundle>,
    by_id: HashMap<BundleId, usize>,
    schedule: Schedule,
    channel: Option<Channel>,
    busy_poll: bool,
    logs: Logs,
    policy_drops: u64,
    marked: u64,
    kernel: KernelDrops,
}

impl Sendbox {
    fn new(config: SendboxConfig, paths: &LogPaths) -> Result<Self, Error> {
        let channel = config.listen.map(Channel::bind).transpose()?;
        let queued: u64 = config.bundles.iter().map(|b| policy::capacity(&b.policy)).sum();
        let classifier = Classifier::new(&config.bundles);
        let now = clock::now();
        let bundles = config.bundles.into_iter().map(|b| Bundle::new(b, random::number(), now));
        let bundles = bundles.collect::<Result<Vec<_>, _>>()?;
        let netdevs = [config.inside, config.outside];
        let mtu = netdevs[INSIDE].mtu.max(netdevs[OUTSIDE].mtu);
        let mut pool = Pool::new((queued + SPARE_CHUNKS).min(MAX_CHUNKS) as u32, mtu)?;
        Ok(Self {
            logs: Logs::create(paths)?,
            ports: port::open(&netdevs, config.method, &mut pool)?,
            // What comes before there are ports was never ours to lose.
            kernel: KernelDrops::from_now(&netdevs)?,
            pool,
            out: [VecDeque::with_capacity(2 * PENDING), VecDeque::with_capacity(2 * PENDING)],
            classifier,
            schedule: Schedule::new(bundles.len()),
            by_id: bundles.iter().enumerate().map(|(i, b)| (b.id(), i)).collect(),
            bundles,
            channel,
            busy_poll: config.busy_poll,
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
        descriptors.extend(self.channel.as_ref().map(Channel::descriptor));
        let first_port = descriptors.len();
        let mut port_of = Vec::new();
        for (i, port) in self.ports.iter().enumerate() {
            descriptors.extend(port.descriptors());
            port_of.resize(descriptors.len() - first_port, i);
        }
        let mut waiter = Waiter::new(descriptors);
        let mut batch = Vec::with_capacity(BATCH);
        let mut next_tick = clock::now() + TICK;
        while !(waiter.is_ready(SIGNALS) && signals.came()) {
            let now = clock::now();
            self.take_outbound(now, &mut batch)?;
            self.take_inbound(&mut batch);
            if waiter.is_ready(CHANNEL) {
                self.take_feedback(now);
            }
            if now >= next_tick {
                self.tick(now)?;
                // Ticks that were missed are not made up for.
                next_tick = if next_tick + TICK > now { next_tick + TICK } else { now + TICK };
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
            waiter.wait_until(if self.busy_poll { Nanos::ZERO } else { due.min(next_tick) });
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
            let bundle = &mut self.bundles[index];
            let mut drops = Dropped::new(now, &mut self.pool, &mut self.logs);
            bundle.enqueue(now, packet, &mut |p, r| drops.take(p, r));
            self.policy_drops += drops.finish()?;
            self.schedule.set(index, bundle.next_event(now));
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

    fn take_feedback(&mut self, now: Nanos) {
        let Some(channel) = &self.channel else { return };
        while let Some(datagram) = channel.receive() {
            let index = bundle_of(datagram.bytes()).ok().and_then(|id| self.by_id.get(&id));
            match index {
                Some(&index) => self.bundles[index].on_message(now, datagram.bytes(), channel),
                None => tracing::debug!("a message from {} is for no bundle here", datagram.from),
            }
        }
    }

    /// Lets out what the bundles' shapers allow by now.
    fn release_due(&mut self, now: Nanos) -> Result<(), Error> {
        while self.has_room(OUTSIDE)
            && let Some(index) = self.schedule.pop(now)
        {
            let bundle = &mut self.bundles[index];
            let mut drops = Dropped::new(now, &mut self.pool, &mut self.logs);
            let packet = bundle.dequeue(now, &mut |p, r| drops.take(p, r));
            self.policy_drops += drops.finish()?;
            if let Some(packet) = packet {
                self.marked += u64::from(packet.is_marked());
                self.logs.packet(&record(now, &packet, Fate::Sent))?;
                self.out[OUTSIDE].push_back(packet.into_frame(&mut self.pool));
            }
            self.schedule.set(index, bundle.next_event(now));
        }
        Ok(())
    }

    fn tick(&mut self, now: Nanos) -> Result<(), Error> {
        let Some(channel) = &self.channel else { return Ok(()) };
        for (index, bundle) in self.bundles.iter_mut().enumerate() {
            let logs = &mut self.logs;
            bundle.tick(now, channel, |name, event| logs.event(|| Event::new(now, name, event)))?;
            self.schedule.set(index, bundle.next_event(now));
            self.logs.tick(|| bundle.record(now))?;
        }
        Ok(())
    }

    fn finish(mut self, paths: &LogPaths) -> Result<(), Error> {
        for bundle in &self.bundles {
            tracing::info!("{}", bundle.summary());
        }
        let queued: u64 = self.bundles.iter().map(|b| b.backlog().packets).sum();
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
