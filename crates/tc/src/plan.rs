//! What the tree of a sendbox is: a pure value, of its bundles and of what the kernel has.

use forebay_units::Bytes;

use crate::handle::MAX_FLOWS;
use crate::{Discipline, Error, Features, FifoLimit, Handle, MAX_BUNDLES};

/// A bundle, as far as its queue goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleQueues {
    /// What people call it.
    pub name: String,
    /// How its packets wait: one discipline, or one for each class of strict priority, the most
    /// urgent first.
    pub classes: Vec<Discipline>,
}

/// The tree of a sendbox below one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Names of the bundles, by number.
    pub bundles: Vec<String>,
    /// All that it consists of, in the order in which it can be made: the filter that sends packets
    /// into it comes last, and until then everything passes unshaped.
    pub objects: Vec<Object>,
}

/// A part of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A queueing discipline.
    Qdisc(Qdisc),
    /// A class of an HTB.
    Class(Class),
    /// What says which class a packet is in.
    Filter(Filter),
}

/// A queueing discipline and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// Its name; the kernel chooses one for what need not be known by name.
    pub handle: Option<Handle>,
    /// The class that it is below, or [`Handle::ROOT`].
    pub parent: Handle,
    /// What it is.
    pub kind: QdiscKind,
}

/// What a qdisc is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QdiscKind {
    /// A hierarchical token bucket; what no filter sends into a class passes it directly, unshaped
    /// and before everything else.
    Htb,
    /// One that holds packets.
    Queue(Discipline),
}

/// A class of an HTB, directly below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name.
    pub id: Handle,
    /// At what rate it sends.
    pub shape: Shape,
    /// Its priority among its siblings, the most urgent being 0.
    pub urgency: u32,
    /// What it may send in its turn.
    pub quantum: Bytes,
}

/// At what rate a class sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// At the bundle's, which changes all the time, and is unlimited at first.
    Bundle,
    /// At any: all that it waits for is its turn.
    Unlimited,
}

/// What says which class a packet is in: a BPF program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The HTB whose classes it chooses from.
    pub parent: Handle,
    /// What it runs.
    pub program: Program,
}

/// A program of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// From the destination to the bundle: of the minor number of [`Handle::of_bundle`], or zero for
    /// what is in none. It also leaves in `cb[0]` the packet's class within the bundle and, from the
    /// eighth bit on, the bundle's number, counted from zero.
    Bundles,
    /// From the packet's bundle, class and flow to the leaf: of the minor number of [`Handle::leaf`].
    Leaves {
        /// How many classes there are.
        classes: u8,
        /// For each class a byte, the lowest being that of the first: the number of its last leaf,
        /// of which there are a power of two.
        masks: u64,
    },
}

/// HTB's priorities (`TC_HTB_NUMPRIO`).
pub(crate) const PRIORITIES: usize = 8;

/// Leaves with a queue of their own that one device has at most. The kernel has 32 768 names for
/// qdiscs that nobody named, and looks them up in 16 lists.
const MAX_LEAVES: usize = 16_384;

/// Entries that the table of which flow has which leaf has at most: 8 MiB.
const MAX_ENTRIES: usize = 1 << 20;

/// Two full frames: Linux's TCP sends super-packets of two segments and more, and HTB gives every
/// class one packet a round, however long, if that is more than its quantum.
const QUANTUM: Bytes = Bytes(2 * 1_514);

impl Plan {
    /// The tree of `bundles` on a kernel that has `features`.
    ///
    /// Where the kernel has no SFQ, classes of an HTB stand in for it, of which each flow takes one
    /// that nobody uses, as long as there are any: 256 for each bundle, and fewer from 65 bundles on,
    /// so that there are never more than 16 384. A flow then has a sixth of the limit, and at least 16
    /// packets.
    ///
    /// # Errors
    /// If there are too many bundles or classes, or the kernel has no such discipline and nothing
    /// stands in for it.
    pub fn new(bundles: &[BundleQueues], features: &Features) -> Result<Self, Error> {
        features.require("htb")?;
        let (count, max) = (bundles.len(), MAX_BUNDLES);
        if count > max {
            return Err(Error::TooManyBundles { bundles: count, max });
        }
        let class =
            |id, shape, urgency| Object::Class(Class { id, shape, urgency, quantum: QUANTUM });
        let mut objects = vec![qdisc(Some(Handle::TREE), Handle::ROOT, QdiscKind::Htb)];
        let ids = (0..count).map(Handle::of_bundle);
        objects.extend(ids.map(|id| class(id, Shape::Bundle, 0)));
        let hashed = bundles.iter().flat_map(|b| &b.classes);
        let hashed = hashed.filter(|d| features.lacks(d) && stands_in(d).is_some()).count();
        let flows = flows(hashed, count);
        for (index, bundle) in bundles.iter().enumerate() {
            let (parent, queue) = (Handle::of_bundle(index), Handle::of_queue(index));
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
            let mut masks = 0;
            for (k, discipline) in bundle.classes.iter().enumerate() {
                features.check(discipline)?;
                let (leaf, leaves) = match stands_in(discipline) {
                    Some(leaf) if features.lacks(discipline) => (leaf, flows),
                    _ => (*discipline, 1),
                };
                masks |= u64::from(leaves - 1) << (8 * k);
                for flow in 0..leaves {
                    let id = queue.leaf(k, flow);
                    objects.push(class(id, Shape::Unlimited, k as u32));
                    objects.push(qdisc(None, id, QdiscKind::Queue(leaf)));
                }
            }
            let program = Program::Leaves { classes: classes as u8, masks };
            objects.push(Object::Filter(Filter { parent: queue, program }));
        }
        if count > 0 {
            let program = Program::Bundles;
            objects.push(Object::Filter(Filter { parent: Handle::TREE, program }));
        }
        Ok(Self { bundles: bundles.iter().map(|b| b.name.clone()).collect(), objects })
    }
}

fn qdisc(handle: Option<Handle>, parent: Handle, kind: QdiscKind) -> Object {
    Object::Qdisc(Qdisc { handle, parent, kind })
}

/// What waits in each of the leaves that stand in for a discipline.
pub(crate) fn stands_in(discipline: &Discipline) -> Option<Discipline> {
    match *discipline {
        // Of the sendbox's default of 1250 packets some 200: more than the 127 that the kernel's SFQ
        // gives one flow, and little enough that a few greedy flows do not exceed the whole.
        Discipline::Sfq { limit, .. } => {
            let limit = FifoLimit::Packets((limit / 6).max(16));
            Some(Discipline::Fifo { limit })
        }
        _ => None,
    }
}

/// Leaves for each of `hashed` classes whose flows have some, of so many bundles.
fn flows(hashed: usize, bundles: usize) -> u16 {
    let table = MAX_ENTRIES / (bundles.max(1) * PRIORITIES);
    let most = table.min(MAX_LEAVES / hashed.max(1));
    // The largest power of two within it.
    let power = most.checked_ilog2().map_or(1, |log| 1usize << log);
    power.min(usize::from(MAX_FLOWS)) as u16
}

#[cfg(test)]
mod tests;
