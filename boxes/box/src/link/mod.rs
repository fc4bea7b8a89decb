//! A link: a wire between two interfaces with a queue in each direction whose rate is known.
//! Nothing then waits in the devices behind it, whose queues are not controlled.
//!
//! It needs no other box. Its default policy is DualPI2 (RFC 9332); it takes any policy.

mod statistics;

use std::path::PathBuf;

use forebay_dataplane::{Frame, Packet, Pool};
use forebay_system::clock;
use forebay_units::{Bytes, Nanos};
use forebay_wire::{Frame as Parsed, Headers};

use self::statistics::Statistics;
use crate::Error;
use crate::classes::Classes;
use crate::config::{DirectionConfig, Framing, LinkConfig};
use crate::forward::{
    self, Direction, ForwardingHandler, Lane, Notes, Place, Rules, Shaped, Wire, WireEnd, Workers,
};
use crate::logs::{Account, Lines, Packets};
use crate::policy::{self, Queue};
use crate::privileges;
use crate::random;
use crate::signals::Signals;

/// The largest number of lines of statistics: two months of both directions, about a kilobyte each.
const MAX_LINES: u64 = 10_000_000;
/// An Ethernet header, which every frame has.
const ETHERNET: u64 = 14;

/// The files that a link writes.
#[derive(Clone, Debug, Default)]
pub struct LogPaths {
    /// The log of every packet through a queue (see [`forebay_records::packet_log`]); the source is
    /// 0 outward and 1 inward.
    pub packets: Option<PathBuf>,
    /// The statistics of each direction's queue in every second and, at the end, in total, a line
    /// of JSON each.
    pub statistics: Option<PathBuf>,
    /// The account of all packets, written at the end.
    pub counters: Option<PathBuf>,
}

/// Runs a link until SIGTERM or SIGINT; `end` is what becomes of the wire then.
///
/// When it forwards, it prints a line of JSON on standard output.
///
/// # Errors
/// If the set-up fails, which leaves everything as it was; if an interface is removed or its MTU
/// grows beyond the buffers; or, at the end, if records were lost.
pub fn run(config: LinkConfig, paths: &LogPaths, end: WireEnd) -> Result<(), Error> {
    let signals = Signals::block().map_err(Error::Signals)?;
    let LinkConfig { outside, ports, outward, inward, framing } = config;
    let configs = [(Direction::Outward, outward), (Direction::Inward, inward)];
    let shaped = configs.iter().filter_map(|(_, config)| config.as_ref());
    let capacity = shaped.map(|config| policy::capacity(&config.policy)).sum();
    let classes = configs.each_ref().map(|(_, w)| w.as_ref().map(|w| Classes::of(&w.policy)));
    let [outward, inward] = configs.map(|(direction, config)| queues(direction, config));
    let directions = [outward?, inward?];
    let packets = Packets::create(paths.packets.as_deref())?;
    let log = Lines::create(paths.statistics.as_deref(), MAX_LINES)?;
    let account = Account::create(paths.counters.as_deref())?;
    let statistics = Statistics::new(log, clock::now());
    let mut link = Link { statistics };
    // A direction has one queue, and a queue has one worker.
    let wire = Wire::open(outside, ports, 1, capacity, packets)?;
    let lane = Lane::new(directions, NoNotes);
    let mut forwarder = wire.with(vec![lane], LinkRules { classes, framing })?;
    privileges::reduce(end.rights(), &[]);
    forwarder.say_ready();
    let ended = forwarder.run(&mut link, &signals);
    if end == WireEnd::Unplugged && ended.is_ok() {
        forwarder.unplug();
    }
    let logged = {
        let mut lane = forwarder.workers().lane(0);
        link.statistics.finish(clock::now(), &mut lane.directions)
    };
    let (counters, packets) = forwarder.finish("link");
    let packets = packets.finish();
    account.write(&counters)?;
    ended.and(logged).and(packets)
}

/// Builds the queue of a direction; none where nothing is shaped.
fn queues(direction: Direction, config: Option<DirectionConfig>) -> Result<Vec<Shaped>, Error> {
    let Some(DirectionConfig { rate, policy }) = config else { return Ok(Vec::new()) };
    let queue = Queue::build(direction.name(), &policy, random::number())?;
    Ok(vec![forward::shaped(queue, Some(rate))])
}

/// Selects the class of each frame.
struct LinkRules {
    /// The classes of each direction's policy; `None` where nothing is shaped.
    classes: [Option<Classes>; 2],
    framing: Option<Framing>,
}

impl Rules for LinkRules {
    /// Every frame waits, since every frame takes time of the link.
    fn place(
        &self,
        now: Nanos,
        direction: Direction,
        frame: Frame,
        pool: &Pool,
    ) -> Result<Place, Frame> {
        let Some(classes) = &self.classes[direction as usize] else { return Err(frame) };
        let bytes = pool.bytes(&frame);
        let headers = match Parsed::parse(bytes) {
            Ok(Parsed::Ip(headers)) => Some(headers),
            _ => None,
        };
        let len = wire_length(self.framing, frame.len() as u64, headers.as_ref());
        let class = classes.find(bytes, headers.as_ref());
        let mut packet = Packet::new(frame, headers.as_ref(), now).in_class(class).of_length(len);
        packet.source = direction as u8;
        Ok(Place { worker: 0, queue: 0, packet })
    }
}

/// A link needs to know nothing of packets that leave.
struct NoNotes;

impl Notes for NoNotes {
    fn on_sent(&mut self, _: Nanos, _: Direction, _: usize, _: &Packet) {}
}

struct Link {
    statistics: Statistics,
}

impl ForwardingHandler for Link {
    type Rules = LinkRules;
    type Notes = NoNotes;

    /// The time between two records of statistics.
    const TICK: Nanos = Nanos::from_secs(1);

    fn on_tick(&mut self, now: Nanos, workers: &Workers<LinkRules, NoNotes>) {
        self.statistics.end_interval(now, &mut workers.lane(0).directions);
    }
}

/// Returns the bytes that the link carries for a frame. As with Linux's cake, the overhead is
/// everything around the packet of the network layer, so the frame's own headers are subtracted
/// first.
fn wire_length(framing: Option<Framing>, frame: u64, headers: Option<&Headers>) -> Bytes {
    let Some(framing) = framing else { return Bytes(frame) };
    let own = headers.map_or(ETHERNET, |h| h.network_offset as u64);
    framing.length(Bytes(frame.saturating_sub(own)))
}
