//! A sendbox in user space: a wire between two ports, with a queue and a shaper for each bundle
//! outward.

use std::cell::Cell;
use std::os::fd::RawFd;

use forebay_dataplane::{Frame, Framing, Packet, Pool};
use forebay_queue::{Packet as _, Qdisc};
use forebay_records::NotUnderstood;
use forebay_system::clock;
use forebay_units::{Nanos, Rate};
use forebay_wire::{Frame as Parsed, fingerprint};

use super::Start;
use super::bundle::{ControlledBundle, QueueTotals};
use super::bundles::Bundles;
use super::classifier::Classifier;
use super::logs::Logs;
use super::waits::Transfers;
use crate::Error;
use crate::channel::Channel;
use crate::classes;
use crate::config::{BundleConfig, Ports};
use crate::forward::{
    self, Direction, DirectionQueues, Forwarder, ForwardingHandler, Outward, Place, WireEnd,
};
use crate::handover::Successor;
use crate::logs::{Account, Packets};
use crate::memory::PathMemory;
use crate::not_understood::{self, NotUnderstoodLog};
use crate::policy::{self, Queue};
use crate::privileges;
use crate::random;
use crate::reload::{Contents, Difference, Refused, Reloader, Step, Words};
use crate::resolver::Resolver;
use crate::signals::Signals;
use crate::status::{State, StatusSocket};

/// The source in the packet log of bundles beyond the 255th.
const NO_BUNDLE: u8 = 255;

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
    let classifier = Classifier::new(configs.iter().enumerate());
    let queues = configs.iter().map(build).collect::<Result<Vec<_>, _>>()?;
    let (configs, header) = (configs.into_iter().enumerate(), Framing::Ethernet.header());
    let now = clock::now();
    let bundles = Bundles::new(configs.collect(), channel, header, now, &mut handed, &memory)?;
    let rate = |number| bundles.get(number).and_then(ControlledBundle::rate);
    let shaped = |(number, queue)| forward::shaped(queue, rate(number));
    let queues = queues.into_iter().enumerate().map(shaped).collect();
    let packets = Packets::create(paths.packets.as_deref())?;
    let account = Account::create(paths.counters.as_deref())?;
    let interfaces = vec![outside.name.clone(), ports.inside.name.clone()];
    let successor = Successor::open(role, &interfaces);
    let status = StatusSocket::open(role, interfaces);
    let mut sendbox = Sendbox {
        classifier,
        bundles,
        reloader,
        memory,
        resolver,
        limit,
        capacity,
        room,
        logs: Logs::create(paths)?,
        transfers: Transfers::new(),
        status,
        successor,
        outside: outside.name.clone(),
        not_understood: Cell::new(0),
        log: NotUnderstoodLog::new(not_understood::Direction::Leaving),
    };
    let directions = [queues, Vec::new()];
    let mut forwarder = Forwarder::open(outside, ports, directions, capacity, packets)?;
    let [outward, _] = forwarder.directions_mut();
    sendbox.set_limit(clock::now(), outward);
    privileges::reduce(end.rights(), &[]);
    forwarder.say_ready();
    handed.report();
    let ended = forwarder.run(&mut sendbox, signals);
    // A process that takes over finds the programs.
    if end == WireEnd::Unplugged && ended.is_ok() && !sendbox.successor.is_asked() {
        forwarder.unplug();
    }
    sendbox.memory.write(sendbox.bundles.known_paths());
    sendbox.bundles.log_summaries();
    let (counters, packets) = forwarder.finish("sendbox");
    let logged = sendbox.logs.finish();
    account.write(&counters)?;
    // The ports are closed, so that another process can open them.
    let socket = sendbox.bundles.channel().map(Channel::socket);
    sendbox.successor.give(sendbox.bundles.handover(), Vec::new(), socket);
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
    classifier: Classifier,
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
    transfers: Transfers,
    status: StatusSocket,
    /// Who takes over at the end.
    successor: Successor,
    outside: String,
    /// The number of frames towards the network in which no IP packet was found.
    not_understood: Cell<u64>,
    log: NotUnderstoodLog,
}

impl ForwardingHandler for Sendbox {
    const TICK: Nanos = super::TICK;

    /// Queues packets of bundles that come from the site. All other frames are sent at once.
    fn place(
        &self,
        now: Nanos,
        direction: Direction,
        frame: Frame,
        pool: &Pool,
    ) -> Result<Place, Frame> {
        if direction == Direction::Inward {
            return Err(frame);
        }
        let bytes = pool.bytes(&frame);
        let headers = match Parsed::parse(bytes) {
            Ok(Parsed::Ip(headers)) => headers,
            Ok(Parsed::Arp | Parsed::Other) => return Err(frame),
            Ok(Parsed::Unknown) | Err(_) => {
                self.not_understood.set(self.not_understood.get() + 1);
                return Err(frame);
            }
        };
        let Some((queue, class)) = self.classifier.classify(bytes, &headers) else {
            return Err(frame);
        };
        let Some(bundle) = self.bundles.get(queue) else { return Err(frame) };
        let fingerprint = fingerprint(bytes, &headers, bundle.fingerprint_key());
        let mut packet = Packet::new(frame, Some(&headers), now).in_class(class);
        packet.fingerprint = fingerprint;
        packet.source = u8::try_from(queue).unwrap_or(NO_BUNDLE);
        Ok(Place { queue, packet })
    }

    fn on_sent(&mut self, now: Nanos, _: Direction, queue: usize, packet: &Packet) {
        if let Some(bundle) = self.bundles.get_mut(queue) {
            bundle.on_sent(now, packet.counted, packet.fingerprint);
            let round_trip = bundle.round_trip();
            let (flow, arrived) = (packet.flow_hash(), packet.arrived);
            let is_large = self.transfers.is_large(queue, flow, arrived, packet.len(), round_trip);
            let class = classes::counted(bundle.policy(), packet);
            bundle.on_waited(now, now.saturating_sub(arrived), is_large, class);
        }
    }

    fn on_tick(&mut self, now: Nanos, [outward, _]: &mut [DirectionQueues; 2]) {
        for number in 0..outward.queues().len() {
            if self.bundles.get(number).is_none() {
                continue;
            }
            let backlog = outward.queues()[number].backlog().bytes;
            let rate = self.bundles.tick(number, now, backlog, &mut self.logs);
            outward.set_rate(now, number, rate);
            // Below a common limit the bundle waits here, and its policy decides.
            let keep = self.limit.is_none()
                && self.bundles.get(number).is_some_and(ControlledBundle::keeps_order);
            outward.keep_order(number, keep);
        }
        let totals = |index| {
            let counts = outward.counts_of(index);
            QueueTotals { dropped: Some(counts.dropped), marked: Some(counts.marked) }
        };
        self.status.serve(now, || {
            let not_understood = NotUnderstood { left: self.not_understood.get(), arrived: 0 };
            State { not_understood, sends: self.bundles.status(now, totals), receives: Vec::new() }
        });
        self.log.note(&self.outside, self.not_understood.get());
        self.memory.write_if_due(now, || self.bundles.known_paths());
        if let Some((name, to)) = self.resolver.poll(now, self.bundles.names(now)) {
            self.bundles.on_resolved(now, &name, to);
        }
    }

    fn reload(&mut self, now: Nanos, signals: &Signals, outward: &mut Outward<'_>) {
        self.successor.poll();
        if let Some(contents) = self.reloader.poll(signals) {
            let outcome = contents.and_then(|contents| self.change(now, contents, outward));
            if outcome.is_ok() {
                self.resolver.ask_again();
            }
            self.reloader.answer(&outcome);
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.bundles.descriptor()
    }

    fn on_readable(&mut self) {
        // Without a receivebox nothing can fail.
        let _ = self.bundles.take_messages(None);
    }
}

impl Sendbox {
    /// Sets the common limit of the queues, and the part of each bundle. The queue of a removed
    /// bundle keeps its part until it is empty.
    fn set_limit(&self, now: Nanos, outward: &mut DirectionQueues) {
        outward.set_limit(now, self.limit, |number| {
            self.bundles.get(number).map(|bundle| bundle.config().share.into())
        });
    }

    /// Applies a file. Everything that may refuse it is asked before anything changes. The queue of
    /// a removed bundle stays until it is empty, at the last rate.
    fn change(
        &mut self,
        now: Nanos,
        contents: Contents,
        outward: &mut Outward<'_>,
    ) -> Result<Words, Refused> {
        let Contents { bundles, limit, .. } = contents;
        let wanted = capacity(&bundles);
        if wanted > self.capacity {
            return Err(Refused::restart(format!(
                "the queues could hold {wanted} packets, and the running process has memory for {}",
                self.capacity
            )));
        }
        let queues = outward.queues.queues();
        let is_free = |n: usize| queues.get(n).is_none_or(|queue| queue.backlog().packets == 0);
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
        for (number, is_new, queue) in built {
            let Outward { queues, pool, packets } = outward;
            if is_new {
                let rate = self.bundles.get(number).and_then(ControlledBundle::rate);
                queues.put(number, forward::shaped(queue, rate));
            } else {
                queues.replace(now, number, queue, pool, packets);
            }
        }
        for number in shared {
            if let Some(bundle) = self.bundles.get(number) {
                outward.queues.set_shares(now, number, &bundle.config().policy);
            }
        }
        let bundles = self.bundles.all().iter();
        self.classifier = Classifier::new(bundles.map(|(number, b)| (number, b.config())));
        let before = std::mem::replace(&mut self.limit, limit);
        self.set_limit(now, outward.queues);
        Ok(Words::new(words, Vec::new()).with_limit(before, limit))
    }
}
