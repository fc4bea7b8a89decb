//! A sendbox in user space: a wire between two ports, with a queue and a shaper for each bundle
//! outward.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_dataplane::Framing;
use forebay_queue::Qdisc;
use forebay_records::NotUnderstood;
use forebay_system::clock;
use forebay_units::{Bytes, Nanos, Rate};
use forebay_wire::FingerprintKey;

use super::Start;
use super::bundle::QueueTotals;
use super::bundles::Bundles;
use super::classifier::Classifier;
use super::departures::{Boundary, Departures};
use super::logs::Logs;
use super::rules::{Owners, Rules};
use crate::Error;
use crate::channel::Channel;
use crate::commands::Commands;
use crate::config::{BundleConfig, Ports};
use crate::forward::{self, Borrowed, ForwardingHandler, Lane, Outward, Wire, WireEnd, Workers};
use crate::logs::{Account, Packets};
use crate::memory::PathMemory;
use crate::not_understood::{self, NotUnderstoodLog};
use crate::policy::{self, Queue};
use crate::privileges;
use crate::random;
use crate::reload::{Contents, Difference, Refused, Reloader, Step, Words};
use crate::resolver::Resolver;
use crate::signals::Signals;
use crate::status::State;

/// The packets for which the frames' memory has room beside those of the queues at the start, so
/// that bundles can come while the sendbox runs.
const ROOM: u64 = 16_384;
/// The least number of bundles for which a running sendbox has room.
const LEAST_BUNDLES: usize = 64;

/// Runs until a signal arrives.
pub(super) fn run(start: Start<'_>, ports: Ports, end: WireEnd) -> Result<(), Error> {
    let Start {
        role,
        outside,
        channel,
        bundles: configs,
        limit,
        reloader,
        resolver,
        paths,
        signals,
        mut handed,
        memory,
    } = start;
    let capacity = capacity(&configs) + ROOM;
    let room = LEAST_BUNDLES.max(2 * configs.len());
    let classifier = Arc::new(Classifier::new(configs.iter().enumerate()));
    let queues = configs.iter().map(build).collect::<Result<Vec<_>, _>>()?;
    let (configs, header) = (configs.into_iter().enumerate(), Framing::Ethernet.header());
    let now = clock::now();
    let bundles = Bundles::new(configs.collect(), channel, header, now, &mut handed, &memory)?;
    let packets = Packets::create(paths.packets.as_deref())?;
    let account = Account::create(paths.counters.as_deref())?;
    let interfaces = vec![outside.name.clone(), ports.inside.name.clone()];
    let commands = Commands::open(role, interfaces);
    let logs = Logs::create(paths)?;
    let outside_name = outside.name.clone();
    let workers = ports.workers();
    let wire = Wire::open(outside, ports, workers, capacity, packets)?;
    let mut sendbox = Sendbox {
        classifier,
        owners: Owners::new(wire.workers(), limit.is_some()),
        keys: Vec::new(),
        bundles,
        reloader,
        memory,
        resolver,
        limit,
        capacity,
        room,
        logs,
        commands,
        outside: outside_name,
        not_understood: Arc::default(),
        log: NotUnderstoodLog::new(not_understood::Direction::Leaving),
        backlogs: Vec::new(),
        rates: Vec::new(),
    };
    let lanes = sendbox.lanes(wire.workers(), queues);
    let rules = sendbox.rules();
    let mut forwarder = wire.with(lanes, rules)?;
    sendbox.set_limit(clock::now(), &mut forwarder.workers().all_lanes());
    privileges::keep_only(end.rights());
    forwarder.start_threads()?;
    privileges::restrict(&[]);
    forwarder.say_ready();
    handed.report();
    let ended = forwarder.run(&mut sendbox, signals);
    sendbox.commands.close();
    // A process that takes over finds the programs.
    if end == WireEnd::Unplugged && ended.is_ok() && !sendbox.commands.has_successor() {
        forwarder.unplug();
    }
    sendbox.collect(&mut forwarder.workers().all_lanes());
    sendbox.memory.write(sendbox.bundles.known_paths());
    sendbox.bundles.log_summaries();
    let (counters, packets) = forwarder.finish("sendbox");
    let logged = sendbox.logs.finish();
    account.write(&counters)?;
    // The ports are closed, so that another process can open them.
    let socket = sendbox.bundles.channel().map(Channel::socket);
    sendbox.commands.hand_over(sendbox.bundles.handover(), Vec::new(), socket);
    ended.and(logged).and(packets.finish())
}

/// Builds the queue of a bundle.
fn build(bundle: &BundleConfig) -> Result<Queue, Error> {
    Queue::build(&format!("bundle {}", bundle.name), &bundle.policy, random::number())
}

/// Returns the number of chunks for the frames of `bundles`.
pub(crate) fn chunks(bundles: &[BundleConfig], mtu: u32) -> u32 {
    forward::chunks(capacity(bundles) + ROOM, mtu)
}

/// Returns the number of packets that the queues of `bundles` can hold.
fn capacity(bundles: &[BundleConfig]) -> u64 {
    bundles.iter().map(|b| policy::capacity(&b.policy)).sum()
}

struct Sendbox {
    classifier: Arc<Classifier>,
    owners: Owners,
    /// The keys of fingerprints that the workers have.
    keys: Vec<Option<FingerprintKey>>,
    bundles: Bundles,
    reloader: Reloader,
    memory: PathMemory,
    resolver: Resolver,
    /// The common limit of all bundles.
    limit: Option<Rate>,
    /// The number of packets for which the frames' memory has room.
    capacity: u64,
    /// The number of bundles for which there is room.
    room: usize,
    logs: Logs,
    commands: Commands,
    outside: String,
    /// The number of frames towards the network in which no IP packet was found.
    not_understood: Arc<AtomicU64>,
    log: NotUnderstoodLog,
    /// The backlog of each bundle at the present tick, and the rate that follows from it.
    backlogs: Vec<Bytes>,
    rates: Vec<Option<Rate>>,
}

impl ForwardingHandler for Sendbox {
    type Rules = Rules;
    type Notes = Departures;

    const TICK: Nanos = super::TICK;

    /// Runs the control loops. Workers only wait while their counters are read and their rates are
    /// set.
    fn on_tick(&mut self, now: Nanos, workers: &Workers<Rules, Departures>) {
        self.backlogs.clear();
        for worker in 0..workers.count() {
            let lane = &mut *workers.lane(worker);
            self.collect_lane(worker, lane);
            for (queue, shaped) in lane.outward().queues().iter().enumerate() {
                let number = self.owners.bundle(worker, queue);
                self.backlogs.resize(self.backlogs.len().max(number + 1), Bytes::ZERO);
                self.backlogs[number] = shaped.backlog().bytes;
            }
        }
        self.rates.clear();
        for (number, &backlog) in self.backlogs.iter().enumerate() {
            self.rates.push(self.bundles.tick(number, now, backlog, &mut self.logs));
        }
        for worker in 0..workers.count() {
            let lane = &mut *workers.lane(worker);
            for queue in 0..lane.outward().queues().len() {
                let number = self.owners.bundle(worker, queue);
                let Some(bundle) = self.bundles.get(number) else { continue };
                lane.outward().set_rate(now, queue, self.rates[number]);
                // Below a common limit the bundle waits here, and its policy decides.
                let keep = self.limit.is_none() && bundle.keeps_order();
                lane.outward().keep_order(queue, keep);
                lane.notes.set_epoch(queue, bundle.epoch(), bundle.round_trip());
            }
        }
        if self.keys != self.present_keys() {
            workers.publish(self.rules());
        }
        let totals = |number| {
            let mut lane = workers.lane(self.owners.worker(number));
            let queue = self.owners.queue(number);
            let counts = lane.outward().counts_of(queue);
            let waits = lane.notes.of(queue).and_then(|bundle| bundle.waits);
            QueueTotals { dropped: Some(counts.dropped), marked: Some(counts.marked), waits }
        };
        let left = self.not_understood.load(Ordering::Relaxed);
        self.commands.serve(now, || {
            let not_understood = NotUnderstood { left, arrived: 0 };
            State {
                not_understood,
                hand_over_drops: (workers.count() > 1).then(|| workers.dropped()),
                sends: self.bundles.status(now, totals),
                receives: Vec::new(),
            }
        });
        self.log.note(&self.outside, left);
        self.memory.write_if_due(now, || self.bundles.known_paths());
        if let Some((name, to)) = self.resolver.poll(now, self.bundles.names(now)) {
            self.bundles.on_resolved(now, &name, to);
        }
    }

    fn reload(
        &mut self,
        now: Nanos,
        signals: &Signals,
        outward: &mut Outward<'_, Rules, Departures>,
    ) {
        if let Some(contents) = self.reloader.poll(signals, &mut self.commands) {
            let outcome = contents.and_then(|contents| self.change(now, contents, outward));
            if outcome.is_ok() {
                self.resolver.ask_again();
            }
            self.reloader.answer(&outcome, &self.commands);
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.bundles.descriptor()
    }

    fn on_readable(&mut self, workers: &Workers<Rules, Departures>) {
        // Feedback is about packets whose departure the control loops must know.
        for worker in 0..workers.count() {
            self.take_boundaries(worker, &mut workers.lane(worker).notes);
        }
        // Without a receivebox nothing can fail.
        let _ = self.bundles.take_messages(None);
    }
}

impl Sendbox {
    /// Deals the queues of all bundles out to `workers` workers.
    fn lanes(&self, workers: usize, queues: Vec<Queue>) -> Vec<Lane<Departures>> {
        let mut dealt: Vec<_> = (0..workers).map(|_| (Vec::new(), Departures::new())).collect();
        for (number, queue) in queues.into_iter().enumerate() {
            let (queues, departures) = &mut dealt[self.owners.worker(number)];
            if let Some(bundle) = self.bundles.get(number) {
                let kind = bundle.policy().discipline.kind;
                departures.begin(queues.len(), kind, bundle.epoch());
                queues.push(forward::shaped(queue, bundle.rate()));
            }
        }
        dealt.into_iter().map(|(queues, notes)| Lane::new([queues, Vec::new()], notes)).collect()
    }

    /// Returns the keys of the bundles' fingerprints.
    fn present_keys(&self) -> Vec<Option<FingerprintKey>> {
        let key = |number| self.bundles.get(number).map(|bundle| *bundle.fingerprint_key());
        (0..self.bundles.all().end()).map(key).collect()
    }

    /// Returns the rules for the workers, and remembers their keys.
    fn rules(&mut self) -> Rules {
        self.keys = self.present_keys();
        Rules {
            classifier: Arc::clone(&self.classifier),
            keys: self.keys.clone(),
            owners: self.owners,
            not_understood: Arc::clone(&self.not_understood),
        }
    }

    /// Tells the control loops which boundary packets left the queues of a worker.
    fn take_boundaries(&mut self, worker: usize, departures: &mut Departures) {
        for Boundary { queue, time, fingerprint, bytes, packets, flow } in departures.boundaries() {
            if let Some(bundle) = self.bundles.get_mut(self.owners.bundle(worker, queue)) {
                bundle.on_boundary(time, fingerprint, bytes, packets, Some(flow));
            }
        }
    }

    /// Tells the control loops all that left the queues of a worker.
    fn collect_lane(&mut self, worker: usize, lane: &mut Lane<Departures>) {
        self.take_boundaries(worker, &mut lane.notes);
        for queue in 0..lane.outward().queues().len() {
            let number = self.owners.bundle(worker, queue);
            if let (Some(bundle), Some(left)) = (self.bundles.get_mut(number), lane.notes.of(queue))
            {
                bundle.on_total(left.bytes, left.packets);
            }
        }
    }

    /// Tells the control loops all that left the queues of all workers.
    fn collect(&mut self, lanes: &mut [Borrowed<'_, Lane<Departures>>]) {
        for (worker, lane) in lanes.iter_mut().enumerate() {
            self.collect_lane(worker, lane);
        }
    }

    /// Sets the common limit of the queues, and the part of each bundle. The queue of a removed
    /// bundle keeps its part until it is empty.
    fn set_limit(&self, now: Nanos, lanes: &mut [Borrowed<'_, Lane<Departures>>]) {
        for (worker, lane) in lanes.iter_mut().enumerate() {
            lane.outward().set_limit(now, self.limit, |queue| {
                let number = self.owners.bundle(worker, queue);
                self.bundles.get(number).map(|bundle| bundle.config().share.into())
            });
        }
    }

    /// Applies a file. Everything that may refuse it is asked before anything changes. The queue of
    /// a removed bundle stays until it is empty, at the last rate. No worker takes a turn while the
    /// file is applied.
    fn change(
        &mut self,
        now: Nanos,
        contents: Contents,
        outward: &mut Outward<'_, Rules, Departures>,
    ) -> Result<Words, Refused> {
        let Contents { bundles, limit, .. } = contents;
        let wanted = capacity(&bundles);
        if wanted > self.capacity {
            return Err(Refused::restart(format!(
                "the queues could hold {wanted} packets, and the running process has memory for {}",
                self.capacity
            )));
        }
        if limit.is_some() && !self.owners.is_one() {
            return Err(Refused::restart(
                "with a common max_rate one thread has all bundles, and several have them now",
            ));
        }
        let Outward { workers, pool, packets } = outward;
        let owners = self.owners;
        let mut lanes = workers.all_lanes();
        // The totals of a bundle that goes are not those of the next one with its number.
        self.collect(&mut lanes);
        let is_free = |n: usize| {
            let queues = lanes[owners.worker(n)].directions[0].queues();
            queues.get(owners.queue(n)).is_none_or(|queue| queue.backlog().packets == 0)
        };
        let Difference { steps, words } = self.bundles.difference(bundles, self.room, is_free)?;
        let (mut built, mut shared) = (Vec::new(), Vec::new());
        for step in &steps {
            match step {
                Step::Add { number, config } => built.push((*number, true, build(config)?)),
                Step::Change { number, config, parts } if parts.policy => {
                    built.push((*number, false, build(config)?));
                }
                Step::Change { number, parts, .. } if parts.classes => shared.push(*number),
                Step::Change { .. } | Step::Remove { .. } => {}
            }
        }
        self.bundles.apply(now, steps).map_err(Refused::partly)?;
        // New bundles have rising numbers, so that each finds the numbers before it in use.
        for (number, is_new, policy) in built {
            let Some(bundle) = self.bundles.get(number) else { continue };
            let lane = &mut *lanes[owners.worker(number)];
            let (queue, kind) = (owners.queue(number), bundle.policy().discipline.kind);
            if is_new {
                lane.outward().put(queue, forward::shaped(policy, bundle.rate()));
                lane.notes.begin(queue, kind, bundle.epoch());
            } else {
                lane.outward().replace(now, queue, policy, pool, packets);
                lane.notes.set_kind(queue, kind);
            }
        }
        for number in shared {
            if let Some(bundle) = self.bundles.get(number) {
                let queues = lanes[owners.worker(number)].outward();
                queues.set_shares(now, owners.queue(number), &bundle.config().policy);
            }
        }
        let bundles = self.bundles.all().iter();
        self.classifier =
            Arc::new(Classifier::new(bundles.map(|(number, b)| (number, b.config()))));
        let before = std::mem::replace(&mut self.limit, limit);
        self.set_limit(now, &mut lanes);
        workers.publish(self.rules());
        Ok(Words::new(words, Vec::new()).with_limit(before, limit))
    }
}
