//! The plan of a sendbox's tree, computed from its bundles and the kernel's features.

use std::collections::BTreeMap;

use forebay_units::{Bytes, Nanos, Rate};

use crate::handle::MAX_FLOWS;
use crate::{Discipline, Error, Features, FifoLimit, Handle, MAX_BUNDLES, Share, parts};

/// The queues of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleQueues {
    /// The number of the bundle, which it keeps for life.
    pub number: usize,
    /// The name of the bundle.
    pub name: String,
    /// The discipline of its queue, or of each class; of strict priority, the most urgent first.
    pub classes: Vec<Discipline>,
    /// The share of each class in the rate of the bundle; empty for strict priority.
    pub shares: Vec<Share>,
    /// Its part of the common limit of all bundles, if there is one.
    pub share: Share,
}

/// The tree of a sendbox on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The names of the bundles, by number. Not every number has a bundle.
    pub bundles: BTreeMap<usize, String>,
    /// Numbers below this one can have bundles in plans that follow this one.
    pub(crate) room: usize,
    /// The leaves of a class whose flows have leaves.
    flows: u16,
    /// The common limit of all bundles.
    pub(crate) limit: Option<Rate>,
    /// The shares of the classes of bundles that have weighted ones, by the number of the bundle.
    pub(crate) shares: BTreeMap<usize, Vec<Share>>,
    /// The parts of the tree in an order in which they can be created. The filter that sends
    /// packets into the tree is the last: until then all packets pass unshaped.
    pub objects: Vec<Object>,
}

/// A part of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A queueing discipline.
    Qdisc(Qdisc),
    /// A class of an HTB.
    Class(Class),
    /// A filter that selects the class of a packet.
    Filter(Filter),
}

/// A queueing discipline and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// The qdisc's name; `None` if the kernel may choose one.
    pub handle: Option<Handle>,
    /// The class above it, or [`Handle::ROOT`].
    pub parent: Handle,
    /// The kind of qdisc.
    pub kind: QdiscKind,
}

/// The kind of a qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QdiscKind {
    /// A hierarchical token bucket. Packets that no filter sends into a class pass it directly,
    /// unshaped and first.
    Htb,
    /// A queueing discipline that holds packets.
    Queue(Discipline),
}

/// A class of an HTB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// The name of the class.
    pub id: Handle,
    /// The HTB, or the class from which this one borrows what it has beyond its assured rate.
    pub parent: Handle,
    /// The rate at which it sends.
    pub shape: Shape,
    /// The rate that it has without borrowing; `None` if it borrows nothing.
    pub assured: Option<Rate>,
    /// The priority among its siblings; 0 is the most urgent.
    pub urgency: u32,
    /// Bytes that it may send in its turn.
    pub quantum: Bytes,
    /// The credit that it keeps while it waits, as time at its rates.
    pub burst: Nanos,
}

/// The rate at which a class sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The bundle's rate, which changes continuously and is unlimited at first.
    Bundle,
    /// No limit: the class waits only for its turn.
    Unlimited,
    /// The common limit of all bundles, or the ceiling of a class.
    Limit(Rate),
}

/// A filter that selects the class of a packet by a BPF program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The HTB whose classes it chooses from.
    pub parent: Handle,
    /// The program that it runs.
    pub program: Program,
}

/// A program of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Selects the bundle by the destination: it returns the minor number of [`Handle::of_bundle`],
    /// or zero for packets of no bundle. It also writes the packet's class within the bundle into
    /// `cb[0]` and, from the eighth bit on, the bundle's number, counted from zero.
    Bundles,
    /// Selects the leaf by the packet's bundle, class and flow: it returns the minor number of
    /// [`Handle::leaf`].
    Leaves {
        /// The number of classes.
        classes: u8,
        /// The number of the last leaf of each class, in a byte each; the first class has the
        /// lowest byte. The number of leaves is a power of two.
        masks: u64,
    },
}

/// The number of HTB's priorities (`TC_HTB_NUMPRIO`).
pub(crate) const PRIORITIES: usize = 8;

/// The largest number of leaves with a queue of their own on one device. The kernel has 32 768
/// names for qdiscs without a given name, and looks them up in 16 lists.
const MAX_LEAVES: usize = 16_384;

/// The largest number of leaves while a sendbox runs, whose number of leaves for each class is
/// fixed.
const MORE_LEAVES: usize = MAX_LEAVES + MAX_LEAVES / 2;

/// The least number of bundles for which a running sendbox has room.
const LEAST_ROOM: usize = 64;

/// The largest number of entries in the table that maps flows to leaves: 8 MiB.
const MAX_ENTRIES: usize = 1 << 20;

/// Two full frames. Linux's TCP sends super-packets of at least two segments, and HTB lets every
/// class send one packet in a round even if the packet is longer than the quantum.
const QUANTUM: Bytes = Bytes(2 * 1_514);

/// The credit of a class that does not wait for others, as time at its rate, so that a change of
/// the rate gives no credit. HTB sends a packet while its class is not in debt, however long the
/// packet is. Therefore the burst only has to cover the lateness of the kernel's timers: this one
/// at any rate, and more at rates below 1 Gbit/s.
const BURST: Nanos = Nanos::from_micros(250);

/// The largest credit of a class that waits for others.
const MAX_BURST: Nanos = Nanos::from_secs(1);

/// The turn of the bundle or class of the least weight, for what it borrows: the longest
/// super-packet that TCP sends, since HTB lets a class send one packet in its turn however long it
/// is. While all bundles send, each has its assured rate, and no one takes turns.
const BORROWED: Bytes = Bytes(64 * 1_024);

impl Plan {
    /// Plans the tree of `bundles`, which have no common limit, on a kernel that has `features`.
    ///
    /// # Errors
    /// As [`Self::limited`].
    pub fn new(bundles: &[BundleQueues], features: &Features) -> Result<Self, Error> {
        Self::limited(bundles, None, features)
    }

    /// Plans the tree of `bundles` below a common `limit` on a kernel that has `features`.
    ///
    /// Each bundle is assured of its guaranteed rate and of its part, by weight, of what the
    /// guarantees leave of the limit. It borrows what others do not use, by weight again.
    ///
    /// Where the kernel has no SFQ, classes of an HTB replace it. Each flow takes a free class as
    /// long as there are any. A bundle has 256 of them, or fewer from 65 bundles on, so that there
    /// are at most 16 384. A flow then has a sixth of the limit, and at least 16 packets.
    ///
    /// # Errors
    /// If there are too many bundles or classes, or the kernel has neither a discipline nor a
    /// replacement for it.
    pub fn limited(
        bundles: &[BundleQueues],
        limit: Option<Rate>,
        features: &Features,
    ) -> Result<Self, Error> {
        let (count, max) = (bundles.len(), MAX_BUNDLES);
        if count > max {
            return Err(Error::TooManyBundles { bundles: count, max });
        }
        let room = Self::room_for(count);
        // A kernel with SFQ needs no leaves for flows.
        let has_sfq = features.require("sfq").is_ok();
        let flows = if has_sfq { 1 } else { flows(hashed(bundles, features), room) };
        Self::of(bundles, limit, features, room, flows)
    }

    /// Plans the tree that follows this one while the sendbox runs: bundles keep their numbers, and
    /// the parts of bundles that did not change stay as they are.
    ///
    /// The common limit stays too.
    ///
    /// # Errors
    /// As [`Self::next_limited`].
    pub fn next(&self, bundles: &[BundleQueues], features: &Features) -> Result<Self, Error> {
        self.next_limited(bundles, self.limit, features)
    }

    /// As [`Self::next`], with another common limit.
    ///
    /// # Errors
    /// As [`Self::limited`], or if the running sendbox has no room for so many bundles or flows.
    pub fn next_limited(
        &self,
        bundles: &[BundleQueues],
        limit: Option<Rate>,
        features: &Features,
    ) -> Result<Self, Error> {
        let leaves = hashed(bundles, features) * usize::from(self.flows);
        if bundles.iter().any(|b| b.number >= self.room) || leaves > MORE_LEAVES {
            return Err(Error::NoRoom);
        }
        Self::of(bundles, limit, features, self.room, self.flows)
    }

    /// Returns the [`Self::room`] of a new plan of `count` bundles.
    pub fn room_for(count: usize) -> usize {
        (2 * count).clamp(LEAST_ROOM, MAX_BUNDLES)
    }

    /// Returns the number of bundles for which a tree of this plan and those that follow it have
    /// room: their numbers are below it.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Returns the common limit of all bundles.
    pub fn limit(&self) -> Option<Rate> {
        self.limit
    }

    fn of(
        bundles: &[BundleQueues],
        limit: Option<Rate>,
        features: &Features,
        room: usize,
        flows: u16,
    ) -> Result<Self, Error> {
        features.require("htb")?;
        let mut objects = vec![qdisc(Some(Handle::TREE), Handle::ROOT, QdiscKind::Htb)];
        objects.extend(
            limit.map(|limit| Object::Class(class(Handle::UPLINK, Shape::Limit(limit), 0))),
        );
        let shares: Vec<Share> = bundles.iter().map(|bundle| bundle.share).collect();
        let mut assured = limit.map(|limit| parts(limit, &shares)).into_iter().flatten();
        for (bundle, borrowed) in bundles.iter().zip(quanta(&shares)) {
            let own = class(Handle::of_bundle(bundle.number), Shape::Bundle, 0);
            objects.push(Object::Class(match assured.next() {
                None => own,
                assured => Class { parent: Handle::UPLINK, assured, quantum: borrowed, ..own },
            }));
        }
        for bundle in bundles {
            let number = bundle.number;
            let (parent, queue) = (Handle::of_bundle(number), Handle::of_queue(number));
            let classes = bundle.classes.len();
            if classes > PRIORITIES {
                let bundle = bundle.name.clone();
                return Err(Error::TooManyClasses { bundle, classes, max: PRIORITIES });
            }
            if let [only] = bundle.classes.as_slice()
                && !features.lacks(only)
            {
                objects.push(qdisc(Some(queue), parent, QdiscKind::Queue(*only)));
                continue;
            }
            objects.push(qdisc(Some(queue), parent, QdiscKind::Htb));
            let (leaves, masks) = match bundle.shares.as_slice() {
                [] => strict(bundle, features, flows)?,
                _ => (weighted(bundle, features)?, 0),
            };
            objects.extend(leaves);
            let program = Program::Leaves { classes: classes as u8, masks };
            objects.push(Object::Filter(Filter { parent: queue, program }));
        }
        if !bundles.is_empty() {
            let program = Program::Bundles;
            objects.push(Object::Filter(Filter { parent: Handle::TREE, program }));
        }
        let weighted = bundles.iter().filter(|b| !b.shares.is_empty());
        let shares = weighted.map(|b| (b.number, b.shares.clone())).collect();
        let bundles = bundles.iter().map(|b| (b.number, b.name.clone())).collect();
        Ok(Self { bundles, room, flows, limit, shares, objects })
    }
}

/// Returns a class directly below its qdisc, which borrows nothing.
fn class(id: Handle, shape: Shape, urgency: u32) -> Class {
    let (parent, assured, quantum) = (id.qdisc(), None, QUANTUM);
    Class { id, parent, shape, assured, urgency, quantum, burst: BURST }
}

/// Returns the classes of a bundle with strict priority, each with its queues: one, or one for each
/// of `flows` leaves where these stand in. The number has the last leaf of each class, as in
/// [`Program::Leaves`].
fn strict(
    bundle: &BundleQueues,
    features: &Features,
    flows: u16,
) -> Result<(Vec<Object>, u64), Error> {
    let (mut objects, mut masks) = (Vec::new(), 0);
    for (k, discipline) in bundle.classes.iter().enumerate() {
        features.check(discipline)?;
        let (leaf, leaves) = match stands_in(discipline) {
            Some(leaf) if features.lacks(discipline) => (leaf, flows),
            _ => (*discipline, 1),
        };
        masks |= u64::from(leaves - 1) << (8 * k);
        for flow in 0..leaves {
            let id = Handle::of_queue(bundle.number).leaf(k, flow);
            objects.push(Object::Class(class(id, Shape::Unlimited, k as u32)));
            objects.push(qdisc(None, id, QdiscKind::Queue(leaf)));
        }
    }
    Ok((objects, masks))
}

/// Returns the classes of a bundle that share its rate, each with its queue, below one class that
/// lends them all that the bundle has.
///
/// # Errors
/// If the kernel lacks a discipline: flows of weighted classes have no leaves that could stand in.
fn weighted(bundle: &BundleQueues, features: &Features) -> Result<Vec<Object>, Error> {
    let lender = class(Handle::of_queue(bundle.number).lender(), Shape::Unlimited, 0);
    let mut objects = vec![Object::Class(lender)];
    let classes = weighted_classes(bundle.number, &bundle.shares, None);
    for (class, discipline) in classes.zip(&bundle.classes) {
        features.require(discipline.kind())?;
        objects.push(Object::Class(class));
        objects.push(qdisc(None, class.id, QdiscKind::Queue(*discipline)));
    }
    Ok(objects)
}

/// Returns the weighted classes of bundle number `number` at its present rate, `None` being no
/// limit. A class has its part of the rate ([`parts`]), and borrows what others do not use in turns
/// as long as its weight. The part of a class to which guarantees leave nothing is 1/256 of the
/// rate: a packet that it sent at a rate near zero would keep it in debt for a minute, the longest
/// that HTB keeps, whatever its part is then.
pub(crate) fn weighted_classes(
    number: usize,
    shares: &[Share],
    rate: Option<Rate>,
) -> impl Iterator<Item = Class> {
    let queue = Handle::of_queue(number);
    // While it waits for two super-packets of others, a class keeps its credit.
    let wait = rate.map(|rate| rate.time_for(Bytes(2 * BORROWED.0)));
    let burst = wait.map_or(BURST, |wait| wait.clamp(BURST, MAX_BURST));
    let floor = rate.map_or(Rate::ZERO, |rate| Rate::from_bps(rate.as_bps() / 256));
    let mut assured = rate.map(|rate| parts(rate, shares)).into_iter().flatten();
    shares.iter().zip(quanta(shares)).enumerate().map(move |(k, (share, quantum))| Class {
        id: queue.leaf(k, 0),
        parent: queue.lender(),
        shape: share.ceil.map_or(Shape::Unlimited, Shape::Limit),
        assured: assured.next().map(|part| part.max(floor)),
        urgency: 0,
        quantum,
        burst,
    })
}

/// Returns the turns in which the owners of `shares` borrow.
fn quanta(shares: &[Share]) -> impl Iterator<Item = Bytes> {
    let least = shares.iter().map(|share| share.weight).min().unwrap_or(1).max(1);
    shares.iter().map(move |s| Bytes(BORROWED.0 * u64::from(s.weight) / u64::from(least)))
}

/// The programs for leaves that later plans may need: those of several classes, and that of one
/// class whose flows have leaves where the kernel has no SFQ.
pub(crate) fn later_programs(plan: &Plan) -> impl Iterator<Item = Program> {
    let several = (2..=PRIORITIES as u8).map(|classes| Program::Leaves { classes, masks: 0 });
    let masks = u64::from(plan.flows.max(1) - 1);
    let flows = Program::Leaves { classes: 1, masks };
    several.chain((masks > 0).then_some(flows))
}

fn qdisc(handle: Option<Handle>, parent: Handle, kind: QdiscKind) -> Object {
    Object::Qdisc(Qdisc { handle, parent, kind })
}

/// Returns the queue of each leaf class where leaf classes replace a discipline.
pub(crate) fn stands_in(discipline: &Discipline) -> Option<Discipline> {
    match *discipline {
        // Of the sendbox's default of 1250 packets these are 208: more than the 127 that the
        // kernel's SFQ gives one flow, and few enough that a few greedy flows stay within the
        // whole.
        Discipline::Sfq { limit, .. } => {
            let limit = FifoLimit::Packets((limit / 6).max(16));
            Some(Discipline::Fifo { limit })
        }
        _ => None,
    }
}

/// Returns the number of classes whose flows have leaves.
fn hashed(bundles: &[BundleQueues], features: &Features) -> usize {
    let all = bundles.iter().filter(|b| b.shares.is_empty()).flat_map(|b| &b.classes);
    all.filter(|d| features.lacks(d) && stands_in(d).is_some()).count()
}

/// Returns the number of leaves of each of `hashed` classes whose flows have leaves.
fn flows(hashed: usize, room: usize) -> u16 {
    let table = MAX_ENTRIES / (room.max(1) * PRIORITIES);
    let most = table.min(MAX_LEAVES / hashed.max(1));
    // The largest power of two within it.
    let power = most.checked_ilog2().map_or(1, |log| 1usize << log);
    power.min(usize::from(MAX_FLOWS)) as u16
}

#[cfg(test)]
mod tests;
