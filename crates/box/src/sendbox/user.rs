//! A sendbox in user space: a wire between two ports, with a queue and a shaper for each bundle
//! outward.

use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use forebay_dataplane::{Frame, Framing, Netdev, Packet, Pool};
use forebay_queue::Qdisc;
use forebay_records::NotUnderstood;
use forebay_system::clock;
use forebay_units::Nanos;
use forebay_wire::{Frame as Parsed, fingerprint};

use super::bundle::QueueTotals;
use super::bundles::Bundles;
use super::classifier::Classifier;
use super::logs::{LogPaths, Logs};
use crate::Error;
use crate::config::{BundleConfig, Ports};
use crate::forward::{self, Direction, DirectionQueues, Forwarder, ForwardingHandler, Place};
use crate::logs::{Account, Packets};
use crate::not_understood::{self, NotUnderstoodLog};
use crate::policy::{self, Queue};
use crate::privileges;
use crate::random;
use crate::signals::Signals;
use crate::status::{State, StatusSocket};

/// The source in the packet log of bundles beyond the 255th.
const NO_BUNDLE: u8 = 255;

/// Runs until a signal arrives.
pub(super) fn run(
    outside: Netdev,
    ports: Ports,
    listen: Option<SocketAddr>,
    configs: Vec<BundleConfig>,
    paths: &LogPaths,
    signals: &Signals,
) -> Result<(), Error> {
    let capacity = capacity(&configs);
    let classifier = Classifier::new(&configs);
    let queue =
        |b: &BundleConfig| Queue::build(&format!("bundle {}", b.name), &b.policy, random::number());
    let queues = configs.iter().map(queue).collect::<Result<Vec<_>, _>>()?;
    let bundles = Bundles::new(configs, listen, Framing::Ethernet.header(), clock::now())?;
    let shaped = |(index, queue)| forward::shaped(queue, bundles.get(index).rate());
    let queues = queues.into_iter().enumerate().map(shaped).collect();
    let packets = Packets::create(paths.packets.as_deref())?;
    let account = Account::create(paths.counters.as_deref())?;
    let interfaces = vec![outside.name.clone(), ports.inside.name.clone()];
    let status = StatusSocket::open("sendbox", interfaces);
    let mut sendbox = Sendbox {
        classifier,
        bundles,
        logs: Logs::create(paths)?,
        status,
        outside: outside.name.clone(),
        not_understood: Cell::new(0),
        log: NotUnderstoodLog::new(not_understood::Direction::Leaving),
    };
    let directions = [queues, Vec::new()];
    let mut forwarder = Forwarder::open(outside, ports, directions, capacity, packets)?;
    privileges::reduce(&[], &[]);
    forwarder.say_ready();
    let ended = forwarder.run(&mut sendbox, signals);
    sendbox.bundles.log_summaries();
    let (counters, packets) = forwarder.finish("sendbox");
    let logged = sendbox.logs.finish();
    account.write(&counters)?;
    ended.and(logged).and(packets.finish())
}

/// Returns the number of chunks for the frames of `bundles`.
pub(crate) fn chunks(bundles: &[BundleConfig]) -> u32 {
    forward::chunks(capacity(bundles))
}

/// Returns the number of packets that the queues of `bundles` can hold.
fn capacity(bundles: &[BundleConfig]) -> u64 {
    bundles.iter().map(|b| policy::capacity(&b.policy)).sum()
}

struct Sendbox {
    classifier: Classifier,
    bundles: Bundles,
    logs: Logs,
    status: StatusSocket,
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
        let key = self.bundles.get(queue).fingerprint_key();
        let fingerprint = fingerprint(bytes, &headers, key);
        let mut packet = Packet::new(frame, Some(&headers), now).in_class(class);
        packet.fingerprint = fingerprint;
        packet.source = u8::try_from(queue).unwrap_or(NO_BUNDLE);
        Ok(Place { queue, packet })
    }

    fn on_sent(&mut self, now: Nanos, _: Direction, queue: usize, packet: &Packet) {
        self.bundles.get_mut(queue).on_sent(now, packet.counted, packet.fingerprint);
    }

    fn on_tick(&mut self, now: Nanos, [outward, _]: &mut [DirectionQueues; 2]) {
        for index in 0..outward.queues().len() {
            let backlog = outward.queues()[index].backlog().bytes;
            let rate = self.bundles.tick(index, now, backlog, &mut self.logs);
            outward.set_rate(now, index, rate);
            outward.keep_order(index, self.bundles.get(index).keeps_order());
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
    }

    fn descriptor(&self) -> Option<RawFd> {
        self.bundles.descriptor()
    }

    fn on_readable(&mut self) {
        // Without a receivebox nothing can fail.
        let _ = self.bundles.take_messages(None);
    }
}
